"""How fast a queue moves, from two snapshots: what came in, what was read, and when the backlog will be gone.

No event is read for it: a stream counts for itself what was ever added, and what is read no longer waits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from chasqui.inspect.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class BacklogForecast:
    """The backlog clears in `clears_ms`, it stalls, or it grows by `per_s`."""

    word: Literal["clears", "stalled", "grows"]
    clears_ms: int | None = None
    per_s: float | None = None


@dataclass(frozen=True, slots=True)
class Throughput:
    """What happened within `window_ms`: jobs added to the stream, read by workers, and moved to the dead letters.

    forecast: None while nothing waits.
    """

    window_ms: int
    added: int
    read: int
    died: int
    forecast: BacklogForecast | None

    @property
    def in_per_s(self) -> float:
        """Jobs added per second."""
        return 1000 * self.added / self.window_ms

    @property
    def out_per_s(self) -> float:
        """Jobs read per second."""
        return 1000 * self.read / self.window_ms


def throughput_between(before: Snapshot, after: Snapshot) -> Throughput | None:
    """What happened between two snapshots; None if it is unknown: no time passed, or it is another stream."""
    over_ms = after.server_time_ms - before.server_time_ms
    added = after.stream.added - before.stream.added
    if over_ms <= 0 or added < 0:
        return None
    read = max(0, added - (after.waiting - before.waiting))
    died = max(0, after.dlq.added - before.dlq.added)
    return Throughput(over_ms, added, read, died, forecast_backlog(after.waiting, added, read, over_ms))


def forecast_backlog(waiting: int, added: int, read: int, over_ms: int) -> BacklogForecast | None:
    """The forecast for a backlog, from what was added and read in this time."""
    if not waiting:
        return None
    if read > added:
        return BacklogForecast("clears", clears_ms=waiting * over_ms // (read - added))
    return BacklogForecast("grows", per_s=1000 * (added - read) / over_ms) if added else BacklogForecast("stalled")
