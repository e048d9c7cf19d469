"""Golden jobs, waiting or parked: what was captured decodes as expected, and encodes to the same bytes.

Where an item records what the reference does with bytes and ours does better, the check states it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from chasqui.errors import WireError
from chasqui.wire import dead_letter_entry, delayed_member, envelope, stream_entry
from chasqui.wire.job_id import created_ms
from chasqui.wire.keys import Keys
from chasqui.wire.payload import from_data
from chasqui.wire.retry_override import Backoff, RetryOverride
from tests import golden
from tests.wire.expected import assert_matches_golden, unhex, with_kind_unknown

Record = Callable[[str, object], None]
Item = golden.Item


def test_envelopes_decode_as_expected_and_are_rewritten_byte_for_byte(record_property: Record) -> None:
    golden.walk("envelope", _check_envelope, record_property)


def test_stream_entries_hold_the_envelope_and_the_name_where_the_reference_puts_them(
    record_property: Record,
) -> None:
    golden.walk("stream_entry", _check_stream_entry, record_property)


def test_delayed_members_are_read_in_every_form_and_written_with_a_four_byte_length(
    record_property: Record,
) -> None:
    golden.walk("delayed_member", _check_delayed_member, record_property)


def test_commands_carry_bytes_that_we_write_the_same(record_property: Record) -> None:
    golden.walk("command", _check_command, record_property)


def _check_envelope(item: Item) -> None:
    data, expect = unhex(item["hex"]["d"]), item["expect"]
    if "id" not in expect and not expect["accepted"]:
        with pytest.raises(WireError) as refused:
            envelope.decode(data)
        assert refused.value.data == data
        return
    job = envelope.decode(data)
    if "id" in expect:
        assert_matches_golden(job, expect)
    if "handler" in expect:
        handed = {
            "id": job.id,
            "payload": (job.payload.octets or b"").hex(),
            "created_at_ms": job.created_at_ms,
            "attempt": job.attempt,
        }
        assert golden.tag(handed) == expect["handler"]
    if item["origin"] == "captured":
        assert envelope.encode(job) == data
        assert envelope.encode(_produced(item, job)) == data
    if "reencoded_attempt_plus_1" in item["hex"]:
        rewritten = envelope.encode(job.with_attempt(job.attempt + 1))
        assert with_kind_unknown(rewritten, job) == unhex(item["hex"]["reencoded_attempt_plus_1"])


def _produced(item: Item, job: envelope.Envelope) -> envelope.Envelope:
    """The job made again from what the producer was given, with the id and the moment that were captured."""
    kwargs = item["context"]["kwargs"]
    data = from_data(golden.value(item["context"]["data"]))
    given = None
    if "attempts" in kwargs or "backoff" in kwargs:
        given = RetryOverride(kwargs.get("attempts"), _given_backoff(kwargs.get("backoff")))
    return envelope.Envelope(job.id, data, job.created_at_ms, 0, given)


def _given_backoff(given: Any) -> Backoff | None:
    if given is None:
        return None
    if isinstance(given, int):
        return Backoff("fixed", given)
    return Backoff(**{name: golden.value(part) for name, part in given.items()})


def _check_stream_entry(item: Item) -> None:
    raw, expect = item["hex"], item["expect"]
    name, d = unhex(raw["n"] or ""), unhex(raw["d"])
    words = [unhex(word) for word in raw["argv"]]
    assert words[1] == Keys(item["context"]["queue"]).stream.encode()
    assert stream_entry.encode(d, expect["name"]) == words[words.index(b"*") + 1 :]
    assert stream_entry.encode_name(expect["name"]) == name
    found = stream_entry.decode(words[words.index(b"*") + 1 :])
    assert found == stream_entry.StreamEntry(d, expect["name"], name, ())
    job = envelope.decode(d)
    assert job.id == expect["id"] == words[4].decode()
    assert envelope.encode(_produced(item, job)) == d
    if "job_id" not in item["context"]["kwargs"]:
        assert created_ms(job.id) == job.created_at_ms


def _check_delayed_member(item: Item) -> None:
    raw, expect = item["hex"], item["expect"]
    member = unhex(raw["member"])
    if expect["form"] == "corrupt":
        with pytest.raises(WireError) as refused:
            delayed_member.decode(member)
        assert refused.value.data == member
        return
    found = delayed_member.decode(member)
    assert found.prefix == {"raw": "none"}.get(expect["form"], expect["form"])
    assert found.name == expect["name"]
    assert found.name_bytes.hex() == expect.get("name_hex", expect["name"].encode().hex())
    assert found.envelope_bytes == unhex(raw["envelope"])
    assert_matches_golden(found.envelope, expect["envelope"])
    _assert_written_alike(found, member)
    if "argv" in raw:
        assert unhex(raw["argv"][-1]) == member
    if "marker_key" in expect:
        keys = Keys(item["context"]["queue"])
        named = keys.delayed_marker(found.envelope.id), keys.delayed_index(found.envelope.id)
        assert named == (expect["marker_key"], expect["index_key"])


def _assert_written_alike(found: delayed_member.DelayedMember, member: bytes) -> None:
    if found.prefix == "none":
        assert found.envelope_bytes == member
    else:
        assert delayed_member.encode(found.envelope_bytes, found.name_bytes, found.prefix) == member
        assert envelope.encode(found.envelope) == found.envelope_bytes


def _check_command(item: Item) -> None:
    {
        "add_bulk": _check_add_bulk,
        "cancel_delayed": _check_cancel,
        "dlq_relocate": _check_relocate,
        "replay_dlq": _check_replay,
    }[item["case"]](item)


def _check_add_bulk(item: Item) -> None:
    jobs = zip(item["context"]["jobs"], item["context"]["ids"], item["hex"]["argvs"], strict=True)
    for given, job_id, argv in jobs:
        words = [unhex(word) for word in argv]
        moment = created_ms(job_id)
        assert moment is not None
        job = envelope.Envelope(job_id, from_data(golden.value(given["data"])), moment)
        assert stream_entry.encode(envelope.encode(job), given["name"]) == words[words.index(b"*") + 1 :]


def _check_cancel(item: Item) -> None:
    keys, job_id = Keys(item["context"]["queue"]), item["context"]["job_id"]
    named = [keys.delayed, keys.delayed_index(job_id), keys.delayed_marker(job_id)]
    assert [unhex(word).decode() for word in item["hex"]["argvs"][0][3:]] == named
    removed = next(call for call in item["hex"]["lua_calls"] if unhex(call[0]) == b"ZREM")
    assert delayed_member.decode(unhex(removed[2])).envelope.id == job_id


def _check_relocate(item: Item) -> None:
    for argv in item["hex"]["argvs"]:
        entry_id, d, reason, name, detail = (unhex(argv[at]) for at in (6, 9, 10, 12, 13))
        letter = dead_letter_entry.DeadLetterEntry(
            d, entry_id.decode(), reason.decode(), detail.decode() or None, name.decode(), name
        )
        assert dead_letter_entry.decode(dead_letter_entry.encode(letter)) == letter
        assert letter.reason in list(dead_letter_entry.DeadLetterReason)


def _check_replay(item: Item) -> None:
    words = [unhex(word) for word in item["hex"]["argv"]]
    for d in words[7::3]:
        job = envelope.decode(d)
        assert job.attempt == 0
        assert envelope.encode(job) == d
