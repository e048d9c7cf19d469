"""Journal kind `spec`: schedules that were removed, created or replaced."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from chasqui.errors import ServerError, WrongType
from chasqui.server.commands.replies import score_to_ms
from chasqui.server.flow import call_in_batches

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chasqui.server.commands import Commands
    from chasqui.server.flow import Call, Flow, Reply
    from chasqui.undo.undo_items import JournalItem
    from chasqui.wire.keys import Keys


class RawSpec(NamedTuple):
    """What is stored under a key: its bytes, when it fires next, its counter. All None where nothing is."""

    data: bytes | None = None
    next_ms: int | None = None
    fired: bytes | None = None

    @property
    def exists(self) -> bool:
        return self != RawSpec()


def read_raw_specs(commands: Commands, keys: Keys, names: Sequence[str | bytes]) -> Flow[list[RawSpec]]:
    """What is stored under these keys, in one round trip."""
    replies = yield [call for name in names for call in commands.read_repeat(keys, name)]
    return [_raw_spec(*replies[at : at + 2]) for at in range(0, len(replies), 2)]


def _raw_spec(score: Reply, reply: Reply) -> RawSpec:
    if isinstance(reply, ServerError) and not isinstance(reply, WrongType):
        raise reply
    data, fired = (None, None) if isinstance(reply, WrongType) else reply
    return RawSpec(data, None if score is None else score_to_ms(score), fired)


def item(key: bytes, before: RawSpec, after: bytes) -> JournalItem:
    """What a schedule is before it changes. after: the bytes that will be stored instead."""
    return {
        "kind": "spec",
        "key": key.hex(),
        "left": after.hex(),
        "spec": None if before.data is None else before.data.hex(),
        "next_ms": before.next_ms,
        "fired": None if before.fired is None else before.fired.hex(),
    }


def revert(commands: Commands, keys: Keys, op: str, items: Sequence[JournalItem]) -> Flow[list[str]]:
    """Returns for each schedule "restored", "already", or "changed" when it was changed since."""
    replies = yield from call_in_batches(items, lambda item: _restore_call(commands, keys, op, item))
    return [reply.decode() for reply in replies]


def _restore_call(commands: Commands, keys: Keys, op: str, item: JournalItem) -> Call:
    return commands.restore_repeat(
        keys,
        op,
        bytes.fromhex(item["key"]),
        expected_data=bytes.fromhex(item["left"]),
        data=bytes.fromhex(item["spec"] or ""),
        next_ms=item["next_ms"],
        fired=bytes.fromhex(item["fired"] or ""),
    )
