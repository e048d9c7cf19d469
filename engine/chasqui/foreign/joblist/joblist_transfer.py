"""Flows that carry a list queue's jobs to a queue of ours: pending ones as jobs, failed ones as dead letters.

What a worker holds is never taken; with a visibility, what dead workers left is reclaimed first, as the guide has it.
Completed jobs stay: they are history, and expire.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from chasqui.foreign import conversion
from chasqui.foreign.common_calls import clock, read_time_ms
from chasqui.foreign.decoding import to_text
from chasqui.foreign.joblist import joblist_calls as calls
from chasqui.foreign.joblist import lifecycle, stale_claims
from chasqui.foreign.joblist.joblist_values import JobListOptions, ListJob, parse_hash
from chasqui.foreign.transfer import ParkedPage, SourceCounts, TransferResult, convert, without_dead_letters
from chasqui.server.commands import parse_server_time

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chasqui.foreign.conversion import ConversionOptions
    from chasqui.foreign.job_import import ImportedJob
    from chasqui.foreign.joblist.keys import JobListKeys, ListName
    from chasqui.foreign.transfer import Cursor
    from chasqui.server.flow import Flow
    from chasqui.wire.keys import Keys

PAGE = 100


@dataclass(frozen=True, slots=True)
class _ListPosition:
    """A list, and how many ids at its tail were passed over because they stay."""

    which: ListName = "pending"
    skip: int = 0


class JobListSource:
    """A list queue as something to move away from."""

    kind = "joblist"

    def __init__(self, keys: JobListKeys, terms: ConversionOptions, *, visibility_ms: int | None = None) -> None:
        self.keys = keys
        self._terms = terms
        self._visibility_ms = visibility_ms
        self._unsigned: dict[str, int] = {}

    def count(self) -> Flow[SourceCounts]:
        """How long its lists are."""
        depths = yield from lifecycle.read_depths(self.keys)
        [parked] = yield [calls.list_length(self.keys.in_migration)]
        return SourceCounts(ready=depths.pending, held=depths.processing, failed=depths.failed, parked=parked)

    def forward(self, target: Keys, cursor: Cursor) -> Flow[tuple[TransferResult, Cursor]]:
        """Move the next page to a queue on the same server, each job in one step."""
        place = yield from self._start_position(cursor)
        jobs, now_ms, more = yield from self._read_page(place)
        ready, crossed = self._convert(jobs, now_ms)
        source = self.keys.list_key(place.which)
        replies = yield [
            calls.forward_job(
                self.keys, source, target, imported, attempts=job.fields.get("attempts", b""), caps=self._terms.caps
            )
            for job, imported in ready
        ]
        crossed.add_replies(replies)
        stayed = len(crossed.failures) + crossed.counts["changed"]
        return crossed, _next_position(place, stayed, more=more)

    def park(self, cursor: Cursor, *, dead_letters: bool = True) -> Flow[tuple[TransferResult, Cursor]]:
        """Set the next page aside for another server."""
        place = yield from self._start_position(cursor)
        jobs, now_ms, more = yield from self._read_page(place)
        ready, crossed = self._convert(jobs, now_ms)
        ready = ready if dead_letters else without_dead_letters(ready, crossed)
        source = self.keys.list_key(place.which)
        replies = yield [calls.park_job(self.keys, source, job.id) for job, _ in ready]
        crossed.add_replies(replies)
        return crossed, _next_position(place, len(crossed.failures) + crossed.counts["full"], more=more)

    def read_parked(self) -> Flow[ParkedPage]:
        """Some of what is set aside. A job without a hash was deleted meanwhile: it is done."""
        now, ids = yield [clock(), calls.list_range(self.keys.in_migration, -PAGE, -1)]
        jobs = yield from self._read_jobs([to_text(job_id) for job_id in reversed(ids)])
        done = [job.id for job in jobs if job.is_expired]
        ready, crossed = self._convert([job for job in jobs if not job.is_expired], parse_server_time(now))
        return ParkedPage([imported for _, imported in ready], done, crossed.failures, len(ids))

    def delete_parked(self, job_ids: Sequence[str]) -> Flow[None]:
        """Forget what has arrived."""
        yield [calls.delete_parked(self.keys, job_id) for job_id in job_ids]

    def return_parked(self) -> Flow[int]:
        """Return what is set aside to its list, behind what waits there."""
        back = 0
        while True:
            [ids] = yield [calls.list_range(self.keys.in_migration, -PAGE, -1)]
            jobs = yield from self._read_jobs([to_text(job_id) for job_id in reversed(ids)])
            if not jobs:
                return back
            replies = yield [calls.unpark_job(self.keys, self._return_list(job), job.id) for job in jobs]
            back += sum(answer == b"parked" for answer in replies)

    def _return_list(self, job: ListJob) -> str:
        return self.keys.failed if job.text("status") == "failed" else self.keys.pending

    def _start_position(self, cursor: Cursor) -> Flow[_ListPosition]:
        """Before the first page, put what dead workers left back on the pending list."""
        if cursor is not None:
            place: _ListPosition = cursor
            return place
        if self._visibility_ms is not None:
            result = yield from stale_claims.reclaim(
                self.keys,
                options=JobListOptions(visibility_ms=self._visibility_ms),
                rule=stale_claims.patient_rule(self._unsigned),
            )
            now_ms = yield from read_time_ms()
            self._unsigned = {job_id: self._unsigned.get(job_id, now_ms) for job_id in result.unsigned}
        return _ListPosition()

    def _read_page(self, place: _ListPosition) -> Flow[tuple[list[ListJob], int, bool]]:
        """The next jobs of a list, those first that would be claimed first, and whether there may be more."""
        key = self.keys.list_key(place.which)
        now, ids = yield [clock(), calls.list_range(key, -PAGE - place.skip, -1 - place.skip)]
        names = list(dict.fromkeys(to_text(job_id) for job_id in reversed(ids)))
        jobs = yield from self._read_jobs(names)
        # a job without a hash may be one that another mover has just taken, with its hash and its place
        doubted = [job.id for job in jobs if job.is_expired]
        places = yield [calls.list_positions(key, job_id) for job_id in doubted]
        gone = {job_id for job_id, at in zip(doubted, places, strict=True) if not at}
        return [job for job in jobs if job.id not in gone], parse_server_time(now), len(ids) == PAGE

    def _read_jobs(self, job_ids: Sequence[str]) -> Flow[list[ListJob]]:
        replies = yield [calls.job_fields(self.keys, job_id) for job_id in job_ids]
        return [ListJob(job_id, parse_hash(reply), {}) for job_id, reply in zip(job_ids, replies, strict=True)]

    def _convert(
        self, jobs: Sequence[ListJob], now_ms: int
    ) -> tuple[list[tuple[ListJob, ImportedJob]], TransferResult]:
        return convert(jobs, lambda job: conversion.job_from_list_job(job, self._terms, now_ms))


def _next_position(place: _ListPosition, stayed: int, *, more: bool) -> _ListPosition | None:
    """What stays at the tail is passed over from now on; after the pending jobs come the failed ones."""
    if more:
        return _ListPosition(place.which, place.skip + stayed)
    return _ListPosition("failed") if place.which == "pending" else None
