"""An entry of the work stream: field `d`, the envelope, then `n`, the name, when there is one.

Reads the entries of every producer; `envelope.py` decodes the envelope.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from chasqui.defaults import ProducerOptions
from chasqui.errors import ArgumentError
from chasqui.wire.entry_fields import EntryFields, FieldPair

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_NAME_BYTES = ProducerOptions().max_name_bytes


class StreamEntry(NamedTuple):
    """The fields of one entry. `d` is None where the field is missing, which is not the same as empty.

    name: the text of `n`, or "" when that is not UTF-8 or not there. name_bytes: `n` unchanged.
    extra: all other fields, in order, later ones of the same name included.
    """

    d: bytes | None
    name: str = ""
    name_bytes: bytes = b""
    extra: tuple[FieldPair, ...] = ()


def encode(envelope: bytes, name: str | bytes = "") -> list[bytes]:
    """The words after the entry id in an XADD. A name may be given as the bytes that were found."""
    raw = name.encode() if isinstance(name, str) else name
    return [b"d", envelope, b"n", raw] if raw else [b"d", envelope]


def decode(flat: Sequence[bytes]) -> StreamEntry:
    """The entry in the fields as Redis sent them."""
    if len(flat) == 2 and flat[0] == b"d":
        return StreamEntry(flat[1])
    fields = EntryFields(flat)
    d, name = fields.raw(b"d"), fields.raw(b"n") or b""
    return StreamEntry(d, decode_name(name), name, fields.rest)


def decode_name(name: bytes) -> str:
    """A name as text: the reference delivers one that is not UTF-8 as no name at all."""
    try:
        return name.decode()
    except UnicodeDecodeError:
        return ""


def encode_name(name: str, max_bytes: int = MAX_NAME_BYTES) -> bytes:
    """A producer's name as bytes. Readers take any length, so only adding is bounded."""
    try:
        raw = name.encode()
    except UnicodeEncodeError as fault:
        raise ArgumentError(f"job name is not valid Unicode: {fault.reason}") from fault
    if len(raw) > max_bytes:
        raise ArgumentError(f"job name exceeds {max_bytes}-byte cap (got {len(raw)} bytes)")
    return raw
