"""Bytes from anywhere: whatever they are, a decoder answers or raises `WireError`, and the bytes are kept."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

from chasqui.errors import WireError
from chasqui.wire import (
    dead_letter_entry,
    delayed_member,
    envelope,
    event_entry,
    msgpack_codec,
    repeat_spec,
    result_value,
    stream_entry,
)
from chasqui.wire.msgpack_codec import Undecodable
from tests import golden

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

COUNT = 10_000
DECODERS: dict[str, Callable[[bytes], object]] = {
    "envelope": envelope.decode,
    "delayed_member": delayed_member.decode,
    "repeat_spec": repeat_spec.decode,
    "result": result_value.decode,
    "value": msgpack_codec.unpack,
}
INTERESTING = (
    b"\x00\x7f\x80\x8f\x90\x94\x95\x9f\xa0\xbf\xc0\xc1\xc4\xc6\xc7\xc9\xcb\xcf\xd3\xd4\xd8\xdb\xdc\xdd\xde\xdf\xe0\xff"
)


@pytest.mark.parametrize("name", DECODERS)
def test_only_a_wire_error_that_holds_the_bytes_escapes_from_a_decoder(name: str) -> None:
    decode = DECODERS[name]
    refused = 0
    for data in _inputs(random.Random(name)):
        preserved: bytes | None = None
        try:
            _look_into(decode(data), data)
        except WireError as fault:
            preserved = fault.data
            refused += 1
        assert preserved in (None, data)
    assert 0 < refused < COUNT


def test_entries_of_any_fields_are_read_and_no_field_is_lost() -> None:
    chance = random.Random("fields")
    names = [
        b"d",
        b"n",
        b"e",
        b"id",
        b"ts",
        b"attempt",
        b"reason",
        b"source_id",
        b"detail",
        b"orig:x",
        b"\xff",
    ]
    for _ in range(COUNT):
        flat = [word for _ in range(chance.randrange(6)) for word in (chance.choice(names), chance.randbytes(2))]
        pairs = sorted(zip(flat[::2], flat[1::2], strict=True))
        stream = stream_entry.decode(flat)
        taken = [(b"d", stream.d), (b"n", stream.name_bytes)]
        preserved = [*stream.extra, *(pair for pair in taken if pair[1])]
        assert sorted(preserved) == pairs
        event = event_entry.decode(flat)
        assert event_entry.decode(event_entry.encode(event)) == event
        letter = dead_letter_entry.decode(flat)
        assert dead_letter_entry.decode(dead_letter_entry.encode(letter)) == letter


@pytest.mark.parametrize(
    "bomb",
    [
        b"\xdd\xff\xff\xff\xff",
        b"\xdf\xff\xff\xff\xff",
        b"\xc6\xff\xff\xff\xff",
        b"\xdb\x7f\xff\xff\xff",
        b"\xc9\xff\xff\xff\xff\x01",
        b"\x91" * 5_000,
        b"\x81\x01" * 5_000,
        b"\xdd\x00\x0f\xff\xff" * 1_000,
        b"\x94\xa1i" + b"\x91" * 100_000,
    ],
    ids=lambda bomb: f"{bomb[:6].hex()}x{len(bomb)}",
)
def test_headers_that_promise_too_much_are_refused_by_every_decoder(bomb: bytes) -> None:
    for decode in DECODERS.values():
        with pytest.raises(WireError) as refused:
            decode(bomb)
        assert refused.value.data == bomb


def test_more_bytes_than_the_limit_are_refused_before_they_are_decoded() -> None:
    big = b"\xc6\x00\x20\x00\x00" + bytes(2 << 20)
    for decode in DECODERS.values():
        with pytest.raises(WireError, match="limit of 1048576") as refused:
            decode(big)
        assert refused.value.data == big


def test_a_payload_nested_beyond_all_reason_leaves_its_envelope_readable() -> None:
    deep = b"\x91" * 200_000 + b"\xc0"
    job = envelope.decode(b"\x94\xa1i" + deep + b"\x05\x00")
    assert job.payload.raw == deep
    shown = job.payload.data_or_bytes()
    assert isinstance(shown, Undecodable)
    assert shown.reason == "nested too deeply"
    assert envelope.encode(job) == b"\x94\xa1i" + deep + b"\x05\x00"


def _inputs(chance: random.Random) -> Iterator[bytes]:
    sources = _golden_bytes()
    for turn in range(COUNT):
        yield _noise(chance, 64) if turn % 4 == 0 else _mutated(chance, chance.choice(sources))


def _golden_bytes() -> list[bytes]:
    wanted = [("envelope", "d"), ("delayed_member", "member"), ("repeat_spec", "spec"), ("result", "value")]
    return [bytes.fromhex(item["hex"][field]) for kind, field in wanted for item in golden.items(kind)]


def _noise(chance: random.Random, longest: int) -> bytes:
    return chance.randbytes(chance.randrange(longest))


def _mutated(chance: random.Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(chance.randrange(1, 4)):
        at = chance.randrange(len(changed) + 1)
        how = chance.randrange(4)
        if how == 0:
            changed[at : at + 1] = bytes([chance.choice(INTERESTING)])
        elif how == 1:
            del changed[at : at + chance.randrange(1, 8)]
        elif how == 2:
            changed[at:at] = _noise(chance, 8)
        else:
            changed[at : at + 1] = bytes([chance.randrange(256)])
    return bytes(changed)


def _look_into(found: Any, data: bytes) -> None:
    """What was accepted must be whole: its parts can be shown, and written they read the same again."""
    if isinstance(found, delayed_member.DelayedMember):
        assert data.endswith(found.name_bytes + found.envelope_bytes)
        found = found.envelope
    if isinstance(found, envelope.Envelope):
        found.payload.data_or_bytes()
        again = envelope.decode(envelope.encode(found, exact_payload=True))
        assert repr(again[:5]) == repr(found[:5])
    if isinstance(found, repeat_spec.RepeatSpec):
        found.payload.data_or_bytes()
        assert repr(repeat_spec.decode(repeat_spec.encode(found))) == repr(found)
