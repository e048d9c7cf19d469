"""The scheduler: repeatable jobs that are due, by the server's clock, become jobs. `fire_times.py` computes when.

A spec that cannot be fired stays unchanged and is reported in the state; it holds up no other. One scheduler leads, but
correctness does not depend on it: a spec fires only if it is still due at the time that was planned for.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from chasqui.clock import SystemClock
from chasqui.defaults import SchedulerOptions as SchedulerOptions
from chasqui.inspect.snapshot import server_time_ms
from chasqui.schedule import firing
from chasqui.schedule.firing import BadSpec, SpecFirePlan
from chasqui.server.commands import Commands, FireResult, StoredSpec, members_with_scores, parse_server_time
from chasqui.supervision.leader_lock import LeaderLoop, new_holder
from chasqui.supervision.supervisor import TurnResult

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chasqui.clock import Clock
    from chasqui.errors import ServerError
    from chasqui.server.flow import Flow
    from chasqui.server.link import AsyncLink
    from chasqui.supervision.supervisor import LoopState
    from chasqui.wire.keys import Keys

PLAN_IN_THREAD_AFTER_MS = 60_000
"""A spec overdue by more may have to be searched for missed times for seconds: that is done in a thread."""

MAX_PLANNING_S = 1.0
"""After this time what is planned is fired, and the rest comes with the next tick: the lock must be renewed."""

MAX_NOTED_SPECS = 10
WAKE_MARGIN_MS = 2


@dataclass(frozen=True, slots=True)
class TickResult:
    """What one tick did. `has_more`: due specs are left, so the next tick should come at once; else it may wait `idle_ms`.

    missed: due times that got no job, by the spec's own policy. stale: specs that were fired or changed by another.
    """

    fired: int = 0
    missed: int = 0
    removed: int = 0
    stale: int = 0
    bad: tuple[BadSpec, ...] = ()
    has_more: bool = False
    idle_ms: int | None = None


@dataclass(slots=True)
class _DuePass:
    """One way through all that is due at one moment, page by page. Specs that stay due are passed over by number."""

    now_ms: int
    passed_over: int = 0
    bad: list[BadSpec] = field(default_factory=list)


class Scheduler:
    """Fires the repeatable jobs of one queue while it leads. Several may run: one leads, the others stand by."""

    def __init__(
        self,
        link: AsyncLink,
        keys: Keys,
        *,
        holder: str | None = None,
        options: SchedulerOptions | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._link = link
        self._keys = keys
        self._options = options or SchedulerOptions()
        self._clock = clock or SystemClock()
        self._due_pass: _DuePass | None = None
        self._bad: tuple[BadSpec, ...] = ()
        self._loop = LeaderLoop(
            "scheduler",
            link,
            keys.scheduler_lock,
            holder=holder or new_holder("s"),
            ttl_s=self._options.lock_ttl_s,
            poll_s=self._options.tick_ms / 1000,
            clock=self._clock,
        )

    @property
    def state(self) -> LoopState:
        """The state of the loop, and what it fired and missed so far; bad specs are among its notes."""
        return self._loop.state

    @property
    def bad_specs(self) -> tuple[BadSpec, ...]:
        """The specs that could not be fired when all that was due had been looked at last."""
        return self._bad

    async def tick(self) -> TickResult:
        """Fire one page of due specs, also without the lock: of two schedulers at once only one fires each spec."""
        commands = Commands(await self._link.features())
        due_pass = self._due_pass or _DuePass(await self._link.run(server_time_ms(commands)))
        self._due_pass = None  # a tick that fails starts over
        batch = self._options.batch
        page = await self._link.run(commands.due_specs(self._keys, due_pass.now_ms, batch, offset=due_pass.passed_over))
        planned = await self._plan_page(page, due_pass.now_ms)
        plans = [one for one in planned if isinstance(one, SpecFirePlan)]
        cap = self._options.stream_cap
        outcomes = await self._link.run(firing.fire_specs(commands, self._keys, plans, due_pass.now_ms, cap=cap))
        ticked = _tick_result(planned, plans, outcomes)
        self._count(ticked)
        if self._has_more(due_pass, ticked, unplanned=len(page) - len(planned), full=len(page) >= batch):
            return replace(ticked, has_more=True)
        return replace(ticked, idle_ms=await self._link.run(_ms_until_next(commands, self._keys, due_pass.now_ms)))

    async def run(self, stop: asyncio.Event) -> None:
        """Lead or stand by until stopped; no server error ends it."""
        await self._loop.run(self._leader_turn, stop)

    async def _leader_turn(self) -> TurnResult:
        ticked = await self.tick()
        return TurnResult(self._pause_s(ticked), "leader", self._notes())

    def _count(self, ticked: TickResult) -> None:
        self._loop.count("fired", ticked.fired)
        self._loop.count("missed", ticked.missed)
        self._loop.count("removed", ticked.removed)
        self._loop.count("stale", ticked.stale)

    def _pause_s(self, ticked: TickResult) -> float:
        """Until something is due, at most a tick; and never less than a tenth of one, however often it may be due."""
        tick_s = self._loop.poll_s
        if ticked.has_more:
            return 0.0
        if ticked.idle_ms is None:
            return tick_s
        return min(tick_s, max(tick_s / 10, (ticked.idle_ms + WAKE_MARGIN_MS) / 1000))

    def _notes(self) -> tuple[str, ...]:
        notes = [f"spec {bad.key!r} cannot be fired: {bad.reason}" for bad in self._bad[:MAX_NOTED_SPECS]]
        unnamed = len(self._bad) - len(notes)
        return (*notes, f"{unnamed} more specs cannot be fired") if unnamed else tuple(notes)

    async def _plan_page(self, page: Sequence[StoredSpec], now_ms: int) -> list[SpecFirePlan | BadSpec]:
        """Plans for as many specs as there is time for; those that may take long come last."""
        begun, planned = self._clock.monotonic(), list[SpecFirePlan | BadSpec]()
        for found in sorted(page, key=lambda spec: now_ms - spec.next_ms > PLAN_IN_THREAD_AFTER_MS):
            args = (found, now_ms, self._options.tick_ms)
            is_late = now_ms - found.next_ms > PLAN_IN_THREAD_AFTER_MS
            planned.append(await asyncio.to_thread(firing.plan_spec, *args) if is_late else firing.plan_spec(*args))
            if self._clock.monotonic() - begun > MAX_PLANNING_S:
                break
        return planned

    def _has_more(self, due_pass: _DuePass, ticked: TickResult, *, unplanned: int, full: bool) -> bool:
        """Whether there is more to look at. The rest of a page that was not finished is seen by reading it again."""
        if not unplanned:
            due_pass.bad += ticked.bad
            due_pass.passed_over += len(ticked.bad) + ticked.stale
        if unplanned or full:
            self._due_pass = due_pass
            return True
        self._bad = tuple(due_pass.bad)
        return False


def _ms_until_next(commands: Commands, keys: Keys, now_ms: int) -> Flow[int | None]:
    """How long nothing more will be due; None when nothing is scheduled."""
    following, clock = yield [commands.next_spec(keys, now_ms), commands.server_time()]
    return next((due_ms - parse_server_time(clock) for _, due_ms in members_with_scores(following)), None)


def _tick_result(
    planned: Sequence[SpecFirePlan | BadSpec],
    plans: Sequence[SpecFirePlan],
    outcomes: Sequence[FireResult | ServerError],
) -> TickResult:
    """The result of a page. An error of the script concerns one spec; any other error is raised."""
    bad = [one for one in planned if isinstance(one, BadSpec)]
    done: list[tuple[SpecFirePlan, FireResult]] = []
    for plan, outcome in zip(plans, outcomes, strict=True):
        if isinstance(outcome, FireResult):
            done.append((plan, outcome))
        elif outcome.code == "ERR":
            bad.append(BadSpec(plan.key, str(outcome)))
        else:
            raise outcome
    return TickResult(
        fired=sum(fired.count for _, fired in done),
        missed=sum(plan.fires.lost for plan, fired in done if not fired.stale),
        removed=sum(fired.removed for _, fired in done),
        stale=sum(fired.stale for _, fired in done),
        bad=tuple(bad),
    )
