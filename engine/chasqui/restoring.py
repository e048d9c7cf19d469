"""Flows that take back what was done to dead letters: deleted, replayed, imported. Each item can be taken back once.

An item is what the journal kept of a letter, bytes in hex. A server remembers per operation which letters are back, so
a run that was cut off may be repeated.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from chasqui.server.commands import Found, Needle, Slice, Span

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chasqui.server.call import Call, Flow
    from chasqui.server.commands import Commands
    from chasqui.wire.keys import Keys

Item = Mapping[str, Any]

NOWHERE = "0-1"
"""An id that nothing in use has."""
MOST = 100_000
"""How many entries may be looked at for a job whose id was never learned, because the replay was cut off."""


def put_back(commands: Commands, keys: Keys, op: str, items: Sequence[Item]) -> Flow[list[str]]:
    """Bring deleted letters back; where an edited one stands in their place it goes. "restored", "already", "gone"."""
    instead = yield from _places(commands, keys, keys.dlq, "instead", items)
    return (
        yield from _told(
            [
                commands.restore_dead(keys, op, item["dead_id"], _fields(item), instead=place)
                for item, place in zip(items, instead, strict=True)
            ]
        )
    )


def take_back(commands: Commands, keys: Keys, op: str, items: Sequence[Item]) -> Flow[list[str]]:
    """Make replayed jobs dead letters again while nobody has read them. "restored", "already", "gone", "started"."""
    entry_ids = yield from _places(commands, keys, keys.stream, "entry_id", items)
    return (
        yield from _told(
            [
                commands.unreplay(keys, op, item["dead_id"], entry_id, _fields(item))
                for item, entry_id in zip(items, entry_ids, strict=True)
            ]
        )
    )


def take_out(commands: Commands, keys: Keys, op: str, items: Sequence[Item]) -> Flow[list[str]]:
    """Remove letters that were imported, so that they may be imported anew. "removed" or "gone"."""
    digests = [str(item["digest"]) for item in items]
    [known] = yield [commands.imported_as(keys, digests)]
    *counts, _ = yield [
        *(commands.delete_dead(keys, [letter or NOWHERE]) for letter in known),
        commands.forget_imported(keys, digests),
    ]
    return ["removed" if count else "gone" for count in counts]


def _places(
    commands: Commands, keys: Keys, stream: str, learned: str, items: Sequence[Item]
) -> Flow[list[str]]:
    """Where each item's job went: as written down, or else looked for by its bytes.

    Without bytes (`d`) of its own it went nowhere: that is an empty text.
    """
    places: list[str] = []
    for item in items:
        place = item.get(learned) or ("" if "d" not in item else NOWHERE)
        if place == NOWHERE and not (yield from _is_still_dead(commands, keys, item)):
            place = yield from _found(commands, stream, bytes.fromhex(item["d"]))
        places.append(place)
    return places


def _is_still_dead(commands: Commands, keys: Keys, item: Item) -> Flow[bool]:
    """Whether the operation never came to this letter; then there is nothing to look for."""
    [rows] = yield [commands.between(keys.dlq, item["dead_id"], item["dead_id"], 1)]
    return bool(rows)


def _found(commands: Commands, stream: str, data: bytes) -> Flow[str]:
    """The newest entry with these bytes."""
    looked, span = 0, Span(backwards=True)
    while looked < MOST:
        [reply] = yield [commands.find_entry(stream, Needle("d", data, whole=True), span, bound=Slice())]
        found = Found.of(reply)
        if found.entry_ids:
            return found.entry_ids[0]
        if found.last_id is None:
            break
        looked, span = looked + found.looked, span.beyond(found.last_id)
    return NOWHERE


def _told(calls: Sequence[Call]) -> Flow[list[str]]:
    answers = yield calls
    return ["restored" if b"-" in answer else answer.decode() for answer in answers]


def _fields(item: Item) -> list[bytes]:
    return [bytes.fromhex(word) for word in item["fields"]]
