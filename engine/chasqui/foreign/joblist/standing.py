"""A job of a list queue as a doctor sees it: in which lists its id is, and what its hash tells. Payloads are not read.

Lists are read page by page while jobs move on, so what looks odd is looked at again: one job, at one moment.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from chasqui.foreign.examined import Looked
from chasqui.foreign.stored import text
from chasqui.server.commands import joblist_calls as calls
from chasqui.server.commands.looks import Looks
from chasqui.wire.joblist_keys import LISTS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from chasqui.server.call import Flow, Reply
    from chasqui.wire.joblist_keys import JobListKeys

PAGE = 1000
FIELDS = ("claim_token", "claimed_at_ms", "enqueued_at_ms", "status")


@dataclass(frozen=True, slots=True)
class Standing:
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
class Survey:
    """Every job that was met, as it seemed, and how far the lists and keys were looked through."""

    jobs: list[Standing]
    places: tuple[Looked, ...]


def survey(keys: JobListKeys, *, most: int | None = None) -> Flow[Survey]:
    """Jobs of all lists, and hashes that are in none; up to `most` of each place."""
    ids, looked = yield from _lists(keys, most)
    [parked] = yield [calls.slice_of(keys.parked, 0, -1)]
    hashed, scanned = yield from _hashes(keys, most)
    counted = {name: Counter(found) for name, found in ids.items()}
    aside = {*map(text, parked)}
    names = sorted({job_id for found in ids.values() for job_id in found} | hashed)
    jobs: list[Standing] = []
    for start in range(0, len(names), PAGE):
        some = names[start : start + PAGE]
        replies = yield [
            call
            for job_id in some
            for call in (calls.some_fields(keys, job_id, FIELDS), calls.time_left(keys, job_id))
        ]
        for job_id, fields, ttl_ms in zip(some, replies[::2], replies[1::2], strict=True):
            places = {name: counts[job_id] for name, counts in counted.items() if counts[job_id]}
            jobs.append(_seen(job_id, places, fields, ttl_ms, parked=job_id in aside))
    return Survey(jobs, (*looked, scanned))


def again(keys: JobListKeys, job_ids: Sequence[str]) -> Flow[list[Standing]]:
    """The same jobs, each at one moment."""
    found: list[Standing] = []
    for start in range(0, len(job_ids), PAGE):
        some = job_ids[start : start + PAGE]
        told = yield [calls.standing(keys, job_id) for job_id in some]
        for job_id, ((*counts, parked), kind, fields, payload, ttl_ms) in zip(some, told, strict=True):
            places = {name: count for name, count in zip(LISTS, counts, strict=True) if count}
            token, claimed, enqueued, status = _texts(fields)
            found.append(
                Standing(
                    job_id,
                    places,
                    bool(parked),
                    kind.decode(),
                    token,
                    claimed,
                    enqueued,
                    status,
                    bool(payload),
                    ttl_ms,
                )
            )
    return found


def _seen(job_id: str, places: Mapping[str, int], fields: Reply, ttl_ms: int, *, parked: bool) -> Standing:
    if isinstance(fields, Exception):
        return Standing(job_id, places, parked, kind="no hash")
    token, claimed, enqueued, status = _texts(fields)
    kind = "none" if ttl_ms == -2 else "hash"
    return Standing(job_id, places, parked, kind, token, claimed, enqueued, status, ttl_ms=ttl_ms)


def _texts(fields: Sequence[bytes | None]) -> list[str]:
    return [text(field or b"") for field in fields] or [""] * len(FIELDS)


def _lists(keys: JobListKeys, most: int | None) -> Flow[tuple[dict[str, list[str]], list[Looked]]]:
    found: dict[str, list[str]] = {}
    lengths = yield [calls.length(key) for key in keys.lists]
    for name, key in zip(LISTS, keys.lists, strict=True):
        ids: list[str] = []
        while most is None or len(ids) < most:
            page = PAGE if most is None else min(PAGE, most - len(ids))
            [some] = yield [calls.slice_of(key, len(ids), len(ids) + page - 1)]
            ids += map(text, some)
            if len(some) < page:
                break
        found[name] = ids
    return found, [
        Looked(name, min(len(found[name]), length), length)
        for name, length in zip(LISTS, lengths, strict=True)
    ]


def _hashes(keys: JobListKeys, most: int | None) -> Flow[tuple[set[str], Looked]]:
    """Whose hashes there are: found only by looking through all keys."""
    found: set[str] = set()
    cursor, looked = b"0", 0
    [total] = yield [Looks().keys_count()]
    while True:
        [(cursor, names)] = yield [calls.job_keys(keys, cursor, count=PAGE)]
        found |= {text(name).removeprefix(keys.prefix) for name in names}
        looked += PAGE
        if cursor == b"0":
            return found, Looked("keys", total, total)
        if most is not None and looked >= most:
            return found, Looked("keys", min(looked, total), total)
