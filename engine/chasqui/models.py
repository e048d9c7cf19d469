"""What users hold in their hands: jobs, and the rules they give to them. Values only; nothing here talks to a server.

Names, fields and constructors are those of the reference package, so that code written for it runs unchanged.
"""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, overload

from chasqui.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from chasqui.clock import Clock

WARN_AFTER_S = 1.0


class ResultSource(Protocol):
    """A queue as a job that waits for its result sees it."""

    @property
    def clock(self) -> Clock:
        """Its clock."""
        ...

    def get_job_result(self, job_id: str) -> Any:
        """What the job returned, or None; to be awaited where the queue is."""
        ...


@dataclass(slots=True)
class _BaseJob:
    """One job. `attempt` counts the runs that ended before this one, so a first run sees 0.

    created: False when adding found that this id had been used before, and added nothing.

    Not frozen, unlike other values: one is made for every job that passes, and that would cost three times as much.
    """

    id: str
    name: str
    data: Any
    attempt: int
    created_at_ms: int
    _queue: ResultSource | None = field(default=None, repr=False, compare=False)
    created: bool = field(default=True, repr=False, compare=False)

    @property
    def attempts_made(self) -> int:
        """The same as `attempt`, under the name other queues give it."""
        return self.attempt

    def _result_polls(self, timeout: float, poll_interval: float) -> Iterator[tuple[ResultSource, float]]:
        """For each look at the result: where to look, and how long to wait after it. Ends when time is up."""
        if self._queue is None:
            raise RuntimeError("only a job that Queue.add or add_bulk answered can wait for its result")
        for name, seconds in (("timeout", timeout), ("poll_interval", poll_interval)):
            if not seconds > 0:
                raise ArgumentError(f"{name} must be a positive number of seconds, got {seconds!r}")
        mono = self._queue.clock.monotonic
        began, warned = mono(), False
        while (passed := mono() - began) < timeout:
            if passed > WARN_AFTER_S and not warned:
                warnings.warn(NO_RESULT_WARNING, RuntimeWarning, stacklevel=3)
                warned = True
            yield self._queue, min(poll_interval, timeout - passed)

    def _timeout_error(self, timeout: float) -> TimeoutError:
        return TimeoutError(f"no result of job {self.id} within {timeout} s")


class Job(_BaseJob):
    """A job as `Queue.add` answers it and as handlers get it."""

    __slots__ = ()

    async def wait_for_result(self, *, timeout: float = 30.0, poll_interval: float = 0.1) -> Any:
        """What the handler returned, as soon as it is there; `TimeoutError` if it is not by then.

        Nothing is ever stored by a worker without `store_results=True`, nor for a handler that returned None: then
        this waits in vain, and warns after a second. A result that expires between two looks is missed as well.
        """
        async with asyncio.timeout(timeout if timeout > 0 else None):
            for queue, pause in self._result_polls(timeout, poll_interval):
                if (value := await queue.get_job_result(self.id)) is not None:
                    return value
                await queue.clock.sleep(pause)
        raise self._timeout_error(timeout)


class SyncJob(_BaseJob):
    """A job as `SyncQueue.add` answers it."""

    __slots__ = ()

    def wait_for_result(self, *, timeout: float = 30.0, poll_interval: float = 0.1) -> Any:
        """What the handler returned, as soon as it is there; `TimeoutError` if it is not by then.

        Nothing is ever stored by a worker without `store_results=True`, nor for a handler that returned None: then
        this waits in vain, and warns after a second. A result that expires between two looks is missed as well.
        """
        for queue, pause in self._result_polls(timeout, poll_interval):
            if (value := queue.get_job_result(self.id)) is not None:
                return value
            queue.clock.sleep_sync(pause)
        raise self._timeout_error(timeout)


AnyJob = Job | SyncJob
J = TypeVar("J", Job, SyncJob)


class LazyJobs(Sequence[J]):
    """Many jobs, made when they are first looked at: the first hundreds can leave before the last exist."""

    __slots__ = ("_length", "_made", "_make")

    def __init__(self, make: Callable[[range], list[J]], length: int) -> None:
        self._make: Callable[[range], list[J]] = make
        self._length = length
        self._made: list[J] = []

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, place: int) -> J: ...
    @overload
    def __getitem__(self, place: slice) -> list[J]: ...
    def __getitem__(self, place: int | slice) -> J | list[J]:
        wanted = range(self._length)[place]
        last = wanted if isinstance(wanted, int) else max(wanted[0], wanted[-1]) if wanted else -1
        if len(self._made) <= last:
            self._made += self._make(range(len(self._made), last + 1))
        if isinstance(wanted, int):
            return self._made[wanted]
        return self._made[wanted.start : wanted.stop] if wanted.step == 1 else [self._made[at] for at in wanted]


NO_RESULT_WARNING = (
    "there is no result after one second of waiting; a worker stores results only with store_results=True,"
    " and never for a handler that returns None. QueueEvents tells of completed jobs without results."
)


@dataclass(frozen=True, slots=True)
class BackoffSpec:
    """How long one job waits between its attempts, instead of its queue's default."""

    kind: str
    delay_ms: int
    max_delay_ms: int | None = None
    multiplier: float | None = None
    jitter_ms: int | None = None

    @staticmethod
    def fixed(delay_ms: int, jitter_ms: int | None = None) -> BackoffSpec:
        """Always the same wait."""
        return BackoffSpec("fixed", delay_ms, jitter_ms=jitter_ms)

    @staticmethod
    def exponential(
        initial_ms: int, *, multiplier: float = 2.0, max_ms: int | None = None, jitter_ms: int | None = None
    ) -> BackoffSpec:
        """A wait that grows with each failure, up to `max_ms`."""
        return BackoffSpec("exponential", initial_ms, max_ms, multiplier, jitter_ms)

    def to_dict(self) -> dict[str, Any]:
        """What is set, by name."""
        return _fields_that_are_set(self, "kind", "delay_ms", "max_delay_ms", "multiplier", "jitter_ms")


@dataclass(frozen=True, slots=True)
class RepeatPattern:
    """When a repeatable job fires; made by `cron` or `every`."""

    kind: str
    expression: str | None = None
    tz: str | None = None
    interval_ms: int | None = None

    @staticmethod
    def cron(expression: str, *, tz: str | None = None) -> RepeatPattern:
        """By the calendar: five fields, or six with seconds first. `tz`: an IANA name, an offset, or UTC."""
        return RepeatPattern("cron", expression, tz)

    @staticmethod
    def every(interval_ms: int) -> RepeatPattern:
        """Each time this long has passed, for the first time after one interval."""
        return RepeatPattern("every", interval_ms=interval_ms)

    def to_dict(self) -> dict[str, Any]:
        """What is set, by name."""
        return _fields_that_are_set(self, "kind", "expression", "tz", "interval_ms")


@dataclass(frozen=True, slots=True)
class MissedFiresPolicy:
    """What becomes of fires that were missed while no scheduler ran; made by `skip`, `fire_once` or `fire_all`."""

    kind: str
    max_catchup: int | None = None

    @staticmethod
    def skip() -> MissedFiresPolicy:
        """They are gone; this is the default."""
        return MissedFiresPolicy("skip")

    @staticmethod
    def fire_once() -> MissedFiresPolicy:
        """One job makes up for all of them."""
        return MissedFiresPolicy("fire-once")

    @staticmethod
    def fire_all(max_catchup: int) -> MissedFiresPolicy:
        """Each is made up for, to this many."""
        if not isinstance(max_catchup, int) or isinstance(max_catchup, bool):
            raise TypeError(f"max_catchup must be an int, got {type(max_catchup).__name__}")
        if max_catchup < 1:
            raise ArgumentError(f"max_catchup must be a positive integer (>= 1), got {max_catchup}")
        return MissedFiresPolicy("fire-all", max_catchup)

    def to_dict(self) -> dict[str, Any]:
        """What is set, by name."""
        return _fields_that_are_set(self, "kind", "max_catchup")


@dataclass(frozen=True, slots=True)
class RepeatableMeta:
    """A repeatable job as listed: when and what, without its data. `missed_fires` is None for the default, skip."""

    key: str
    job_name: str
    pattern: RepeatPattern
    next_fire_ms: int
    limit: int | None = None
    start_after_ms: int | None = None
    end_before_ms: int | None = None
    missed_fires: MissedFiresPolicy | None = None


def _fields_that_are_set(value: object, *names: str) -> dict[str, Any]:
    return {name: found for name in names if (found := getattr(value, name)) is not None}
