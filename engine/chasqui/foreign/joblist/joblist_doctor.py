"""What is wrong with a list job queue's data, and how it is put right: findings first, repairs only of those asked for.

Every repair looks again before it writes. `docs/foreign.md` describes how the damage comes about.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar, cast

from chasqui.foreign import diagnosis
from chasqui.foreign.decoding import to_number
from chasqui.foreign.diagnosis import DoctorFinding, DoctorResult, key_findings
from chasqui.foreign.joblist import joblist_calls as calls
from chasqui.foreign.joblist.job_places import reread_jobs, scan_jobs
from chasqui.foreign.joblist.joblist_values import LIVE_LISTS
from chasqui.foreign.joblist.keys import KEY_TYPES
from chasqui.health.findings import chasqui_command

if TYPE_CHECKING:
    from collections.abc import Iterable

    from chasqui.foreign.joblist.job_places import JobPlaces
    from chasqui.foreign.joblist.keys import JobListKeys, ListName
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
class JobListDoctor:
    """Examines and repairs one queue; see `Doctor`."""

    keys: JobListKeys
    repairable: ClassVar[frozenset[JobListProblem]] = REPAIRABLE

    def examine(self, *, most: int | None = None) -> Flow[DoctorResult]:
        """Lists and keys are scanned, and what looks odd is read again, each job at one moment."""
        keys = self.keys
        [snapshot] = yield [calls.read_snapshot(keys, sample=1)]
        if odd := key_findings(JobListProblem, keys.queue, snapshot, keys.all_lists, KEY_TYPES):
            return DoctorResult(odd)
        met = yield from scan_jobs(keys, most=most)
        suspects = [job.id for job in met.jobs if _job_findings(keys, job)]
        found = [finding for job in (yield from reread_jobs(keys, suspects)) for finding in _job_findings(keys, job)]
        found += yield from _counter_findings(keys)
        return DoctorResult(found, met.places)

    def repair_calls(self, finding: DoctorFinding, now_ms: int) -> list[Call]:
        """One call each, on the list in which the job was found."""
        return [self._repair_call(finding, now_ms)]

    def fix_command(self, finding: DoctorFinding) -> str:
        """Claims are for a reclaimer, a split queue and counters for a person."""
        queue = self.keys.queue
        match finding.problem:
            case JobListProblem.PARKED:
                return chasqui_command("migrate", f"joblist://{queue}", "chasqui://QUEUE")
            case JobListProblem.SPLIT:
                return chasqui_command("joblist", "list", queue)
            case JobListProblem.UNSIGNED:
                return chasqui_command("joblist", "reclaim", queue, "--dry-run")
            case JobListProblem.COUNTERS:
                return shlex.join(["redis-cli", "HGETALL", finding.subject])
            case problem:
                return chasqui_command("joblist", "doctor", queue, "--repair", "--only", problem)

    def _repair_call(self, finding: DoctorFinding, now_ms: int) -> Call:
        keys, name, job_id = self.keys, finding.list_name, finding.subject
        if finding.problem is JobListProblem.LOST_JOB:
            return calls.requeue_lost(keys, job_id)
        if finding.problem is JobListProblem.EMPTY_JOB:
            return calls.delete_empty_job(keys, job_id)
        key = keys.list_key(cast("ListName", name))
        match finding.problem:
            case JobListProblem.TWICE:
                return calls.remove_duplicates(key, job_id)
            case JobListProblem.TWO_LISTS:
                return calls.keep_in_list(keys, name, job_id)
            case JobListProblem.STATUS | JobListProblem.EXPIRING:
                return calls.set_status(keys, key, job_id, name, keep=name in LIVE_LISTS)
            case JobListProblem.BAD_TIME:
                value = now_ms if name == "processing" else 0
                return calls.set_claim_time(keys, key, job_id, seen=finding.seen, value=value)
            case _:
                return calls.remove_orphan_id(keys, key, job_id)


def examine(keys: JobListKeys) -> Flow[list[DoctorFinding]]:
    """Everything that is wrong with a queue."""
    return (yield from JobListDoctor(keys).examine()).findings


def repair(
    keys: JobListKeys, findings: Iterable[DoctorFinding], *, only: frozenset[JobListProblem] = REPAIRABLE
) -> Flow[int]:
    """Repair what was found, as far as asked; returns how many findings were repaired."""
    return (yield from diagnosis.repair(JobListDoctor(keys), findings, only))


def _job_findings(keys: JobListKeys, job: JobPlaces) -> list[DoctorFinding]:
    """What is wrong with one job."""
    home = _right_list(job)
    if job.kind not in {"hash", "none"}:
        advice, key = "its key is no hash; rename or delete it", keys.job(job.id)
        return [DoctorFinding(JobListProblem.WRONG_TYPE, job.id, job.kind, advice, home, key)]
    found = [
        DoctorFinding(JobListProblem.TWICE, job.id, str(count), "it is run, or counted, more than once", name)
        for name, count in job.places.items()
        if count > 1
    ]
    if job.kind == "none":
        return found + [_missing_job_finding(job.id, name) for name in job.places]
    if len(job.places) > 1:
        advice = f"it belongs to {home}; a repair takes it out of the others"
        found.append(DoctorFinding(JobListProblem.TWO_LISTS, job.id, ", ".join(job.places), advice, home))
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
        return DoctorFinding(
            JobListProblem.NO_JOB, job_id, list_name=name, advice="a worker would run it with no payload"
        )
    return DoctorFinding(JobListProblem.EXPIRED, job_id, list_name=name, advice="only its id is left in the history")


def _unlisted_job_findings(job: JobPlaces) -> list[DoctorFinding]:
    """A job that fell out of a full history is over, and expires without a repair."""
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
        found.append(DoctorFinding(JobListProblem.UNSIGNED, job.id, "", advice, name))
    elif job.status != name and alone:
        found.append(DoctorFinding(JobListProblem.STATUS, job.id, job.status, "its hash tells another state", name))
    if name in LIVE_LISTS and job.ttl_ms >= 0:
        advice = "its payload vanishes while it waits"
        found.append(DoctorFinding(JobListProblem.EXPIRING, job.id, str(job.ttl_ms), advice, name))
    if job.claimed and to_number(job.claimed) is None:
        advice = "it makes every sweep of the guide's fail"
        found.append(DoctorFinding(JobListProblem.BAD_TIME, job.id, job.claimed, advice, name))
    elif name == "processing" and not to_number(job.claimed or "0") and (to_number(job.enqueued) or 0) <= 0:
        advice = "nothing tells how old the claim is: no reclaimer ever takes it back"
        found.append(DoctorFinding(JobListProblem.BAD_TIME, job.id, job.claimed, advice, name))
    return found


def _counter_findings(keys: JobListKeys) -> Flow[list[DoctorFinding]]:
    parked, *there = yield [calls.list_length(keys.in_migration), *(calls.key_exists(key) for key in keys.counters)]
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
