"""The one place that calls msgpack: values to canonical bytes, bytes to values that lose nothing.

What the bytes mean (job, spec, result) is the business of the other files in this room.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date
from typing import Any

import msgpack
from msgpack import ExtType as ExtType
from msgpack import Timestamp as Timestamp

from chasqui.defaults import WorkerOptions
from chasqui.errors import ArgumentError, WireError

Value = Any  # None, bool, int, float, str, bytes, list, dict (text keys), Pairs, ExtType, Timestamp
PackFunction = Callable[[Value], bytes]

MAX_PAYLOAD = WorkerOptions().max_payload_bytes
U32_MAX = 2**32 - 1
U64_MAX = 2**64 - 1


@dataclass(frozen=True, slots=True)
class MsgpackMap:
    """A map that a dict with text keys cannot hold: other keys, repeated keys, keys that have no hash."""

    pairs: tuple[tuple[Value, Value], ...]

    def __len__(self) -> int:
        return len(self.pairs)

    def __getitem__(self, key: Value) -> Value:
        for found, value in reversed(self.pairs):
            if type(found) is type(key) and found == key:
                return value
        raise KeyError(key)


@dataclass(frozen=True, slots=True)
class Undecodable:
    """Stands where a value should be: the bytes, and why they are none."""

    raw: bytes
    reason: str


def pack(value: Value) -> bytes:
    """Canonical bytes: shortest integer and length forms, 64-bit floats, text and bin kept apart."""
    return packer()(value)


def packer() -> PackFunction:
    """A `pack` to keep for a batch, at a third of the price; not to be shared between threads."""
    native = msgpack.Packer(default=_pack_default)

    def pack_one(value: Value) -> bytes:
        try:
            return bytes(native.pack(value))
        except _PACK_ERRORS as fault:
            raise _argument_error(fault) from fault

    return pack_one


def pack_each(values: Iterable[Value]) -> list[bytes]:
    """Every value on its own; for thousands of them the cheapest way there is."""
    native = msgpack.Packer(default=_pack_default)
    try:
        return list(map(native.pack, values))
    except _PACK_ERRORS as fault:
        raise _argument_error(fault) from fault


_PACK_ERRORS = (TypeError, ValueError, OverflowError, RecursionError, BufferError)


def _argument_error(fault: Exception) -> ArgumentError:
    if isinstance(fault, ArgumentError):
        return fault
    if isinstance(fault, UnicodeEncodeError):
        return ArgumentError(f"text that is not valid Unicode cannot be stored: {fault.reason}")
    return ArgumentError(f"cannot be stored: {fault}")


def unpack(data: bytes, limit: int = MAX_PAYLOAD) -> Value:
    """The one value these bytes are. Text that is not UTF-8 keeps its bytes as lone surrogates.

    Only `WireError` is raised, whatever the bytes: `unpackb` bounds every length by the input's own, and
    the input is bounded here.
    """
    if len(data) > limit:
        raise WireError(f"{len(data)} bytes, over the limit of {limit}", data)
    try:
        return msgpack.unpackb(
            data,
            strict_map_key=False,
            object_pairs_hook=_unpack_map,
            ext_hook=_unpack_ext,
            unicode_errors="surrogateescape",
        )
    except msgpack.ExtraData as fault:
        raise WireError(f"{len(fault.extra)} bytes follow the value", data) from fault
    except msgpack.StackError as fault:
        raise WireError("nested too deeply", data) from fault
    except msgpack.FormatError as fault:
        raise WireError("not msgpack: byte 0xc1", data) from fault
    except (ValueError, TypeError, OverflowError, RecursionError, MemoryError) as fault:
        raise WireError(f"not msgpack: {fault}", data) from fault


def unpack_or_undecodable(data: bytes, limit: int = MAX_PAYLOAD) -> Value | Undecodable:
    """The value, or the bytes with the reason why they are not one."""
    try:
        return unpack(data, limit)
    except WireError as fault:
        return Undecodable(data, str(fault))


def non_utf8_bytes(value: Value) -> bytes | None:
    """The bytes of a str or bin that is not UTF-8; None for any other value."""
    raw = value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value
    if not isinstance(raw, bytes):
        return None
    try:
        raw.decode()
    except UnicodeDecodeError:
        return raw
    return None


def _unpack_map(pairs: list[tuple[Value, Value]]) -> dict[str, Value] | MsgpackMap:
    found: dict[str, Value] = {}
    for key, value in pairs:
        if type(key) is not str or key in found:
            return MsgpackMap(tuple(pairs))
        found[key] = value
    return found


def _unpack_ext(code: int, data: bytes) -> ExtType:
    # Its own constructor refuses the reserved codes below zero, though it carries and writes them well.
    return tuple.__new__(ExtType, (code, data))


def _pack_default(value: object) -> Value:
    if isinstance(value, MsgpackMap):
        return _as_dict(value)
    if isinstance(value, int):
        raise ArgumentError("a number that does not fit 64 bits cannot be stored")
    hint = "store value.isoformat(), or a number of milliseconds" if isinstance(value, date) else None
    raise ArgumentError(f"{type(value).__name__} cannot be stored", hint=hint)


def _as_dict(value: MsgpackMap) -> dict[Value, Value]:
    try:
        plain = dict(value.pairs)
    except TypeError as fault:
        raise ArgumentError("a map whose keys are lists or maps cannot be stored") from fault
    if len(plain) < len(value):
        raise ArgumentError("a map with repeated keys cannot be stored")
    return plain
