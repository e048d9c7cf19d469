"""What is wrong with a list job queue's data, and how it is put right: findings first, repairs only of those asked for.

Every repair looks again before it writes. How the damage comes about is told in `docs/foreign.md`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from chasqui.foreign.examined import Examined
from chasqui.foreign.joblist.standing import again, survey
from chasqui.foreign.joblist.values import LIVE
from chasqui.foreign.slots import SPLIT, is_split
from chasqui.foreign.stored import number
from chasqui.server.commands import joblist_calls as calls
from chasqui.server.commands import time_ms
from chasqui.server.commands.foreign_calls import clock

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from chasqui.foreign.joblist.standing import Standing
    from chasqui.server.call import Call, Flow
    from chasqui.wire.joblist_keys import JobListKeys


class Ailment(StrEnum):
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


REPAIRABLE = frozenset(Ailment) - {
    Ailment.WRONG_TYPE,
    Ailment.UNSIGNED,
    Ailment.COUNTERS,
    Ailment.PARKED,
    Ailment.SPLIT,
}
"""The others are for a human, a reclaimer or a migration to decide about."""
_WORTH_KEEPING = ("pending", "processing", "failed", "completed")
"""Where a job in several lists is kept when its status names none of them: where it is not forgotten."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong with a job, or a key. `where` is the list it was found in, if it was in one."""

    ailment: Ailment
    subject: str
    where: str = ""
    seen: str = ""
    advice: str = ""


def examine(keys: JobListKeys) -> Flow[list[Finding]]:
    """Everything that is wrong with a queue. Payloads are not read."""
    return (yield from look_over(keys)).findings


def look_over(keys: JobListKeys, *, most: int | None = None) -> Flow[Examined[Finding]]:
    """The same of up to `most` ids of each list and as many keys, and how far that was."""
    [told] = yield [calls.look(keys, sample=1)]
    if is_split(told):
        return Examined([Finding(Ailment.SPLIT, keys.queue, advice=SPLIT)])
    if isinstance(told, Exception):
        raise told
    wrong = [
        Finding(
            Ailment.WRONG_TYPE,
            key,
            seen=found.decode(),
            advice="rename or delete the key; it should be a list",
        )
        for key, found in zip((*keys.lists, keys.parked), told[1], strict=True)
        if found not in {b"list", b"none"}
    ]
    if wrong:
        return Examined(wrong)
    met = yield from survey(keys, most=most)
    suspects = [job.id for job in met.jobs if _about(job)]
    found = [finding for job in (yield from again(keys, suspects)) for finding in _about(job)]
    found += yield from _about_keys(keys)
    return Examined(found, met.places)


def repair(
    keys: JobListKeys, findings: Iterable[Finding], *, only: frozenset[Ailment] = REPAIRABLE
) -> Flow[int]:
    """Put right what was found, as far as asked; answers how many things were."""
    return sum((yield from repair_each(keys, [one for one in findings if one.ailment in only & REPAIRABLE])))


def repair_each(keys: JobListKeys, findings: Sequence[Finding]) -> Flow[list[bool]]:
    """The same, all that can be; answers for each whether it was put right: not, if it was not so any more."""
    if not findings:
        return []
    [now] = yield [clock()]
    told = yield [_cure(keys, finding, time_ms(now)) for finding in findings]
    return [bool(answer) for answer in told]


def _about(job: Standing) -> list[Finding]:
    """What is wrong with one job."""
    home = _home(job)
    if job.kind not in {"hash", "none"}:
        return [
            Finding(Ailment.WRONG_TYPE, job.id, home, job.kind, "its key is no hash; rename or delete it")
        ]
    found = [
        Finding(Ailment.TWICE, job.id, name, str(count), "it is run, or counted, more than once")
        for name, count in job.places.items()
        if count > 1
    ]
    if job.kind == "none":
        return found + [_without_a_job(job.id, name) for name in job.places]
    if len(job.places) > 1:
        advice = f"it belongs to {home}; a repair takes it out of the others"
        found.append(Finding(Ailment.TWO_LISTS, job.id, home, ", ".join(job.places), advice))
    return found + (_in_its_list(job, home, alone=len(job.places) == 1) if home else _in_no_list(job))


def _home(job: Standing) -> str:
    """Where a job belongs: the list its status names, if it is in there."""
    if job.status in job.places:
        return job.status
    return next((name for name in _WORTH_KEEPING if name in job.places), "")


def _without_a_job(job_id: str, name: str) -> Finding:
    if name in LIVE:
        return Finding(Ailment.NO_JOB, job_id, name, advice="a worker would run it with no payload")
    return Finding(Ailment.EXPIRED, job_id, name, advice="only its id is left in the history")


def _in_no_list(job: Standing) -> list[Finding]:
    """What fell out of a history that was full is over, and expires by itself."""
    if job.parked or job.status in {"completed", "failed"}:
        return []
    if not job.payload:
        seen = f"status {job.status or 'unknown'}, claimed {job.claimed or 'never'}"
        return [Finding(Ailment.EMPTY_JOB, job.id, seen=seen, advice="it has no payload: nothing can be run")]
    advice = "no worker will ever find it; put it on the pending list"
    return [Finding(Ailment.LOST_JOB, job.id, seen=job.status, advice=advice)]


def _in_its_list(job: Standing, name: str, *, alone: bool) -> list[Finding]:
    found: list[Finding] = []
    if name == "processing" and not job.token:
        advice = "its worker has not signed; `joblist reclaim` takes it back when it is stale"
        found.append(Finding(Ailment.UNSIGNED, job.id, name, advice=advice))
    elif job.status != name and alone:
        found.append(Finding(Ailment.STATUS, job.id, name, job.status, "its hash tells another state"))
    if name in LIVE and job.ttl_ms >= 0:
        advice = "its payload vanishes while it waits"
        found.append(Finding(Ailment.EXPIRING, job.id, name, str(job.ttl_ms), advice))
    if job.claimed and number(job.claimed) is None:
        advice = "it makes every sweep of the guide's fail"
        found.append(Finding(Ailment.BAD_TIME, job.id, name, job.claimed, advice))
    elif name == "processing" and not number(job.claimed or "0") and (number(job.enqueued) or 0) <= 0:
        advice = "nothing tells how old the claim is: no reclaimer ever takes it back"
        found.append(Finding(Ailment.BAD_TIME, job.id, name, job.claimed, advice))
    return found


def _about_keys(keys: JobListKeys) -> Flow[list[Finding]]:
    parked, *there = yield [calls.length(keys.parked), *(calls.exists(key) for key in keys.counters)]
    found = [
        Finding(Ailment.COUNTERS, key, advice="counters of the Ruby or PHP version; purging leaves them")
        for key, exists in zip(keys.counters, there, strict=True)
        if exists
    ]
    if parked:
        found.append(Finding(Ailment.PARKED, keys.parked, seen=str(parked), advice="finish the migration"))
    return found


def _cure(keys: JobListKeys, finding: Finding, now_ms: int) -> Call:
    where, job_id = finding.where, finding.subject
    key = getattr(keys, where) if where else ""
    match finding.ailment:
        case Ailment.LOST_JOB:
            return calls.adopt(keys, job_id)
        case Ailment.EMPTY_JOB:
            return calls.drop_empty(keys, job_id)
        case Ailment.TWICE:
            return calls.keep_once(key, job_id)
        case Ailment.TWO_LISTS:
            return calls.keep_in(keys, where, job_id)
        case Ailment.STATUS | Ailment.EXPIRING:
            return calls.set_status(keys, key, job_id, where, keep=where in LIVE)
        case Ailment.BAD_TIME:
            value = now_ms if where == "processing" else 0
            return calls.set_time(keys, key, job_id, seen=finding.seen, value=value)
        case _:
            return calls.drop_orphan(keys, key, job_id)
