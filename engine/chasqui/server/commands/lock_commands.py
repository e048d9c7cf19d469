"""Builders for the two locks that make one promoter and one scheduler out of many workers, and for looking at them.

Lock keys, holders and times are those of the reference, so both kinds of worker share one leader.
"""

from __future__ import annotations

from chasqui.server.flow import Call
from chasqui.server.scripts import script_call


class LockCommands:
    """Who leads."""

    __slots__ = ()

    def acquire_lock(self, lock: str, holder: str, *, ttl_s: int) -> Call:
        """Take the lock if it is free, extend it if it is ours; `Lease.of` reads the answer."""
        return script_call("acquire_lock", lock=lock, holder=holder, ttl_s=ttl_s)

    def release_lock(self, lock: str, holder: str | bytes) -> Call:
        """Free the lock if this holder has it; answers 1 or 0. With a stranger's name it frees a stuck lock."""
        return script_call("release_lock", lock=lock, holder=holder)

    def lock_holder(self, lock: str) -> Call:
        """Who has the lock now, or None."""
        return Call(("GET", lock), keys=(lock,))

    def expires_in(self, key: str) -> Call:
        """Until the key expires, in ms; -1 for never, -2 when there is no such key."""
        return Call(("PTTL", key), keys=(key,))
