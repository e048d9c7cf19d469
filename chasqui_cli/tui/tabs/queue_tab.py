"""Queue: one queue's depths against their caps, its pace, how long jobs wait and run, by name; and what is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.widgets import Static

from chasqui_cli.output.escape_text import safe
from chasqui_cli.output.times import format_duration
from chasqui_cli.tui.tabs.tab_base import LEVEL_GLYPHS, LEVEL_STYLES, TabBase
from chasqui_cli.tui.trends import forecast_text, format_rate, gauge, sparkline
from chasqui_cli.tui.views import ForeignQueueView
from chasqui_cli.tui.widgets.record_table import RecordTable, TableColumn
from chasqui_cli.tui.widgets.styled_text import Cell, fit_width

if TYPE_CHECKING:
    from textual.app import ComposeResult

    from chasqui.inspect.event_stats import EventStats, Percentiles
    from chasqui.inspect.snapshot import LockHolder, Snapshot
    from chasqui_cli.tui.feed_messages import QueueRow
    from chasqui_cli.tui.views import QueueView

Parts = list[tuple[object, str]]
COLUMNS = [
    TableColumn("name", "NAME", 10, grow=True),
    TableColumn("rate", "/s", 5, "right"),
    TableColumn("ended", "ENDED", 5, "right", drop_order=20),
    TableColumn("failed", "FAIL%", 5, "right"),
    TableColumn("p95", "P95", 8, "right"),
]
NOW_FACTS = 10
HOLDER_WIDTH = 16


class QueueTab(TabBase):
    """One queue."""

    tab = "queue"

    def compose(self) -> ComposeResult:
        """Three boxes, and the findings below."""
        yield Static(id="queue-head", classes="head")
        with Horizontal(id="queue-top"):
            with VerticalScroll(classes="box", id="queue-now") as now:
                now.border_title = "now"
                yield Static(id="queue-depths")
                yield Static(id="queue-leaders")
            with VerticalScroll(classes="box", id="queue-pace") as pace:
                pace.border_title = "pace"
                yield Static(id="queue-figures")
            with Vertical(classes="box", id="queue-names") as names:
                names.border_title = "by name"
                yield RecordTable(COLUMNS, id="names")
        with VerticalScroll(classes="box", id="queue-findings") as findings:
            findings.border_title = "findings"
            yield Static(id="findings")

    def draw(self) -> None:
        view: QueueView | ForeignQueueView = self.view
        row = view.row
        is_other = isinstance(view, ForeignQueueView)
        self.query_one("#queue-pace").border_title = "system" if is_other else "pace"
        for ours in ("#queue-leaders", "#queue-names"):
            self.query_one(ours).set_class(is_other, "hidden")
        if isinstance(view, ForeignQueueView):
            self._draw_foreign(view)
            return
        forecast = forecast_text(row.snapshot.waiting, row.rates) if row.snapshot else ""
        self.set_text("#queue-head", *self.headline(row, (f"   {forecast}" if forecast != "–" else "", "accent")))
        if row.snapshot is None:
            self.set_text("#findings", (row.error or "", "crit"))
            return
        self.set_text("#queue-depths", *depth_lines(row.native_snapshot))
        self.set_text("#queue-figures", *throughput_lines(row, view))
        self.set_text("#queue-leaders", *leader_lines(row.native_snapshot))
        self.query_one(RecordTable).set_rows(self.filtered(job_name_rows(view.event_stats)))
        self.set_text("#findings", *finding_lines(row))

    def _draw_foreign(self, view: ForeignQueueView) -> None:
        """A queue of another system: what there is, and the lines that act on it."""
        half = (len(view.facts) + 1) // 2 if len(view.facts) > NOW_FACTS else len(view.facts)
        self.set_text("#queue-head", *self.headline(view.row))
        for widget, facts in (("#queue-depths", view.facts[:half]), ("#queue-figures", view.facts[half:])):
            self.set_text(widget, *(part for name, value in facts for part in _fact_line(name, value)))
        lines: Parts = [("it is looked after by command lines:", "dim"), ("\n", "")]
        width = max((len(line) for line, _ in view.lines), default=0)
        for line, what in view.lines:
            lines += [("  → ", "dim"), (line.ljust(width), "accent"), (f"  {what}", "dim"), ("\n", "")]
        self.set_text("#findings", *finding_lines(view.row), ("\n", ""), *lines)


def _fact_line(name: str, value: str) -> Parts:
    return [(f"{name:<12}", "dim"), (value, ""), ("\n", "")]


def depth_lines(seen: Snapshot) -> Parts:
    """How full everything is."""
    oldest = f"  oldest {format_duration(seen.oldest_waiting_ms)}" if seen.waiting else ""
    late = f"  {seen.delayed_due:,} due" if seen.delayed_due else ""
    overdue = f"  {seen.repeatable_overdue:,} overdue" if seen.repeatable_overdue else ""
    parts: Parts = [
        *_depth_line("waiting", f"{seen.waiting:,}{oldest}", "warn" if oldest and not seen.consumers else ""),
        *_depth_line("in flight", f"{seen.pending:,}", ""),
        *_depth_line("workers", f"{seen.consumers:,}", "" if seen.consumers else "warn"),
        *_depth_line("delayed", f"{seen.delayed_depth:,}{late}", "warn" if late else ""),
        *_depth_line("schedules", f"{seen.repeatable_count:,}{overdue}", "warn" if overdue else ""),
    ]
    for what, held, most in (
        ("stream", seen.stream_depth, seen.caps.stream),
        ("dead", seen.dlq_depth, seen.caps.dlq),
        ("events", seen.events_depth, seen.caps.events),
    ):
        part = held / most if most else 0.0
        full = "crit" if part >= 0.95 else "warn" if part >= 0.8 else "accent"
        style = "dim" if what == "events" else full
        parts += [
            ("\n", ""),
            (f"{what:<8}", "dim"),
            (gauge(part, 10), style),
            (f" {held:,} ", ""),
            (f"{part:.0%}", style),
        ]
    return parts


def throughput_lines(row: QueueRow, view: QueueView) -> Parts:
    """What came and went, and how long it took."""
    rates, stats = row.rates, view.event_stats
    arriving = format_rate(rates.arriving) if rates else "…"
    leaving = format_rate(rates.leaving) if rates else "…"
    failing = stats.failed * 100 / max(1, stats.completed + stats.failed)
    parts: Parts = [
        ("in    ", "dim"), (f"{arriving:>5}/s ", ""), (sparkline(list(view.came)), "accent"), ("\n", ""),
        ("read  ", "dim"), (f"{leaving:>5}/s ", ""), (sparkline(list(view.left)), "accent"), ("\n", ""),
        ("wait  ", "dim"), (f"{row.snapshot.waiting if row.snapshot else 0:>7} ", ""), (sparkline(_stretched(row.waiting_history, len(view.came))), "accent"), ("\n", ""),
        ("fail  ", "dim"), (f"{failing:>5.1f} % ", "warn" if stats.failed else ""), (f"{stats.failed:,} of {stats.completed + stats.failed:,} ended", "dim"), ("\n", ""), ("\n", ""),
    ]  # fmt: skip
    parts += [("           ", "dim"), (f"{'p50':>8}{'p95':>8}{'p99':>8}", "dim"), ("\n", "")]
    parts += [*_percentile_line("waited", stats.wait), *_percentile_line("ran", stats.run)]
    if stats.events:
        parts.append((f"over {stats.events} events, the last {format_duration(stats.window_ms)}", "dim"))
    else:
        parts.append(("no events: nothing is known of waits and runs", "dim"))
    return parts


def _stretched(line: tuple[int | None, ...], cells: int) -> list[int | None]:
    """A short line over more cells."""
    return [line[place * len(line) // cells] for place in range(cells)] if line else []


def _percentile_line(what: str, found: Percentiles | None) -> Parts:
    if found is None:
        return [(f"{what:<11}", "dim"), (f"{'–':>8}{'–':>8}{'–':>8}", "dim"), ("\n", "")]
    times = "".join(f"{format_ms(value):>8}" for value in (found.p50, found.p95, found.p99))
    return [(f"{what:<11}", "dim"), (times, ""), ("\n", "")]


def format_ms(value: float) -> str:
    """Milliseconds, readable from a tenth to days."""
    return f"{value:.1f}ms" if value < 100 else format_duration(int(value))


def leader_lines(seen: Snapshot) -> Parts:
    """Who promotes and who schedules."""
    return [
        *_leader_line("promoter", seen.promoter_lock, bool(seen.delayed_depth)),
        ("\n", ""),
        *_leader_line("scheduler", seen.scheduler_lock, bool(seen.repeatable_count)),
    ]


def _leader_line(role: str, lock: LockHolder | None, needed: bool) -> Parts:
    if lock is None:
        return [(f"{role:<10}", "dim"), ("✖ none", "warn" if needed else "dim")]
    left = "never ends" if lock.ttl_ms is None else f"{lock.ttl_ms / 1000:.1f}s"
    return [
        (f"{role:<10}", "dim"),
        ("✔ ", "ok"),
        (fit_width(safe(lock.holder), min(HOLDER_WIDTH, len(safe(lock.holder)))), ""),
        (f" {left}", "dim"),
    ]


def job_name_rows(stats: EventStats) -> list[tuple[str, dict[str, Cell]]]:
    """One row per kind of job."""
    return [
        (
            one.name,
            {
                "name": Cell(one.name or "(no name)", "" if one.name else "dim"),
                "rate": Cell(format_rate(one.per_second), "", one.per_second),
                "ended": Cell(str(one.ended), "", one.ended),
                "failed": Cell(
                    f"{one.failed * 100 / max(1, one.ended):.0f}", "warn" if one.failed else "dim", one.failed
                ),
                "p95": Cell(format_ms(one.run.p95) if one.run else "–", "", one.run.p95 if one.run else -1),
            },
        )
        for one in stats.names
    ]


def finding_lines(row: QueueRow) -> Parts:
    """Each in a sentence, with the command that acts on it."""
    if not row.findings:
        return [("● nothing is the matter", "ok")]
    parts: Parts = []
    for one in row.findings:
        parts += [(f"{LEVEL_GLYPHS[one.level]} ", LEVEL_STYLES[one.level]), (one.text, "")]
        if one.fix:
            parts += [("\n", ""), ("  → ", "dim"), (one.fix, "accent")]
        parts.append(("\n", ""))
    return parts


def _depth_line(what: str, value: str, style: str) -> Parts:
    return [(f"{what:<10}", "dim"), (value, style), ("\n", "")]
