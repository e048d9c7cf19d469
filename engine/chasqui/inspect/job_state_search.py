"""Finds the state of a job, with its evidence. The cheap places are searched first, the rest within limits.

What was found is returned as values of `job_state.py`. Nothing here moves or changes a job.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeVar

from chasqui.defaults import SearchLimits
from chasqui.errors import ServerError, WrongType
from chasqui.inspect import job_search, snapshot
from chasqui.inspect.events import StoredEvent
from chasqui.inspect.job_search import SearchCoverage
from chasqui.inspect.job_state import (
    DeadState,
    DelayedState,
    DoneState,
    InFlightState,
    JobStateReport,
    PassedState,
    ScheduleState,
    UnknownState,
    WaitingState,
)
from chasqui.server.commands.query_commands import IdRange, SearchTerm
from chasqui.server.commands.replies import PendingEntry, score_to_ms
from chasqui.wire import dead_letter_entry, envelope, event_entry, stream_entry
from chasqui.wire.entry_fields import decode_name_exact
from chasqui.wire.entry_id import sort_key, time_ms
from chasqui.wire.job_id import check_job_id, created_ms
from chasqui.wire.msgpack_codec import Undecodable

if TYPE_CHECKING:
    from collections.abc import Callable

    from chasqui.inspect.job_search import DelayedJob
    from chasqui.inspect.job_state import JobState
    from chasqui.inspect.snapshot import GroupSnapshot, Snapshot
    from chasqui.server.commands import Commands, RawEntry
    from chasqui.server.flow import Flow, Reply
    from chasqui.wire.envelope import Envelope
    from chasqui.wire.keys import Keys

T = TypeVar("T")

MAX_EVENTS = 200
"""Of one job. For all events of a job that is retried for days, read the events themselves."""


def find_job_state(
    commands: Commands, keys: Keys, job_id: str, *, options: SearchLimits | None = None
) -> Flow[JobStateReport]:
    """What became of this job. Few round trips when its id or its events show where to search; at worst as many as it
    takes to search `options.max_entries` entries of every place.
    """
    case = _JobStateSearch(commands, keys, check_job_id(job_id), options or SearchLimits())
    yield from case.read_keys()
    live = (yield from case.find_by_index()) or (yield from case.find_near_creation())
    yield from case.read_events(case.options.max_entries_nearby if live else case.options.max_entries)
    live = live or (yield from case.find_by_last_event())
    if not live and not case.is_over:
        live = (yield from case.find_in_stream(IdRange(), case.options.max_entries)) or (yield from case.find_delayed())
    dead = None if live or case.is_over else (yield from case.find_dead())
    return case.report(live, dead)


class _JobStateSearch:
    """One job, and what is known about it so far. Each method that returns a flow searches one more place."""

    queue: Snapshot
    index: bytes | None
    was_scheduled: bool
    done: DoneState | None
    scheduled: ScheduleState | None

    def __init__(self, commands: Commands, keys: Keys, job_id: str, options: SearchLimits) -> None:
        self.commands, self.keys, self.job_id, self.options = commands, keys, job_id, options
        self.minted_ms = created_ms(job_id)
        self.needle = SearchTerm("d", job_search.packed_job_id(job_id))
        self.looked: list[SearchCoverage] = []
        self.events: list[StoredEvent] = []

    @property
    def last(self) -> StoredEvent | None:
        """The last event of the job."""
        return self.events[-1] if self.events else None

    @property
    def is_over(self) -> bool:
        """Whether it completed and cannot be back: an id that was minted for it is used for nothing else."""
        return self.minted_ms is not None and self.done is not None and self._last_event_is("completed", None)

    def read_keys(self) -> Flow[None]:
        """The queue, and every key that has the id in its name: all in one round trip."""
        look, *replies = yield [
            self.commands.read_snapshot(self.keys),
            *self.commands.read_job_keys(self.keys, self.job_id),
        ]
        self.queue = snapshot.snapshot_from_reply(self.keys, look).or_raise()
        size, ttl_ms, self.index, marked, fires_at = map(_none_if_refused, replies)
        self.was_scheduled = bool(marked)
        has_result = ttl_ms not in (None, -2) and not isinstance(replies[0], WrongType)
        self.done = DoneState(size, ttl_ms if ttl_ms >= 0 else None, None) if has_result else None
        self.scheduled = (
            None if fires_at is None else ScheduleState(score_to_ms(fires_at), self._lag(score_to_ms(fires_at)))
        )

    def find_by_index(self) -> Flow[DelayedState | None]:
        """The delayed set, where the job was scheduled with its id."""
        if self.index is None or not self.queue.delayed_depth:
            return None
        [due] = yield [self.commands.delayed_score(self.keys, self.index)]
        due = _none_if_refused(due)
        return None if due is None else self._delayed_state(job_search.decode_delayed_job(self.index, score_to_ms(due)))

    def find_near_creation(self) -> Flow[JobState | None]:
        """The stream, around the time the id was minted: most jobs are added within a moment of it."""
        return (yield from self._find_around(self.minted_ms)) if self.minted_ms is not None else None

    def read_events(self, most: int) -> Flow[None]:
        """The events, newest first, back to when the id was made. A `completed` among them means it is done."""
        if not self.queue.events_depth:
            return
        since = "-" if self.minted_ms is None else str(max(0, self.minted_ms - self.options.after_ms))
        needle, span = (
            SearchTerm("id", self.job_id.encode("utf-8", "surrogateescape"), whole=True),
            IdRange(since, backwards=True),
        )
        self.events = yield from self._search_stream("events", needle, span, self._match_event, most, MAX_EVENTS)
        self.events.reverse()
        completed = next((stored for stored in reversed(self.events) if stored.event.kind == "completed"), None)
        if completed:
            known = self.done or DoneState(None, None, None)
            self.done = DoneState(known.result_bytes, known.result_ttl_ms, completed)

    def find_by_last_event(self) -> Flow[JobState | None]:
        """Where the last event points to."""
        last = self.last
        if last is None:
            return None
        if last.event.kind == event_entry.RETRY_SCHEDULED:
            due_ms = time_ms(last.entry_id) + (last.event.backoff_ms or 0)
            return (yield from self.find_delayed(due_ms - self.options.after_ms, self.options.max_entries_nearby))
        if last.event.kind == event_entry.WAITING:
            return (yield from self._find_around(time_ms(last.entry_id) - self.options.after_ms // 2))
        if last.event.kind == event_entry.ACTIVE and self.queue.groups:
            delivered = max((group.last_id for group in self.queue.groups), key=sort_key)
            return (yield from self.find_in_stream(IdRange(last=delivered), self.options.max_entries_nearby))
        return None

    def find_in_stream(self, span: IdRange, most: int) -> Flow[JobState | None]:
        """A part of the stream: the job there, if it is, and whether it waits or runs."""
        if not self.queue.stream_depth:
            return None
        found = yield from self._search_stream("stream", self.needle, span, self._match_job, most)
        return (yield from self._stream_state(*found[0])) if found else None

    def find_delayed(self, least_ms: int | None = None, most: int | None = None) -> Flow[DelayedState | None]:
        """The delayed set, all of it or from a due time on."""
        if not self.queue.delayed_depth:
            return None
        least = "-inf" if least_ms is None else least_ms
        found, looked = yield from job_search.find_delayed_job(
            self.commands, self.keys.delayed, self.job_id, least=least, most=most or self.options.max_entries
        )
        self.looked.append(looked)
        return self._delayed_state(found) if found else None

    def find_dead(self) -> Flow[DeadState | None]:
        """The dead letters: around the time of the last event, else newest first."""
        if not self.queue.dlq_depth:
            return None
        died_ms = time_ms(self.last.entry_id) if self.last and self._last_event_is("dlq", None) else None
        if died_ms is not None:
            nearby, most = (self._span_around(died_ms - self.options.after_ms // 2), self.options.max_entries_nearby)
            found = yield from self._search_stream("dlq", self.needle, nearby, self._match_dead_letter, most)
        if died_ms is None or not found:
            found = yield from self._search_stream(
                "dlq", self.needle, IdRange(backwards=True), self._match_dead_letter, self.options.max_entries
            )
        return found[0] if found else None

    def report(self, live: JobState | None, dead: DeadState | None) -> JobStateReport:
        """The most significant state that was found; the others are true as well."""
        found = [finding for finding in (live, dead, self.done, self.scheduled) if finding]
        since = self.queue.events.first_id
        unknown = UnknownState(time_ms(since) if since else None, self.was_scheduled, self.last)
        finding, *also = found or [unknown]
        return JobStateReport(
            self.keys.queue,
            self.job_id,
            self.queue.server_time_ms,
            finding,
            tuple(also),
            tuple(self.events),
            tuple(self.looked),
        )

    def _find_around(self, time_ms: int) -> Flow[JobState | None]:
        return (yield from self.find_in_stream(self._span_around(time_ms), self.options.max_entries_nearby))

    def _span_around(self, time_ms: int) -> IdRange:
        return IdRange(str(max(0, time_ms - self.options.before_ms)), str(time_ms + self.options.after_ms))

    def _search_stream(
        self,
        place: Literal["stream", "dlq", "events"],
        needle: SearchTerm,
        span: IdRange,
        wanted: Callable[[RawEntry], T | None],
        most: int,
        enough: int = 1,
    ) -> Flow[list[T]]:
        found, looked, complete = yield from job_search.find_entries(
            self.commands, getattr(self.keys, place), needle, span, wanted, max_entries=most, max_matches=enough
        )
        self.looked.append(SearchCoverage(place, looked, complete, span))
        return found

    def _stream_state(self, entry_id: str, job: Envelope | Undecodable, name: str) -> Flow[JobState]:
        """Whether an entry waits, runs, or was passed over, for the groups there are."""
        groups = [group for group in self.queue.groups if sort_key(entry_id) <= sort_key(group.last_id)]
        replies = (
            (yield [self.commands.pending_entry(self.keys, group.name, entry_id) for group in groups]) if groups else []
        )
        for group, reply in zip(groups, replies, strict=True):
            for row in PendingEntry.list_from_reply(_none_if_refused(reply) or ()):
                return InFlightState(
                    entry_id, job, name, group.name, decode_name_exact(row.consumer), row.idle_ms, row.deliveries
                )
        unread = next((group for group in self.queue.groups if group not in groups), None)
        if self.queue.groups and not unread:
            return PassedState(entry_id, job, name)
        age_ms = max(0, self.queue.server_time_ms - time_ms(entry_id))
        behind = yield from self._jobs_ahead(entry_id, unread)
        return WaitingState(entry_id, job, name, age_ms, behind, has_group=unread is not None)

    def _jobs_ahead(self, entry_id: str, group: GroupSnapshot | None) -> Flow[int | None]:
        """How many jobs come first: counted from the front, or if those are too many from the end."""
        ahead, all_ahead = yield from self._count_entries(
            IdRange(f"({group.last_id}" if group else "-", f"({entry_id}")
        )
        if all_ahead:
            return ahead
        after, all_after = yield from self._count_entries(IdRange(f"({entry_id}"))
        waiting = group.waiting if group else self.queue.stream_depth
        return max(0, waiting - after - 1) if all_after else None

    def _count_entries(self, span: IdRange) -> Flow[tuple[int, bool]]:
        """How many entries a span has: a search that finds nothing, for a server counts no part of a stream."""
        nothing = SearchTerm("", b"", whole=True)
        _, looked, complete = yield from job_search.find_entries(
            self.commands, self.keys.stream, nothing, span, lambda _: None, max_entries=self.options.max_entries_nearby
        )
        return looked, complete

    def _delayed_state(self, member: DelayedJob) -> DelayedState:
        return DelayedState(member.run_at_ms, self._lag(member.run_at_ms), member.job, member.name)

    def _lag(self, due_ms: int) -> int:
        return max(0, self.queue.server_time_ms - due_ms)

    def _match_job(self, row: RawEntry) -> tuple[str, Envelope | Undecodable, str] | None:
        fields = stream_entry.decode(row.fields)
        job = envelope.decode_or_undecodable(fields.d or b"")
        return (row.entry_id.decode(), job, fields.name) if self._is_this_job(job) else None

    def _match_dead_letter(self, row: RawEntry) -> DeadState | None:
        letter = dead_letter_entry.decode(row.fields)
        job = envelope.decode_or_undecodable(letter.d)
        if not self._is_this_job(job):
            return None
        return DeadState(row.entry_id.decode(), letter, job, letter.detail or self._last_error())

    def _match_event(self, row: RawEntry) -> StoredEvent | None:
        event = event_entry.decode(row.fields)
        return StoredEvent(self.keys.queue, row.entry_id.decode(), event) if event.job_id == self.job_id else None

    def _last_error(self) -> str | None:
        failed = [stored.event.reason for stored in self.events if stored.event.kind == event_entry.FAILED]
        return failed[-1] if failed else None

    def _last_event_is(self, *kinds: str | None) -> bool:
        """Whether the last event is of one of these kinds; None stands for no event at all."""
        return (self.last.event.kind if self.last else None) in kinds

    def _is_this_job(self, job: Envelope | Undecodable) -> bool:
        """What cannot be read but holds the id is taken for it, and shown as unreadable."""
        return isinstance(job, Undecodable) or job.id == self.job_id


def _none_if_refused(reply: Reply) -> Reply:
    """Nothing is known from a key of a wrong type, or one that may not be read."""
    return None if isinstance(reply, ServerError) else reply
