"""What each tab asks, made into one view per tick. Whatever can ride together does: one trip a tick wherever the
answer to one ask is not needed for the next.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import UTC
from typing import TYPE_CHECKING, Any, Protocol

from chasqui import (
    Keys,
    SystemClock,
    Undecodable,
    crew,
    cron,
    delaying,
    events,
    fires,
    jobs,
    repeatable,
    snapshot,
)
from chasqui.cron import notes, words
from chasqui.errors import ChasquiError, ServerError
from chasqui.figures import figures
from chasqui.together import together
from chasqui_cli.times import span
from chasqui_cli.tui.feed.rows import job_row
from chasqui_cli.tui.messages import (
    CronView,
    DelayedView,
    FireRow,
    FlightRow,
    JobsView,
    QueueView,
    SpecRow,
    WorkerRow,
    WorkersView,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from chasqui import AsyncLink, Commands, Envelope, Flow, RepeatSpec
    from chasqui.repeatable import Listed
    from chasqui_cli.names import NameCache
    from chasqui_cli.tui.feed.rows import Memory
    from chasqui_cli.tui.messages import QueueRow, Target, View

EVENTS = 200
PAGE = 50
BUCKETS = 12
NEXT_FIRES = 5
PACE_CELLS, PACE_MS = 20, 600_000


@dataclass(frozen=True, slots=True)
class Place:
    """Where readers ask, what they remember, and whom they tell that there is news before the next tick."""

    link: AsyncLink
    commands: Commands
    memory: Memory
    names: NameCache | None
    nudge: Callable[[], None]

    def clock_ms(self) -> int:
        """Now, for what is kept on this machine."""
        return SystemClock().now_ms()


class Reader(Protocol):
    """Reads for one tab. least_s: it is not worth asking more often."""

    least_s: float

    async def read(self, target: Target) -> tuple[View, int]:
        """The view, and the server's time."""
        ...

    def forget(self) -> None:
        """What was kept may be wrong now."""

    def close(self) -> None:
        """The end."""


class QueueAsker:
    """A reader of one queue: its snapshot, and what rides along with it."""

    least_s = 0.0

    def __init__(self, place: Place) -> None:
        self.place = place

    def forget(self) -> None:
        """Nothing is kept."""

    def close(self) -> None:
        """Nothing is open."""

    async def ask(self, queue: str, *flows: Flow[Any]) -> tuple[QueueRow, int, list[Any]]:
        """The queue, the server's time, and what else was asked; what was refused is raised."""
        seen, *others = await self.place.link.run(
            together(snapshot.one(self.place.commands, Keys(queue)), *flows)
        )
        for answer in (seen, *others):
            if isinstance(answer, ServerError):
                raise answer
        return self.place.memory.row(seen), seen.server_time_ms, others


class QueueReader(QueueAsker):
    """One queue, and what its last events tell."""

    async def read(self, target: Target) -> tuple[QueueView, int]:
        """In one round trip."""
        queue = target.queue or ""
        latest = events.latest(self.place.commands, Keys(queue), EVENTS)
        row, now_ms, [told] = await self.ask(queue, latest)
        came, left = self.place.memory.trend(queue).pace(PACE_CELLS, PACE_MS)
        return QueueView(row, figures(told), tuple(came), tuple(left)), now_ms


class JobsReader(QueueAsker):
    """Jobs that wait and jobs in flight. Which are still to be read the tick before has told."""

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self._groups: dict[str, list[tuple[str, str]]] = {}

    async def read(self, target: Target) -> tuple[JobsView, int]:
        """In one round trip, but for the first time."""
        queue, commands = target.queue or "", self.place.commands
        if queue not in self._groups:
            self._remember(queue, (await self.ask(queue))[0])
        groups, count = self._groups[queue], PAGE * (target.page + 1)
        after = min((last for _, last in groups), key=_order, default=None)
        row, now_ms, [waiting, flying] = await self.ask(
            queue,
            jobs.waiting(commands, Keys(queue), count, after=after),
            jobs.in_flight(commands, Keys(queue), [name for name, _ in groups], count),
        )
        self._remember(queue, row)
        flights = [
            FlightRow(one.entry_id, one.group, one.consumer, one.idle_ms, one.deliveries) for one in flying
        ]
        rows = [job_row(one.entry_id or "", one.job, one.name, None, one) for one in waiting]
        return JobsView(row, tuple(rows), tuple(flights)), now_ms

    def _remember(self, queue: str, row: QueueRow) -> None:
        groups = row.seen.groups if row.seen else ()
        self._groups[queue] = [(group.name, group.last_id) for group in groups]


class DelayedReader(QueueAsker):
    """Jobs that wait for their time."""

    async def read(self, target: Target) -> tuple[DelayedView, int]:
        """In two round trips: how far the histogram reaches has to be known before it is counted."""
        queue, commands = target.queue or "", self.place.commands
        row, now_ms, [page, told] = await self.ask(
            queue,
            jobs.delayed(commands, Keys(queue), PAGE * 2 * (target.page + 1)),
            delaying.histogram(commands, Keys(queue), buckets=BUCKETS),
        )
        buckets: list[tuple[int | None, int | None, int]] = [
            (None, told.now_ms, told.overdue),
            *((one.from_ms, one.to_ms, one.jobs) for one in told.buckets),
        ]
        if told.later:
            buckets.append((told.buckets[-1].to_ms if told.buckets else told.now_ms, None, told.later))
        rows = [
            job_row(
                f"{one.run_at_ms}/{nth}/{_ref(one.job)}", one.job, one.name, one.run_at_ms, one, _ref(one.job)
            )
            for nth, one in enumerate(page)
        ]
        return DelayedView(row, tuple(rows), tuple(buckets)), now_ms


class CronReader(QueueAsker):
    """Repeatable jobs."""

    async def read(self, target: Target) -> tuple[CronView, int]:
        """In two round trips: the schedule, then the specs it names."""
        queue = target.queue or ""
        listing = repeatable.listing(self.place.commands, Keys(queue), PAGE * 4 * (target.page + 1))
        row, now_ms, [found] = await self.ask(queue, listing)
        return CronView(row, tuple(_spec_row(one) for one in found)), now_ms


def _spec_row(one: Listed) -> SpecRow:
    spec = one.spec
    if isinstance(spec, Undecodable):
        return SpecRow(one.key, "", "", one.next_ms, one.fired, None, (), spec.reason)
    return SpecRow(
        key=one.key,
        name=spec.job_name,
        words=_words(spec.pattern),
        next_ms=one.next_ms,
        fired=one.fired,
        limit=spec.limit,
        fires=_fires(one, spec),
        unreadable=None,
    )


def _words(pattern: Any) -> str:
    """When it fires; an expression that cannot be read stands for itself."""
    if hasattr(pattern, "interval_ms"):
        return f"every {span(pattern.interval_ms)}"
    try:
        return f"{words.describe(pattern.expression)} ({pattern.tz or 'UTC'})"
    except ChasquiError:
        return str(pattern.expression)


def _fires(one: Listed, spec: RepeatSpec) -> tuple[FireRow, ...]:
    left = NEXT_FIRES if spec.limit is None else max(0, min(NEXT_FIRES, spec.limit - one.fired))
    expression = getattr(spec.pattern, "expression", None)
    try:
        schedule = cron.parse(expression, getattr(spec.pattern, "tz", None)) if expression else None
        times = list(
            fires.upcoming(
                spec.pattern,
                one.next_ms,
                left,
                start_after_ms=spec.start_after_ms,
                end_before_ms=spec.end_before_ms,
            )
        )
    except ChasquiError:
        return ()
    return tuple(
        FireRow(
            at_ms,
            notes.local(at_ms, schedule.zone if schedule else UTC),
            (notes.remark(schedule, at_ms, before) or "") if schedule else "",
        )
        for before, at_ms in zip([None, *times], times, strict=False)
    )


class WorkersReader(QueueAsker):
    """Who reads the queue."""

    async def read(self, target: Target) -> tuple[WorkersView, int]:
        """In two round trips: the groups, then their consumers."""
        queue = target.queue or ""
        row, now_ms, [found] = await self.ask(queue, crew.muster(self.place.commands, Keys(queue), scan=1000))
        workers = [
            WorkerRow(
                one.group,
                one.name,
                one.in_flight,
                one.oldest_ms if one.in_flight else None,
                one.idle_ms,
                one.inactive_ms,
                one.again,
                one.verdict,
            )
            for one in found.members
        ]
        order = ("gone", "not polling", "working", "waiting")
        workers.sort(key=lambda one: (order.index(one.verdict), -one.pending, one.name))
        return WorkersView(row, tuple(workers)), now_ms


def all_readers(place: Place) -> dict[str, Reader]:
    """One for each tab."""
    from chasqui_cli.tui.feed.dead import DeadReader
    from chasqui_cli.tui.feed.fleet import FleetReader
    from chasqui_cli.tui.feed.health import HealthReader
    from chasqui_cli.tui.feed.tail import EventsReader

    return {
        "fleet": FleetReader(place),
        "queue": QueueReader(place),
        "jobs": JobsReader(place),
        "dlq": DeadReader(place),
        "delayed": DelayedReader(place),
        "cron": CronReader(place),
        "workers": WorkersReader(place),
        "events": EventsReader(place),
        "health": HealthReader(place),
    }


def _ref(job: Envelope | Undecodable) -> str:
    """How a delayed job is named on the command line: by its id, or by a digest of what is no job."""
    return "~" + hashlib.sha256(job.raw).hexdigest()[:12] if isinstance(job, Undecodable) else job.id


def _order(entry_id: str) -> tuple[int, int]:
    ms, _, nth = entry_id.partition("-")
    return int(ms), int(nth or 0)
