"""Builders for list job queues: what the guide's nine versions say to the server, and what an operator needs besides.

They need nothing that servers differ in, so they are plain functions. As in the guide, times are the caller's.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from chasqui.server.call import Call
from chasqui.server.commands.arrivals import CAPS
from chasqui.server.commands.foreign_calls import REMEMBER_S
from chasqui.server.scripts import script
from chasqui.wire.joblist_keys import LISTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chasqui.options import Caps
    from chasqui.server.call import Word
    from chasqui.server.commands.arrivals import Parcel
    from chasqui.wire.joblist_keys import JobListKeys
    from chasqui.wire.keys import Keys

LEAST_BLOCK_MS = 100
TIMES = ("claim_token", "claimed_at_ms", "enqueued_at_ms", "attempts", "status")
SAMPLE = 100
"""How many of the oldest claims a look tells of."""


def enqueue(keys: JobListKeys, job_id: str, payload: Word, *, now_ms: int) -> Call:
    """Enqueue a job; answers 1, or 0 when there is one of this id."""
    return script(
        "joblist/enqueue",
        job=keys.job(job_id),
        pending=keys.pending,
        id=job_id,
        payload=payload,
        now_ms=now_ms,
    )


def take(keys: JobListKeys, *, block_ms: int) -> Call:
    """Move the next id to the processing list, or wait for one; answers None when the time is over."""
    block_ms = max(block_ms, LEAST_BLOCK_MS)
    words = ("BLMOVE", keys.pending, keys.processing, "RIGHT", "LEFT", f"{block_ms / 1000:.3f}")
    return Call(words, keys=(keys.pending, keys.processing), block_ms=block_ms)


def claim(keys: JobListKeys, job_id: str, token: str, *, now_ms: int) -> Call:
    """Write down a claim; answers the job's fields, None when the id was put back meanwhile."""
    return script(
        "joblist/claim",
        job=keys.job(job_id),
        processing=keys.processing,
        id=job_id,
        token=token,
        now_ms=now_ms,
    )


def complete(
    keys: JobListKeys, job_id: str, token: Word, result: Word, *, now_ms: int, ttl_s: int, history: int
) -> Call:
    """Complete a job; answers 1, or 0 when the token is not its own."""
    return script(
        "joblist/complete",
        job=keys.job(job_id),
        processing=keys.processing,
        completed=keys.completed,
        id=job_id,
        token=token,
        result=result,
        now_ms=now_ms,
        ttl_s=ttl_s,
        history=history,
    )


def fail(
    keys: JobListKeys,
    job_id: str,
    token: Word,
    error: Word,
    *,
    retry: bool,
    now_ms: int,
    ttl_s: int,
    history: int,
) -> Call:
    """Fail a job; answers 1 when it is tried again, 2 when not, 0 when the token is not its own."""
    return script(
        "joblist/fail",
        job=keys.job(job_id),
        processing=keys.processing,
        pending=keys.pending,
        failed=keys.failed,
        id=job_id,
        token=token,
        error=error,
        now_ms=now_ms,
        ttl_s=ttl_s,
        history=history,
        retry=int(retry),
    )


def renew(keys: JobListKeys, job_id: str, token: str, *, now_ms: int) -> Call:
    """Keep a claim fresh; answers 0 when it is not ours any more."""
    return script("joblist/renew", job=keys.job(job_id), token=token, now_ms=now_ms)


def reclaim(keys: JobListKeys, job_id: str, *, token: Word, claimed: Word, now_ms: int) -> Call:
    """Put a job back on the pending list, if its claim is the one that was seen."""
    return script(
        "joblist/reclaim",
        job=keys.job(job_id),
        processing=keys.processing,
        pending=keys.pending,
        id=job_id,
        token=token,
        claimed=claimed,
        now_ms=now_ms,
    )


def give_up(
    keys: JobListKeys,
    job_id: str,
    *,
    token: Word,
    claimed: Word,
    now_ms: int,
    error: str,
    ttl_s: int,
    history: int,
) -> Call:
    """Put a job among the failed ones, if its claim is the one that was seen."""
    return script(
        "joblist/give_up",
        job=keys.job(job_id),
        processing=keys.processing,
        failed=keys.failed,
        id=job_id,
        token=token,
        claimed=claimed,
        now_ms=now_ms,
        error=error,
        ttl_s=ttl_s,
        history=history,
    )


def retry(keys: JobListKeys, source: str, job_id: str, *, at_once: bool, reset: bool) -> Call:
    """Put a job from a history list back to work; answers 0 when it is not there, -1 when its hash is gone."""
    return script(
        "joblist/retry",
        job=keys.job(job_id),
        source=source,
        pending=keys.pending,
        id=job_id,
        next=int(at_once),
        reset=int(reset),
    )


def bump(keys: JobListKeys, job_id: str) -> Call:
    """Let a pending job be the next; answers 0 when it is not pending."""
    return script("joblist/bump", pending=keys.pending, id=job_id)


def discard(keys: JobListKeys, source: str, job_id: str) -> Call:
    """Delete a job that is in this list; answers 0 when it is not."""
    return script("joblist/discard", job=keys.job(job_id), list=source, id=job_id)


def restore(
    keys: JobListKeys, op: str, source: str, job_id: Word, fields: Sequence[Word], *, expires_ms: Word
) -> Call:
    """Bring back a job that the operation `op` deleted from a list; answers 1, or 0 when it is back."""
    return script(
        "joblist/restore",
        job=keys.job(str(job_id)),
        list=source,
        undone=keys.undone(op),
        ttl_s=REMEMBER_S,
        id=job_id,
        expires_ms=expires_ms,
        rest=fields,
    )


def drop_orphan(keys: JobListKeys, source: str, job_id: str) -> Call:
    """Take an id without a job out of a list."""
    return script("joblist/drop_orphan", list=source, job=keys.job(job_id), id=job_id)


def keep_once(source: str, job_id: str) -> Call:
    """Let an id be in a list once only."""
    return script("joblist/keep_once", list=source, id=job_id)


def adopt(keys: JobListKeys, job_id: str) -> Call:
    """Put a job that is in no list on the pending list."""
    return script("joblist/adopt", **_all_keys(keys, job_id), id=job_id)


def drop_empty(keys: JobListKeys, job_id: str) -> Call:
    """Delete what is left of a job without a payload that is in no list."""
    return script("joblist/drop_empty", **_all_keys(keys, job_id), id=job_id)


def standing(keys: JobListKeys, job_id: str) -> Call:
    """Where a job is and what its hash tells, at one moment."""
    return script("joblist/standing", **_all_keys(keys, job_id), id=job_id)


def keep_in(keys: JobListKeys, which: str, job_id: str) -> Call:
    """Let an id be in this one of the four lists only."""
    return script(
        "joblist/keep_in",
        job=keys.job(job_id),
        pending=keys.pending,
        processing=keys.processing,
        completed=keys.completed,
        failed=keys.failed,
        id=job_id,
        keep=which,
    )


def set_time(keys: JobListKeys, source: str, job_id: str, *, seen: Word, value: int) -> Call:
    """Give a claim a time, if it has the one that was seen."""
    return script("joblist/set_time", job=keys.job(job_id), list=source, id=job_id, seen=seen, value=value)


def set_status(keys: JobListKeys, source: str, job_id: str, status: str, *, keep: bool) -> Call:
    """Let a job's status be what its list says."""
    return script(
        "joblist/set_status", job=keys.job(job_id), list=source, id=job_id, status=status, keep=int(keep)
    )


def move(keys: JobListKeys, target: JobListKeys, lists: tuple[str, str], job_id: str, *, keep: bool) -> Call:
    """Move a job from a list to one of another queue; see the script for the answers."""
    return script(
        "joblist/move",
        job=keys.job(job_id),
        list=lists[0],
        to_job=target.job(job_id),
        to_list=lists[1],
        id=job_id,
        keep=int(keep),
    )


def length(key: str) -> Call:
    """How many ids a list holds."""
    return Call(("LLEN", key), keys=(key,))


def slice_of(key: str, first: int, last: int) -> Call:
    """Ids of a list, from its head."""
    return Call(("LRANGE", key, first, last), keys=(key,))


def place(key: str, job_id: str) -> Call:
    """Every place of an id in a list."""
    return Call(("LPOS", key, job_id, "COUNT", 0), keys=(key,))


def job(keys: JobListKeys, job_id: str) -> Call:
    """All fields of a job, as a flat list; a `ServerError` instead when the key is no hash."""
    return Call(("HGETALL", keys.job(job_id)), keys=(keys.job(job_id),), tolerant=True)


def some_fields(keys: JobListKeys, job_id: str, names: Sequence[str] = TIMES) -> Call:
    """Some fields of a job; a `ServerError` instead when the key is no hash."""
    return Call(("HMGET", keys.job(job_id), *names), keys=(keys.job(job_id),), tolerant=True)


def time_left(keys: JobListKeys, job_id: str) -> Call:
    """In how many ms a job expires: -1 never, -2 there is none."""
    return Call(("PTTL", keys.job(job_id)), keys=(keys.job(job_id),))


def job_keys(keys: JobListKeys, cursor: bytes, *, count: int) -> Call:
    """Some of the keys of jobs; b"0" begins and ends it."""
    pattern = "".join(f"\\{letter}" if letter in "*?[]\\^" else letter for letter in keys.prefix) + "*"
    return Call(("SCAN", cursor, "MATCH", pattern, "COUNT", count), keys=(keys.prefix,))


def delete(names: Sequence[Word]) -> Call:
    """Delete keys, all of one slot."""
    return Call(("DEL", *names), keys=tuple(name for name in names if isinstance(name, str | bytes)))


def exists(name: str) -> Call:
    """Whether there is such a key."""
    return Call(("EXISTS", name), keys=(name,))


def look(keys: JobListKeys, *, sample: int = SAMPLE) -> Call:
    """A whole queue at one moment; a `ServerError` instead when it is refused."""
    call = script(
        "joblist/look",
        pending=keys.pending,
        processing=keys.processing,
        completed=keys.completed,
        failed=keys.failed,
        parked=keys.parked,
        prefix=keys.prefix,
        sample=sample,
    )
    return replace(call, tolerant=True)


def looks_apart(keys: JobListKeys) -> list[Call]:
    """The same for keys that lie apart on a cluster: each list by itself, among neighbours that are not there."""
    found = dict(zip(LISTS, keys.lists, strict=True)) | {"parked": keys.parked}
    return [
        replace(
            script(
                "joblist/look",
                prefix=f"{{{key}}}:no-",
                sample=1,
                **{name: key if name == part else f"{{{key}}}:no-{name}" for name in found},
            ),
            tolerant=True,
        )
        for part, key in found.items()
    ]


def forward(
    keys: JobListKeys, source: str, target: Keys, parcel: Parcel, *, attempts: Word, caps: Caps = CAPS
) -> Call:
    """Move a job to a queue of ours on the same server; answers where it is now, or why it stays."""
    return script(
        "joblist/forward",
        job=keys.job(parcel.job_id),
        list=source,
        stream=target.stream,
        dlq=target.dlq,
        id=parcel.job_id,
        attempts=attempts,
        cap=caps.stream,
        dead_cap=caps.dlq,
        envelope=parcel.envelope,
        name=parcel.name,
        rest=parcel.dead,
    )


def park(keys: JobListKeys, source: str, job_id: str) -> Call:
    """Set a job aside for its way to another server."""
    return script("joblist/park", job=keys.job(job_id), list=source, parked=keys.parked, id=job_id)


def clean(keys: JobListKeys, job_id: str) -> Call:
    """Forget a job that has arrived."""
    return script("joblist/clean", job=keys.job(job_id), parked=keys.parked, id=job_id)


def unpark(keys: JobListKeys, home: str, job_id: str) -> Call:
    """Return a job that was set aside to a list: parking it, the other way round."""
    return script("joblist/park", job=keys.job(job_id), list=keys.parked, parked=home, id=job_id)


def _all_keys(keys: JobListKeys, job_id: str) -> dict[str, str]:
    """For scripts that must know every place where a job can be."""
    return {
        "job": keys.job(job_id),
        "pending": keys.pending,
        "processing": keys.processing,
        "completed": keys.completed,
        "failed": keys.failed,
        "parked": keys.parked,
    }
