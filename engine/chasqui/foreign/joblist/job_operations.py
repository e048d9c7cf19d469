"""Flows with which an operator manages a list job queue: retry, cancel, bump, settle by hand, move, purge.

Each is one step of the server per job and looks before it writes, so it may be ended in the middle and run again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from chasqui.errors import ArgumentError
from chasqui.foreign.decoding import to_int, to_text
from chasqui.foreign.joblist import joblist_calls as calls
from chasqui.foreign.joblist import lifecycle
from chasqui.foreign.joblist import stale_claims as stale
from chasqui.foreign.joblist.joblist_values import DEFAULTS, LIVE_LISTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chasqui.foreign.joblist.joblist_values import JobListOptions, ListDepths
    from chasqui.foreign.joblist.keys import JobListKeys, ListName
    from chasqui.foreign.joblist.lifecycle import FailOutcome
    from chasqui.foreign.joblist.stale_claims import JudgedClaim
    from chasqui.server.flow import Flow

PAGE = 500


@dataclass(frozen=True, slots=True)
class JobChanges:
    """What came of it, by id. missing: not in that list (any more). expired: only the id was left.
    there: the other queue has a job of this id.
    """

    done: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    expired: tuple[str, ...] = ()
    there: tuple[str, ...] = ()

    @classmethod
    def from_replies(cls, ids: Sequence[str], replies: Sequence[int]) -> JobChanges:
        """From what the scripts answer."""
        answers = list(zip(ids, replies, strict=True))
        return cls(*(tuple(job_id for job_id, answer in answers if answer == code) for code in (1, 0, -1, -2)))


@dataclass(frozen=True, slots=True)
class ListOverview:
    """A queue as an operator wants to see it, for a visibility that only its workers know.

    attempts: how many of the claimed jobs were claimed how often.
    """

    depths: ListDepths
    now_ms: int
    oldest_pending_ms: int | None
    oldest_claim_ms: int | None
    stale: int
    unsettled: tuple[JudgedClaim, ...]
    attempts: dict[int, int]
    parked: int


def read_overview(
    keys: JobListKeys, *, visibility_ms: int = DEFAULTS.visibility_ms, now_ms: int | None = None
) -> Flow[ListOverview]:
    """Depths, ages, and which claims are stale or cannot be judged. Ages are by the server's clock, unless one is given."""
    depths = yield from lifecycle.read_depths(keys)
    judged, at_ms = yield from stale.judge_claims(keys, visibility_ms=visibility_ms, now_ms=now_ms)
    [tail, parked] = yield [calls.list_range(keys.pending, -1, -1), calls.list_length(keys.in_migration)]
    enqueued: int | None = None
    if tail:
        [fields] = yield [calls.job_field_values(keys, to_text(tail[0]), ["enqueued_at_ms"])]
        enqueued = None if isinstance(fields, Exception) else to_int(fields[0])
    claims = [claimed for one in judged if (claimed := to_int(one.claim.claimed or None))]
    tries: dict[int, int] = {}
    for one in judged:
        if one.claim.attempts is not None:
            tries[one.claim.attempts] = tries.get(one.claim.attempts, 0) + 1
    return ListOverview(
        depths=depths,
        now_ms=at_ms,
        oldest_pending_ms=None if enqueued is None else at_ms - enqueued,
        oldest_claim_ms=at_ms - min(claims) if claims else None,
        stale=sum(one.status == "stale" for one in judged),
        unsettled=tuple(one for one in judged if one.status in {"broken", "orphan"}),
        attempts=tries,
        parked=parked,
    )


def retry(
    keys: JobListKeys,
    job_ids: Sequence[str],
    *,
    source: ListName = "failed",
    at_once: bool = False,
    reset: bool = True,
    options: JobListOptions = DEFAULTS,
) -> Flow[JobChanges]:
    """Put jobs from a history list back to work, with all their attempts before them unless `reset` is off.

    Their hashes stop expiring. An id whose hash is gone stays where it is: there is nothing to run.
    """
    if source in LIVE_LISTS:
        raise ArgumentError(f"{source} jobs are not over; only completed and failed ones can be retried")
    replies = yield [
        calls.retry(keys, keys.list_key(source), job_id, at_once=at_once, reset=reset) for job_id in job_ids
    ]
    tended = JobChanges.from_replies(job_ids, replies)
    yield from lifecycle.publish_events(keys, tended.done, "retry", options)
    return tended


def cancel(keys: JobListKeys, job_ids: Sequence[str]) -> Flow[JobChanges]:
    """Delete pending jobs; those that were claimed meanwhile are missing, and run."""
    return (yield from delete_jobs(keys, job_ids, source="pending"))


def delete_jobs(keys: JobListKeys, job_ids: Sequence[str], *, source: ListName) -> Flow[JobChanges]:
    """Delete jobs that are in this list."""
    replies = yield [calls.delete_job(keys, keys.list_key(source), job_id) for job_id in job_ids]
    return JobChanges.from_replies(job_ids, replies)


def move_to_front(keys: JobListKeys, job_ids: Sequence[str]) -> Flow[JobChanges]:
    """Let pending jobs be the next ones, the first of them first."""
    replies = yield [calls.move_to_front(keys, job_id) for job_id in reversed(job_ids)]
    return JobChanges.from_replies(list(reversed(job_ids)), replies)


def complete_for_worker(
    keys: JobListKeys, job_id: str, result: Any, *, now_ms: int, options: JobListOptions = DEFAULTS
) -> Flow[bool]:
    """Complete a claimed job in its worker's stead, which loses it cleanly; False when no worker holds it."""
    held = yield from _claim_of(keys, job_id)
    if held is None:
        return False
    return (yield from lifecycle.complete(keys, job_id, held[0], result, now_ms=now_ms, options=options))


def fail_for_worker(
    keys: JobListKeys, job_id: str, error: str, *, now_ms: int, options: JobListOptions = DEFAULTS
) -> Flow[FailOutcome | None]:
    """Fail a claimed job in its worker's stead; None when no worker holds it."""
    held = yield from _claim_of(keys, job_id)
    if held is None:
        return None
    token, attempts = held
    return (yield from lifecycle.fail(keys, job_id, token, error, attempts=attempts, now_ms=now_ms, options=options))


def move(
    keys: JobListKeys, target: JobListKeys, job_ids: Sequence[str], *, source: ListName = "pending"
) -> Flow[JobChanges]:
    """Move jobs to the same list of another queue; pending ones to the end of it."""
    if keys == target:
        raise ArgumentError(f"{keys.queue!r} cannot be moved to itself")
    if source == "processing":
        raise ArgumentError("a claimed job is its worker's: wait for it, or reclaim it first")
    lists = (keys.list_key(source), target.list_key(source))
    replies = yield [calls.move(keys, target, lists, job_id, keep=source == "pending") for job_id in job_ids]
    return JobChanges.from_replies(job_ids, replies)


def purge(keys: JobListKeys, which: ListName, *, held: bool = False, dry_run: bool = False) -> Flow[int]:
    """Delete every job of one list; answers how many ids. Workers hold what is processing, so that must be said."""
    if which == "processing" and not held:
        raise ArgumentError("workers hold these jobs", hint="say that held ones are meant as well")
    key = keys.list_key(which)
    [length] = yield [calls.list_length(key)]
    if dry_run:
        return int(length)
    purged = 0
    while True:
        [page] = yield [calls.list_range(key, -PAGE, -1)]
        if not page:
            return purged
        tended = yield from delete_jobs(keys, [to_text(job_id) for job_id in dict.fromkeys(page)], source=which)
        purged += len(tended.done)


def _claim_of(keys: JobListKeys, job_id: str) -> Flow[tuple[str, int] | None]:
    """Token and attempts of a job that is being worked on."""
    [fields] = yield [calls.job_field_values(keys, job_id, ["claim_token", "attempts", "status"])]
    if isinstance(fields, Exception) or not fields[0] or fields[2] != b"processing":
        return None
    return to_text(fields[0]), to_int(fields[1]) or 1
