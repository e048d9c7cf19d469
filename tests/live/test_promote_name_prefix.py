"""The promote script and the reader of delayed members take the same bytes for the name, and the same for the job."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Literal

from chasqui.errors import WireError
from chasqui.server.commands import PromoteResult, RawEntry
from chasqui.wire import delayed_member, envelope
from chasqui.wire.envelope import Envelope
from chasqui.wire.payload import Payload, from_data
from tests import golden
from tests.support.queue_harness import QueueHarness

if TYPE_CHECKING:
    from collections.abc import Iterator

Form = Literal["u32le", "u8", "none"]

JOB = envelope.encode(Envelope("job", from_data({"a": [1, 2.5, None]}), 1_794_796_970_468, 3))
LETTERS = ["n", "ñ", "Ł", "ķ", "ف", "ڭ", "名", "🙂", "\0", "\x04"]


def stored(form: Form, name: bytes, data: bytes) -> bytes:
    return data if form == "none" else delayed_member.encode(data, name, form)


def names() -> Iterator[bytes]:
    """Of every length that a first byte may also mean something else by, and of every alphabet's first byte."""
    for letter in LETTERS:
        raw = letter.encode()
        for length in (0, 1, 3, 4, *range(126, 152), *range(218, 226), 255):
            yield (raw * length)[: length - length % len(raw)].ljust(length, b"n")


def envelopes() -> list[bytes]:
    """Every form in which an envelope was captured, and some that begin like something else."""
    found = [bytes.fromhex(item["hex"]["d"]) for item in golden.items("envelope")]
    wide = b"\xdd\x00\x00\x00\x04" + JOB[1:]
    ext = b"\x94\xa1i\xc7\x03\x05abc\x05\x00"
    by_number = b"\x83\x00\xa1i\x01\xc4\x00\x02\x05"
    return [*found, wide, ext, by_number, JOB + b"bytes after it", _holding(JOB)]


def _holding(inner: bytes) -> bytes:
    """A job whose payload holds another, where a first byte taken for a length would lead."""
    return envelope.encode(Envelope("i", Payload("bin", b"f" * (1 + 0x94 - 5) + inner), 1))


def test_every_form_is_split_as_the_reader_splits_it(harnesses: list[QueueHarness]) -> None:
    chance = random.Random("split")
    jobs = envelopes()
    members = {
        stored(form, name, chance.choice([JOB, chance.choice(jobs)])): None
        for name in names()
        for form in ("u32le", "u8")
    }
    members |= dict.fromkeys(jobs)
    read = {member: delayed_member.decode(member) for member in members if _is_readable(member)}
    assert {found.prefix for found in read.values()} == {"u32le", "u8", "none"}
    for b in harnesses:
        for score, member in enumerate(read):
            b.run_calls(b.commands.schedule(b.keys, member, score))
        promoted = PromoteResult.from_reply(b.run_calls(b.commands.promote(b.keys, batch=len(read))))
        assert (promoted.count, promoted.quarantined) == (len(read), 0)
        entries = RawEntry.list_from_reply(b.run_calls(b.commands.oldest_entries(b.keys.stream, len(read))))
        wrong = [
            (b.label, member.hex())
            for (member, found), entry in zip(read.items(), entries, strict=True)
            if list(entry.fields) != _fields(found)
        ]
        assert wrong == []


def test_a_huge_inline_payload_is_promoted_whole(harnesses: list[QueueHarness]) -> None:
    many = b"\x94\xa1i\xdd" + (1_000_000).to_bytes(4, "big") + b"\x80" * 1_000_000 + b"\x05\x00"
    for b in harnesses:
        b.run_calls(b.commands.schedule(b.keys, delayed_member.encode(many, "nm"), 1))
        assert PromoteResult.from_reply(b.run_calls(b.commands.promote(b.keys, batch=1))).envelopes == (many,)
        [entry] = RawEntry.list_from_reply(b.run_calls(b.commands.oldest_entries(b.keys.stream, 1)))
        assert list(entry.fields) == [b"d", many, b"n", b"nm"]


def test_a_broken_envelope_without_the_length_we_write_stays_in_one_piece(
    harnesses: list[QueueHarness],
) -> None:
    broken = [stored("u8", b"mail", JOB)[:-1], JOB[:-1], b"\x94" + b"n" * 148 + b"\x94\xa1"]
    for b in harnesses:
        for score, member in enumerate(broken):
            b.run_calls(b.commands.schedule(b.keys, member, score))
        assert PromoteResult.from_reply(b.run_calls(b.commands.promote(b.keys, batch=9))).quarantined == len(broken)
        letters = RawEntry.list_from_reply(b.run_calls(b.commands.oldest_entries(b.keys.dlq, 9)))
        assert [letter.fields[1] for letter in letters] == broken


def _is_readable(member: bytes) -> bool:
    try:
        delayed_member.decode(member)
    except WireError:
        return False
    return True


def _fields(found: delayed_member.DelayedMember) -> list[bytes]:
    named = [b"n", found.name_bytes] if found.name_bytes else []
    return [b"d", found.envelope_bytes, *named]
