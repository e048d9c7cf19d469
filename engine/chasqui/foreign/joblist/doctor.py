"""What is wrong with a list job queue's data, and how it is put right: findings first, repairs only of those asked for.

Every repair looks again before it writes. How the damage comes about is told in `docs/foreign.md`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from chasqui.foreign.joblist.values import LIVE
from chasqui.foreign.stored import number, text
from chasqui.server.commands import joblist_calls as calls
from chasqui.wire.joblist_keys import LISTS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from chasqui.foreign.joblist.values import ListName
    from chasqui.server.call import Call, Flow
    from chasqui.wire.joblist_keys import JobListKeys

PAGE = 1000


class Ailment(StrEnum):
    """What can be wrong."""

    WRONG_TYPE = "wrong-type"
    NO_JOB = "no-job"
    EXPIRED = "expired"
    LOST_JOB = "lost-job"
    TWICE = "twice"
    TWO_LISTS = "two-lists"
    STATUS = "status"
    EXPIRING = "expiring"
    UNSIGNED = "unsigned"
    BAD_TIME = "bad-time"
    COUNTERS = "counters"
    PARKED = "parked"


REPAIRABLE = frozenset(
    {Ailment.NO_JOB, Ailment.EXPIRED, Ailment.LOST_JOB, Ailment.TWICE, Ailment.STATUS, Ailment.EXPIRING}
)
"""The others are for a human, a worker or the reclaimer to decide about."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong with a job, or a key. `where` is the list it was found in, if it was in one."""

    ailment: Ailment
    subject: str
    where: str = ""
    seen: str = ""
    advice: str = ""


@dataclass(frozen=True, slots=True)
class _Record:
    """The parts of a job's hash that are looked at."""

    exists: bool
    token: str = ""
    claimed: str = ""
    status: str = ""
    ttl_ms: int = -1
    fault: str = ""


def examine(keys: JobListKeys) -> Flow[list[Finding]]:
    """Everything that is wrong with a queue. Payloads are not read."""
    [told] = yield [calls.look(keys, sample=1)]
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
        return wrong
    lists = yield from _lists(keys)
    parked = (yield [calls.slice_of(keys.parked, 0, -1)])[0]
    hashed = yield from _hashes(keys)
    records = yield from _records(keys, {job_id for ids in lists.values() for job_id in ids} | hashed)
    placed = {job_id for ids in lists.values() for job_id in ids} | {text(job_id) for job_id in parked}
    found = [finding for name, ids in lists.items() for finding in _about_list(name, ids, records)]
    found += _about_places(lists)
    found += [
        Finding(Ailment.LOST_JOB, job_id, advice="no worker will ever find it; put it on the pending list")
        for job_id in sorted(hashed - placed)
        if not records[job_id].fault
    ]
    found += yield from _about_keys(keys, len(parked))
    return found


def repair(
    keys: JobListKeys, findings: Iterable[Finding], *, only: frozenset[Ailment] = REPAIRABLE
) -> Flow[int]:
    """Put right what was found, as far as asked; answers how many things were."""
    wanted = [finding for finding in findings if finding.ailment in only & REPAIRABLE]
    told = yield [_cure(keys, finding) for finding in wanted]
    return sum(1 for answer in told if answer)


def _lists(keys: JobListKeys) -> Flow[dict[str, list[str]]]:
    found: dict[str, list[str]] = {}
    for name, key in zip(LISTS, keys.lists, strict=True):
        found[name] = []
        while True:
            start = len(found[name])
            [page] = yield [calls.slice_of(key, start, start + PAGE - 1)]
            found[name] += map(text, page)
            if len(page) < PAGE:
                break
    return found


def _hashes(keys: JobListKeys) -> Flow[set[str]]:
    found: set[str] = set()
    cursor = b"0"
    while True:
        [(cursor, names)] = yield [calls.job_keys(keys, cursor, count=PAGE)]
        found |= {text(name).removeprefix(keys.prefix) for name in names}
        if cursor == b"0":
            return found


def _records(keys: JobListKeys, job_ids: set[str]) -> Flow[dict[str, _Record]]:
    found: dict[str, _Record] = {}
    ids = sorted(job_ids)
    for start in range(0, len(ids), PAGE):
        some = ids[start : start + PAGE]
        replies = yield [
            call
            for job_id in some
            for call in (
                calls.some_fields(keys, job_id, ["claim_token", "claimed_at_ms", "status"]),
                calls.time_left(keys, job_id),
            )
        ]
        for at, job_id in enumerate(some):
            fields, ttl_ms = replies[2 * at], replies[2 * at + 1]
            if isinstance(fields, Exception):
                found[job_id] = _Record(exists=True, fault=str(fields))
            else:
                token, claimed, status = (text(field or b"") for field in fields)
                found[job_id] = _Record(ttl_ms != -2, token, claimed, status, ttl_ms)
    return found


def _about_list(name: str, ids: list[str], records: dict[str, _Record]) -> list[Finding]:
    found: list[Finding] = []
    for job_id, count in Counter(ids).items():
        record = records[job_id]
        if count > 1:
            found.append(
                Finding(Ailment.TWICE, job_id, name, str(count), "it is run, or counted, more than once")
            )
        if record.fault:
            found.append(Finding(Ailment.WRONG_TYPE, job_id, name, record.fault, "its key is no hash"))
        elif not record.exists and name in LIVE:
            found.append(
                Finding(Ailment.NO_JOB, job_id, name, advice="a worker would run it with no payload")
            )
        elif not record.exists:
            found.append(Finding(Ailment.EXPIRED, job_id, name, advice="only its id is left in the history"))
        else:
            found += _about_record(name, job_id, record)
    return found


def _about_record(name: str, job_id: str, record: _Record) -> list[Finding]:
    found: list[Finding] = []
    unsigned = name == "processing" and not record.token
    if unsigned:
        found.append(Finding(Ailment.UNSIGNED, job_id, name, advice="its worker has not signed; see reclaim"))
    elif record.status != name:
        found.append(Finding(Ailment.STATUS, job_id, name, record.status, "its hash tells another state"))
    if name in LIVE and record.ttl_ms >= 0:
        found.append(
            Finding(Ailment.EXPIRING, job_id, name, str(record.ttl_ms), "its payload vanishes while it waits")
        )
    if record.claimed and number(record.claimed) is None:
        found.append(
            Finding(
                Ailment.BAD_TIME, job_id, name, record.claimed, "it makes every sweep of the guide's fail"
            )
        )
    return found


def _about_places(lists: dict[str, list[str]]) -> list[Finding]:
    where: dict[str, list[str]] = {}
    for name, ids in lists.items():
        for job_id in dict.fromkeys(ids):
            where.setdefault(job_id, []).append(name)
    return [
        Finding(Ailment.TWO_LISTS, job_id, names[0], ", ".join(names), "decide by hand where it belongs")
        for job_id, names in where.items()
        if len(names) > 1
    ]


def _about_keys(keys: JobListKeys, parked: int) -> Flow[list[Finding]]:
    there = yield [calls.exists(key) for key in keys.counters]
    found = [
        Finding(Ailment.COUNTERS, key, advice="counters of the Ruby or PHP version; purging leaves them")
        for key, exists in zip(keys.counters, there, strict=True)
        if exists
    ]
    if parked:
        found.append(Finding(Ailment.PARKED, keys.parked, seen=str(parked), advice="finish the migration"))
    return found


def _cure(keys: JobListKeys, finding: Finding) -> Call:
    where: ListName | str = finding.where
    key = getattr(keys, where) if where else ""
    match finding.ailment:
        case Ailment.LOST_JOB:
            return calls.adopt(keys, finding.subject)
        case Ailment.TWICE:
            return calls.keep_once(key, finding.subject)
        case Ailment.STATUS | Ailment.EXPIRING:
            return calls.set_status(keys, key, finding.subject, where, keep=where in LIVE)
        case _:
            return calls.drop_orphan(keys, key, finding.subject)
