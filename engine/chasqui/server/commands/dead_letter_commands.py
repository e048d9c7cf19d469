"""Builders for the dead letters: moving entries there, replaying, rewriting and deleting them, and undoing each.

Their fields are made and read in `wire/dead_entry.py`; which of them deserve another life is not decided here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chasqui.errors import ArgumentError
from chasqui.server.commands.caps import NO_CAP
from chasqui.server.flow import Arg, Call
from chasqui.server.scripts import script_call

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chasqui.server.commands.replies import ReplayItem
    from chasqui.wire.keys import Keys

DEAD_LETTER_MEMORY_S = 30 * 86_400
"""How long a server knows what was brought back or imported: long after anybody would do it a second time by mistake."""
MAX_FIELDS = 1000
"""More would overflow the stack of the server's Lua; for an entry with more, the caller must fold some into one."""


class DeadLetterCommands:
    """The jobs that no worker will try again."""

    __slots__ = ()

    def move_to_dlq(
        self,
        keys: Keys,
        group: str,
        consumer: str,
        entry_id: bytes | str,
        fields: Sequence[Arg],
        *,
        cap: int | None = None,
    ) -> Call:
        """Move an entry to the dead letters; returns the dead letter's id, None if the entry is no longer ours."""
        if len(fields) > 2 * MAX_FIELDS:
            raise ArgumentError(f"a dead letter holds at most {MAX_FIELDS} fields, not {len(fields) // 2}")
        return script_call(
            "move_to_dlq",
            stream=keys.stream,
            dlq=keys.dlq,
            group=group,
            consumer=consumer,
            entry_id=entry_id,
            cap=cap or NO_CAP,
            rest=fields,
        )

    def replay_dead(self, keys: Keys, letters: Sequence[ReplayItem], *, cap: int | None = None) -> Call:
        """Put dead letters back into the stream, up to `cap` entries there.

        Returns for each dead letter the id of its new entry, or b"gone", or b"full" when it stays for want of room.
        """
        rest = [word for letter in letters for word in (letter.dead_id, letter.envelope, letter.name)]
        return script_call("replay_dead", dlq=keys.dlq, stream=keys.stream, cap=cap or NO_CAP, rest=rest)

    def delete_dead(self, keys: Keys, dead_ids: Sequence[bytes | str]) -> Call:
        """Delete dead letters for good; returns how many there were."""
        return Call(("XDEL", keys.dlq, *dead_ids), keys=(keys.dlq,))

    def rewrite_dead(self, keys: Keys, dead_id: str, fields: Sequence[Arg]) -> Call:
        """Replace a dead letter by one with these fields; returns the new id, None if the old one is gone."""
        return script_call("rewrite_dead", dlq=keys.dlq, dead_id=dead_id, rest=fields)

    def restore_dead(self, keys: Keys, op: str, dead_id: str, fields: Sequence[Arg], *, instead: str = "") -> Call:
        """Restore a dead letter that the operation `op` deleted; returns its new id, b"already" or b"gone"."""
        undone = keys.added_marker("undo", op)
        return script_call(
            "restore_dead",
            dlq=keys.dlq,
            undone=undone,
            ttl_s=DEAD_LETTER_MEMORY_S,
            dead_id=dead_id,
            instead=instead,
            rest=fields,
        )

    def undo_replay(self, keys: Keys, op: str, dead_id: str, entry_id: str, fields: Sequence[Arg]) -> Call:
        """Restore a dead letter that `op` replayed, unless its job was read; returns its new id or why not."""
        return script_call(
            "undo_replay",
            stream=keys.stream,
            dlq=keys.dlq,
            undone=keys.added_marker("undo", op),
            ttl_s=DEAD_LETTER_MEMORY_S,
            dead_id=dead_id,
            entry_id=entry_id,
            rest=fields,
        )

    def import_dead(self, keys: Keys, dead_id: str, digest: str, fields: Sequence[Arg], *, again: bool = False) -> Call:
        """Add an exported dead letter; returns its new id, b"there" or b"before"."""
        return script_call(
            "import_dead",
            dlq=keys.dlq,
            imported=imported_key(keys),
            ttl_s=DEAD_LETTER_MEMORY_S,
            dead_id=dead_id,
            digest=digest,
            again=int(again),
            rest=fields,
        )

    def imported_ids(self, keys: Keys, digests: Sequence[str]) -> Call:
        """The ids of the dead letters made of these imports, None for those that were not imported."""
        return Call(("HMGET", imported_key(keys), *digests), keys=(imported_key(keys),))

    def delete_imported(self, keys: Keys, digests: Sequence[str]) -> Call:
        """Let these be imported once more."""
        return Call(("HDEL", imported_key(keys), *digests), keys=(imported_key(keys),))


def imported_key(keys: Keys) -> str:
    """Hash: digests of imported dead letters, and the ids of the dead letters that were made of them."""
    return keys.added_marker("import", "letters")
