"""A queue as it is drawn: its snapshot with its trend and what is wrong with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chasqui import health
from chasqui.health import Level
from chasqui.snapshot import Unseen
from chasqui_cli.judging import findings_of
from chasqui_cli.tui.messages import FindingRow, QueueRow
from chasqui_cli.tui.trends import Trend

if TYPE_CHECKING:
    from chasqui.foreign import ForeignSnapshot
    from chasqui.health import Finding
    from chasqui.snapshot import Snapshot
    from chasqui_cli.tui.trends import Rates

SURE_MS = 8_000
"""Rates over less than this are too young to be held against a queue."""


class Memory:
    """What is remembered of queues while they are watched."""

    def __init__(self) -> None:
        self._trends: dict[str, Trend] = {}

    def trend(self, queue: str) -> Trend:
        """What one queue did."""
        return self._trends.setdefault(queue, Trend())

    def row(self, name: str, seen: Snapshot | ForeignSnapshot | Unseen) -> QueueRow:
        """A queue that was just looked at, by the name it has on the screen."""
        trend = self.trend(name)
        if isinstance(seen, Unseen):
            return QueueRow(
                name, None, str(seen.error), 3, "▲", "unseen", None, 0, 0, tuple(trend.line()), ()
            )
        trend.note(seen)
        rates = trend.rates()
        found = findings_of(seen)
        moving = _moving(seen, rates)
        state = health.state(seen, [*found, *moving])
        died, watched_ms = trend.died()
        return QueueRow(
            queue=name,
            seen=seen,
            error=None,
            level=state.level,
            glyph=state.glyph,
            word=state.word,
            rates=rates,
            died=died,
            watched_ms=watched_ms,
            line=tuple(trend.line()),
            findings=tuple(finding_row(one) for one in sorted([*found, *moving], key=lambda one: -one.level)),
        )


def rank(row: QueueRow) -> tuple[int, int, int, int, str]:
    """Worst first: by level, then by how long and how many wait or are dead."""
    if row.seen is None:
        return (-row.level, 0, 0, 0, row.queue)
    late = max(row.seen.oldest_waiting_ms, row.seen.oldest_delayed_lag_ms or 0) // 1000
    return (-row.level, -late, -row.seen.waiting, -(row.seen.dlq_depth or 0), row.queue)


def _moving(seen: Snapshot | ForeignSnapshot, rates: Rates | None) -> list[Finding]:
    """What only shows over time: a backlog that nobody works off, or that grows."""
    if rates is None or rates.window_ms < SURE_MS or not seen.waiting or not seen.consumers:
        return []
    watch = f"chasqui watch {seen.queue}"
    if not rates.leaving:
        text = f"{seen.waiting:,} wait, there are workers, and for {rates.window_ms // 1000} s none was read"
        return [health.Finding(Level.WARNING, "stalled", text, seen.queue, mend=watch)]
    if rates.arriving > rates.leaving * 1.05:
        text = f"more come ({rates.arriving:.1f}/s) than are read ({rates.leaving:.1f}/s): the backlog grows"
        return [health.Finding(Level.WARNING, "grows", text, seen.queue, mend=watch)]
    return []


def finding_row(one: Finding) -> FindingRow:
    """A finding."""
    return FindingRow(int(one.level), one.code, one.text, one.mend)
