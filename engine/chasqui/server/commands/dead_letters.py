"""Builders for the dead letters: buried, put back to work, deleted.

Their fields are made and read in `wire/dead_entry.py`; which of them deserve another life is not decided here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chasqui.errors import ArgumentError
from chasqui.server.call import Call, Word
from chasqui.server.commands.caps import NO_CAP
from chasqui.server.scripts import script

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chasqui.server.commands.values import Letter
    from chasqui.wire.keys import Keys

MAX_FIELDS = 1000
"""More would overflow the stack of a server's Lua; who buries an entry with more must fold some into one."""


class DeadLetters:
    """The jobs nobody will try again by himself."""

    __slots__ = ()

    def bury(
        self,
        keys: Keys,
        group: str,
        consumer: str,
        entry_id: bytes | str,
        fields: Sequence[Word],
        *,
        cap: int | None = None,
    ) -> Call:
        """Move an entry to the dead letters; answers the letter's id, None if the entry is no longer ours."""
        if len(fields) > 2 * MAX_FIELDS:
            raise ArgumentError(f"a dead letter holds at most {MAX_FIELDS} fields, not {len(fields) // 2}")
        return script(
            "bury",
            stream=keys.stream,
            dlq=keys.dlq,
            group=group,
            consumer=consumer,
            entry_id=entry_id,
            cap=cap or NO_CAP,
            rest=fields,
        )

    def replay_dead(self, keys: Keys, letters: Sequence[Letter], *, cap: int | None = None) -> Call:
        """Put letters back into the stream, up to `cap` entries there.

        Answers for each letter the id of its new entry, or b"gone", or b"full" when it stays for want of room.
        """
        rest = [word for letter in letters for word in (letter.dead_id, letter.envelope, letter.name)]
        return script("replay_dead", dlq=keys.dlq, stream=keys.stream, cap=cap or NO_CAP, rest=rest)

    def delete_dead(self, keys: Keys, dead_ids: Sequence[bytes | str]) -> Call:
        """Delete letters for good; answers how many there were."""
        return Call(("XDEL", keys.dlq, *dead_ids), keys=(keys.dlq,))
