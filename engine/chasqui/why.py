"""Why a job is where it is: one verdict, with its evidence. The cheap places are asked first, the rest within bounds.

What was found is told as values of `verdict.py`. Nothing here moves or changes a job.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeVar

from chasqui import search, snapshot
from chasqui.errors import ServerError
from chasqui.events import Told
from chasqui.options import Search
from chasqui.search import Looked
from chasqui.server.call import Call
from chasqui.server.commands.looks import Needle, Span
from chasqui.server.commands.values import PendingEntry, whole_ms
from chasqui.snapshot import id_ms, text_of
from chasqui.verdict import Dead, Delayed, Done, InFlight, Passed, Scheduled, Unknown, Verdict, Waiting
from chasqui.wire import dead_entry, event_entry, ids, stream_entry
from chasqui.wire.packed import Undecodable

if TYPE_CHECKING:
    from collections.abc import Callable

    from chasqui.search import Member
    from chasqui.server.call import Flow, Reply
    from chasqui.server.commands import Commands, Entry
    from chasqui.snapshot import GroupView, Snapshot
    from chasqui.verdict import Finding
    from chasqui.wire.envelope import Envelope
    from chasqui.wire.keys import Keys

T = TypeVar("T")

MOST_EVENTS = 200
"""Of one job. Who wants all of a job that is retried for days reads the events themselves."""


def why(commands: Commands, keys: Keys, job_id: str, *, options: Search | None = None) -> Flow[Verdict]:
    """What became of this job. Few round trips when its id or its events tell where to look; at worst as many as it
    takes to look through `options.most` entries of every place.
    """
    case = _Case(commands, keys, ids.check(job_id), options or Search())
    yield from case.glance()
    live = (yield from case.by_index()) or (yield from case.near_its_time())
    yield from case.hear(case.options.most_nearby if live else case.options.most)
    live = live or (yield from case.where_last_told())
    if not live and not case.is_over:
        live = (yield from case.in_stream(Span(), case.options.most)) or (yield from case.among_delayed())
    dead = None if live or case.is_over else (yield from case.among_dead())
    return case.verdict(live, dead)


class _Case:
    """One job, and what is known about it so far. Each method that returns a flow looks in one more place."""

    queue: Snapshot
    index: bytes | None
    was_scheduled: bool
    done: Done | None
    scheduled: Scheduled | None

    def __init__(self, commands: Commands, keys: Keys, job_id: str, options: Search) -> None:
        self.commands, self.keys, self.job_id, self.options = commands, keys, job_id, options
        self.minted_ms = ids.time_ms(job_id)
        self.needle = Needle("d", search.packed_id(job_id))
        self.looked: list[Looked] = []
        self.events: list[Told] = []

    @property
    def last(self) -> Told | None:
        """What was told of the job last."""
        return self.events[-1] if self.events else None

    @property
    def is_over(self) -> bool:
        """Whether it completed and cannot be back: an id that was minted for it is used for nothing else."""
        return self.minted_ms is not None and self.done is not None and self._is_last("completed", None)

    def glance(self) -> Flow[None]:
        """The queue, and every key that has the id in its name: all in one round trip."""
        keys, job_id = self.keys, self.job_id
        result, index, marker = keys.result(job_id), keys.delayed_index(job_id), keys.delayed_marker(job_id)
        look, *replies = yield [
            self.commands.look(keys),
            Call(("STRLEN", result), keys=(result,), tolerant=True),
            Call(("PTTL", result), keys=(result,), tolerant=True),
            Call(("GET", index), keys=(index,), tolerant=True),
            Call(("EXISTS", marker), keys=(marker,), tolerant=True),
            Call(("ZSCORE", keys.repeat, job_id), keys=(keys.repeat,), tolerant=True),
        ]
        self.queue = snapshot.seen(keys, look).or_raise()
        size, ttl_ms, self.index, marked, fires_at = map(_unless_refused, replies)
        self.was_scheduled = bool(marked)
        has_result = ttl_ms is not None and ttl_ms != -2
        self.done = Done(size or 0, ttl_ms if ttl_ms >= 0 else None, None) if has_result else None
        self.scheduled = (
            None if fires_at is None else Scheduled(whole_ms(fires_at), self._lag(whole_ms(fires_at)))
        )

    def by_index(self) -> Flow[Delayed | None]:
        """The delayed set, where the job was scheduled with its id."""
        if self.index is None or not self.queue.delayed_depth:
            return None
        delayed = self.keys.delayed
        [due] = yield [Call(("ZSCORE", delayed, self.index), keys=(delayed,), tolerant=True)]
        due = _unless_refused(due)
        return None if due is None else self._delayed(search.member_of(self.index, whole_ms(due)))

    def near_its_time(self) -> Flow[Finding | None]:
        """The stream, around the time the id was minted: most jobs are added within a moment of it."""
        return (yield from self._around(self.minted_ms)) if self.minted_ms is not None else None

    def hear(self, most: int) -> Flow[None]:
        """The events, newest first, back to when the id was minted. The `completed` among them says it is done."""
        if not self.queue.events_depth:
            return
        since = "-" if self.minted_ms is None else str(max(0, self.minted_ms - self.options.after_ms))
        needle, span = (
            Needle("id", self.job_id.encode("utf-8", "surrogateescape"), whole=True),
            Span(since, backwards=True),
        )
        self.events = yield from self._entries("events", needle, span, self._told, most, MOST_EVENTS)
        self.events.reverse()
        completed = next((told for told in reversed(self.events) if told.event.kind == "completed"), None)
        if completed:
            known = self.done or Done(None, None, None)
            self.done = Done(known.result_bytes, known.result_ttl_ms, completed)

    def where_last_told(self) -> Flow[Finding | None]:
        """Where the last event points to."""
        last = self.last
        if last is None:
            return None
        if last.event.kind == event_entry.RETRY_SCHEDULED:
            due_ms = id_ms(last.entry_id) + (last.event.backoff_ms or 0)
            return (yield from self.among_delayed(due_ms - self.options.after_ms, self.options.most_nearby))
        if last.event.kind == event_entry.WAITING:
            return (yield from self._around(id_ms(last.entry_id) - self.options.after_ms // 2))
        if last.event.kind == event_entry.ACTIVE and self.queue.groups:
            delivered = max((group.last_id for group in self.queue.groups), key=_order)
            return (yield from self.in_stream(Span(last=delivered), self.options.most_nearby))
        return None

    def in_stream(self, span: Span, most: int) -> Flow[Finding | None]:
        """A part of the stream: the job there, if it is, and whether it waits or runs."""
        if not self.queue.stream_depth:
            return None
        found = yield from self._entries("stream", self.needle, span, self._job, most)
        return (yield from self._standing(*found[0])) if found else None

    def among_delayed(self, least_ms: int | None = None, most: int | None = None) -> Flow[Delayed | None]:
        """The delayed set, all of it or from a due time on."""
        if not self.queue.delayed_depth:
            return None
        least = "-inf" if least_ms is None else least_ms
        found, looked = yield from search.members(
            self.commands, self.keys.delayed, self.job_id, least=least, most=most or self.options.most
        )
        self.looked.append(looked)
        return self._delayed(found) if found else None

    def among_dead(self) -> Flow[Dead | None]:
        """The dead letters: around the time the event tells, else newest first."""
        if not self.queue.dlq_depth:
            return None
        died_ms = id_ms(self.last.entry_id) if self.last and self._is_last("dlq", None) else None
        if died_ms is not None:
            nearby, most = self._window(died_ms - self.options.after_ms // 2), self.options.most_nearby
            found = yield from self._entries("dlq", self.needle, nearby, self._letter, most)
        if died_ms is None or not found:
            found = yield from self._entries(
                "dlq", self.needle, Span(backwards=True), self._letter, self.options.most
            )
        return found[0] if found else None

    def verdict(self, live: Finding | None, dead: Dead | None) -> Verdict:
        """The most telling of what was found; the rest is true as well."""
        found = [finding for finding in (live, dead, self.done, self.scheduled) if finding]
        since = self.queue.events.first_id
        unknown = Unknown(id_ms(since) if since else None, self.was_scheduled, self.last)
        finding, *also = found or [unknown]
        return Verdict(
            self.keys.queue,
            self.job_id,
            self.queue.server_time_ms,
            finding,
            tuple(also),
            tuple(self.events),
            tuple(self.looked),
        )

    def _around(self, time_ms: int) -> Flow[Finding | None]:
        return (yield from self.in_stream(self._window(time_ms), self.options.most_nearby))

    def _window(self, time_ms: int) -> Span:
        return Span(str(max(0, time_ms - self.options.before_ms)), str(time_ms + self.options.after_ms))

    def _entries(
        self,
        place: Literal["stream", "dlq", "events"],
        needle: Needle,
        span: Span,
        wanted: Callable[[Entry], T | None],
        most: int,
        enough: int = 1,
    ) -> Flow[list[T]]:
        found, looked, complete = yield from search.entries(
            self.commands, getattr(self.keys, place), needle, span, wanted, most=most, enough=enough
        )
        self.looked.append(Looked(place, looked, complete, span))
        return found

    def _standing(self, entry_id: str, job: Envelope | Undecodable, name: str) -> Flow[Finding]:
        """Whether an entry waits, runs, or was passed over, for the groups there are."""
        groups = [group for group in self.queue.groups if _order(entry_id) <= _order(group.last_id)]
        replies = (yield [self._pending(entry_id, group) for group in groups]) if groups else []
        for group, reply in zip(groups, replies, strict=True):
            for row in PendingEntry.list_of(_unless_refused(reply) or ()):
                return InFlight(
                    entry_id, job, name, group.name, text_of(row.consumer), row.idle_ms, row.deliveries
                )
        unread = next((group for group in self.queue.groups if group not in groups), None)
        if self.queue.groups and not unread:
            return Passed(entry_id, job, name)
        age_ms = max(0, self.queue.server_time_ms - id_ms(entry_id))
        behind = yield from self._behind(entry_id, unread)
        return Waiting(entry_id, job, name, age_ms, behind, has_group=unread is not None)

    def _pending(self, entry_id: str, group: GroupView) -> Call:
        words = ("XPENDING", self.keys.stream, group.name, entry_id, entry_id, 1)
        return Call(words, keys=(self.keys.stream,), tolerant=True)

    def _behind(self, entry_id: str, group: GroupView | None) -> Flow[int | None]:
        """How many jobs come first: counted from the front, or if those are too many from the end."""
        ahead, all_ahead = yield from self._count(Span(f"({group.last_id}" if group else "-", f"({entry_id}"))
        if all_ahead:
            return ahead
        after, all_after = yield from self._count(Span(f"({entry_id}"))
        waiting = group.waiting if group else self.queue.stream_depth
        return max(0, waiting - after - 1) if all_after else None

    def _count(self, span: Span) -> Flow[tuple[int, bool]]:
        """How many entries a span has: a search that finds nothing, for a server counts no part of a stream."""
        nothing = Needle("", b"", whole=True)
        _, looked, complete = yield from search.entries(
            self.commands, self.keys.stream, nothing, span, lambda _: None, most=self.options.most_nearby
        )
        return looked, complete

    def _delayed(self, member: Member) -> Delayed:
        return Delayed(member.run_at_ms, self._lag(member.run_at_ms), member.job, member.name)

    def _lag(self, due_ms: int) -> int:
        return max(0, self.queue.server_time_ms - due_ms)

    def _job(self, row: Entry) -> tuple[str, Envelope | Undecodable, str] | None:
        fields = stream_entry.decode(row.fields)
        job = search.job_of(fields.d or b"")
        return (row.entry_id.decode(), job, fields.name) if self._is_it(job) else None

    def _letter(self, row: Entry) -> Dead | None:
        letter = dead_entry.decode(row.fields)
        job = search.job_of(letter.d)
        if not self._is_it(job):
            return None
        return Dead(row.entry_id.decode(), letter, job, letter.detail or self._last_error())

    def _told(self, row: Entry) -> Told | None:
        event = event_entry.decode(row.fields)
        return Told(self.keys.queue, row.entry_id.decode(), event) if event.job_id == self.job_id else None

    def _last_error(self) -> str | None:
        failed = [told.event.reason for told in self.events if told.event.kind == event_entry.FAILED]
        return failed[-1] if failed else None

    def _is_last(self, *kinds: str | None) -> bool:
        """Whether the last event is of one of these kinds; None stands for no event at all."""
        return (self.last.event.kind if self.last else None) in kinds

    def _is_it(self, job: Envelope | Undecodable) -> bool:
        """What cannot be read but holds the id is taken for it, and shown as unreadable."""
        return isinstance(job, Undecodable) or job.id == self.job_id


def _unless_refused(reply: Reply) -> Reply:
    """A key of a wrong type, or one we may not read, tells nothing; the snapshot says so."""
    return None if isinstance(reply, ServerError) else reply


def _order(entry_id: str) -> tuple[int, int]:
    ms, _, nth = entry_id.partition("-")
    return int(ms), int(nth)
