"""Builders for list job queues: what the guide's nine versions say to the server, and what an operator needs besides.

They need nothing that servers differ in, so they are plain functions. As in the guide, times are the caller's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chasqui.foreign.common_calls import UNDO_MEMORY_S, one_key_each
from chasqui.foreign.job_import import DEFAULT_CAPS
from chasqui.foreign.joblist.keys import LISTS
from chasqui.server.flow import Call
from chasqui.server.scripts import script_call

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chasqui.defaults import StreamCaps
    from chasqui.foreign.job_import import ImportedJob
    from chasqui.foreign.joblist.keys import JobListKeys
    from chasqui.server.flow import Arg
    from chasqui.wire.keys import Keys

MIN_BLOCK_MS = 100
CLAIM_FIELDS = ("claim_token", "claimed_at_ms", "enqueued_at_ms", "attempts", "status")
CLAIM_SAMPLE = 100
"""How many of the oldest claims a snapshot includes."""


def enqueue(keys: JobListKeys, job_id: str, payload: Arg, *, now_ms: int) -> Call:
    """Enqueue a job; answers 1, or 0 when there is one of this id."""
    return script_call(
        "joblist/enqueue", job=keys.job(job_id), pending=keys.pending, id=job_id, payload=payload, now_ms=now_ms
    )


def take_next(keys: JobListKeys, *, block_ms: int) -> Call:
    """Move the next id to the processing list, or wait for one; answers None when the time is over."""
    block_ms = max(block_ms, MIN_BLOCK_MS)
    words = ("BLMOVE", keys.pending, keys.processing, "RIGHT", "LEFT", f"{block_ms / 1000:.3f}")
    return Call(words, keys=(keys.pending, keys.processing), block_ms=block_ms)


def sign_claim(keys: JobListKeys, job_id: str, token: str, *, now_ms: int) -> Call:
    """Write down a claim; answers the job's fields, None when the id was put back meanwhile."""
    return script_call(
        "joblist/sign_claim", job=keys.job(job_id), processing=keys.processing, id=job_id, token=token, now_ms=now_ms
    )


def complete(keys: JobListKeys, job_id: str, token: Arg, result: Arg, *, now_ms: int, ttl_s: int, history: int) -> Call:
    """Complete a job; answers 1, or 0 when the token is not its own."""
    return script_call(
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
    keys: JobListKeys, job_id: str, token: Arg, error: Arg, *, retry: bool, now_ms: int, ttl_s: int, history: int
) -> Call:
    """Fail a job; answers 1 when it is tried again, 2 when not, 0 when the token is not its own."""
    return script_call(
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
    return script_call("joblist/renew", job=keys.job(job_id), token=token, now_ms=now_ms)


def reclaim(keys: JobListKeys, job_id: str, *, token: Arg, claimed: Arg, now_ms: int) -> Call:
    """Put a job back on the pending list, if its claim is the one that was seen."""
    return script_call(
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
    keys: JobListKeys, job_id: str, *, token: Arg, claimed: Arg, now_ms: int, error: str, ttl_s: int, history: int
) -> Call:
    """Put a job among the failed ones, if its claim is the one that was seen."""
    return script_call(
        "joblist/fail_stale",
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
    return script_call(
        "joblist/retry",
        job=keys.job(job_id),
        source=source,
        pending=keys.pending,
        id=job_id,
        next=int(at_once),
        reset=int(reset),
    )


def move_to_front(keys: JobListKeys, job_id: str) -> Call:
    """Let a pending job be the next; answers 0 when it is not pending."""
    return script_call("joblist/move_to_front", pending=keys.pending, id=job_id)


def delete_job(keys: JobListKeys, source: str, job_id: str) -> Call:
    """Delete a job that is in this list; answers 0 when it is not."""
    return script_call("joblist/delete_job", job=keys.job(job_id), list=source, id=job_id)


def restore(keys: JobListKeys, op: str, source: str, job_id: Arg, fields: Sequence[Arg], *, expires_ms: Arg) -> Call:
    """Bring back a job that the operation `op` deleted from a list; answers 1, or 0 when it is back."""
    return script_call(
        "joblist/restore",
        job=keys.job(str(job_id)),
        list=source,
        undone=keys.undo_marker(op),
        ttl_s=UNDO_MEMORY_S,
        id=job_id,
        expires_ms=expires_ms,
        rest=fields,
    )


def remove_orphan_id(keys: JobListKeys, source: str, job_id: str) -> Call:
    """Take an id without a job out of a list."""
    return script_call("joblist/remove_orphan_id", list=source, job=keys.job(job_id), id=job_id)


def remove_duplicates(source: str, job_id: str) -> Call:
    """Let an id be in a list once only."""
    return script_call("joblist/remove_duplicates", list=source, id=job_id)


def requeue_lost(keys: JobListKeys, job_id: str) -> Call:
    """Put a job that is in no list on the pending list."""
    return script_call("joblist/requeue_lost", **_job_and_list_keys(keys, job_id), id=job_id)


def delete_empty_job(keys: JobListKeys, job_id: str) -> Call:
    """Delete what is left of a job without a payload that is in no list."""
    return script_call("joblist/delete_empty_job", **_job_and_list_keys(keys, job_id), id=job_id)


def read_job_state(keys: JobListKeys, job_id: str) -> Call:
    """Where a job is and what its hash holds, at one moment."""
    return script_call("joblist/job_state", **_job_and_list_keys(keys, job_id), id=job_id)


def keep_in_list(keys: JobListKeys, which: str, job_id: str) -> Call:
    """Let an id be in this one of the four lists only."""
    return script_call(
        "joblist/keep_in_list",
        job=keys.job(job_id),
        pending=keys.pending,
        processing=keys.processing,
        completed=keys.completed,
        failed=keys.failed,
        id=job_id,
        keep=which,
    )


def set_claim_time(keys: JobListKeys, source: str, job_id: str, *, seen: Arg, value: int) -> Call:
    """Give a claim a time, if it has the one that was seen."""
    return script_call("joblist/set_claim_time", job=keys.job(job_id), list=source, id=job_id, seen=seen, value=value)


def set_status(keys: JobListKeys, source: str, job_id: str, status: str, *, keep: bool) -> Call:
    """Set a job's status to the one that its list implies."""
    return script_call(
        "joblist/set_status", job=keys.job(job_id), list=source, id=job_id, status=status, keep=int(keep)
    )


def move(keys: JobListKeys, target: JobListKeys, lists: tuple[str, str], job_id: str, *, keep: bool) -> Call:
    """Move a job from a list to one of another queue; see the script for the answers."""
    return script_call(
        "joblist/move",
        job=keys.job(job_id),
        list=lists[0],
        to_job=target.job(job_id),
        to_list=lists[1],
        id=job_id,
        keep=int(keep),
    )


def list_length(key: str) -> Call:
    """How many ids a list holds."""
    return Call(("LLEN", key), keys=(key,))


def list_range(key: str, first: int, last: int) -> Call:
    """Ids of a list, from its head."""
    return Call(("LRANGE", key, first, last), keys=(key,))


def list_positions(key: str, job_id: str) -> Call:
    """Every place of an id in a list."""
    return Call(("LPOS", key, job_id, "COUNT", 0), keys=(key,))


def job_fields(keys: JobListKeys, job_id: str) -> Call:
    """All fields of a job, as a flat list; a `ServerError` instead when the key is not a hash."""
    return Call(("HGETALL", keys.job(job_id)), keys=(keys.job(job_id),), tolerant=True)


def job_field_values(keys: JobListKeys, job_id: str, names: Sequence[str] = CLAIM_FIELDS) -> Call:
    """Some fields of a job; a `ServerError` instead when the key is not a hash."""
    return Call(("HMGET", keys.job(job_id), *names), keys=(keys.job(job_id),), tolerant=True)


def job_ttl(keys: JobListKeys, job_id: str) -> Call:
    """In how many ms a job expires: -1 never, -2 there is none."""
    return Call(("PTTL", keys.job(job_id)), keys=(keys.job(job_id),))


def scan_job_keys(keys: JobListKeys, cursor: bytes, *, count: int) -> Call:
    """Some of the keys of jobs; b"0" begins and ends it."""
    pattern = "".join(f"\\{letter}" if letter in "*?[]\\^" else letter for letter in keys.prefix) + "*"
    return Call(("SCAN", cursor, "MATCH", pattern, "COUNT", count), keys=(keys.prefix,))


def delete_keys(names: Sequence[Arg]) -> Call:
    """Delete keys, all of one slot."""
    return Call(("DEL", *names), keys=tuple(name for name in names if isinstance(name, str | bytes)))


def key_exists(name: str) -> Call:
    """Whether there is such a key."""
    return Call(("EXISTS", name), keys=(name,))


def read_snapshot(keys: JobListKeys, *, sample: int = CLAIM_SAMPLE) -> Call:
    """A whole queue at one moment; a `ServerError` instead when it is refused."""
    return script_call("joblist/snapshot", tolerant=True, **_list_keys(keys), prefix=keys.prefix, sample=sample)


def snapshot_by_key(keys: JobListKeys) -> list[Call]:
    """The same for keys in several slots of a cluster: each list alone, among keys of its slot that do not exist."""
    return [
        script_call("joblist/snapshot", tolerant=True, **alone, prefix=f"{{{key}}}:no-", sample=1)
        for key, alone in zip(keys.all_lists, one_key_each(_list_keys(keys)), strict=True)
    ]


def forward_job(
    keys: JobListKeys,
    source: str,
    target: Keys,
    imported: ImportedJob,
    *,
    attempts: Arg,
    caps: StreamCaps = DEFAULT_CAPS,
) -> Call:
    """Move a job to a queue of ours on the same server; answers where it is now, or why it stays."""
    return script_call(
        "joblist/forward_job",
        job=keys.job(imported.job_id),
        list=source,
        stream=target.stream,
        dlq=target.dlq,
        id=imported.job_id,
        attempts=attempts,
        cap=caps.stream,
        dead_cap=caps.dlq,
        envelope=imported.envelope,
        name=imported.name,
        rest=imported.dead,
    )


def park_job(keys: JobListKeys, source: str, job_id: str) -> Call:
    """Set a job aside for its way to another server."""
    return script_call("joblist/park", job=keys.job(job_id), list=source, parked=keys.in_migration, id=job_id)


def delete_parked(keys: JobListKeys, job_id: str) -> Call:
    """Forget a job that has arrived."""
    return script_call("joblist/delete_parked", job=keys.job(job_id), parked=keys.in_migration, id=job_id)


def unpark_job(keys: JobListKeys, home: str, job_id: str) -> Call:
    """Return a job that was set aside to a list: parking it, the other way round."""
    return script_call("joblist/park", job=keys.job(job_id), list=keys.in_migration, parked=home, id=job_id)


def _list_keys(keys: JobListKeys) -> dict[str, Any]:
    return dict(zip((*LISTS, "parked"), keys.all_lists, strict=True))


def _job_and_list_keys(keys: JobListKeys, job_id: str) -> dict[str, Any]:
    """For scripts that must know every place where a job can be."""
    return {"job": keys.job(job_id), **_list_keys(keys)}
