"""What the journal keeps of one changed thing, enough to take the change back. Bytes are in hex."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chasqui.server.commands import Commands
    from chasqui.server.flow import Flow
    from chasqui.wire.keys import Keys

JournalItem = dict[str, Any]


class Revert(Protocol):
    """Takes back what operation `op` did to these items, all of one kind; returns an outcome per item.

    Running it twice has the effect of running it once, so an undo that was cut off may be repeated.
    """

    def __call__(self, commands: Commands, keys: Keys, op: str, items: Sequence[JournalItem], /) -> Flow[list[str]]: ...


def dead_letter_item(kind: str, dead_id: str, fields: Sequence[bytes]) -> JournalItem:
    """A dead letter with every byte of its entry."""
    return {"kind": kind, "dead_id": dead_id, "fields": [word.hex() for word in fields]}


def entry_fields(item: JournalItem) -> list[bytes]:
    """The fields that `dead_letter_item` saved."""
    return [bytes.fromhex(word) for word in item["fields"]]


def outcome(reply: bytes) -> str:
    """An entry id means that the item is back; any other reply is the outcome itself."""
    return "restored" if b"-" in reply else reply.decode()
