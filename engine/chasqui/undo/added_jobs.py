"""Flows that take jobs back which were added, or moved to the stream: as long as nobody has read them.

Where in the stream such a job is was not known when it was written down, only after which entry it must be; so it is
looked for there, and known by its id and its date.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

from chasqui.errors import ServerError, WireError
from chasqui.server.commands import RawEntry, parse_server_time
from chasqui.server.commands.looks import StreamExtent
from chasqui.wire import delayed_member, envelope, stream_entry

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from chasqui.server.commands import Commands
    from chasqui.server.flow import Flow
    from chasqui.wire.keys import Keys

JournalItem = dict[str, Any]
BATCH_SIZE = 500
PAGE_SIZE = 250
MAX_SEND_DELAY_MS = 300_000
"""A job is in the stream within this time after it was written down, or never: nobody tries longer to send it."""
MAX_SCANNED = 200_000
"""How many entries are looked at for jobs that were written down together; ten thousand of them are at most."""


class JobStamp(NamedTuple):
    """A job by its id and when it was made: ids alone may be used again."""

    job_id: str
    created_at_ms: int


class StreamEnd(NamedTuple):
    """Where the stream ended at a moment of the server's clock: what is added afterwards comes after it."""

    last_id: str
    now_ms: int


def stream_end(commands: Commands, keys: Keys) -> Flow[StreamEnd]:
    """Where the stream ends now. Who may not read it is told by the clock, which is as good unless it was set back."""
    clock, look = yield [commands.server_time(), commands.read_snapshot(keys)]
    now_ms = parse_server_time(clock)
    stream = StreamExtent() if isinstance(look, ServerError) else StreamExtent.from_reply(look[2])
    return StreamEnd(stream.last_id or f"{max(0, now_ms - 1)}-0", now_ms)


def revert(commands: Commands, keys: Keys, op: str, items: Sequence[JournalItem]) -> Flow[list[str]]:
    """Undo `added`: answers for each job "restored" when it is taken back, "gone" when it no longer waits.

    Running it again takes back what is left; nothing is ever written, so nothing can come twice.
    """
    told = ["gone"] * len(items)
    yield from _remove_delayed(commands, keys, items, told)
    left = [at for at, item in enumerate(items) if told[at] == "gone"]
    found = yield from find_jobs(commands, keys, [(_stamp(items[at]), items[at]["after"]) for at in left])
    waiting = [(at, entry_id) for at, entry_id in zip(left, found, strict=True) if entry_id]
    for start in range(0, len(waiting), BATCH_SIZE):
        some = waiting[start : start + BATCH_SIZE]
        [answers] = yield [commands.remove_unread(keys, [(entry_id, b"", 0) for _, entry_id in some])]
        for (at, _), answer in zip(some, answers, strict=True):
            told[at] = "restored" if answer == 1 else "gone"
    unique = [items[at]["id"] for at, _ in waiting if told[at] == "restored" and items[at].get("unique")]
    if unique:
        yield [commands.delete_markers(keys, unique)]
    return told


def find_jobs(commands: Commands, keys: Keys, wanted: Sequence[tuple[JobStamp, str]]) -> Flow[list[str | None]]:
    """The entries of jobs, each looked for after the entry that came before it; None for what is not there."""
    by_place: dict[str, set[JobStamp]] = defaultdict(set)
    for mark, after in wanted:
        by_place[after].add(mark)
    found: dict[tuple[JobStamp, str], str] = {}
    for after, marks in by_place.items():
        entries = yield from _scan_for(commands, keys, marks, after)
        found |= {(mark, after): entry_id for mark, entry_id in entries.items()}
    return [found.get(one) for one in wanted]


def _scan_for(commands: Commands, keys: Keys, marks: Collection[JobStamp], after: str) -> Flow[dict[JobStamp, str]]:
    until = str(int(after.partition("-")[0]) + MAX_SEND_DELAY_MS)
    found: dict[JobStamp, str] = {}
    looked = 0
    while len(found) < len(marks) and looked < MAX_SCANNED:
        [rows] = yield [commands.entries_between(keys.stream, f"({after}", until, PAGE_SIZE)]
        for entry in RawEntry.list_from_reply(rows):
            after = entry.entry_id.decode()
            mark = _entry_stamp(entry)
            if mark and mark in marks:
                found[mark] = after
        looked += len(rows)
        if len(rows) < PAGE_SIZE:
            break
    return found


def _remove_delayed(commands: Commands, keys: Keys, items: Sequence[JournalItem], told: list[str]) -> Flow[None]:
    """Those that were delayed and still are."""
    delayed = [(at, item) for at, item in enumerate(items) if item.get("member")]
    for start in range(0, len(delayed), BATCH_SIZE):
        some = delayed[start : start + BATCH_SIZE]
        answers = yield [
            commands.cancel_delayed_member(keys, item["id"], bytes.fromhex(item["member"])) for _, item in some
        ]
        for (at, _), answer in zip(some, answers, strict=True):
            told[at] = "restored" if answer else "gone"


def _stamp(item: Mapping[str, Any]) -> JobStamp:
    return JobStamp(item["id"], item["created_at_ms"])


def _entry_stamp(entry: RawEntry) -> JobStamp | None:
    found = stream_entry.decode(entry.fields).d
    return job_stamp(found) if found is not None else None


def job_stamp(data: bytes) -> JobStamp | None:
    """The mark of the job in an envelope; None if there is none in it."""
    try:
        job = envelope.decode(data, len(data))
    except WireError:
        return None
    return JobStamp(job.id, job.created_at_ms)


def member_job_stamp(member: bytes) -> JobStamp | None:
    """The same of a delayed member."""
    try:
        job = delayed_member.decode(member, len(member)).envelope
    except WireError:
        return None
    return JobStamp(job.id, job.created_at_ms)
