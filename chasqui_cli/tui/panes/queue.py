"""Queue: one queue's depths against their caps, its pace, how long jobs wait and run, by name; and what is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.widgets import Static

from chasqui_cli.safe import safe
from chasqui_cli.times import span
from chasqui_cli.tui.panes.pane import LOOKS, Pane
from chasqui_cli.tui.trends import bar, forecast, per_second, spark
from chasqui_cli.tui.views import OtherView
from chasqui_cli.tui.widgets.drawing import Cell, fitted
from chasqui_cli.tui.widgets.records import Col, RecordTable

if TYPE_CHECKING:
    from textual.app import ComposeResult

    from chasqui.figures import Figures, Spread
    from chasqui.snapshot import LockHolder, Snapshot
    from chasqui_cli.tui.messages import QueueRow
    from chasqui_cli.tui.views import QueueView

Parts = list[tuple[object, str]]
COLUMNS = [
    Col("name", "NAME", 10, grow=True),
    Col("rate", "/s", 5, "right"),
    Col("ended", "ENDED", 5, "right", keep=20),
    Col("failed", "FAIL%", 5, "right"),
    Col("p95", "P95", 8, "right"),
]
NOW_FACTS = 10
HOLDER = 16
GLYPHS = "··◆▲"


class QueueTab(Pane):
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
        """All of it."""
        view: QueueView | OtherView = self.view
        row = view.row
        is_other = isinstance(view, OtherView)
        self.query_one("#queue-pace").border_title = "system" if is_other else "pace"
        for ours in ("#queue-leaders", "#queue-names"):
            self.query_one(ours).set_class(is_other, "hidden")
        if isinstance(view, OtherView):
            self._draw_other(view)
            return
        told = forecast(row.seen.waiting, row.rates) if row.seen else ""
        self.say("#queue-head", *self.headline(row, (f"   {told}" if told != "–" else "", "accent")))
        if row.seen is None:
            self.say("#findings", (row.error or "", "crit"))
            return
        self.say("#queue-depths", *depths(row.sure))
        self.say("#queue-figures", *pace(row, view))
        self.say("#queue-leaders", *leaders(row.sure))
        self.query_one(RecordTable).show(self.kept(names(view.figures)))
        self.say("#findings", *findings(row))

    def _draw_other(self, view: OtherView) -> None:
        """A queue of another system: what there is, and the lines that act on it."""
        half = (len(view.facts) + 1) // 2 if len(view.facts) > NOW_FACTS else len(view.facts)
        self.say("#queue-head", *self.headline(view.row))
        for widget, facts in (("#queue-depths", view.facts[:half]), ("#queue-figures", view.facts[half:])):
            self.say(widget, *(part for name, value in facts for part in _fact(name, value)))
        lines: Parts = [("it is looked after by command lines:", "dim"), ("\n", "")]
        width = max((len(line) for line, _ in view.lines), default=0)
        for line, what in view.lines:
            lines += [("  → ", "dim"), (line.ljust(width), "accent"), (f"  {what}", "dim"), ("\n", "")]
        self.say("#findings", *findings(view.row), ("\n", ""), *lines)


def _fact(name: str, value: str) -> Parts:
    return [(f"{name:<12}", "dim"), (value, ""), ("\n", "")]


def depths(seen: Snapshot) -> Parts:
    """How full everything is."""
    oldest = f"  oldest {span(seen.oldest_waiting_ms)}" if seen.waiting else ""
    late = f"  {seen.delayed_due:,} due" if seen.delayed_due else ""
    overdue = f"  {seen.repeatable_overdue:,} overdue" if seen.repeatable_overdue else ""
    parts: Parts = [
        *_line("waiting", f"{seen.waiting:,}{oldest}", "warn" if oldest and not seen.consumers else ""),
        *_line("in flight", f"{seen.pending:,}", ""),
        *_line("workers", f"{seen.consumers:,}", "" if seen.consumers else "warn"),
        *_line("delayed", f"{seen.delayed_depth:,}{late}", "warn" if late else ""),
        *_line("schedules", f"{seen.repeatable_count:,}{overdue}", "warn" if overdue else ""),
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
            (bar(part, 10), style),
            (f" {held:,} ", ""),
            (f"{part:.0%}", style),
        ]
    return parts


def pace(row: QueueRow, view: QueueView) -> Parts:
    """What came and went, and how long it took."""
    rates, told = row.rates, view.figures
    arriving = per_second(rates.arriving) if rates else "…"
    leaving = per_second(rates.leaving) if rates else "…"
    failing = told.failed * 100 / max(1, told.completed + told.failed)
    parts: Parts = [
        ("in    ", "dim"), (f"{arriving:>5}/s ", ""), (spark(list(view.came)), "accent"), ("\n", ""),
        ("read  ", "dim"), (f"{leaving:>5}/s ", ""), (spark(list(view.left)), "accent"), ("\n", ""),
        ("wait  ", "dim"), (f"{row.seen.waiting if row.seen else 0:>7} ", ""), (spark(_stretched(row.line, len(view.came))), "accent"), ("\n", ""),
        ("fail  ", "dim"), (f"{failing:>5.1f} % ", "warn" if told.failed else ""), (f"{told.failed:,} of {told.completed + told.failed:,} ended", "dim"), ("\n", ""), ("\n", ""),
    ]  # fmt: skip
    parts += [("           ", "dim"), (f"{'p50':>8}{'p95':>8}{'p99':>8}", "dim"), ("\n", "")]
    parts += [*_spread("waited", told.wait), *_spread("ran", told.run)]
    if told.events:
        parts.append((f"over {told.events} events, the last {span(told.window_ms)}", "dim"))
    else:
        parts.append(("no events: nothing is known of waits and runs", "dim"))
    return parts


def _stretched(line: tuple[int | None, ...], cells: int) -> list[int | None]:
    """A short line over more cells."""
    return [line[place * len(line) // cells] for place in range(cells)] if line else []


def _spread(what: str, found: Spread | None) -> Parts:
    if found is None:
        return [(f"{what:<11}", "dim"), (f"{'–':>8}{'–':>8}{'–':>8}", "dim"), ("\n", "")]
    times = "".join(f"{ms(value):>8}" for value in (found.p50, found.p95, found.p99))
    return [(f"{what:<11}", "dim"), (times, ""), ("\n", "")]


def ms(value: float) -> str:
    """Milliseconds, readable from a tenth to days."""
    return f"{value:.1f}ms" if value < 100 else span(int(value))


def leaders(seen: Snapshot) -> Parts:
    """Who promotes and who schedules."""
    return [
        *_leader("promoter", seen.promoter_lock, bool(seen.delayed_depth)),
        ("\n", ""),
        *_leader("scheduler", seen.scheduler_lock, bool(seen.repeatable_count)),
    ]


def _leader(role: str, lock: LockHolder | None, needed: bool) -> Parts:
    if lock is None:
        return [(f"{role:<10}", "dim"), ("✖ none", "warn" if needed else "dim")]
    left = "never ends" if lock.ttl_ms is None else f"{lock.ttl_ms / 1000:.1f}s"
    return [
        (f"{role:<10}", "dim"),
        ("✔ ", "ok"),
        (fitted(safe(lock.holder), min(HOLDER, len(safe(lock.holder)))), ""),
        (f" {left}", "dim"),
    ]


def names(told: Figures) -> list[tuple[str, dict[str, Cell]]]:
    """One row per kind of job."""
    return [
        (
            one.name,
            {
                "name": Cell(one.name or "(no name)", "" if one.name else "dim"),
                "rate": Cell(per_second(one.per_second), "", one.per_second),
                "ended": Cell(str(one.ended), "", one.ended),
                "failed": Cell(
                    f"{one.failed * 100 / max(1, one.ended):.0f}", "warn" if one.failed else "dim", one.failed
                ),
                "p95": Cell(ms(one.run.p95) if one.run else "–", "", one.run.p95 if one.run else -1),
            },
        )
        for one in told.names
    ]


def findings(row: QueueRow) -> Parts:
    """Each in a sentence, with the command that acts on it."""
    if not row.findings:
        return [("● nothing is the matter", "ok")]
    parts: Parts = []
    for one in row.findings:
        parts += [(f"{GLYPHS[one.level]} ", LOOKS[one.level]), (one.text, "")]
        if one.mend:
            parts += [("\n", ""), ("  → ", "dim"), (one.mend, "accent")]
        parts.append(("\n", ""))
    return parts


def _line(what: str, value: str, style: str) -> Parts:
    return [(f"{what:<10}", "dim"), (value, style), ("\n", "")]
