"""Journal kind `replayed`: dead letters that became jobs again. They are dead letters again while the job is unread."""

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


def item(dead_id: str, fields: Sequence[bytes], envelope: bytes) -> JournalItem:
    """A dead letter that is about to be replayed, and the envelope its job gets."""
    return dead_letter_item("replayed", dead_id, fields) | {"d": envelope.hex()}


def revert(commands: Commands, keys: Keys, op: str, items: Sequence[JournalItem]) -> Flow[list[str]]:
    """Returns "restored", "already", "gone" or "started"."""
    entry_ids = yield from find_saved_jobs(commands, keys, keys.stream, "entry_id", items)
    replies = yield [
        commands.undo_replay(keys, op, item["dead_id"], entry_id, entry_fields(item))
        for item, entry_id in zip(items, entry_ids, strict=True)
    ]
    return list(map(outcome, replies))
