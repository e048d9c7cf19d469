"""A worker for a list job queue: claims, runs, settles, keeps its claims fresh, and takes back what dead workers left.

Renewing the time of a claim is all the layout allows for a lease, and enough: every reclaimer, also the guide's, goes
by it. All times are the server's, as near as one round trip tells, so a worker's wrong clock takes no job from anyone.
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
from chasqui.foreign.joblist import stale, work
from chasqui.foreign.joblist.values import DEFAULTS
from chasqui.loops import Loop, Turn
from chasqui.server.commands import joblist_calls as calls
from chasqui.server.commands import time_ms
from chasqui.server.commands.foreign_calls import clock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from chasqui.clock import Clock
    from chasqui.foreign.joblist.values import Claim, Options
    from chasqui.loops import LoopState
    from chasqui.server.call import Flow
    from chasqui.server.link import AsyncLink, Link
    from chasqui.wire.joblist_keys import JobListKeys

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
        handler: Callable[[Claim], Any],
        *,
        options: Options = DEFAULTS,
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
        self._claims = _Claims(options.visibility_ms / 3000)
        self._unsigned: dict[str, int] = {}
        self._skew_ms = 0
        self._slots = [Loop(f"slot {at + 1} of {keys.queue}", self._clock) for at in range(concurrency)]
        self._reclaimer = Loop(f"reclaimer of {keys.queue}", self._clock)

    @property
    def states(self) -> list[LoopState]:
        """How its loops are; a slot counts what it completed, failed and lost, the reclaimer what it reclaimed."""
        return [loop.state for loop in (*self._slots, self._reclaimer)]

    def total(self, what: str) -> int:
        """One of the counts over all loops: completed, retry, failed, lost, reclaimed."""
        return sum(state.counts.get(what, 0) for state in self.states)

    async def run(self, stop: asyncio.Event) -> None:
        """Work until told to stop; the jobs that run then are finished first."""
        await self._align()
        loops = [slot.run(partial(self._turn, slot), stop) for slot in self._slots]
        if self._reclaim_s:
            loops.append(self._reclaimer.run(self._sweep, stop))
        with self._claims.renewed(self._link.blocking(), self._keys, self._now_ms):
            await asyncio.gather(*loops)

    def _now_ms(self) -> int:
        return self._clock.now_ms() + self._skew_ms

    async def _align(self) -> None:
        """Learn how far our clock is from the server's."""
        before = self._clock.now_ms()
        now = time_ms(await self._link.run(_server_time()))
        self._skew_ms = now - (before + self._clock.now_ms()) // 2

    async def _turn(self, slot: Loop) -> Turn:
        job_id = await self._link.run(work.take(self._keys, block_ms=self._block_ms))
        if job_id is None:
            return Turn()
        claim = await self._link.run(work.sign(self._keys, job_id, now_ms=self._now_ms()))
        if claim is None:
            slot.count("outrun")
            return Turn()
        self._claims.add(claim)
        try:
            outcome = await self._settled(claim, await self._handled(claim))
        finally:
            self._claims.remove(claim)
        slot.count(outcome)
        return Turn()

    async def _handled(self, claim: Claim) -> Callable[[], Flow[str]]:
        """Run the handler; answers how the job is to be settled."""
        try:
            if inspect.iscoroutinefunction(self._handler):
                result = await self._handler(claim)
            else:
                result = await asyncio.to_thread(self._handler, claim)
            words = self._options.write_json(result).encode("utf-8", "surrogatepass")
        except Exception as error:  # noqa: BLE001 - a user's handler: whatever it raises is the job's failure
            said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            return lambda: self._failure(claim, said)
        return lambda: self._success(claim, words)

    def _success(self, claim: Claim, words: bytes) -> Flow[str]:
        done = yield from work.complete(
            self._keys, claim.id, claim.token, words, now_ms=self._now_ms(), options=self._options
        )
        return "completed" if done else "lost"

    def _failure(self, claim: Claim, error: str) -> Flow[str]:
        outcome = yield from work.fail(
            self._keys,
            claim.id,
            claim.token,
            error,
            attempts=claim.attempts,
            now_ms=self._now_ms(),
            options=self._options,
        )
        return outcome or "lost"

    async def _settled(self, claim: Claim, verdict: Callable[[], Flow[str]]) -> str:
        """Settle the job, again if the server does not answer; but not a second time what it did already: the guide's
        complete succeeds as often as it is said.
        """
        while True:
            try:
                return await self._link.run(verdict())
            except ServerError as error:
                if not error.transient:
                    raise
                log.warning("%s: job %s could not be settled yet: %s", self._keys.queue, claim.id, error)
            if outcome := await self._outcome(claim):
                return outcome

    async def _outcome(self, claim: Claim) -> str | None:
        """What became of the job when our reply was lost, and perhaps not our word; asked until there is an answer."""
        while True:
            await self._clock.sleep(SETTLE_PAUSE_S)
            try:
                token, status = await self._link.run(_standing(self._keys, claim.id))
            except ServerError as error:
                if not error.transient:
                    raise
                continue
            if status == "processing" and token == claim.token:
                return None
            return status if status in {"completed", "failed"} else "lost"

    async def _sweep(self) -> Turn:
        """Take back what is stale. What nobody signed must be seen so for a whole visibility first."""
        await self._align()
        told = await self._link.run(
            stale.reclaim(
                self._keys,
                options=self._options,
                now_ms=self._now_ms(),
                rule=stale.patient(self._unsigned),
                give_up_at=self._give_up_at,
            )
        )
        now_ms = self._now_ms()
        self._unsigned = {job_id: self._unsigned.get(job_id, now_ms) for job_id in told.unsigned}
        self._reclaimer.count("reclaimed", len(told.moved))
        self._reclaimer.count("given up", len(told.failed))
        notes = tuple(f"{one.held.id}: {one.why}" for one in told.skipped)
        return Turn(self._reclaim_s, notes=notes)


class _Claims:
    """The jobs this worker holds, kept fresh by a thread: a handler that blocks the event loop does not stop it."""

    def __init__(self, every_s: float) -> None:
        self._every_s = every_s
        self._held: dict[str, Claim] = {}
        self._lock = threading.Lock()

    def add(self, claim: Claim) -> None:
        with self._lock:
            self._held[claim.token] = claim

    def remove(self, claim: Claim) -> None:
        with self._lock:
            self._held.pop(claim.token, None)

    @contextmanager
    def renewed(self, link: Link, keys: JobListKeys, now_ms: Callable[[], int]) -> Iterator[None]:
        """Keep them fresh, until the end of a `with`."""
        over = threading.Event()
        thread = threading.Thread(target=self._renew, args=(link, keys, now_ms, over), daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
            link.close()

    def _renew(self, link: Link, keys: JobListKeys, now_ms: Callable[[], int], over: threading.Event) -> None:
        while not over.wait(self._every_s):
            with self._lock:
                held = list(self._held.values())
            try:
                lost = link.run(work.renew(keys, held, now_ms=now_ms()))
            except ChasquiError as error:
                log.warning("%s: claims could not be renewed: %s", keys.queue, error)
                continue
            for claim in lost:
                if claim.token in self._held:
                    log.warning("%s: job %s was taken back while it ran", keys.queue, claim.id)


def _server_time() -> Flow[Any]:
    [now] = yield [clock()]
    return now


def _standing(keys: JobListKeys, job_id: str) -> Flow[tuple[str, str]]:
    [fields] = yield [calls.some_fields(keys, job_id, ["claim_token", "status"])]
    if isinstance(fields, Exception):
        return "", ""
    token, status = ((field or b"").decode("utf-8", "replace") for field in fields)
    return token, status
