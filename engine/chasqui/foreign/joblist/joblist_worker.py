"""A worker for a list job queue: claims, runs, settles, keeps its claims fresh, and takes back what dead workers left.

Renewing the time of a claim is all the layout allows for a lease, and enough: every reclaimer, also the guide's, goes
by it. All times are the server's, as near as one round trip shows, so a worker's wrong clock takes no job from anyone.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from chasqui.clock import SystemClock
from chasqui.errors import ChasquiError, ServerError
from chasqui.foreign.common_calls import read_time_ms
from chasqui.foreign.joblist import joblist_calls as calls
from chasqui.foreign.joblist import lifecycle, stale_claims
from chasqui.foreign.joblist.joblist_values import DEFAULTS
from chasqui.supervision.supervisor import SupervisedLoop, TurnResult

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from chasqui.clock import Clock
    from chasqui.foreign.joblist.joblist_values import JobClaim, JobListOptions
    from chasqui.foreign.joblist.keys import JobListKeys
    from chasqui.server.flow import Flow
    from chasqui.server.link import AsyncLink, Link
    from chasqui.supervision.supervisor import LoopState

log = logging.getLogger("chasqui.joblist")

SETTLE_PAUSE_S = 0.2


class JobListWorker:
    """Runs a handler for every job of one queue.

    The handler gets a `Claim`; what it returns is the job's result, what it raises its failure. A plain function runs
    in a thread. reclaim_every_s: how often claims of dead workers are looked for; half a visibility by default, and 0
    for never. give_up_at: claims after which a job that kills its workers is failed for good.
    """

    def __init__(
        self,
        link: AsyncLink,
        keys: JobListKeys,
        handler: Callable[[JobClaim], Any],
        *,
        options: JobListOptions = DEFAULTS,
        concurrency: int = 1,
        block_ms: int = 1000,
        reclaim_every_s: float | None = None,
        give_up_at: int | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._link = link
        self._keys = keys
        self._handler = handler
        self._options = options
        self._block_ms = block_ms
        self._reclaim_s = options.visibility_ms / 2000 if reclaim_every_s is None else reclaim_every_s
        self._give_up_at = give_up_at
        self._clock = clock or SystemClock()
        self._claims = _ClaimRenewer(options.visibility_ms / 3000)
        self._unsigned: dict[str, int] = {}
        self._skew_ms = 0
        self._slots = [SupervisedLoop(f"slot {at + 1} of {keys.queue}", self._clock) for at in range(concurrency)]
        self._reclaimer = SupervisedLoop(f"reclaimer of {keys.queue}", self._clock)

    @property
    def loop_states(self) -> list[LoopState]:
        """How its loops are; a slot counts what it completed, failed and lost, the reclaimer what it reclaimed."""
        return [loop.state for loop in (*self._slots, self._reclaimer)]

    def total(self, what: str) -> int:
        """One of the counts over all loops: completed, retry, failed, lost, reclaimed."""
        return sum(state.counts.get(what, 0) for state in self.loop_states)

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set; the jobs that run then are finished first."""
        await self._sync_clock()
        loops = [slot.run(partial(self._run_next_job, slot), stop) for slot in self._slots]
        if self._reclaim_s:
            loops.append(self._reclaimer.run(self._reclaim_stale, stop))
        with self._claims.running(self._link.blocking_copy(), self._keys, self._now_ms):
            await asyncio.gather(*loops)

    def _now_ms(self) -> int:
        return self._clock.now_ms() + self._skew_ms

    async def _sync_clock(self) -> None:
        """Learn how far our clock is from the server's."""
        before = self._clock.now_ms()
        now = await self._link.run(read_time_ms())
        self._skew_ms = now - (before + self._clock.now_ms()) // 2

    async def _run_next_job(self, slot: SupervisedLoop) -> TurnResult:
        job_id = await self._link.run(lifecycle.take_next(self._keys, block_ms=self._block_ms))
        if job_id is None:
            return TurnResult()
        claim = await self._link.run(lifecycle.sign_claim(self._keys, job_id, now_ms=self._now_ms()))
        if claim is None:
            slot.count("outrun")
            return TurnResult()
        self._claims.add(claim)
        try:
            outcome = await self._settle(claim, await self._run_handler(claim))
        finally:
            self._claims.remove(claim)
        slot.count(outcome)
        return TurnResult()

    async def _run_handler(self, claim: JobClaim) -> Callable[[int], Flow[str]]:
        """Run the handler; returns how the job is settled, at a time."""
        try:
            if inspect.iscoroutinefunction(self._handler):
                result = await self._handler(claim)
            else:
                result = await asyncio.to_thread(self._handler, claim)
            words = self._options.write_json(result).encode("utf-8", "surrogatepass")
        except Exception as error:  # noqa: BLE001 - a user's handler: whatever it raises is the job's failure
            message = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            return lambda now_ms: self._fail(claim, message, now_ms)
        return lambda now_ms: self._complete(claim, words, now_ms)

    def _complete(self, claim: JobClaim, words: bytes, now_ms: int) -> Flow[str]:
        done = yield from lifecycle.complete(
            self._keys, claim.id, claim.token, words, now_ms=now_ms, options=self._options
        )
        return "completed" if done else "lost"

    def _fail(self, claim: JobClaim, error: str, now_ms: int) -> Flow[str]:
        outcome = yield from lifecycle.fail(
            self._keys, claim.id, claim.token, error, attempts=claim.attempts, now_ms=now_ms, options=self._options
        )
        return outcome or "lost"

    async def _settle(self, claim: JobClaim, settlement: Callable[[int], Flow[str]]) -> str:
        """Settle the job, again if the server does not reply; but not twice: the guide's complete succeeds every time."""
        now_ms = self._now_ms()
        while True:
            try:
                return await self._link.run(settlement(now_ms))
            except ServerError as error:
                if not error.transient:
                    raise
                log.warning("%s: job %s could not be settled yet: %s", self._keys.queue, claim.id, error)
            if outcome := await self._read_outcome(claim, now_ms):
                return outcome

    async def _read_outcome(self, claim: JobClaim, now_ms: int) -> str | None:
        """The outcome of a job after the reply to its settlement was lost; None if it is not settled.

        Our failure is known by its time. An event is published after the reply, so it is published now.
        """
        while True:
            await self._clock.sleep(SETTLE_PAUSE_S)
            try:
                token, status, failed_ms = await self._link.run(_settlement_state(self._keys, claim.id))
                if token == claim.token and status in {"processing", "completed"}:
                    outcome = status
                elif failed_ms == str(now_ms):
                    outcome = "failed" if status == "failed" else "retry"
                else:
                    return "lost"
                if outcome == "processing":
                    return None
                await self._link.run(lifecycle.publish_events(self._keys, [claim.id], outcome, self._options))
            except ServerError as error:
                if not error.transient:
                    raise
            else:
                return outcome

    async def _reclaim_stale(self) -> TurnResult:
        """Take back what is stale. An unsigned claim must be seen so for a whole visibility first."""
        await self._sync_clock()
        result = await self._link.run(
            stale_claims.reclaim(
                self._keys,
                options=self._options,
                now_ms=self._now_ms(),
                rule=stale_claims.patient_rule(self._unsigned),
                give_up_at=self._give_up_at,
            )
        )
        now_ms = self._now_ms()
        self._unsigned = {job_id: self._unsigned.get(job_id, now_ms) for job_id in result.unsigned}
        self._reclaimer.count("reclaimed", len(result.moved))
        self._reclaimer.count("given up", len(result.failed))
        notes = tuple(f"{one.claim.id}: {one.reason}" for one in result.skipped)
        return TurnResult(self._reclaim_s, notes=notes)


class _ClaimRenewer:
    """The jobs this worker holds, kept fresh by a thread: a handler that blocks the event loop does not stop it."""

    def __init__(self, every_s: float) -> None:
        self._every_s = every_s
        self._held: dict[str, JobClaim] = {}
        self._lock = threading.Lock()

    def add(self, claim: JobClaim) -> None:
        with self._lock:
            self._held[claim.token] = claim

    def remove(self, claim: JobClaim) -> None:
        with self._lock:
            self._held.pop(claim.token, None)

    @contextmanager
    def running(self, link: Link, keys: JobListKeys, now_ms: Callable[[], int]) -> Iterator[None]:
        """Keep them fresh, until the end of a `with`."""
        over = threading.Event()
        thread = threading.Thread(target=self._renew_loop, args=(link, keys, now_ms, over), daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
            link.close()

    def _renew_loop(self, link: Link, keys: JobListKeys, now_ms: Callable[[], int], over: threading.Event) -> None:
        while not over.wait(self._every_s):
            with self._lock:
                held = list(self._held.values())
            try:
                lost = link.run(lifecycle.renew(keys, held, now_ms=now_ms()))
            except ChasquiError as error:
                log.warning("%s: claims could not be renewed: %s", keys.queue, error)
                continue
            for claim in lost:
                if claim.token in self._held:
                    log.warning("%s: job %s was taken back while it ran", keys.queue, claim.id)


def _settlement_state(keys: JobListKeys, job_id: str) -> Flow[list[str]]:
    """Token, status, and when the job failed last; empty for what is missing."""
    [fields] = yield [calls.job_field_values(keys, job_id, ["claim_token", "status", "last_error_at_ms"])]
    return (
        [""] * 3 if isinstance(fields, Exception) else [(field or b"").decode("utf-8", "replace") for field in fields]
    )
