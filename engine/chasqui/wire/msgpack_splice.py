"""Msgpack bytes with some of their value changed: what is the same before and after keeps its very bytes.

Packing again would write other lengths of numbers, forget 32-bit floats, and refuse maps that a dict cannot hold.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from chasqui.wire.msgpack_codec import MsgpackMap, pack
from chasqui.wire.msgpack_scan import split_value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chasqui.wire.msgpack_codec import Value


def splice(raw: bytes, before: Value, after: Value) -> bytes:
    """The bytes of `after`. raw: those of `before`."""
    if is_same_value(before, after):
        return raw
    old, new = _pairs(before), _pairs(after)
    if old is not None and new is not None:
        return _splice_map(split_value(raw).children, old, new)
    if isinstance(before, list) and isinstance(after, list):
        children = split_value(raw).children
        items = [
            splice(children[at], before[at], item) if at < len(before) else _pack_new(item)
            for at, item in enumerate(after)
        ]
        return _container_header(0x90, 0xDC, len(items)) + b"".join(items)
    return _pack_new(after)


def is_same_value(one: Value, other: Value) -> bool:
    """Equal as msgpack has it: 1, 1.0 and true are three things, and so are 0.0 and -0.0."""
    if type(one) is not type(other):
        return False
    if isinstance(one, float):
        return (one == other and math.copysign(1, one) == math.copysign(1, other)) or (one != one and other != other)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(is_same_value, one, other))
    old, new = _pairs(one), _pairs(other)
    if old is not None and new is not None:
        return len(old) == len(new) and all(
            is_same_value(a, c) and is_same_value(b, d) for (a, b), (c, d) in zip(old, new, strict=True)
        )
    return bool(one == other)


def _pack_new(value: Value) -> bytes:
    """What was not there before. A map of pairs may hold what `pack` would take for repeated keys."""
    pairs = _pairs(value)
    if pairs is not None:
        return _splice_map((), (), pairs)
    if isinstance(value, list):
        return _container_header(0x90, 0xDC, len(value)) + b"".join(map(_pack_new, value))
    return pack(value)


def _splice_map(
    children: Sequence[bytes], before: Sequence[tuple[Value, Value]], after: Sequence[tuple[Value, Value]]
) -> bytes:
    """Each pair with the bytes of the first one left of the same key."""
    left = list(zip(before, children[::2], children[1::2], strict=True))
    words = [_container_header(0x80, 0xDE, len(after))]
    for key, value in after:
        at = next((at for at, ((old, _), _, _) in enumerate(left) if is_same_value(old, key)), None)
        if at is None:
            words += [_pack_new(key), _pack_new(value)]
            continue
        (_, old_value), key_bytes, value_bytes = left.pop(at)
        words += [key_bytes, splice(value_bytes, old_value, value)]
    return b"".join(words)


def _pairs(value: Value) -> Sequence[tuple[Value, Value]] | None:
    if isinstance(value, MsgpackMap):
        return value.pairs
    return list(value.items()) if isinstance(value, dict) else None


def _container_header(short: int, long: int, length: int) -> bytes:
    """The shortest header of an array or a map."""
    if length < 16:
        return bytes([short | length])
    if length < 1 << 16:
        return bytes([long]) + length.to_bytes(2, "big")
    return bytes([long + 1]) + length.to_bytes(4, "big")
