"""Flows that take back what was done to dead letters: deleted, replayed, imported. Each item can be taken back once.

An item is what the journal kept of a letter, bytes in hex. A server remembers per operation which letters are back, so
a run that was cut off may be repeated.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from chasqui.server.commands import EntrySearchResult, IdRange, SearchBudget, SearchTerm

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chasqui.server.commands import Commands
    from chasqui.server.flow import Call, Flow
    from chasqui.wire.keys import Keys

JournalItem = Mapping[str, Any]

NO_ENTRY_ID = "0-1"
"""An id that nothing in use has."""
MAX_SCANNED_BY_BYTES = 100_000
"""How many entries may be looked at for a job whose id was never learned, because the replay was cut off."""


def revert_deleted(commands: Commands, keys: Keys, op: str, items: Sequence[JournalItem]) -> Flow[list[str]]:
    """Bring deleted letters back; where an edited one stands in their place it goes. "restored", "already", "gone"."""
    instead = yield from find_saved_jobs(commands, keys, keys.dlq, "instead", items)
    return (
        yield from _outcomes(
            [
                commands.restore_dead(keys, op, item["dead_id"], _entry_fields(item), instead=place)
                for item, place in zip(items, instead, strict=True)
            ]
        )
    )


def revert_replayed(commands: Commands, keys: Keys, op: str, items: Sequence[JournalItem]) -> Flow[list[str]]:
    """Make replayed jobs dead letters again while nobody has read them. "restored", "already", "gone", "started"."""
    entry_ids = yield from find_saved_jobs(commands, keys, keys.stream, "entry_id", items)
    return (
        yield from _outcomes(
            [
                commands.undo_replay(keys, op, item["dead_id"], entry_id, _entry_fields(item))
                for item, entry_id in zip(items, entry_ids, strict=True)
            ]
        )
    )


def revert_imported(commands: Commands, keys: Keys, op: str, items: Sequence[JournalItem]) -> Flow[list[str]]:
    """Remove letters that were imported, so that they may be imported anew. "removed" or "gone"."""
    digests = [str(item["digest"]) for item in items]
    [known] = yield [commands.imported_ids(keys, digests)]
    *counts, _ = yield [
        *(commands.delete_dead(keys, [letter or NO_ENTRY_ID]) for letter in known),
        commands.delete_imported(keys, digests),
    ]
    return ["removed" if count else "gone" for count in counts]


def find_saved_jobs(
    commands: Commands, keys: Keys, stream: str, learned: str, items: Sequence[JournalItem]
) -> Flow[list[str]]:
    """Where each item's job went: as written down, or else looked for by its bytes.

    Without bytes (`d`) of its own it went nowhere: that is an empty text.
    """
    places: list[str] = []
    for item in items:
        place = item.get(learned) or ("" if "d" not in item else NO_ENTRY_ID)
        if place == NO_ENTRY_ID and not (yield from _is_still_dead_letter(commands, keys, item)):
            place = yield from _find_by_bytes(commands, stream, bytes.fromhex(item["d"]))
        places.append(place)
    return places


def _is_still_dead_letter(commands: Commands, keys: Keys, item: JournalItem) -> Flow[bool]:
    """Whether the operation never came to this letter; then there is nothing to look for."""
    [rows] = yield [commands.entries_between(keys.dlq, item["dead_id"], item["dead_id"], 1)]
    return bool(rows)


def _find_by_bytes(commands: Commands, stream: str, data: bytes) -> Flow[str]:
    """The newest entry with these bytes."""
    looked, span = 0, IdRange(backwards=True)
    while looked < MAX_SCANNED_BY_BYTES:
        [reply] = yield [commands.find_entries(stream, SearchTerm("d", data, whole=True), span, bound=SearchBudget())]
        found = EntrySearchResult.from_reply(reply)
        if found.entry_ids:
            return found.entry_ids[0]
        if found.last_id is None:
            break
        looked, span = looked + found.looked, span.after(found.last_id)
    return NO_ENTRY_ID


def _outcomes(calls: Sequence[Call]) -> Flow[list[str]]:
    answers = yield calls
    return ["restored" if b"-" in answer else answer.decode() for answer in answers]


def _entry_fields(item: JournalItem) -> list[bytes]:
    return [bytes.fromhex(word) for word in item["fields"]]
