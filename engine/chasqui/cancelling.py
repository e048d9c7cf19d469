"""Flows that take one delayed job back by its id, with everything needed to put it there again.

A job is removed by its exact bytes, also one that was scheduled without an id of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from chasqui import search
from chasqui.server.call import Call
from chasqui.server.commands.values import whole_ms

if TYPE_CHECKING:
    from chasqui.search import Looked, Member
    from chasqui.server.call import Flow
    from chasqui.server.commands import Commands
    from chasqui.wire.keys import Keys


@dataclass(frozen=True, slots=True)
class Held:
    """A delayed job, and for how many ms its id finds it and is taken; 0 where it does not and is not."""

    job_id: str
    member: Member
    index_ms: int = 0
    marker_ms: int = 0

    def item(self) -> dict[str, Any]:
        """What to write down before it is cancelled."""
        return {
            "kind": "delayed",
            "action": "cancelled",
            "id": self.job_id,
            "member": self.member.data.hex(),
            "run_at_ms": self.member.run_at_ms,
            "index_ms": self.index_ms,
            "marker_ms": self.marker_ms,
            "after": "0-0",
        }


def find(
    commands: Commands, keys: Keys, job_id: str, *, most: int
) -> Flow[tuple[Held | None, Looked | None]]:
    """The delayed job of this id: where its index points, or by a search that says how far it went."""
    index, marker = keys.delayed_index(job_id), keys.delayed_marker(job_id)
    data, index_ms, marker_ms = yield [
        Call(("GET", index), keys=(index,)),
        Call(("PTTL", index), keys=(index,)),
        Call(("PTTL", marker), keys=(marker,)),
    ]
    if data is not None:
        [due] = yield [Call(("ZSCORE", keys.delayed, data), keys=(keys.delayed,))]
        if due is not None:
            member = search.member_of(data, whole_ms(due))
            return Held(job_id, member, max(0, index_ms), max(0, marker_ms)), None
    found, looked = yield from search.members(commands, keys.delayed, job_id, most=most)
    return (Held(job_id, found) if found else None), looked


def cancel(commands: Commands, keys: Keys, held: Held) -> Flow[bool]:
    """Remove it and forget its id; whether it was still there."""
    if held.index_ms:
        [removed] = yield [commands.cancel_delayed(keys, held.job_id)]
    else:
        [removed] = yield [commands.remove_delayed(keys, [held.member.data])]
    return bool(removed)
