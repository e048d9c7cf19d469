"""Builders for repeatable jobs: stored, removed, fired.

A spec's bytes are made and read in `wire/repeat_spec.py`, and when it fires next is reckoned in `cron.py`.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from chasqui.server.commands.caps import NO_CAP, UNDONE_MEMORY_S
from chasqui.server.flow import Call
from chasqui.server.scripts import script_call

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chasqui.server.commands.replies import PlannedFire
    from chasqui.wire.keys import Keys


class ScheduleCommands:
    """The schedule."""

    __slots__ = ()

    def upsert_repeat(self, keys: Keys, key: str, data: bytes, *, next_ms: int) -> Call:
        """Create or replace a spec, keeping its counter; answers 1 for a new one, 0 for a replaced one."""
        return script_call(
            "upsert_repeat", repeats=keys.repeat, spec=keys.repeat_spec(key), key=key, next_ms=next_ms, data=data
        )

    def remove_repeat(self, keys: Keys, key: str | bytes) -> Call:
        """Remove a spec and its counter; answers 1, or 0 when it was not scheduled."""
        return script_call("remove_repeat", repeats=keys.repeat, spec=_spec_key(keys, key), key=key)

    def read_repeat(self, keys: Keys, key: str | bytes) -> tuple[Call, Call]:
        """When a spec fires next (None: it is not scheduled), and its bytes and counter."""
        name = _spec_key(keys, key)
        return (
            Call(("ZSCORE", keys.repeat, key), keys=(keys.repeat,)),
            Call(("HMGET", name, "spec", "fired"), keys=(name,), tolerant=True),
        )

    def restore_repeat(
        self,
        keys: Keys,
        operation: str,
        key: bytes,
        *,
        expected_data: bytes,
        data: bytes,
        next_ms: int | None,
        fired: bytes,
    ) -> Call:
        """Restore a spec that an operation stored or removed, if it is still what was `left`; returns the outcome."""
        return script_call(
            "restore_repeat",
            repeats=keys.repeat,
            spec=_spec_key(keys, key),
            undone=keys.added_marker(f"undo-{operation}", hashlib.sha256(key).hexdigest()),
            key=key,
            left=expected_data,
            data=data,
            next_ms="" if next_ms is None else next_ms,
            fired=fired,
            ttl_s=UNDONE_MEMORY_S,
        )

    def fire_repeat(
        self,
        keys: Keys,
        key: str,
        fires: Sequence[PlannedFire],
        *,
        due_ms: int,
        next_ms: int | None,
        limit: int | None = None,
        end_before_ms: int | None = None,
        cap: int | None = None,
    ) -> Call:
        """Fire a spec that is still due at `due_ms` and move it to `next_ms`; `FireResult.from_reply` reads the answer.

        It is removed when there is no next time, the next one lies after `end_before_ms`, or `limit` is reached.
        """
        return script_call(
            "fire_repeat",
            stream=keys.stream,
            delayed=keys.delayed,
            repeats=keys.repeat,
            spec=keys.repeat_spec(key),
            key=key,
            due_ms=due_ms,
            next_ms=next_ms or 0,
            limit=limit or 0,
            end_before_ms=end_before_ms or 0,
            cap=cap or NO_CAP,
            rest=[word for fire in fires for word in (fire.at_ms, fire.envelope, fire.name)],
        )


def _spec_key(keys: Keys, key: str | bytes) -> str | bytes:
    """The key of a spec's hash; another program may have given it a name that is not text."""
    return (
        keys.repeat_spec(key) if isinstance(key, str) else keys.repeat_spec("").encode("utf-8", "surrogateescape") + key
    )
