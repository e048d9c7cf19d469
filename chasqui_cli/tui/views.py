"""What each tab of one queue, and the doctor's, is shown: values that are read and drawn, never changed.

Engine values inside are only looked at; no screen imports the engine.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from chasqui_cli.tui.feed_messages import FindingRow, FleetView, QueueRow

if TYPE_CHECKING:
    from chasqui.inspect.event_stats import EventStats


@dataclass(frozen=True, slots=True)
class QueueView:
    """One queue, the stats of its last events, and how many jobs came and went per part of the last minutes."""

    row: QueueRow
    event_stats: EventStats
    came: tuple[int | None, ...]
    left: tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class ForeignQueueView:
    """A queue of another system: what there is to say of it, and command lines, each with what it does."""

    row: QueueRow
    facts: tuple[tuple[str, str], ...]
    lines: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class JobRow:
    """A job as it stands in a stream or in the delayed set. job_id: what the command line knows it by.

    raw: for the details.
    """

    key: str
    job_id: str
    name: str
    attempt: int | None
    created_ms: int | None
    due_ms: int | None
    size: int
    preview: str
    raw: Any


@dataclass(frozen=True, slots=True)
class InFlightRow:
    """A job that a consumer holds."""

    entry_id: str
    group: str
    consumer: str
    idle_ms: int
    deliveries: int


@dataclass(frozen=True, slots=True)
class JobsView:
    """The jobs that wait, and those in flight."""

    row: QueueRow
    waiting: tuple[JobRow, ...]
    in_flight: tuple[InFlightRow, ...]


@dataclass(frozen=True, slots=True)
class DeadLetterRow:
    """A dead letter. `group`: the key of the group it belongs to. `error`: what the last run said, if that is known.

    raw: for the details.
    """

    dead_id: str
    source_id: str
    job_id: str
    name: str
    reason: str
    error: str
    attempt: int | None
    died_ms: int
    size: int
    group: str
    unreadable: str | None
    raw: Any


@dataclass(frozen=True, slots=True)
class DeadLetterGroupRow:
    """Dead letters that died alike."""

    key: str
    name: str
    reason: str
    error: str
    count: int
    first_ms: int
    last_ms: int
    is_new: bool


@dataclass(frozen=True, slots=True)
class DlqView:
    """The newest dead letters, newest first, and the groups they fall into. `all_read`: the queue has no more."""

    row: QueueRow
    letters: tuple[DeadLetterRow, ...]
    groups: tuple[DeadLetterGroupRow, ...]
    all_read: bool


@dataclass(frozen=True, slots=True)
class DelayedView:
    """The jobs that are due soonest, and how many fall due when: (from, to, count). None as `from` is for what is overdue,
    as `to` for all that comes later.
    """

    row: QueueRow
    jobs: tuple[JobRow, ...]
    buckets: tuple[tuple[int | None, int | None, int], ...]


@dataclass(frozen=True, slots=True)
class FireRow:
    """One fire to come, as the clocks of its zone show it, and what is odd about it."""

    at_ms: int
    local: str
    note: str


@dataclass(frozen=True, slots=True)
class ScheduleRow:
    """A repeatable job."""

    key: str
    name: str
    words: str
    next_ms: int
    fired: int
    limit: int | None
    fires: tuple[FireRow, ...]
    unreadable: str | None


@dataclass(frozen=True, slots=True)
class CronView:
    """The repeatable jobs, soonest first."""

    row: QueueRow
    specs: tuple[ScheduleRow, ...]


@dataclass(frozen=True, slots=True)
class WorkerRow:
    """A consumer, and what is thought of it."""

    group: str
    name: str
    pending: int
    oldest_ms: int | None
    idle_ms: int
    inactive_ms: int | None
    redelivered: int
    state: str


@dataclass(frozen=True, slots=True)
class WorkersView:
    """Who reads the queue."""

    row: QueueRow
    workers: tuple[WorkerRow, ...]


@dataclass(frozen=True, slots=True)
class EventRow:
    """An event, or (kind "gap") events that are lost."""

    key: str
    at_ms: int
    kind: str
    name: str
    job_id: str
    attempt: int | None
    note: str


@dataclass(frozen=True, slots=True)
class EventsView:
    """The events since the last read; `restarted` when it begins again. horizon_ms: how far back the stream reaches."""

    row: QueueRow
    lines: tuple[EventRow, ...]
    restarted: bool
    horizon_ms: int | None
    sampled: bool


@dataclass(frozen=True, slots=True)
class HealthView:
    """What the doctor found."""

    queue: str | None
    server_time_ms: int
    findings: tuple[FindingRow, ...]
    facts: tuple[tuple[str, str], ...]


View = (
    FleetView
    | QueueView
    | ForeignQueueView
    | JobsView
    | DlqView
    | DelayedView
    | CronView
    | WorkersView
    | EventsView
    | HealthView
)
