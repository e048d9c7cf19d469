"""A queue as it is drawn: its snapshot with its trend and what is wrong with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chasqui import health
from chasqui.health import Level
from chasqui.inspect.snapshot import SnapshotFailure
from chasqui_cli.queues.queue_health import queue_findings
from chasqui_cli.tui.feed_messages import FindingRow, QueueRow
from chasqui_cli.tui.trends import Trend

if TYPE_CHECKING:
    from chasqui.foreign import ForeignSnapshot
    from chasqui.health import Finding
    from chasqui.inspect.snapshot import Snapshot
    from chasqui_cli.tui.trends import Rates

MIN_WINDOW_MS = 8_000
"""Rates over less than this are too young to be held against a queue."""


class TrendMemory:
    """What is remembered of queues while they are watched."""

    def __init__(self) -> None:
        self._trends: dict[str, Trend] = {}

    def trend(self, queue: str) -> Trend:
        """What one queue did."""
        return self._trends.setdefault(queue, Trend())

    def queue_row(self, name: str, seen: Snapshot | ForeignSnapshot | SnapshotFailure) -> QueueRow:
        """A queue that was just looked at, by the name it has on the screen."""
        trend = self.trend(name)
        if isinstance(seen, SnapshotFailure):
            return QueueRow(
                name, None, str(seen.error), 3, "▲", "unseen", None, 0, 0, tuple(trend.waiting_history()), ()
            )
        trend.add(seen)
        rates = trend.rates()
        found = queue_findings(seen)
        moving = _trend_findings(seen, rates)
        state = health.queue_status(seen, [*found, *moving])
        died, watched_ms = trend.dead_letters_added()
        return QueueRow(
            queue=name,
            snapshot=seen,
            error=None,
            level=state.level,
            glyph=state.glyph,
            state=state.word,
            rates=rates,
            died=died,
            watched_ms=watched_ms,
            waiting_history=tuple(trend.waiting_history()),
            findings=tuple(finding_row(one) for one in sorted([*found, *moving], key=lambda one: -one.level)),
        )


def severity_order(row: QueueRow) -> tuple[int, int, int, int, str]:
    """Worst first: by level, then by how long and how many wait or are dead."""
    if row.snapshot is None:
        return (-row.level, 0, 0, 0, row.queue)
    late = max(row.snapshot.oldest_waiting_ms, row.snapshot.oldest_delayed_lag_ms or 0) // 1000
    return (-row.level, -late, -row.snapshot.waiting, -(row.snapshot.dlq_depth or 0), row.queue)


def _trend_findings(seen: Snapshot | ForeignSnapshot, rates: Rates | None) -> list[Finding]:
    """What only shows over time: a backlog that no worker reads, or that grows."""
    if rates is None or rates.window_ms < MIN_WINDOW_MS or not seen.waiting or not seen.consumers:
        return []
    watch = f"chasqui watch {seen.queue}"
    if not rates.leaving:
        text = f"{seen.waiting:,} wait, there are workers, and for {rates.window_ms // 1000} s none was read"
        return [health.Finding(Level.WARNING, "stalled", text, seen.queue, fix=watch)]
    if rates.arriving > rates.leaving * 1.05:
        text = f"more come ({rates.arriving:.1f}/s) than are read ({rates.leaving:.1f}/s): the backlog grows"
        return [health.Finding(Level.WARNING, "grows", text, seen.queue, fix=watch)]
    return []


def finding_row(one: Finding) -> FindingRow:
    return FindingRow(int(one.level), one.code, one.text, one.fix)
