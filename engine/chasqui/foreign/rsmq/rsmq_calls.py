"""Builders for RSMQ queues: what its clients say to the server, and what an operator needs besides.

They need nothing that servers differ in, so they are plain functions. Times come as arguments, read from the server's
clock by the caller. `HGETALL` is never said: a queue's hash holds every body.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chasqui.foreign.common_calls import UNDO_MEMORY_S, one_key_each
from chasqui.foreign.job_import import DEFAULT_CAPS
from chasqui.server.flow import Call
from chasqui.server.scripts import script_call

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from chasqui.defaults import StreamCaps
    from chasqui.foreign.job_import import ImportedJob
    from chasqui.foreign.rsmq.keys import RsmqKeys
    from chasqui.server.flow import Arg
    from chasqui.wire.keys import Keys

ATTRIBUTES = ("vt", "delay", "maxsize", "created", "modified", "totalsent", "totalrecv")
HIDDEN_SAMPLE = 1000
"""For how many hidden messages a snapshot shows whether they were received."""


def create_queue(keys: RsmqKeys, *, vt_s: Arg, delay_s: Arg, maxsize: int, now_s: int) -> Call:
    """Create a queue; answers 1, or 0 when there was one."""
    return script_call(
        "rsmq/create_queue",
        hash=keys.hash,
        queues=keys.queues,
        name=keys.queue,
        vt=vt_s,
        delay=delay_s,
        maxsize=maxsize,
        now_s=now_s,
    )


def drop_queue(keys: RsmqKeys) -> Call:
    """Drop a queue; answers keys removed, and whether it was listed."""
    return script_call("rsmq/drop_queue", hash=keys.hash, messages=keys.messages, queues=keys.queues, name=keys.queue)


def queue_names(queues: str) -> Call:
    """The names of all queues of a namespace."""
    return Call(("SMEMBERS", queues), keys=(queues,))


def read_attributes(keys: RsmqKeys) -> Call:
    """The fields of `ATTRIBUTES`, in this order."""
    return Call(("HMGET", keys.hash, *ATTRIBUTES), keys=(keys.hash,))


def set_attributes(keys: RsmqKeys, fields: Mapping[str, Arg]) -> Call:
    """Write attributes; that there is a queue must have been seen."""
    words = [word for pair in fields.items() for word in pair]
    return Call(("HSET", keys.hash, *words), keys=(keys.hash,))


def message_count(keys: RsmqKeys) -> Call:
    """How many messages there are, hidden ones included."""
    return Call(("ZCARD", keys.messages), keys=(keys.messages,))


def hash_fields(keys: RsmqKeys, names: Sequence[str]) -> Call:
    """Fields of the hash, by name."""
    return Call(("HMGET", keys.hash, *names), keys=(keys.hash,))


def field_count(keys: RsmqKeys) -> Call:
    """How many fields the hash has."""
    return Call(("HLEN", keys.hash), keys=(keys.hash,))


def count_from(keys: RsmqKeys, least_ms: int) -> Call:
    """How many messages become visible at this time or later."""
    return Call(("ZCOUNT", keys.messages, least_ms, "+inf"), keys=(keys.messages,))


def send(keys: RsmqKeys, message_id: str, score: Arg, body: bytes, *, receives: Arg = "", first_ms: Arg = "") -> Call:
    """Send a message, or restore one with its counters; answers None when there is no queue."""
    return script_call(
        "rsmq/send",
        messages=keys.messages,
        hash=keys.hash,
        id=message_id,
        score=score,
        body=body,
        receives=receives,
        first_ms=first_ms,
    )


def restore(keys: RsmqKeys, op: str, message_id: Arg, score: Arg, body: bytes, *, receives: Arg, first_ms: Arg) -> Call:
    """Bring back a message that the operation `op` deleted; answers 1, 0 when it is back, -1 without a queue."""
    return script_call(
        "rsmq/restore",
        messages=keys.messages,
        hash=keys.hash,
        undone=keys.undo_marker(op),
        ttl_s=UNDO_MEMORY_S,
        id=message_id,
        score=score,
        body=body,
        receives=receives,
        first_ms=first_ms,
    )


def receive(keys: RsmqKeys, *, now_ms: int, until_ms: int) -> Call:
    """Receive the first visible message and hide it."""
    return script_call("rsmq/receive", messages=keys.messages, hash=keys.hash, now_ms=now_ms, until_ms=until_ms)


def pop(keys: RsmqKeys, *, now_ms: int) -> Call:
    """Receive and delete the first visible message."""
    return script_call("rsmq/pop", messages=keys.messages, hash=keys.hash, now_ms=now_ms)


def message_score(keys: RsmqKeys, message_id: str) -> Call:
    """When a message becomes visible; None when there is no such message."""
    return Call(("ZSCORE", keys.messages, message_id), keys=(keys.messages,))


def set_message_score(keys: RsmqKeys, message_id: str, until_ms: int) -> Call:
    """Change when a message becomes visible, if there is one."""
    return Call(("ZADD", keys.messages, "XX", until_ms, message_id), keys=(keys.messages,))


def message_fields(keys: RsmqKeys, message_id: str) -> Call:
    """A message's body, receive count and first receive time."""
    words = (message_id, f"{message_id}:rc", f"{message_id}:fr")
    return Call(("HMGET", keys.hash, *words), keys=(keys.hash,))


def delete(keys: RsmqKeys, message_ids: Sequence[str]) -> Call:
    """Delete messages by id; answers for each whether it was there, and how many fields it had."""
    return script_call("rsmq/delete", messages=keys.messages, hash=keys.hash, rest=message_ids)


def read_page(keys: RsmqKeys, *, least: Arg = "-inf", last: str = "", count: int, preview: int | None = None) -> Call:
    """Messages after one that was seen last; `preview` bytes of each body, or all of it. A `ServerError` instead when
    it is refused.
    """
    return script_call(
        "rsmq/page",
        tolerant=True,
        messages=keys.messages,
        hash=keys.hash,
        least=least,
        last=last,
        count=count,
        preview=-1 if preview is None else preview,
    )


def message_rank(keys: RsmqKeys, message_id: str) -> Call:
    """How many messages are before this one; None when there is no such message."""
    return Call(("ZRANK", keys.messages, message_id), keys=(keys.messages,))


def count_before(keys: RsmqKeys, least: str | int) -> Call:
    """How many messages became, or become visible before this time."""
    return Call(("ZCOUNT", keys.messages, "-inf", f"({least}"), keys=(keys.messages,))


def ids_by_rank(keys: RsmqKeys, first: int, count: int) -> Call:
    """The next `count` ids from this place on, with their scores."""
    return Call(("ZRANGE", keys.messages, first, first + count - 1, "WITHSCORES"), keys=(keys.messages,))


def was_received(keys: RsmqKeys, message_id: str) -> Call:
    """Whether a message has a receive count."""
    return Call(("HEXISTS", keys.hash, f"{message_id}:rc"), keys=(keys.hash,))


def count_hidden(keys: RsmqKeys, *, now_ms: int, skip: int, count: int) -> Call:
    """How many messages are hidden, and how many of the next `count` were received."""
    return script_call(
        "rsmq/count_hidden",
        tolerant=True,
        messages=keys.messages,
        hash=keys.hash,
        now_ms=now_ms,
        skip=skip,
        count=count,
    )


def purge(keys: RsmqKeys, seen: Iterable[Arg]) -> Call:
    """Delete messages that have not changed since they were seen: id, score, receives of each."""
    return script_call("rsmq/purge", messages=keys.messages, hash=keys.hash, rest=list(seen))


def move(keys: RsmqKeys, target: RsmqKeys, seen: Iterable[Arg]) -> Call:
    """Move messages that have not changed since they were seen: id, score, receives of each."""
    return script_call(
        "rsmq/move",
        messages=keys.messages,
        hash=keys.hash,
        to_messages=target.messages,
        to_hash=target.hash,
        rest=list(seen),
    )


def reschedule(keys: RsmqKeys, seen: Iterable[Arg]) -> Call:
    """Give messages another score, if they have the one they were seen with: id, score, new score of each."""
    return script_call("rsmq/reschedule", messages=keys.messages, rest=list(seen))


def find_stray_fields(keys: RsmqKeys, cursor: Arg, *, count: int) -> Call:
    """Fields that belong to no message, among the next `count`; the cursor b"0" begins and ends it."""
    return script_call(
        "rsmq/find_stray_fields",
        hash=keys.hash,
        messages=keys.messages,
        parked=keys.in_migration,
        cursor=cursor,
        count=count,
    )


def delete_stray_fields(keys: RsmqKeys, names: Sequence[str]) -> Call:
    """Remove such fields."""
    return script_call(
        "rsmq/delete_stray_fields", hash=keys.hash, messages=keys.messages, parked=keys.in_migration, rest=names
    )


def delete_empty_messages(keys: RsmqKeys, message_ids: Sequence[str]) -> Call:
    """Remove messages that have no body."""
    return script_call("rsmq/delete_empty_messages", messages=keys.messages, hash=keys.hash, rest=message_ids)


def set_field(keys: RsmqKeys, field: str, *, seen: Arg, value: Arg) -> Call:
    """Correct a field, if it has not changed since it was seen."""
    return script_call("rsmq/set_field", hash=keys.hash, field=field, seen=seen, value=value)


def add_to_queue_list(keys: RsmqKeys) -> Call:
    """List a queue."""
    return Call(("SADD", keys.queues, keys.queue), keys=(keys.queues,))


def remove_from_queue_list(keys: RsmqKeys) -> Call:
    """Take a name off the list, if there is no such queue."""
    return script_call(
        "rsmq/remove_from_queue_list", queues=keys.queues, hash=keys.hash, messages=keys.messages, name=keys.queue
    )


def read_snapshot(keys: RsmqKeys, *, sample: int = HIDDEN_SAMPLE) -> Call:
    """A whole queue at one moment; a `ServerError` instead when it is refused."""
    return script_call("rsmq/snapshot", tolerant=True, **_snapshot_keys(keys), name=keys.queue, sample=sample)


def snapshot_by_key(keys: RsmqKeys) -> list[Call]:
    """The same for keys in several slots of a cluster: each alone, among keys of its slot that do not exist."""
    return [
        script_call("rsmq/snapshot", tolerant=True, **alone, name=keys.queue, sample=1)
        for alone in one_key_each(_snapshot_keys(keys))
    ]


def _snapshot_keys(keys: RsmqKeys) -> dict[str, Any]:
    return dict(zip(("messages", "hash", "queues", "parked"), keys.all_keys, strict=True))


def forward_message(
    keys: RsmqKeys, target: Keys, imported: ImportedJob, *, receives: Arg, now_ms: int, caps: StreamCaps = DEFAULT_CAPS
) -> Call:
    """Move a message to a queue of ours on the same server; answers where it is now, or why it stays."""
    return script_call(
        "rsmq/forward_message",
        messages=keys.messages,
        hash=keys.hash,
        stream=target.stream,
        delayed=target.delayed,
        dlq=target.dlq,
        marker=target.delayed_marker(imported.job_id),
        index=target.delayed_index(imported.job_id),
        id=imported.job_id,
        receives=receives,
        ttl_s=imported.marker_ttl_s(now_ms),
        cap=caps.stream,
        dead_cap=caps.dlq,
        envelope=imported.envelope,
        name=imported.name,
        rest=imported.dead,
    )


def park_message(keys: RsmqKeys, message_id: str) -> Call:
    """Set a message aside for its way to another server."""
    return script_call("rsmq/park", messages=keys.messages, hash=keys.hash, parked=keys.in_migration, id=message_id)


def parked_messages(keys: RsmqKeys, count: int) -> Call:
    """Some of the messages that are on their way, with their scores."""
    return Call(("ZRANGE", keys.in_migration, 0, count - 1, "WITHSCORES"), keys=(keys.in_migration,))


def delete_parked(keys: RsmqKeys, message_ids: Sequence[str]) -> Call:
    """Forget messages that have arrived."""
    return script_call("rsmq/delete_parked", parked=keys.in_migration, hash=keys.hash, rest=message_ids)


def unpark_messages(keys: RsmqKeys, message_ids: Sequence[str]) -> Call:
    """Give messages back to their queue."""
    return script_call("rsmq/unpark", parked=keys.in_migration, messages=keys.messages, rest=message_ids)
