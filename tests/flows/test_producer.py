from __future__ import annotations

import pytest

from chasqui import producer
from chasqui.errors import ArgumentError
from chasqui.options import Producer
from chasqui.producer import NewJob
from chasqui.server.commands import Commands
from chasqui.server.features import Features
from chasqui.wire import delayed_member, envelope
from chasqui.wire.keys import Keys
from chasqui.wire.retry_override import Backoff, RetryOverride
from tests.flows.play import play

KEYS = Keys("mail")
NATIVE = Commands(Features(True, True, True, "redis", "8.6.3"))
NOW = 1_794_796_970_454


def test_many_jobs_are_added_in_one_round_trip() -> None:
    jobs = [NewJob({"n": n}, f"job-{n}") for n in range(100)]
    flow = producer.add(NATIVE, KEYS, jobs, producer_id="p", now_ms=NOW)
    added, rounds = play(flow, [[b"1-%d" % n for n in range(100)]])
    assert rounds == 1
    assert [one.entry_id for one in added] == [f"1-{n}" for n in range(100)]
    assert len({one.id for one in added}) == 100


def test_an_added_job_is_said_as_the_reference_says_it() -> None:
    flow = producer.add(
        NATIVE, KEYS, [NewJob({"a": 1}, "hi", id="x")], producer_id="p", now_ms=NOW, cap=1_000_000
    )
    [call] = next(flow)
    d = bytes.fromhex("94a178c40481a16101cf000001a1e23c61d600")
    assert call.words == (
        "XADD", "{chasqui:mail}:stream", "IDMP", "p", "x", "MAXLEN", "~", 1_000_000, "*", b"d", d, b"n", b"hi",
    )  # fmt: skip


def test_a_delayed_job_is_written_with_a_four_byte_prefix() -> None:
    member = _member(None)
    assert member[:6] == b"\x02\x00\x00\x00hi"
    assert delayed_member.decode(member).prefix == "u32le"


def test_an_option_writes_the_one_byte_prefix_of_the_public_page() -> None:
    member = _member(Producer(delayed_prefix="u8"))
    assert member[:3] == b"\x02hi"
    assert delayed_member.decode(member).prefix == "u8"


def test_later_is_counted_from_the_time_given() -> None:
    flow = producer.add_later(NATIVE, KEYS, [NewJob(1)], delay_ms=60_000, now_ms=NOW)
    [added], rounds = play(flow, [[1]])
    assert rounds == 1
    assert added.run_at_ms == NOW + 60_000
    assert added.entry_id is None


def test_a_retry_rule_travels_with_the_job() -> None:
    rule = RetryOverride(5, Backoff("fixed", 250))
    flow = producer.add(NATIVE, KEYS, [NewJob(1, retry=rule)], producer_id="p", now_ms=NOW)
    [call] = next(flow)
    assert envelope.decode(call.words[call.words.index(b"d") + 1]).retry == rule  # type: ignore[arg-type]  # it is bytes


@pytest.mark.parametrize(
    ("job", "said"),
    [
        (NewJob(1, "n" * 257), "job name exceeds 256-byte cap"),
        (NewJob(1, id=" "), "non-empty"),
        (NewJob(object()), "cannot be stored"),
        (NewJob(1, retry=RetryOverride(1, Backoff("linear", 1))), "unknown backoff kind"),
    ],
)
def test_one_unfit_job_keeps_the_whole_batch_from_being_sent(job: NewJob, said: str) -> None:
    flow = producer.add(NATIVE, KEYS, [NewJob(1), job], producer_id="p", now_ms=NOW)
    with pytest.raises(ArgumentError, match=said):
        next(flow)


def test_a_delay_beyond_the_limit_is_refused() -> None:
    flow = producer.add_later(NATIVE, KEYS, [NewJob(1)], delay_ms=2_592_001_000, now_ms=NOW)
    with pytest.raises(ArgumentError, match="exceeds max_delay_secs"):
        next(flow)


def _member(options: Producer | None) -> bytes:
    flow = producer.add_later(NATIVE, KEYS, [NewJob(1, "hi")], delay_ms=1, now_ms=NOW, options=options)
    [call] = next(flow)
    member = call.words[-1]
    assert isinstance(member, bytes)
    return member
