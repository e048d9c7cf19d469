"""A job of a list queue as a doctor sees it: in which lists its id is, and what its hash holds. Payloads are not read.

Lists are read page by page while jobs move on, so what looks odd is looked at again: one job, at one moment.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from chasqui.foreign.decoding import to_text
from chasqui.foreign.diagnosis import Coverage
from chasqui.foreign.joblist import joblist_calls as calls
from chasqui.foreign.joblist.keys import LISTS
from chasqui.server.commands.query_commands import QueryCommands

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from chasqui.foreign.joblist.keys import JobListKeys
    from chasqui.server.flow import Flow, Reply

PAGE = 1000
FIELDS = ("claim_token", "claimed_at_ms", "enqueued_at_ms", "status")


@dataclass(frozen=True, slots=True)
class JobPlaces:
    """One job. places: how often its id is in which list. kind: the type of its key, `none` where there is none."""

    id: str
    places: Mapping[str, int]
    parked: bool = False
    kind: str = "hash"
    token: str = ""
    claimed: str = ""
    enqueued: str = ""
    status: str = ""
    payload: bool = True
    ttl_ms: int = -1


@dataclass(frozen=True, slots=True)
class JobScan:
    """Every job that was met, as it seemed, and how far the lists and keys were looked through."""

    jobs: list[JobPlaces]
    places: tuple[Coverage, ...]


def scan_jobs(keys: JobListKeys, *, most: int | None = None) -> Flow[JobScan]:
    """Jobs of all lists, and hashes that are in none; up to `most` of each place."""
    ids, looked = yield from _scan_lists(keys, most)
    [parked] = yield [calls.list_range(keys.in_migration, 0, -1)]
    hashed, scanned = yield from _scan_job_keys(keys, most)
    counted = {name: Counter(found) for name, found in ids.items()}
    aside = {*map(to_text, parked)}
    names = sorted({job_id for found in ids.values() for job_id in found} | hashed)
    jobs: list[JobPlaces] = []
    for start in range(0, len(names), PAGE):
        some = names[start : start + PAGE]
        replies = yield [
            call
            for job_id in some
            for call in (calls.job_field_values(keys, job_id, FIELDS), calls.job_ttl(keys, job_id))
        ]
        for job_id, fields, ttl_ms in zip(some, replies[::2], replies[1::2], strict=True):
            places = {name: counts[job_id] for name, counts in counted.items() if counts[job_id]}
            jobs.append(_places_from_fields(job_id, places, fields, ttl_ms, parked=job_id in aside))
    return JobScan(jobs, (*looked, scanned))


def reread_jobs(keys: JobListKeys, job_ids: Sequence[str]) -> Flow[list[JobPlaces]]:
    """The same jobs, each at one moment."""
    found: list[JobPlaces] = []
    for start in range(0, len(job_ids), PAGE):
        some = job_ids[start : start + PAGE]
        replies = yield [calls.read_job_state(keys, job_id) for job_id in some]
        for job_id, ((*counts, parked), kind, fields, payload, ttl_ms) in zip(some, replies, strict=True):
            places = {name: count for name, count in zip(LISTS, counts, strict=True) if count}
            token, claimed, enqueued, status = _as_texts(fields)
            found.append(
                JobPlaces(
                    job_id, places, bool(parked), kind.decode(), token, claimed, enqueued, status, bool(payload), ttl_ms
                )
            )
    return found


def _places_from_fields(
    job_id: str, places: Mapping[str, int], fields: Reply, ttl_ms: int, *, parked: bool
) -> JobPlaces:
    if isinstance(fields, Exception):
        return JobPlaces(job_id, places, parked, kind="no hash")
    token, claimed, enqueued, status = _as_texts(fields)
    kind = "none" if ttl_ms == -2 else "hash"
    return JobPlaces(job_id, places, parked, kind, token, claimed, enqueued, status, ttl_ms=ttl_ms)


def _as_texts(fields: Sequence[bytes | None]) -> list[str]:
    return [to_text(field or b"") for field in fields] or [""] * len(FIELDS)


def _scan_lists(keys: JobListKeys, most: int | None) -> Flow[tuple[dict[str, list[str]], list[Coverage]]]:
    found: dict[str, list[str]] = {}
    lengths = yield [calls.list_length(key) for key in keys.lists]
    for name, key in zip(LISTS, keys.lists, strict=True):
        ids: list[str] = []
        while most is None or len(ids) < most:
            page = PAGE if most is None else min(PAGE, most - len(ids))
            [some] = yield [calls.list_range(key, len(ids), len(ids) + page - 1)]
            ids += map(to_text, some)
            if len(some) < page:
                break
        found[name] = ids
    return found, [
        Coverage(name, min(len(found[name]), length), length) for name, length in zip(LISTS, lengths, strict=True)
    ]


def _scan_job_keys(keys: JobListKeys, most: int | None) -> Flow[tuple[set[str], Coverage]]:
    """Whose hashes there are: found only by looking through all keys."""
    found: set[str] = set()
    cursor, looked = b"0", 0
    [total] = yield [QueryCommands().count_keys()]
    while True:
        [(cursor, names)] = yield [calls.scan_job_keys(keys, cursor, count=PAGE)]
        found |= {to_text(name).removeprefix(keys.prefix) for name in names}
        looked += PAGE
        if cursor == b"0":
            return found, Coverage("keys", total, total)
        if most is not None and looked >= most:
            return found, Coverage("keys", min(looked, total), total)
