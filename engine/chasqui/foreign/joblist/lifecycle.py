"""Flows of a list job queue, as the guide's nine versions have them: enqueue, claim, complete, fail, stats, history.

As there, times are the caller's (`now_ms`), and an event follows its change: a crash between loses only that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from chasqui.foreign.common_calls import publish
from chasqui.foreign.decoding import to_int, to_text
from chasqui.foreign.joblist import joblist_calls as calls
from chasqui.foreign.joblist.joblist_values import DEFAULTS, JobClaim, ListDepths, ListJob, parse_hash, parse_json
from chasqui.foreign.joblist.keys import LISTS, new_id

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chasqui.foreign.joblist.joblist_values import JobListOptions
    from chasqui.foreign.joblist.keys import JobListKeys, ListName
    from chasqui.server.flow import Flow

FailOutcome = Literal["retry", "failed"]


def enqueue(
    keys: JobListKeys, payload: Any, *, now_ms: int, options: JobListOptions = DEFAULTS, job_id: str | None = None
) -> Flow[str]:
    """Add a job; answers its id. With an id of one's own, adding it again adds nothing."""
    [added] = yield from enqueue_many(keys, [(job_id or new_id(), payload)], now_ms=now_ms, options=options)
    return added


def enqueue_many(
    keys: JobListKeys, jobs: list[tuple[str, Any]], *, now_ms: int, options: JobListOptions = DEFAULTS
) -> Flow[list[str]]:
    """Add jobs by id and payload, in one round trip. A payload given as bytes is JSON already."""
    yield [calls.enqueue(keys, job_id, _encode_json(payload, options), now_ms=now_ms) for job_id, payload in jobs]
    return [job_id for job_id, _ in jobs]


def claim(keys: JobListKeys, *, block_ms: int, now_ms: int) -> Flow[JobClaim | None]:
    """Claim the next job, or wait for one for so long; None when none came. Two round trips, as everywhere.

    None also when a reclaimer put the id back between the two: it is on the pending list again.
    """
    job_id = yield from take_next(keys, block_ms=block_ms)
    return None if job_id is None else (yield from sign_claim(keys, job_id, now_ms=now_ms))


def take_next(keys: JobListKeys, *, block_ms: int) -> Flow[str | None]:
    """The first half of a claim: the id is in the processing list then, but no worker has claimed it yet."""
    [moved] = yield [calls.take_next(keys, block_ms=block_ms)]
    return None if moved is None else to_text(moved)


def sign_claim(keys: JobListKeys, job_id: str, *, now_ms: int) -> Flow[JobClaim | None]:
    """The second half: write down whose it is. None when it is not in the processing list any more."""
    token = new_id()
    [reply] = yield [calls.sign_claim(keys, job_id, token, now_ms=now_ms)]
    if reply is None:
        return None
    fields = parse_hash(reply)
    attempts = to_int(fields.get("attempts"))
    return JobClaim(
        id=job_id,
        payload=parse_json(fields.get("payload")),
        attempts=1 if attempts is None else attempts,
        token=token,
        fields=fields,
    )


def complete(
    keys: JobListKeys, job_id: str, token: str, result: Any, *, now_ms: int, options: JobListOptions = DEFAULTS
) -> Flow[bool]:
    """Complete a job and publish the event; False when the token is not its own, or not any more."""
    words = _encode_json(result, options)
    [done] = yield [
        calls.complete(keys, job_id, token, words, now_ms=now_ms, ttl_s=options.ttl_s, history=options.history)
    ]
    if done:
        yield from publish_events(keys, [job_id], "completed", options)
    return bool(done)


def fail(
    keys: JobListKeys,
    job_id: str,
    token: str,
    error: str,
    *,
    attempts: int,
    now_ms: int,
    options: JobListOptions = DEFAULTS,
) -> Flow[FailOutcome | None]:
    """Fail a job and publish the event: it is tried again after everything that waits, while its claim's `attempts` are
    fewer than allowed. None when the token is not its own, or not any more.
    """
    [reply] = yield [
        calls.fail(
            keys,
            job_id,
            token,
            error,
            retry=attempts < options.max_attempts,
            now_ms=now_ms,
            ttl_s=options.ttl_s,
            history=options.history,
        )
    ]
    outcomes: dict[int, FailOutcome | None] = {0: None, 1: "retry", 2: "failed"}
    outcome = outcomes[reply]
    if outcome:
        yield from publish_events(keys, [job_id], outcome, options)
    return outcome


def renew(keys: JobListKeys, claims: list[JobClaim], *, now_ms: int) -> Flow[list[JobClaim]]:
    """Keep claims fresh, all in one round trip; answers those that are not ours any more."""
    replies = yield [calls.renew(keys, claim.id, claim.token, now_ms=now_ms) for claim in claims]
    return [claim for claim, renewed in zip(claims, replies, strict=True) if not renewed]


def read_depths(keys: JobListKeys) -> Flow[ListDepths]:
    """How long the four lists are."""
    lengths = yield [calls.list_length(key) for key in keys.lists]
    return ListDepths(*lengths)


def list_ids(keys: JobListKeys, which: ListName, *, limit: int = 50, skip: int = 0) -> Flow[list[str]]:
    """Ids of a list: of pending ones the next to be claimed first, of the others the newest."""
    key = keys.list_key(which)
    if which == "pending":
        [found] = yield [calls.list_range(key, -limit - skip, -1 - skip)]
        return [to_text(job_id) for job_id in reversed(found)]
    [found] = yield [calls.list_range(key, skip, skip + limit - 1)]
    return [to_text(job_id) for job_id in found]


def read_job(keys: JobListKeys, job_id: str) -> Flow[ListJob | None]:
    """A job and where its id is; None when there is nothing of it."""
    reply, ttl_ms, *places = yield [
        calls.job_fields(keys, job_id),
        calls.job_ttl(keys, job_id),
        *(calls.list_positions(key, job_id) for key in keys.lists),
    ]
    found = {name: tuple(at) for name, at in zip(LISTS, places, strict=True) if at}
    fields = parse_hash(reply)
    return ListJob(job_id, fields, found, ttl_ms if ttl_ms >= 0 else None) if fields or found else None


def purge_all(keys: JobListKeys) -> Flow[int]:
    """Delete the four lists and every job, as the guide does; answers how many jobs. Counters stay."""
    yield [calls.delete_keys([key]) for key in keys.lists]
    deleted, cursor = 0, b"0"
    while True:
        [(cursor, names)] = yield [calls.scan_job_keys(keys, cursor, count=1000)]
        deleted += sum((yield [calls.delete_keys([name]) for name in names]))
        if cursor == b"0":
            return deleted


def _encode_json(value: Any, options: JobListOptions) -> bytes:
    return value if isinstance(value, bytes) else options.write_json(value).encode("utf-8", "surrogatepass")


def publish_events(keys: JobListKeys, job_ids: Sequence[str], status: str, options: JobListOptions) -> Flow[None]:
    """Publish what became of jobs."""
    yield [publish(keys.events, options.write_json({"id": job_id, "status": status})) for job_id in job_ids]
