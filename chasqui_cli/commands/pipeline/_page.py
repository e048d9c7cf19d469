"""A report as one HTML page: charts drawn as SVG, no script, nothing fetched; light or dark as the reader's system.

Every text of a job goes through `safe()` and is escaped: names and errors are untrusted.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from chasqui_cli.commands.pipeline import _charts
from chasqui_cli.commands.pipeline._report_columns import report_caption, report_columns
from chasqui_cli.output.escape_text import safe
from chasqui_cli.output.times import TimeStyle, format_iso
from chasqui_cli.output.writer import Format, OutputStyle, cell_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from chasqui.spark.reports import ReportQuery
    from chasqui_cli.output.columns import Record

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
)
"""A second defence: should escaping fail, the browser still fetches and runs nothing."""

MAX_TABLE_ROWS = 50
"""Rows of a table at most; the JSON has them all."""

_STYLE = """
:root{color-scheme:light dark;--ground:#fbfaf7;--card:#fff;--ink:#22201c;--soft:#6b665c;--line:#e4e0d6;
--good:#2f7d5b;--bad:#b3432b;--warm:#c98a1b;--cool:#3567a8}
@media (prefers-color-scheme:dark){:root{--ground:#171614;--card:#201f1c;--ink:#ece8df;--soft:#a19b8e;--line:#38352f;
--good:#63c296;--bad:#e8836b;--warm:#e5b454;--cool:#84b2ea}}
*{box-sizing:border-box}body{margin:0;background:var(--ground);color:var(--ink);
font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
main{max-width:1080px;margin:0 auto;padding:1rem}h1{font-size:1.5rem;margin:.5rem 0 0}
h2{font-size:1.1rem;margin:0 0 .5rem}p{color:var(--soft);margin:.25rem 0 1rem}
section{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:1rem;margin:0 0 1rem}
.figures{display:grid;grid-template-columns:repeat(auto-fit,minmax(8.5rem,1fr));gap:.75rem;margin:1rem 0}
.figures div{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:.6rem .8rem}
.figures b{display:block;font-size:1.4rem;font-variant-numeric:tabular-nums}.figures span{color:var(--soft);font-size:.85rem}
.wide{overflow-x:auto}table{border-collapse:collapse;width:100%;font-size:.85rem;font-variant-numeric:tabular-nums}
th,td{text-align:left;padding:.3rem .6rem;border-bottom:1px solid var(--line);white-space:nowrap}
td.text{white-space:normal;min-width:10rem;overflow-wrap:anywhere}th{color:var(--soft);font-weight:600}
.right{text-align:right}svg{width:100%;height:auto;display:block;overflow:visible}svg text{fill:var(--soft);font-size:11px}
@media (max-width:640px){svg{min-width:520px;padding-top:6px}svg text{font-size:18px}section{padding:.75rem}}
.legend{font-size:.85rem;color:var(--soft);margin:.25rem 0}.legend i{display:inline-block;width:.7rem;height:.7rem;
border-radius:2px;margin:0 .3rem 0 .8rem}.legend i:first-child{margin-left:0}.legend span{margin-left:.8rem}details summary{cursor:pointer;color:var(--soft);font-size:.85rem;margin-top:.5rem}
"""

_CHART_BY_REPORT: dict[str, Callable[[Sequence[Record]], str]] = {
    "throughput": _charts.throughput_chart,
    "latency": _charts.latency_chart,
    "retries": _charts.retries_chart,
    "failures": _charts.failures_chart,
    "sla": _charts.sla_chart,
    "heatmap": _charts.heatmap_chart,
}


def render_page(found: dict[str, list[Record]], asked: ReportQuery, where: str) -> str:
    from chasqui.spark.reports import REPORTS

    sections = "".join(
        _section(name, REPORTS[name].title, report_caption(name, asked), records) for name, records in found.items()
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{CONTENT_SECURITY_POLICY}">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f'<link rel="icon" href="data:,"><title>chasqui report</title><style>{_STYLE}</style></head><body><main>'
        f"<h1>What the queues did</h1><p>{html_text(_scope_text(found, asked))}<br>from {html_text(where)}</p>"
        f"{_summary_cards(found)}{sections}</main></body></html>\n"
    )


def html_text(value: Any) -> str:
    """A value as escaped text."""
    return escape(safe(str(value)), quote=True)


def _scope_text(found: dict[str, list[Record]], asked: ReportQuery) -> str:
    """Queues and time range: as requested, or else as found."""
    queues = asked.queues or sorted({one["queue"] for records in found.values() for one in records if one.get("queue")})
    steps = [one["at_ms"] for one in found.get("throughput", [])]
    first = asked.since_ms if asked.since_ms is not None else min(steps, default=None)
    ends = (step + asked.bucket_ms for step in steps)
    last = asked.until_ms if asked.until_ms is not None else max(ends, default=None)
    bounds = (
        f"from {format_iso(first)}" if first is not None else "",
        f"to {format_iso(last)}" if last is not None else "",
    )
    when = " ".join(filter(None, bounds)) or "all that is archived"
    return f"{', '.join(queues) or 'no queue'}, {when}"


def _summary_cards(found: dict[str, list[Record]]) -> str:
    """The most important totals, on top of the page."""
    figures: list[tuple[str, str]] = []
    steps = found.get("throughput")
    if steps is not None:
        totals = {name: sum(one[name] for one in steps) for name in ("completed", "failed", "retried", "dead")}
        figures += [(f"{count:,}", name) for name, count in totals.items()]
    if "sla" in found:
        figures.append((f"{sum(one['breaches'] for one in found['sla']):,}", "too late"))
    if "gaps" in found:
        figures.append((f"{sum(one['lost'] or 0 for one in found['gaps']):,}", "events missing"))
    cards = "".join(
        f"<div><b>{html_text(number)}</b><span>{html_text(label)}</span></div>" for number, label in figures
    )
    return f'<div class="figures">{cards}</div>' if cards else ""


def _section(name: str, title: str, about: str, records: list[Record]) -> str:
    head = f"<h2>{html_text(title)}</h2>{f'<p>{html_text(about)}</p>' if about else ''}"
    if not records:
        return f'<section id="{name}">{head}<p>Nothing.</p></section>'
    chart = _CHART_BY_REPORT[name](records) if name in _CHART_BY_REPORT else ""
    table = _table(name, records)
    body = f"{chart}<details><summary>numbers</summary>{table}</details>" if chart else table
    return f'<section id="{name}">{head}{body}</section>'


def _table(name: str, records: list[Record]) -> str:
    look = OutputStyle(Format.WIDE, time=TimeStyle.ISO)
    columns = report_columns(name)
    head = "".join(f'<th class="{one.align}">{html_text(one.title)}</th>' for one in columns)
    long = ("error", "sample", "reason")
    rows = "".join(
        "<tr>"
        + "".join(
            f'<td class="{one.align}{" text" if one.title in long else ""}">{escape(cell_text(one, record, look))}</td>'
            for one in columns
        )
        + "</tr>"
        for record in records[:MAX_TABLE_ROWS]
    )
    more = f"<p>and {len(records) - MAX_TABLE_ROWS:,} more</p>" if len(records) > MAX_TABLE_ROWS else ""
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>{more}'
