"""Journal kind `added`: jobs that were added. They are removed again while no worker has read them.

The entry of a job is not known when the job is saved, only the entry before it: the job is searched after that one, by
its id and its date.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chasqui.server.flow import batches, call_in_batches
from chasqui.undo.stream_search import find_jobs
from chasqui.wire.envelope import JobStamp

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chasqui.server.commands import Commands
    from chasqui.server.flow import Flow
    from chasqui.undo.stream_search import StreamEnd
    from chasqui.undo.undo_items import JournalItem
    from chasqui.wire.keys import Keys


def item(stamp: JobStamp, end: StreamEnd, *, unique: bool = False, member: bytes | None = None) -> JournalItem:
    """A job that is about to be added, delayed as `member` if it is for later."""
    known = {"kind": "added", "id": stamp.job_id, "created_at_ms": stamp.created_at_ms, "after": end.last_id}
    return known | ({"unique": True} if unique else {}) | ({"member": member.hex()} if member else {})


def revert(commands: Commands, keys: Keys, op: str, items: Sequence[JournalItem]) -> Flow[list[str]]:
    """Returns for each job "restored" when it was removed, "gone" when it no longer waits.

    Running it again removes what is left; nothing is ever written, so nothing can come twice.
    """
    outcomes = ["gone"] * len(items)
    delayed = [at for at, item in enumerate(items) if item.get("member")]
    counts = yield from call_in_batches(
        [items[at] for at in delayed],
        lambda item: commands.cancel_delayed_member(keys, item["id"], bytes.fromhex(item["member"])),
    )
    removed = {at for at, count in zip(delayed, counts, strict=True) if count}
    left = [at for at in range(len(items)) if at not in removed]
    stamps = [(JobStamp(items[at]["id"], items[at]["created_at_ms"]), items[at]["after"]) for at in left]
    found = yield from find_jobs(commands, keys, stamps)
    waiting = [(at, entry_id) for at, entry_id in zip(left, found, strict=True) if entry_id]
    unique: list[str] = []
    for some in batches(waiting):
        [replies] = yield [commands.remove_unread(keys, [(entry_id, b"", 0) for _, entry_id in some])]
        gone = [at for (at, _), reply in zip(some, replies, strict=True) if reply == 1]
        removed.update(gone)
        unique += [items[at]["id"] for at in gone if items[at].get("unique")]
    if unique:
        yield [commands.delete_markers(keys, unique)]
    for at in removed:
        outcomes[at] = "restored"
    return outcomes
