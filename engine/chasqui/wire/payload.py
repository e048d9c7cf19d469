"""What a job carries, kept in the form it was found: inside a bin, or inline in the envelope.

The data is decoded only on demand. Where the payload stands is defined by the envelope.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from chasqui.errors import WireError
from chasqui.wire import msgpack_codec
from chasqui.wire.msgpack_codec import MAX_PAYLOAD, Undecodable, Value
from chasqui.wire.msgpack_scan import end_of

_BIN_HEADS = (0xC4, 0xC5, 0xC6)


class Payload(NamedTuple):
    """A payload in the form that was found.

    "bin": `raw` is the content of a bin, as a rule msgpack of the producer's data. "inline": the data stands
    in the envelope itself, and `raw` is its exact msgpack bytes.
    """

    form: Literal["bin", "inline"]
    raw: bytes

    @property
    def octets(self) -> bytes | None:
        """What the reference hands to a handler: the bin's content, the bytes that an array of small numbers
        spells, or those of text that is not UTF-8. None for every other inline value: it cannot take those.
        """
        return self.raw if self.form == "bin" else _bytes_from_array(self.raw)

    def data(self, limit: int = MAX_PAYLOAD) -> Value:
        """The value that these bytes are: what the bin holds, or what stands inline."""
        return msgpack_codec.unpack(self.raw, limit)

    def handler_value(self, limit: int = MAX_PAYLOAD) -> Value:
        """What a handler gets: the data, and where an inline value spells msgpack, what it spells."""
        octets = self.octets if self.form == "inline" else None
        if octets is not None:
            spelled = msgpack_codec.unpack_or_undecodable(octets, limit)
            if not isinstance(spelled, Undecodable):
                return spelled
        return self.data(limit)

    def data_or_bytes(self, limit: int = MAX_PAYLOAD) -> Value | Undecodable:
        """The value, or the bytes with the reason why they are not one."""
        return msgpack_codec.unpack_or_undecodable(self.raw, limit)

    def to_element(self) -> bytes:
        """The payload as an element of an envelope, its form unchanged."""
        return msgpack_codec.pack(self.raw) if self.form == "bin" else self.raw


def from_data(data: Value) -> Payload:
    """A payload as producers write it: msgpack of the data, in a bin."""
    return Payload("bin", msgpack_codec.pack(data))


def from_element(element: bytes) -> Payload:
    """The payload in these bytes, which must be one msgpack value and nothing more."""
    end = end_of(element)
    if end < len(element):
        raise WireError(f"{len(element) - end} bytes follow the payload", element)
    if element[0] in _BIN_HEADS:
        return Payload("bin", msgpack_codec.unpack(element, len(element)))
    return Payload("inline", element)


def _bytes_from_array(raw: bytes) -> bytes | None:
    # An empty array spells nothing: taken for bytes it would no longer be the empty list it was.
    value = msgpack_codec.unpack_or_undecodable(raw, len(raw))
    if isinstance(value, str):
        return msgpack_codec.non_utf8_bytes(value)
    return bytes(value) if isinstance(value, list) and value and all(map(_is_octet, value)) else None


def _is_octet(value: Value) -> bool:
    return type(value) is int and 0 <= value <= 255
