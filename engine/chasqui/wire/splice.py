"""Msgpack bytes with some of their value changed: what is the same before and after keeps its very bytes.

Packing anew would write other lengths of numbers, forget 32-bit floats, and refuse maps that a dict cannot hold.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from chasqui.wire.packed import Pairs, pack
from chasqui.wire.walk import parts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chasqui.wire.packed import Value


def spliced(raw: bytes, before: Value, after: Value) -> bytes:
    """The bytes of `after`. raw: those of `before`."""
    if same(before, after):
        return raw
    old, new = _pairs(before), _pairs(after)
    if old is not None and new is not None:
        return _map(parts(raw).children, old, new)
    if isinstance(before, list) and isinstance(after, list):
        children = parts(raw).children
        items = [
            spliced(children[at], before[at], item) if at < len(before) else _new(item)
            for at, item in enumerate(after)
        ]
        return _head(0x90, 0xDC, len(items)) + b"".join(items)
    return _new(after)


def same(one: Value, other: Value) -> bool:
    """Equal as msgpack has it: 1, 1.0 and true are three things, and so are 0.0 and -0.0."""
    if type(one) is not type(other):
        return False
    if isinstance(one, float):
        return (one == other and math.copysign(1, one) == math.copysign(1, other)) or (
            one != one and other != other
        )
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    old, new = _pairs(one), _pairs(other)
    if old is not None and new is not None:
        return len(old) == len(new) and all(
            same(a, c) and same(b, d) for (a, b), (c, d) in zip(old, new, strict=True)
        )
    return bool(one == other)


def _new(value: Value) -> bytes:
    """What was not there before. A map of pairs may hold what `pack` would take for repeated keys."""
    pairs = _pairs(value)
    if pairs is not None:
        return _map((), (), pairs)
    if isinstance(value, list):
        return _head(0x90, 0xDC, len(value)) + b"".join(map(_new, value))
    return pack(value)


def _map(
    children: Sequence[bytes],
    before: Sequence[tuple[Value, Value]],
    after: Sequence[tuple[Value, Value]],
) -> bytes:
    """Each pair with the bytes of the first one left of the same key."""
    left = list(zip(before, children[::2], children[1::2], strict=True))
    words = [_head(0x80, 0xDE, len(after))]
    for key, value in after:
        at = next((at for at, ((old, _), _, _) in enumerate(left) if same(old, key)), None)
        if at is None:
            words += [_new(key), _new(value)]
            continue
        (_, old_value), key_bytes, value_bytes = left.pop(at)
        words += [key_bytes, spliced(value_bytes, old_value, value)]
    return b"".join(words)


def _pairs(value: Value) -> Sequence[tuple[Value, Value]] | None:
    if isinstance(value, Pairs):
        return value.pairs
    return list(value.items()) if isinstance(value, dict) else None


def _head(short: int, long: int, length: int) -> bytes:
    """The shortest header of an array or a map."""
    if length < 16:
        return bytes([short | length])
    if length < 1 << 16:
        return bytes([long]) + length.to_bytes(2, "big")
    return bytes([long + 1]) + length.to_bytes(4, "big")
