"""Where msgpack values begin and end, found without building them: no recursion, nothing allocated by header.

Finds the exact bytes of a part, at any depth. `msgpack_codec.py` decodes values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from chasqui.errors import WireError

MsgpackKind = Literal["array", "map", "scalar"]

_FIXED_WIDTH = {
    0xC0: 0, 0xC2: 0, 0xC3: 0,                          # nil, false, true
    0xCA: 4, 0xCB: 8,                                   # floats
    0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8,                 # unsigned
    0xD0: 1, 0xD1: 2, 0xD2: 4, 0xD3: 8,                 # signed
    0xD4: 2, 0xD5: 3, 0xD6: 5, 0xD7: 9, 0xD8: 17,       # fixext: a type byte and the content
}  # fmt: skip
_LENGTH_WIDTH = {
    0xC4: 1, 0xC5: 2, 0xC6: 4,                          # bin
    0xC7: 1, 0xC8: 2, 0xC9: 4,                          # ext
    0xD9: 1, 0xDA: 2, 0xDB: 4,                          # str
}  # fmt: skip
_COUNT_WIDTH: dict[int, tuple[MsgpackKind, int]] = {
    0xDC: ("array", 2), 0xDD: ("array", 4), 0xDE: ("map", 2), 0xDF: ("map", 4),
}  # fmt: skip
_EXT = (0xC7, 0xC8, 0xC9)


@dataclass(frozen=True, slots=True)
class MsgpackParts:
    """One value taken apart: the bytes of each child (a map's keys and values in turn), and what follows it."""

    kind: MsgpackKind
    children: tuple[bytes, ...]
    rest: bytes


def split_value(data: bytes) -> MsgpackParts:
    """The first value of `data`, one level deep."""
    shape, count, at = _read_header(data, 0)
    children = []
    for _ in range(count):
        end = end_of(data, at)
        children.append(data[at:end])
        at = end
    return MsgpackParts(shape, tuple(children), data[at:])


def end_of(data: bytes, at: int = 0) -> int:
    """The position after the value that begins at `at`."""
    pending = 1
    while pending:
        _, count, at = _read_header(data, at)
        pending += count - 1
        if pending > len(data) - at:
            raise _truncated(data)
    return at


def _read_header(data: bytes, at: int) -> tuple[MsgpackKind, int, int]:
    """Shape, number of values inside, and where they begin (for a scalar: where it ends)."""
    if at >= len(data):
        raise _truncated(data)
    shape, count, end = _measure_value(data, at, data[at])
    if end > len(data) or count > len(data) - end:
        raise _truncated(data)
    return shape, count, end


def _measure_value(data: bytes, at: int, first: int) -> tuple[MsgpackKind, int, int]:
    after = at + 1
    if first < 0x80 or first >= 0xE0:
        return "scalar", 0, after
    if first < 0x90:
        return "map", 2 * (first & 0x0F), after
    if first < 0xA0:
        return "array", first & 0x0F, after
    if first < 0xC0:
        return "scalar", 0, after + (first & 0x1F)
    if first in _FIXED_WIDTH:
        return "scalar", 0, after + _FIXED_WIDTH[first]
    if first in _LENGTH_WIDTH:
        body = after + _LENGTH_WIDTH[first]
        return "scalar", 0, body + (first in _EXT) + _number(data, after, body)
    if first in _COUNT_WIDTH:
        shape, width = _COUNT_WIDTH[first]
        return shape, _number(data, after, after + width) * (2 if shape == "map" else 1), after + width
    raise WireError("not msgpack: byte 0xc1", data)


def _number(data: bytes, start: int, end: int) -> int:
    return int.from_bytes(data[start:end], "big")


def _truncated(data: bytes) -> WireError:
    return WireError("not msgpack: it ends too early", data)
