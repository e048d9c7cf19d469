"""Flows that find where a change put a job: in a stream, after a known entry or by its bytes."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from chasqui.errors import ServerError
from chasqui.server.commands import EntrySearchResult, IdRange, RawEntry, SearchBudget, SearchTerm, parse_server_time
from chasqui.server.commands.replies import StreamExtent
from chasqui.wire import stream_entry
from chasqui.wire.entry_id import time_ms
from chasqui.wire.envelope import job_stamp

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from chasqui.server.commands import Commands
    from chasqui.server.flow import Flow
    from chasqui.undo.undo_items import JournalItem
    from chasqui.wire.envelope import JobStamp
    from chasqui.wire.keys import Keys

PAGE_SIZE = 250
MAX_SEND_DELAY_MS = 300_000
"""A saved job is in the stream within this time, or never: a sender gives up earlier."""
MAX_SCANNED = 200_000
"""How many entries are read to find jobs that were saved together, ten thousand of them at most."""
NO_ENTRY_ID = "0-1"
"""An id that nothing in use has."""
MAX_SCANNED_BY_BYTES = 100_000
"""How many entries are searched for a job whose new id was never learned, because the replay was cut off."""


class StreamEnd(NamedTuple):
    """The last entry of the stream at a moment of the server's clock: what is added later comes after it."""

    last_id: str
    now_ms: int


def stream_end(commands: Commands, keys: Keys) -> Flow[StreamEnd]:
    """The present end of the stream. For a user who may not read it, the server's clock replaces its last id."""
    clock, reply = yield [commands.server_time(), commands.read_snapshot(keys)]
    now_ms = parse_server_time(clock)
    stream = StreamExtent() if isinstance(reply, ServerError) else StreamExtent.from_reply(reply[2])
    return StreamEnd(stream.last_id or f"{max(0, now_ms - 1)}-0", now_ms)


def find_jobs(commands: Commands, keys: Keys, wanted: Sequence[tuple[JobStamp, str]]) -> Flow[list[str | None]]:
    """The entry of each job, searched after the entry given with it; None for a job that is not there."""
    stamps_by_start: dict[str, set[JobStamp]] = defaultdict(set)
    for stamp, after in wanted:
        stamps_by_start[after].add(stamp)
    found: dict[tuple[JobStamp, str], str] = {}
    for after, stamps in stamps_by_start.items():
        entries = yield from _scan_for(commands, keys, stamps, after)
        found |= {(stamp, after): entry_id for stamp, entry_id in entries.items()}
    return [found.get(one) for one in wanted]


def _scan_for(commands: Commands, keys: Keys, stamps: Collection[JobStamp], after: str) -> Flow[dict[JobStamp, str]]:
    until = str(time_ms(after) + MAX_SEND_DELAY_MS)
    found: dict[JobStamp, str] = {}
    scanned = 0
    while len(found) < len(stamps) and scanned < MAX_SCANNED:
        [rows] = yield [commands.entries_between(keys.stream, f"({after}", until, PAGE_SIZE)]
        for entry in RawEntry.list_from_reply(rows):
            after = entry.entry_id.decode()
            data = stream_entry.decode(entry.fields).d
            stamp = None if data is None else job_stamp(data)
            if stamp and stamp in stamps:
                found[stamp] = after
        scanned += len(rows)
        if len(rows) < PAGE_SIZE:
            break
    return found


def find_saved_jobs(
    commands: Commands, keys: Keys, stream: str, learned: str, items: Sequence[JournalItem]
) -> Flow[list[str]]:
    """The entry of each item's job: as saved under `learned`, or else found by its bytes.

    An item without bytes (`d`) of its own was moved nowhere: that is an empty text.
    """
    entry_ids: list[str] = []
    for item in items:
        entry_id = item.get(learned) or ("" if "d" not in item else NO_ENTRY_ID)
        if entry_id == NO_ENTRY_ID and not (yield from _is_still_dead_letter(commands, keys, item)):
            entry_id = yield from _find_by_bytes(commands, stream, bytes.fromhex(item["d"]))
        entry_ids.append(entry_id)
    return entry_ids


def _is_still_dead_letter(commands: Commands, keys: Keys, item: JournalItem) -> Flow[bool]:
    """Whether the operation never came to this dead letter, so that there is nothing to find."""
    [rows] = yield [commands.entries_between(keys.dlq, item["dead_id"], item["dead_id"], 1)]
    return bool(rows)


def _find_by_bytes(commands: Commands, stream: str, data: bytes) -> Flow[str]:
    """The newest entry with these bytes."""
    scanned, span = 0, IdRange(backwards=True)
    while scanned < MAX_SCANNED_BY_BYTES:
        [reply] = yield [commands.find_entries(stream, SearchTerm("d", data, whole=True), span, bound=SearchBudget())]
        found = EntrySearchResult.from_reply(reply)
        if found.entry_ids:
            return found.entry_ids[0]
        if found.last_id is None:
            break
        scanned, span = scanned + found.looked, span.after(found.last_id)
    return NO_ENTRY_ID
