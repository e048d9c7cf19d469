"""Builders for queries: what is in a queue, on a read-only link too. Only `emit_event` writes, and it moves no job.

They return raw replies, so that many fit into one round trip; `replies.py` parses what is not obvious. What would
carry payloads away is asked of scripts that return ids.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from chasqui.errors import ServerError, WrongType
from chasqui.server.commands.caps import maxlen_args
from chasqui.server.commands.replies import StoredSpec, members_with_scores
from chasqui.server.flow import Arg, Call, Flow, Reply
from chasqui.server.scripts import script_call

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chasqui.wire.keys import Keys

StreamName = bytes | str
PENDING_SAMPLE = 16
"""How many pending entries, oldest first, the longest idle time is taken from: abandoned ones gather there."""


class SearchBudget(NamedTuple):
    """How much a search may look at in one go: about a millisecond of the server's time."""

    entries: int = 250
    bytes: int = 1 << 20


DEFAULT_BUDGET = SearchBudget()


class SearchTerm(NamedTuple):
    """What to look for in a stream: a text in a field, or as the whole of it."""

    field: str
    text: bytes
    whole: bool = False


class IdRange(NamedTuple):
    """Which part of a stream to look at, and from which end. An id after `(` is not part of it."""

    first: str = "-"
    last: str = "+"
    backwards: bool = False

    def after(self, entry_id: str) -> IdRange:
        """What is left of it once one has come to this id."""
        return self._replace(last=f"({entry_id}") if self.backwards else self._replace(first=f"({entry_id}")


class QueryCommands:
    """What can be seen from outside."""

    __slots__ = ()

    def read_snapshot(self, keys: Keys, *, sample: int = PENDING_SAMPLE) -> Call:
        """A whole queue at one moment; `snapshot.py` reads the answer. A `ServerError` instead when it is refused."""
        return script_call(
            "snapshot",
            stream=keys.stream,
            dlq=keys.dlq,
            delayed=keys.delayed,
            repeats=keys.repeat,
            events=keys.events,
            promoter_lock=keys.promoter_lock,
            scheduler_lock=keys.scheduler_lock,
            sample=sample,
            tolerant=True,
        )

    def read_with_extent(self, stream: str, after: str, count: int) -> Call:
        """Entries after an id and the stream's reach, for `reach_and_rows`; a `ServerError` instead when it is refused."""
        return script_call("read_with_extent", tolerant=True, stream=stream, after=after, count=count)

    def read_with_exact_extent(self, stream: str, first: str, last: str, count: int) -> tuple[Call, ...]:
        """Entries from an id (after `(`: without it) up to another and the stream's reach at that moment, for
        `exact_reach_and_rows`.

        The same as `read_on` for those who read by the million: a transaction costs the server a quarter of a script.
        """
        reach = ("XINFO", "STREAM", stream)
        rows = ("XRANGE", stream, first, last, "COUNT", count)
        return tuple(Call(words, keys=(stream,)) for words in (("MULTI",), reach, rows, ("EXEC",)))

    def wait_for_entries(self, streams: Sequence[str], after: Sequence[str], *, block_ms: int) -> Call:
        """Wait until any of the streams has an entry after its id; `with_news` returns which. All share a slot."""
        words: tuple[Arg, ...] = ("XREAD", "COUNT", 1, "BLOCK", block_ms, "STREAMS", *streams, *after)
        return Call(words, keys=tuple(streams), block_ms=block_ms, tolerant=True)

    def entries_in_range(self, stream: str, span: IdRange, count: int) -> Call:
        """Entries of a part of a stream, in the direction of the span; `Entry.list_of` reads them."""
        if span.backwards:
            return Call(("XREVRANGE", stream, span.last, span.first, "COUNT", count), keys=(stream,))
        return Call(("XRANGE", stream, span.first, span.last, "COUNT", count), keys=(stream,))

    def find_entries(
        self, stream: str, needle: SearchTerm, span: IdRange, *, bound: SearchBudget = DEFAULT_BUDGET
    ) -> Call:
        """Entries of a stream that have the needle, as ids; `Found.of` reads the answer."""
        start, stop = (span.last, span.first) if span.backwards else (span.first, span.last)
        return script_call(
            "find_entries",
            stream=stream,
            field=needle.field,
            text=needle.text,
            whole=int(needle.whole),
            start=start,
            stop=stop,
            backwards=int(span.backwards),
            entries=bound.entries,
            bytes=bound.bytes,
        )

    def find_members(
        self, key: str, text: bytes, *, least: int | str = "-inf", skip: int = 0, bound: SearchBudget = DEFAULT_BUDGET
    ) -> Call:
        """Members of a sorted set that hold this text, from a score on, past the first `skip`; see the script."""
        return script_call(
            "find_members", set=key, text=text, least=least, skip=skip, entries=bound.entries, bytes=bound.bytes
        )

    def find_dangling_pending(self, keys: Keys, group: str, *, after: str | None = None, count: int) -> Call:
        """Pending rows of a group whose entry was deleted; see the script. A `ServerError` instead when it is refused."""
        first = "-" if after is None else f"({after}"
        return script_call(
            "find_dangling_pending", tolerant=True, stream=keys.stream, group=group, after=first, count=count
        )

    def read_job_keys(self, keys: Keys, job_id: str) -> list[Call]:
        """Size and remaining ms of a job's result, its index and marker in the delayed set, and when it is due as a
        schedule. Each may be a `ServerError` instead.
        """
        result, index, marker = keys.result(job_id), keys.delayed_index(job_id), keys.delayed_marker(job_id)
        return [
            Call(("STRLEN", result), keys=(result,), tolerant=True),
            Call(("PTTL", result), keys=(result,), tolerant=True),
            Call(("GET", index), keys=(index,), tolerant=True),
            Call(("EXISTS", marker), keys=(marker,), tolerant=True),
            Call(("ZSCORE", keys.repeat, job_id), keys=(keys.repeat,), tolerant=True),
        ]

    def delayed_score(self, keys: Keys, member: bytes) -> Call:
        """When a delayed member is due, None if it is not there; a `ServerError` instead when it is refused."""
        return Call(("ZSCORE", keys.delayed, member), keys=(keys.delayed,), tolerant=True)

    def pending_entry(self, keys: Keys, group: str, entry_id: str) -> Call:
        """One pending entry of a group, for `PendingEntry.list_from_reply`; a `ServerError` instead when refused."""
        return Call(("XPENDING", keys.stream, group, entry_id, entry_id, 1), keys=(keys.stream,), tolerant=True)

    def scan_keys(self, cursor: bytes, kind: str, *, count: int, match: str = "*") -> Call:
        """Some of the server's keys of one type, and where to go on; b"0" begins and ends it."""
        pattern = () if match == "*" else ("MATCH", match)
        return Call(("SCAN", cursor, *pattern, "COUNT", count, "TYPE", kind))

    def count_keys(self) -> Call:
        """How many keys there are on this node."""
        return Call(("DBSIZE",))

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

    def delayed_page(self, keys: Keys, offset: int, count: int) -> Call:
        """Delayed jobs in the order they become due; `scored` reads members and times."""
        words = ("ZRANGE", keys.delayed, offset, offset + count - 1, "WITHSCORES")
        return Call(words, keys=(keys.delayed,))

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

    def wait_for_replicas(self, replicas: int, timeout_ms: int) -> Call:
        """How many replicas have what this connection wrote; waits for `replicas` of them, or until the timeout."""
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
