"""Builders that look without carrying jobs away: whole queues, the reach of a stream, where an id is, which keys exist.

They only read, also on a read-only link; what cannot be asked so without payloads is asked by scripts that answer ids.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from chasqui.errors import WrongType
from chasqui.server.flow import Call
from chasqui.server.scripts import script_call

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chasqui.server.commands.replies import FlatFields
    from chasqui.server.flow import Arg, Reply
    from chasqui.wire.keys import Keys

PENDING_SAMPLE = 16
"""Of how many pending entries, oldest first, the longest idle time is told: what is abandoned gathers there."""


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


class StreamExtent(NamedTuple):
    """How far a stream reaches. A stream that is not there has no ids, and nothing was ever added to it.

    first_id: None also when all entries are gone. last_id: the last one ever given, whether or not it is still there.
    deleted_id: the last one that somebody deleted, trimming aside; told by `exact_reach_and_rows` only.
    """

    length: int = 0
    first_id: str | None = None
    last_id: str | None = None
    added: int = 0
    deleted_id: str | None = None

    @classmethod
    def from_reply(cls, reply: Sequence[Reply]) -> StreamExtent:
        """From the four words scripts tell a stream by; none of them for one that is not there."""
        if not reply:
            return cls()
        length, first_id, last_id, added = reply[:4]
        return cls(length, first_id.decode() if first_id else None, last_id.decode(), added)

    @property
    def exists(self) -> bool:
        """Whether there is such a stream at all."""
        return self.last_id is not None


class EntrySearchResult(NamedTuple):
    """What a search in a stream came to: where to go on, or None when there is no more to look at."""

    looked: int
    last_id: str | None
    entry_ids: tuple[str, ...]

    @classmethod
    def from_reply(cls, reply: Reply) -> EntrySearchResult:
        """From `find_entry`."""
        looked, last_id, entry_ids = reply
        return cls(looked, last_id.decode() if last_id else None, tuple(found.decode() for found in entry_ids))


class LookCommands:
    """What can be seen without touching a job."""

    __slots__ = ()

    def read_snapshot(self, keys: Keys, *, sample: int = PENDING_SAMPLE) -> Call:
        """A whole queue at one moment; `snapshot.py` reads the answer. A `ServerError` instead when it is refused."""
        call = script_call(
            "snapshot",
            stream=keys.stream,
            dlq=keys.dlq,
            delayed=keys.delayed,
            repeats=keys.repeat,
            events=keys.events,
            promoter_lock=keys.promoter_lock,
            scheduler_lock=keys.scheduler_lock,
            sample=sample,
        )
        return replace(call, tolerant=True)

    def read_with_extent(self, stream: str, after: str, count: int) -> Call:
        """Entries after an id and the stream's reach, for `reach_and_rows`; a `ServerError` instead when it is refused."""
        return replace(script_call("read_with_extent", stream=stream, after=after, count=count), tolerant=True)

    def read_with_exact_extent(self, stream: str, first: str, last: str, count: int) -> tuple[Call, ...]:
        """Entries from an id (after `(`: without it) up to another and the stream's reach at that moment, for
        `exact_reach_and_rows`.

        The same as `read_on` for those who read by the million: a transaction costs the server a quarter of a script.
        """
        reach = ("XINFO", "STREAM", stream)
        rows = ("XRANGE", stream, first, last, "COUNT", count)
        return tuple(Call(words, keys=(stream,)) for words in (("MULTI",), reach, rows, ("EXEC",)))

    def wait_for_entries(self, streams: Sequence[str], after: Sequence[str], *, block_ms: int) -> Call:
        """Wait until any of the streams has an entry after its id; `with_news` tells which. All of one cluster slot."""
        words: tuple[Arg, ...] = ("XREAD", "COUNT", 1, "BLOCK", block_ms, "STREAMS", *streams, *after)
        return Call(words, keys=tuple(streams), block_ms=block_ms, tolerant=True)

    def entries_in_range(self, stream: str, span: IdRange, count: int) -> Call:
        """Entries of a part of a stream, from the end that the span says; `Entry.list_of` reads them."""
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
        self,
        key: str,
        text: bytes,
        *,
        least: int | str = "-inf",
        skip: int = 0,
        bound: SearchBudget = DEFAULT_BUDGET,
    ) -> Call:
        """Members of a sorted set that hold this text, from a score on, past the first `skip`; see the script."""
        return script_call(
            "find_members",
            set=key,
            text=text,
            least=least,
            skip=skip,
            entries=bound.entries,
            bytes=bound.bytes,
        )

    def find_dangling_pending(self, keys: Keys, group: str, *, after: str | None = None, count: int) -> Call:
        """Pending rows of a group whose entry was deleted; see the script. A `ServerError` instead when it is refused."""
        first = "-" if after is None else f"({after}"
        call = script_call("find_dangling_pending", stream=keys.stream, group=group, after=first, count=count)
        return replace(call, tolerant=True)

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


def extent_and_rows(reply: Reply) -> tuple[StreamExtent, list[tuple[bytes, FlatFields]]]:
    """From `read_on`."""
    return StreamExtent.from_reply(reply or ()), [(entry_id, fields) for entry_id, fields in reply[4]] if reply else []


def exact_extent_and_rows(replies: Sequence[Reply]) -> tuple[StreamExtent, list[Any]]:
    """From `read_exactly`: entries as id and flat fields. Without a stream there is neither; a wrong type is raised."""
    told, rows = replies[3]
    if isinstance(rows, Exception):
        raise WrongType(f"not a stream: {rows}", hint="another program may use this key")
    if isinstance(told, Exception):
        return StreamExtent(), []
    info = dict(zip(told[::2], told[1::2], strict=True))
    first = info[b"first-entry"]
    reach = StreamExtent.from_reply(
        (info[b"length"], first and first[0], info[b"last-generated-id"], info[b"entries-added"])
    )
    return reach._replace(deleted_id=info[b"max-deleted-entry-id"].decode()), rows


def streams_with_entries(reply: Reply) -> list[bytes]:
    """The streams that have something, from `await_entries`; none when the time was over."""
    return [stream for stream, _ in reply or ()]
