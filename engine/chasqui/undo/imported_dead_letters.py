"""Journal kind `imported`: dead letters from an export. They are removed, and may be imported again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chasqui.undo.stream_search import NO_ENTRY_ID

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chasqui.server.commands import Commands
    from chasqui.server.flow import Flow
    from chasqui.undo.undo_items import JournalItem
    from chasqui.wire.keys import Keys


def item(dead_id: str, digest: str) -> JournalItem:
    """A dead letter that is about to be imported."""
    return {"kind": "imported", "dead_id": dead_id, "digest": digest}


def revert(commands: Commands, keys: Keys, op: str, items: Sequence[JournalItem]) -> Flow[list[str]]:
    """Returns "removed" or "gone"."""
    digests = [str(item["digest"]) for item in items]
    [new_ids] = yield [commands.imported_ids(keys, digests)]
    *counts, _ = yield [
        *(commands.delete_dead(keys, [new_id or NO_ENTRY_ID]) for new_id in new_ids),
        commands.delete_imported(keys, digests),
    ]
    return ["removed" if count else "gone" for count in counts]
