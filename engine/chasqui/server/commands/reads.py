"""Builders that only look, and the two that note something down: an event, a result. None of them moves a job.

They answer the raw reply, so that many fit into one round trip; `values.py` reads those that would be obscure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chasqui.errors import ServerError, WrongType
from chasqui.server.commands.caps import maxlen_args
from chasqui.server.commands.replies import StoredSpec, members_with_scores, score_to_ms
from chasqui.server.flow import Arg, Call, Flow, Reply

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chasqui.wire.keys import Keys

StreamName = bytes | str


class QueryCommands:
    """What can be seen from outside."""

    __slots__ = ()

    def newest_entries(self, key: str, count: int, *, before: StreamName | None = None) -> Call:
        """The last entries of a stream, newest first, or those before an id; `Entry.list_of` reads them."""
        return Call(("XREVRANGE", key, _exclusive_id(before, "+"), "-", "COUNT", count), keys=(key,))

    def oldest_entries(self, key: str, count: int, *, after: StreamName | None = None) -> Call:
        """The first entries of a stream, oldest first, or those after an id; `Entry.list_of` reads them."""
        return Call(("XRANGE", key, _exclusive_id(after, "-"), "+", "COUNT", count), keys=(key,))

    def entries_between(self, key: str, first: StreamName, last: StreamName, count: int) -> Call:
        """The entries from one id to another, both included; with one id twice, that entry alone."""
        return Call(("XRANGE", key, first, last, "COUNT", count), keys=(key,))

    def stream_length(self, key: str) -> Call:
        """How many entries a stream has."""
        return Call(("XLEN", key), keys=(key,))

    def groups(self, keys: Keys) -> Call:
        """The stream's groups, for `Group.list_of`; a `ServerError` instead of them when there is no stream."""
        return Call(("XINFO", "GROUPS", keys.stream), keys=(keys.stream,), tolerant=True)

    def stream_info(self, keys: Keys) -> Call:
        """What the server knows of the stream, its settings included; a `ServerError` when there is no stream."""
        return Call(("XINFO", "STREAM", keys.stream), keys=(keys.stream,), tolerant=True)

    def consumers(self, keys: Keys, group: StreamName) -> Call:
        """A group's consumers, for `Consumer.list_of`; a `ServerError` instead when stream or group is missing."""
        return Call(("XINFO", "CONSUMERS", keys.stream, group), keys=(keys.stream,), tolerant=True)

    def pending_summary(self, keys: Keys, group: StreamName) -> Call:
        """How many are pending, first and last id, and how many each consumer has; a `ServerError` without group."""
        return Call(("XPENDING", keys.stream, group), keys=(keys.stream,), tolerant=True)

    def pending_page(
        self,
        keys: Keys,
        group: StreamName,
        count: int,
        *,
        after: StreamName | None = None,
        consumer: StreamName | None = None,
    ) -> Call:
        """The pending entries, oldest id first, perhaps of one consumer; for `PendingEntry.list_of`."""
        whose = () if consumer is None else (consumer,)
        words = ("XPENDING", keys.stream, group, _exclusive_id(after, "-"), "+", count, *whose)
        return Call(words, keys=(keys.stream,))

    def delayed_count(self, keys: Keys) -> Call:
        """How many jobs are delayed."""
        return Call(("ZCARD", keys.delayed), keys=(keys.delayed,))

    def delayed_due(self, keys: Keys, now_ms: int) -> Call:
        """How many delayed jobs are due by this time."""
        return Call(("ZCOUNT", keys.delayed, "-inf", now_ms), keys=(keys.delayed,))

    def delayed_page(self, keys: Keys, offset: int, count: int) -> Call:
        """Delayed jobs in the order they become due; `scored` reads members and times."""
        words = ("ZRANGE", keys.delayed, offset, offset + count - 1, "WITHSCORES")
        return Call(words, keys=(keys.delayed,))

    def find_delayed(self, keys: Keys, job_id: str) -> Flow[tuple[bytes, int] | None]:
        """The delayed job with this id, if it was scheduled with one: its member and when it is due."""
        index = keys.delayed_index(job_id)
        [member] = yield [Call(("GET", index), keys=(index,))]
        if member is None:
            return None
        [due_ms] = yield [Call(("ZSCORE", keys.delayed, member), keys=(keys.delayed,))]
        return None if due_ms is None else (member, score_to_ms(due_ms))

    def specs_count(self, keys: Keys) -> Call:
        """How many repeatable jobs are scheduled."""
        return Call(("ZCARD", keys.repeat), keys=(keys.repeat,))

    def specs_page(self, keys: Keys, offset: int, count: int) -> Flow[list[StoredSpec]]:
        """Repeatable jobs in the order they fire next."""
        words = ("ZRANGE", keys.repeat, offset, offset + count - 1, "WITHSCORES")
        [reply] = yield [Call(words, keys=(keys.repeat,))]
        return (yield from _read_specs(keys, reply))

    def due_specs(self, keys: Keys, now_ms: int, count: int, *, offset: int = 0) -> Flow[list[StoredSpec]]:
        """Repeatable jobs that should have fired by this time, the most overdue first."""
        words = ("ZRANGEBYSCORE", keys.repeat, "-inf", now_ms, "WITHSCORES", "LIMIT", offset, count)
        [reply] = yield [Call(words, keys=(keys.repeat,))]
        return (yield from _read_specs(keys, reply))

    def next_spec(self, keys: Keys, after_ms: int) -> Call:
        """The first repeatable job that is due only after this time; `scored` reads its key and when."""
        words = ("ZRANGEBYSCORE", keys.repeat, f"({after_ms}", "+inf", "WITHSCORES", "LIMIT", 0, 1)
        return Call(words, keys=(keys.repeat,))

    def server_time(self) -> Call:
        """The server's clock; `time_ms` reads it."""
        return Call(("TIME",))

    def stored_results(self, keys: Keys, job_ids: Sequence[str]) -> Call:
        """What jobs returned, in the order asked; None for one that is unknown or expired."""
        names = tuple(keys.result(job_id) for job_id in job_ids)
        return Call(("MGET", *names), keys=names)

    def store_result(self, keys: Keys, job_id: str, data: bytes, *, ttl_s: int) -> Call:
        """Keep what a job returned, for a while."""
        key = keys.result(job_id)
        return Call(("SET", key, data, "EX", ttl_s), keys=(key,))

    def wait_for_replicas(self, replicas: int, timeout_ms: int) -> Call:
        """How many replicas have everything this connection wrote; answers when there are so many, or after a while."""
        return Call(("WAIT", replicas, timeout_ms), block_ms=timeout_ms, tolerant=True, resend_with_batch=True)

    def emit_event(self, keys: Keys, fields: Sequence[Arg], *, cap: int | None = None) -> Call:
        """Note down what happened; answers the event's id."""
        return Call(("XADD", keys.events, *maxlen_args(cap), "*", *fields), keys=(keys.events,))


def _exclusive_id(entry_id: StreamName | None, end: str) -> str:
    if entry_id is None:
        return end
    return f"({entry_id if isinstance(entry_id, str) else entry_id.decode()}"


def _read_specs(keys: Keys, reply: Reply) -> Flow[list[StoredSpec]]:
    rows = members_with_scores(reply)
    if not rows:
        return []
    prefix = keys.repeat_spec("").encode("utf-8", "surrogateescape")
    hashes = [prefix + key for key, _ in rows]
    stored = yield [Call(("HMGET", name, "spec", "fired"), keys=(name,), tolerant=True) for name in hashes]
    return [_stored_spec(key, next_ms, found) for (key, next_ms), found in zip(rows, stored, strict=True)]


def _stored_spec(key: bytes, next_ms: int, found: Reply) -> StoredSpec:
    """One key of the wrong type spoils one spec, not the reading of all."""
    if isinstance(found, WrongType):
        return StoredSpec(key, next_ms, None, None, str(found))
    if isinstance(found, ServerError):
        raise found
    return StoredSpec(key, next_ms, *found)
