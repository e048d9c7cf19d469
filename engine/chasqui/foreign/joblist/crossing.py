"""Flows that carry a list queue's jobs to a queue of ours: pending ones as jobs, failed ones as dead letters.

What a worker holds is never taken; with a visibility, what dead workers left is reclaimed first, as the guide has it.
Completed jobs stay: they are history, and expire.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from chasqui.foreign import parcels
from chasqui.foreign.crossings import Census, Crossed, Load
from chasqui.foreign.joblist import stale, work
from chasqui.foreign.joblist.values import Job, Options, flat_fields
from chasqui.foreign.parcels import NotAJob
from chasqui.foreign.stored import text
from chasqui.server.commands import joblist_calls as calls
from chasqui.server.commands import time_ms
from chasqui.server.commands.foreign_calls import clock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chasqui.foreign.crossings import Cursor
    from chasqui.foreign.joblist.values import ListName
    from chasqui.foreign.parcels import Terms
    from chasqui.server.call import Flow
    from chasqui.server.commands.arrivals import Parcel
    from chasqui.wire.joblist_keys import JobListKeys
    from chasqui.wire.keys import Keys

PAGE = 100


@dataclass(frozen=True, slots=True)
class _Place:
    """A list, and how many ids at its tail were passed over because they stay."""

    which: ListName = "pending"
    skip: int = 0


class JobListSource:
    """A list queue as something to move away from."""

    kind = "joblist"

    def __init__(self, keys: JobListKeys, terms: Terms, *, visibility_ms: int | None = None) -> None:
        self.keys = keys
        self._terms = terms
        self._visibility_ms = visibility_ms
        self._unsigned: dict[str, int] = {}

    def census(self) -> Flow[Census]:
        """How long its lists are."""
        depths = yield from work.depths(self.keys)
        [parked] = yield [calls.length(self.keys.parked)]
        return Census(ready=depths.pending, held=depths.processing, failed=depths.failed, parked=parked)

    def forward(self, target: Keys, cursor: Cursor) -> Flow[tuple[Crossed, Cursor]]:
        """Move the next page to a queue on the same server, each job in one step."""
        place = yield from self._began(cursor)
        jobs, now_ms, more = yield from self._page(place)
        ready, crossed = self._packed(jobs, now_ms)
        source = getattr(self.keys, place.which)
        told = yield [
            calls.forward(
                self.keys,
                source,
                target,
                parcel,
                attempts=job.fields.get("attempts", b""),
                caps=self._terms.caps,
            )
            for job, parcel in ready
        ]
        for answer in told:
            crossed.count(answer.decode())
        stayed = len(crossed.failures) + crossed.counts["changed"]
        return crossed, _next(place, stayed, more=more)

    def park(self, cursor: Cursor) -> Flow[tuple[Crossed, Cursor]]:
        """Set the next page aside for another server."""
        place = yield from self._began(cursor)
        jobs, now_ms, more = yield from self._page(place)
        ready, crossed = self._packed(jobs, now_ms)
        source = getattr(self.keys, place.which)
        told = yield [calls.park(self.keys, source, job.id) for job, _ in ready]
        for answer in told:
            if answer != b"parked":
                crossed.count(answer.decode())
        return crossed, _next(place, len(crossed.failures), more=more)

    def parked(self) -> Flow[Load]:
        """Some of what is set aside. What has no hash any more was deleted by somebody: it is done."""
        now, ids = yield [clock(), calls.slice_of(self.keys.parked, -PAGE, -1)]
        jobs = yield from self._jobs([text(job_id) for job_id in reversed(ids)])
        done = [job.id for job in jobs if job.expired]
        ready, crossed = self._packed([job for job in jobs if not job.expired], time_ms(now))
        return Load([parcel for _, parcel in ready], done, crossed.failures, len(ids))

    def clean(self, job_ids: Sequence[str]) -> Flow[None]:
        """Forget what has arrived."""
        yield [calls.clean(self.keys, job_id) for job_id in job_ids]

    def give_back(self) -> Flow[int]:
        """Return what is set aside to its list, behind what waits there."""
        back = 0
        while True:
            [ids] = yield [calls.slice_of(self.keys.parked, -PAGE, -1)]
            jobs = yield from self._jobs([text(job_id) for job_id in reversed(ids)])
            if not jobs:
                return back
            told = yield [calls.unpark(self.keys, self._home(job), job.id) for job in jobs]
            back += sum(answer == b"parked" for answer in told)

    def _home(self, job: Job) -> str:
        return self.keys.failed if job.text("status") == "failed" else self.keys.pending

    def _began(self, cursor: Cursor) -> Flow[_Place]:
        """Before the first page, put what dead workers left back on the pending list."""
        if cursor is not None:
            place: _Place = cursor
            return place
        if self._visibility_ms is not None:
            told = yield from stale.reclaim(
                self.keys,
                options=Options(visibility_ms=self._visibility_ms),
                rule=stale.patient(self._unsigned),
            )
            [now] = yield [clock()]
            self._unsigned = {job_id: self._unsigned.get(job_id, time_ms(now)) for job_id in told.unsigned}
        return _Place()

    def _page(self, place: _Place) -> Flow[tuple[list[Job], int, bool]]:
        """The next jobs of a list, those first that would be claimed first, and whether there may be more."""
        key = getattr(self.keys, place.which)
        now, ids = yield [
            clock(),
            calls.slice_of(key, -PAGE - place.skip, -1 - place.skip),
        ]
        names = list(dict.fromkeys(text(job_id) for job_id in reversed(ids)))
        jobs = yield from self._jobs(names)
        # a job without a hash may be one that another mover has just taken, with its hash and its place
        doubted = [job.id for job in jobs if job.expired]
        places = yield [calls.place(key, job_id) for job_id in doubted]
        gone = {job_id for job_id, at in zip(doubted, places, strict=True) if not at}
        return [job for job in jobs if job.id not in gone], time_ms(now), len(ids) == PAGE

    def _jobs(self, job_ids: Sequence[str]) -> Flow[list[Job]]:
        replies = yield [calls.job(self.keys, job_id) for job_id in job_ids]
        return [Job(job_id, flat_fields(reply), {}) for job_id, reply in zip(job_ids, replies, strict=True)]

    def _packed(self, jobs: Sequence[Job], now_ms: int) -> tuple[list[tuple[Job, Parcel]], Crossed]:
        ready: list[tuple[Job, Parcel]] = []
        crossed = Crossed()
        for job in jobs:
            try:
                ready.append((job, parcels.of_job(job, self._terms, now_ms)))
            except NotAJob as fault:
                crossed.fail(job.id, str(fault))
        return ready, crossed


def _next(place: _Place, stayed: int, *, more: bool) -> _Place | None:
    """What stays at the tail is passed over from now on; after the pending jobs come the failed ones."""
    if more:
        return _Place(place.which, place.skip + stayed)
    return _Place("failed") if place.which == "pending" else None
