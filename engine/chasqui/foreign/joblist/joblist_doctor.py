"""What is wrong with a list job queue's data, and how it is put right: findings first, repairs only of those asked for.

Every repair looks again before it writes. How the damage comes about is told in `docs/foreign.md`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from chasqui.foreign.cluster_slots import SPLIT_MESSAGE, is_cross_slot_error
from chasqui.foreign.common_calls import clock
from chasqui.foreign.decoding import to_number
from chasqui.foreign.examined import DoctorResult
from chasqui.foreign.joblist import joblist_calls as calls
from chasqui.foreign.joblist.job_places import reread_jobs, scan_jobs
from chasqui.foreign.joblist.joblist_values import LIVE_LISTS
from chasqui.server.commands import parse_server_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from chasqui.foreign.joblist.job_places import JobPlaces
    from chasqui.foreign.joblist.keys import JobListKeys
    from chasqui.server.flow import Call, Flow


class JobListProblem(StrEnum):
    """What can be wrong."""

    WRONG_TYPE = "wrong-type"
    NO_JOB = "no-job"
    EXPIRED = "expired"
    LOST_JOB = "lost-job"
    EMPTY_JOB = "empty-job"
    TWICE = "twice"
    TWO_LISTS = "two-lists"
    STATUS = "status"
    EXPIRING = "expiring"
    UNSIGNED = "unsigned"
    BAD_TIME = "bad-time"
    COUNTERS = "counters"
    PARKED = "parked"
    SPLIT = "split"


REPAIRABLE = frozenset(JobListProblem) - {
    JobListProblem.WRONG_TYPE,
    JobListProblem.UNSIGNED,
    JobListProblem.COUNTERS,
    JobListProblem.PARKED,
    JobListProblem.SPLIT,
}
"""The others are for a human, a reclaimer or a migration to decide about."""
_LIST_PRIORITY = ("pending", "processing", "failed", "completed")
"""Where a job in several lists is kept when its status names none of them: where it is not forgotten."""


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    """One thing that is wrong with a job, or a key. `where` is the list it was found in, if it was in one."""

    problem: JobListProblem
    subject: str
    list_name: str = ""
    seen: str = ""
    advice: str = ""


def examine(keys: JobListKeys) -> Flow[list[DoctorFinding]]:
    """Everything that is wrong with a queue. Payloads are not read."""
    return (yield from examine_with_coverage(keys)).findings


def examine_with_coverage(keys: JobListKeys, *, most: int | None = None) -> Flow[DoctorResult[DoctorFinding]]:
    """The same of up to `most` ids of each list and as many keys, and how far that was."""
    [told] = yield [calls.read_snapshot(keys, sample=1)]
    if is_cross_slot_error(told):
        return DoctorResult([DoctorFinding(JobListProblem.SPLIT, keys.queue, advice=SPLIT_MESSAGE)])
    if isinstance(told, Exception):
        raise told
    wrong = [
        DoctorFinding(
            JobListProblem.WRONG_TYPE,
            key,
            seen=found.decode(),
            advice="rename or delete the key; it should be a list",
        )
        for key, found in zip((*keys.lists, keys.in_migration), told[1], strict=True)
        if found not in {b"list", b"none"}
    ]
    if wrong:
        return DoctorResult(wrong)
    met = yield from scan_jobs(keys, most=most)
    suspects = [job.id for job in met.jobs if _job_findings(job)]
    found = [finding for job in (yield from reread_jobs(keys, suspects)) for finding in _job_findings(job)]
    found += yield from _key_findings(keys)
    return DoctorResult(found, met.places)


def repair(
    keys: JobListKeys, findings: Iterable[DoctorFinding], *, only: frozenset[JobListProblem] = REPAIRABLE
) -> Flow[int]:
    """Put right what was found, as far as asked; answers how many things were."""
    return sum((yield from repair_each(keys, [one for one in findings if one.problem in only & REPAIRABLE])))


def repair_each(keys: JobListKeys, findings: Sequence[DoctorFinding]) -> Flow[list[bool]]:
    """The same, all that can be; answers for each whether it was put right: not, if it was not so any more."""
    if not findings:
        return []
    [now] = yield [clock()]
    told = yield [_repair_call(keys, finding, parse_server_time(now)) for finding in findings]
    return [bool(answer) for answer in told]


def _job_findings(job: JobPlaces) -> list[DoctorFinding]:
    """What is wrong with one job."""
    home = _right_list(job)
    if job.kind not in {"hash", "none"}:
        return [
            DoctorFinding(JobListProblem.WRONG_TYPE, job.id, home, job.kind, "its key is no hash; rename or delete it")
        ]
    found = [
        DoctorFinding(JobListProblem.TWICE, job.id, name, str(count), "it is run, or counted, more than once")
        for name, count in job.places.items()
        if count > 1
    ]
    if job.kind == "none":
        return found + [_missing_job_finding(job.id, name) for name in job.places]
    if len(job.places) > 1:
        advice = f"it belongs to {home}; a repair takes it out of the others"
        found.append(DoctorFinding(JobListProblem.TWO_LISTS, job.id, home, ", ".join(job.places), advice))
    return found + (
        _listed_job_findings(job, home, alone=len(job.places) == 1) if home else _unlisted_job_findings(job)
    )


def _right_list(job: JobPlaces) -> str:
    """Where a job belongs: the list its status names, if it is in there."""
    if job.status in job.places:
        return job.status
    return next((name for name in _LIST_PRIORITY if name in job.places), "")


def _missing_job_finding(job_id: str, name: str) -> DoctorFinding:
    if name in LIVE_LISTS:
        return DoctorFinding(JobListProblem.NO_JOB, job_id, name, advice="a worker would run it with no payload")
    return DoctorFinding(JobListProblem.EXPIRED, job_id, name, advice="only its id is left in the history")


def _unlisted_job_findings(job: JobPlaces) -> list[DoctorFinding]:
    """What fell out of a history that was full is over, and expires by itself."""
    if job.parked or job.status in {"completed", "failed"}:
        return []
    if not job.payload:
        seen = f"status {job.status or 'unknown'}, claimed {job.claimed or 'never'}"
        return [
            DoctorFinding(JobListProblem.EMPTY_JOB, job.id, seen=seen, advice="it has no payload: nothing can be run")
        ]
    advice = "no worker will ever find it; put it on the pending list"
    return [DoctorFinding(JobListProblem.LOST_JOB, job.id, seen=job.status, advice=advice)]


def _listed_job_findings(job: JobPlaces, name: str, *, alone: bool) -> list[DoctorFinding]:
    found: list[DoctorFinding] = []
    if name == "processing" and not job.token:
        advice = "its worker has not signed; `joblist reclaim` takes it back when it is stale"
        found.append(DoctorFinding(JobListProblem.UNSIGNED, job.id, name, advice=advice))
    elif job.status != name and alone:
        found.append(DoctorFinding(JobListProblem.STATUS, job.id, name, job.status, "its hash tells another state"))
    if name in LIVE_LISTS and job.ttl_ms >= 0:
        advice = "its payload vanishes while it waits"
        found.append(DoctorFinding(JobListProblem.EXPIRING, job.id, name, str(job.ttl_ms), advice))
    if job.claimed and to_number(job.claimed) is None:
        advice = "it makes every sweep of the guide's fail"
        found.append(DoctorFinding(JobListProblem.BAD_TIME, job.id, name, job.claimed, advice))
    elif name == "processing" and not to_number(job.claimed or "0") and (to_number(job.enqueued) or 0) <= 0:
        advice = "nothing tells how old the claim is: no reclaimer ever takes it back"
        found.append(DoctorFinding(JobListProblem.BAD_TIME, job.id, name, job.claimed, advice))
    return found


def _key_findings(keys: JobListKeys) -> Flow[list[DoctorFinding]]:
    parked, *there = yield [
        calls.list_length(keys.in_migration),
        *(calls.key_exists(key) for key in keys.counters),
    ]
    found = [
        DoctorFinding(JobListProblem.COUNTERS, key, advice="counters of the Ruby or PHP version; purging leaves them")
        for key, exists in zip(keys.counters, there, strict=True)
        if exists
    ]
    if parked:
        found.append(
            DoctorFinding(JobListProblem.PARKED, keys.in_migration, seen=str(parked), advice="finish the migration")
        )
    return found


def _repair_call(keys: JobListKeys, finding: DoctorFinding, now_ms: int) -> Call:
    where, job_id = finding.list_name, finding.subject
    key = getattr(keys, where) if where else ""
    match finding.problem:
        case JobListProblem.LOST_JOB:
            return calls.requeue_lost(keys, job_id)
        case JobListProblem.EMPTY_JOB:
            return calls.delete_empty_job(keys, job_id)
        case JobListProblem.TWICE:
            return calls.remove_duplicates(key, job_id)
        case JobListProblem.TWO_LISTS:
            return calls.keep_in_list(keys, where, job_id)
        case JobListProblem.STATUS | JobListProblem.EXPIRING:
            return calls.set_status(keys, key, job_id, where, keep=where in LIVE_LISTS)
        case JobListProblem.BAD_TIME:
            value = now_ms if where == "processing" else 0
            return calls.set_claim_time(keys, key, job_id, seen=finding.seen, value=value)
        case _:
            return calls.remove_orphan_id(keys, key, job_id)
