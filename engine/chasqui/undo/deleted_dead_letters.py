"""Journal kind `dead`: dead letters that were deleted, or replaced by an edited one. They are added again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chasqui.undo.stream_search import find_saved_jobs
from chasqui.undo.undo_items import dead_letter_item, entry_fields, outcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chasqui.server.commands import Commands
    from chasqui.server.flow import Flow
    from chasqui.undo.undo_items import JournalItem
    from chasqui.wire.keys import Keys


def item(dead_id: str, fields: Sequence[bytes], edited: bytes | None = None) -> JournalItem:
    """A dead letter that is about to be deleted; `edited`: the envelope that replaces its own."""
    return dead_letter_item("dead", dead_id, fields) | ({} if edited is None else {"d": edited.hex()})


def revert(commands: Commands, keys: Keys, op: str, items: Sequence[JournalItem]) -> Flow[list[str]]:
    """Returns "restored", "already" or "gone"; an edited dead letter that replaced the old one is removed."""
    edited_ids = yield from find_saved_jobs(commands, keys, keys.dlq, "instead", items)
    replies = yield [
        commands.restore_dead(keys, op, item["dead_id"], entry_fields(item), instead=edited_id)
        for item, edited_id in zip(items, edited_ids, strict=True)
    ]
    return list(map(outcome, replies))
