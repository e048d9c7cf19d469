"""The states a job can be in, as values with their evidence. `job_state_search.py` finds them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from chasqui.inspect.events import StoredEvent
    from chasqui.inspect.job_search import SearchCoverage
    from chasqui.wire.dead_letter_entry import DeadLetterEntry
    from chasqui.wire.envelope import Envelope
    from chasqui.wire.msgpack_codec import Undecodable


@dataclass(frozen=True, slots=True)
class WaitingState:
    """In the stream, not read yet. `behind`: jobs to be read before it; None when there are more than were counted."""

    state: ClassVar[str] = "waiting"
    entry_id: str
    job: Envelope | Undecodable
    name: str
    age_ms: int
    behind: int | None
    has_group: bool


@dataclass(frozen=True, slots=True)
class InFlightState:
    """Delivered to a consumer and not settled; idle since it was last delivered, or renewed by a worker that lives."""

    state: ClassVar[str] = "in-flight"
    entry_id: str
    job: Envelope | Undecodable
    name: str
    group: str
    consumer: str
    idle_ms: int
    deliveries: int


@dataclass(frozen=True, slots=True)
class PassedState:
    """Still in the stream, but read by every group and pending for none: no worker will run it."""

    state: ClassVar[str] = "passed"
    entry_id: str
    job: Envelope | Undecodable
    name: str


@dataclass(frozen=True, slots=True)
class DelayedState:
    """Waits for its time, for its first run or a retry; `lag_ms` is how much it is overdue."""

    state: ClassVar[str] = "delayed"
    run_at_ms: int
    lag_ms: int
    job: Envelope | Undecodable
    name: str


@dataclass(frozen=True, slots=True)
class DeadState:
    """A dead letter. error: of the last failing run, from the dead letter itself or from the event of that run."""

    state: ClassVar[str] = "dead"
    dead_id: str
    letter: DeadLetterEntry
    job: Envelope | Undecodable
    error: str | None


@dataclass(frozen=True, slots=True)
class DoneState:
    """Completed: its result is stored, or the event of it, or both.

    result_bytes: None without a result. result_ttl_ms: None also for a result without an expiry.
    """

    state: ClassVar[str] = "done"
    result_bytes: int | None
    result_ttl_ms: int | None
    completed: StoredEvent | None


@dataclass(frozen=True, slots=True)
class ScheduleState:
    """Not a job but the key of a repeatable one, and when that fires next."""

    state: ClassVar[str] = "scheduled"
    next_fire_ms: int
    lag_ms: int


@dataclass(frozen=True, slots=True)
class UnknownState:
    """No trace of it where it was searched. events_since_ms: how far back the events go, None without any.

    was_scheduled: its id was used for a delayed or unique job not long ago. last: its last event; a job that
    failed a moment ago, or was moved during the search, leaves no other trace.
    """

    state: ClassVar[str] = "unknown"
    events_since_ms: int | None
    was_scheduled: bool
    last: StoredEvent | None


JobState = (
    WaitingState | InFlightState | PassedState | DelayedState | DeadState | DoneState | ScheduleState | UnknownState
)


@dataclass(frozen=True, slots=True)
class JobStateReport:
    """What became of a job. `also`: what else is true, such as the result of an earlier run of the same id.

    events: of this job, oldest first. coverage: how far each search went.
    """

    queue: str
    job_id: str
    server_time_ms: int
    primary: JobState
    also: tuple[JobState, ...]
    events: tuple[StoredEvent, ...]
    coverage: tuple[SearchCoverage, ...]

    @property
    def state(self) -> str:
        """The verdict in a word."""
        return self.primary.state
