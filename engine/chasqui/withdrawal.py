"""Flows that take jobs back which were added, or moved to the stream: as long as nobody has read them.

Where in the stream such a job is was not known when it was written down, only after which entry it must be; so it is
looked for there, and known by its id and its date.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

from chasqui.errors import ServerError, WireError
from chasqui.server.commands import Entry, time_ms
from chasqui.server.commands.looks import Reach
from chasqui.wire import delayed_member, envelope, stream_entry

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from chasqui.server.call import Flow
    from chasqui.server.commands import Commands
    from chasqui.wire.keys import Keys

Item = dict[str, Any]
AT_ONCE = 500
PAGE = 250
LATEST_MS = 300_000
"""A job is in the stream within this time after it was written down, or never: nobody tries longer to send it."""
MOST = 200_000
"""How many entries are looked at for jobs that were written down together; ten thousand of them are at most."""


class Mark(NamedTuple):
    """A job by its id and when it was made: ids alone may be used again."""

    job_id: str
    created_at_ms: int


class Footing(NamedTuple):
    """Where the stream ended at a moment of the server's clock: what is added afterwards comes after it."""

    last_id: str
    now_ms: int


def footing(commands: Commands, keys: Keys) -> Flow[Footing]:
    """Where the stream ends now. Who may not read it is told by the clock, which is as good unless it was set back."""
    clock, look = yield [commands.server_time(), commands.look(keys)]
    now_ms = time_ms(clock)
    stream = Reach() if isinstance(look, ServerError) else Reach.of(look[2])
    return Footing(stream.last_id or f"{max(0, now_ms - 1)}-0", now_ms)


def take_back(commands: Commands, keys: Keys, op: str, items: Sequence[Item]) -> Flow[list[str]]:
    """Undo `added`: answers for each job "restored" when it is taken back, "gone" when it no longer waits.

    Running it again takes back what is left; nothing is ever written, so nothing can come twice.
    """
    told = ["gone"] * len(items)
    yield from _cut(commands, keys, items, told)
    left = [at for at, item in enumerate(items) if told[at] == "gone"]
    found = yield from whereabouts(commands, keys, [(_mark(items[at]), items[at]["after"]) for at in left])
    waiting = [(at, entry_id) for at, entry_id in zip(left, found, strict=True) if entry_id]
    for start in range(0, len(waiting), AT_ONCE):
        some = waiting[start : start + AT_ONCE]
        [answers] = yield [commands.withdraw(keys, [(entry_id, b"", 0) for _, entry_id in some])]
        for (at, _), answer in zip(some, answers, strict=True):
            told[at] = "restored" if answer == 1 else "gone"
    unique = [items[at]["id"] for at, _ in waiting if told[at] == "restored" and items[at].get("unique")]
    if unique:
        yield [commands.forget_markers(keys, unique)]
    return told


def whereabouts(commands: Commands, keys: Keys, wanted: Sequence[tuple[Mark, str]]) -> Flow[list[str | None]]:
    """The entries of jobs, each looked for after the entry that came before it; None for what is not there."""
    by_place: dict[str, set[Mark]] = defaultdict(set)
    for mark, after in wanted:
        by_place[after].add(mark)
    found: dict[tuple[Mark, str], str] = {}
    for after, marks in by_place.items():
        entries = yield from _found(commands, keys, marks, after)
        found |= {(mark, after): entry_id for mark, entry_id in entries.items()}
    return [found.get(one) for one in wanted]


def _found(commands: Commands, keys: Keys, marks: Collection[Mark], after: str) -> Flow[dict[Mark, str]]:
    until = str(int(after.partition("-")[0]) + LATEST_MS)
    found: dict[Mark, str] = {}
    looked = 0
    while len(found) < len(marks) and looked < MOST:
        [rows] = yield [commands.between(keys.stream, f"({after}", until, PAGE)]
        for entry in Entry.list_of(rows):
            after = entry.entry_id.decode()
            mark = _mark_of(entry)
            if mark and mark in marks:
                found[mark] = after
        looked += len(rows)
        if len(rows) < PAGE:
            break
    return found


def _cut(commands: Commands, keys: Keys, items: Sequence[Item], told: list[str]) -> Flow[None]:
    """Those that were delayed and still are."""
    delayed = [(at, item) for at, item in enumerate(items) if item.get("member")]
    for start in range(0, len(delayed), AT_ONCE):
        some = delayed[start : start + AT_ONCE]
        answers = yield [
            commands.cut_delayed(keys, item["id"], bytes.fromhex(item["member"])) for _, item in some
        ]
        for (at, _), answer in zip(some, answers, strict=True):
            told[at] = "restored" if answer else "gone"


def _mark(item: Mapping[str, Any]) -> Mark:
    return Mark(item["id"], item["created_at_ms"])


def _mark_of(entry: Entry) -> Mark | None:
    found = stream_entry.decode(entry.fields).d
    return mark_of(found) if found is not None else None


def mark_of(data: bytes) -> Mark | None:
    """The mark of the job in an envelope; None if there is none in it."""
    try:
        job = envelope.decode(data, len(data))
    except WireError:
        return None
    return Mark(job.id, job.created_at_ms)


def mark_of_member(member: bytes) -> Mark | None:
    """The same of a delayed member."""
    try:
        job = delayed_member.decode(member, len(member)).envelope
    except WireError:
        return None
    return Mark(job.id, job.created_at_ms)
