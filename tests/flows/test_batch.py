"""Adding jobs, without a server: what is sent, in how many round trips, and what the replies mean."""

from __future__ import annotations

from typing import Any

import pytest

from chasqui.defaults import ProducerOptions
from chasqui.errors import ArgumentError, AuthRefused, QueueFull, ServerError, Unreachable, WrongType
from chasqui.models import Job
from chasqui.produce.batch import Batch, JobOptions, PackedJobs, add_jobs
from chasqui.produce.delivery import Delivery, ProducerMemory, send_delivery
from chasqui.server.commands import Commands, DelayFromNow
from chasqui.server.features import Features
from chasqui.server.flow import Call
from chasqui.wire import delayed_member, envelope
from chasqui.wire.keys import Keys
from chasqui.wire.retry_override import Backoff, RetryOverride
from tests.support.flow_player import run_flow, run_flow_recording

KEYS = Keys("mail")
NATIVE = Commands(Features(True, True, True, "redis", "8.6.3"))
NOW = 1_794_796_970_454
GROWING = ProducerOptions(cap=None)
CLOCK = [str(NOW // 1000).encode(), b"454000"]


def job(number: int = 0, data: Any = None, name: str = "hi", job_id: str | None = None) -> Job:
    return Job(job_id or f"id-{number}", name, {"a": 1} if data is None else data, 0, NOW)


def jobs(count: int) -> list[Job]:
    return [job(number) for number in range(count)]


def adding(batch: Batch, memory: ProducerMemory | None = None, options: ProducerOptions = GROWING) -> Any:
    return add_jobs(NATIVE, KEYS, PackedJobs.pack(batch, options), memory or ProducerMemory("p", depth=0))


def sent(batch: Batch, options: ProducerOptions = GROWING) -> list[Call]:
    return list(next(adding(batch, options=options)))


# What is sent


def test_an_added_job_is_the_reference_s_command_without_the_trimming() -> None:
    [call] = sent(Batch.of([job(job_id="x")]))
    d = bytes.fromhex("94a178c40481a16101cf000001a1e23c61d600")
    assert call.args == ("XADD", "{chasqui:mail}:stream", "IDMP", "p", "x", "*", b"d", d, b"n", b"hi")


def test_many_jobs_are_added_in_one_round_trip_by_runs_of_five_hundred() -> None:
    delivery, [train] = run_flow_recording(adding(Batch.of(jobs(1001))), [[b"1-0", b"2-0", b"3-0"]])
    assert [call.script for call in train] == ["add_batch", "add_batch", None]
    assert train[2].args[0] == "XADD"
    assert [len(piece.indexes) for piece in delivery.chunks] == [500, 500, 1]
    assert delivery.written == [True] * 1001


def test_ten_thousand_jobs_are_a_round_trip_and_more_are_another() -> None:
    batch, memory = Batch.of(jobs(10_500)), ProducerMemory("p", depth=0)
    _, rounds = run_flow(adding(batch, memory), [[b"1-0"] * 20, [b"1-0"]])
    assert rounds == 2


def test_a_run_is_cut_where_its_jobs_are_large() -> None:
    batch = Batch.of([job(number, data="x" * 300_000) for number in range(8)])
    assert [call.script for call in sent(batch)] == ["add_batch"] * 4


def test_a_chunk_sends_a_shared_name_once() -> None:
    one, other = (job(1), job(2)), (job(1), job(2, name=""))
    [shared], [mixed] = sent(Batch.of(one)), sent(Batch.of(other))
    assert (shared.args[6:8], len(shared.args[8:])) == ((1, b"hi"), 2)
    assert (mixed.args[6:8], mixed.args[9::2]) == ((2, b""), (b"hi", b""))


def test_envelopes_of_a_run_are_those_the_codec_makes() -> None:
    rule = RetryOverride(5, Backoff("exponential", 250, 60_000, 2, 7))
    [call] = sent(Batch.of(jobs(3), {1: JobOptions(retry=rule)}))
    written = call.args[8:]
    made = [
        envelope.Envelope(f"id-{n}", envelope.Payload("bin", b"\x81\xa1a\x01"), NOW, retry=rule if n == 1 else None)
        for n in range(3)
    ]
    assert list(written) == [envelope.encode(one) for one in made]
    assert call.args[7] == b"hi"


def test_jobs_stay_in_order_and_the_delayed_come_last() -> None:
    terms = {
        2: JobOptions(due=DelayFromNow(5)),
        4: JobOptions(has_own_id=True),
        5: JobOptions(has_own_id=True, due=DelayFromNow(9)),
    }
    delivery, _ = run_flow_recording(adding(Batch.of(jobs(8), terms)), [[b"1-0", b"2-0", b"3-0", b"4-0", 1, NOW]])
    assert [list(piece.indexes) for piece in delivery.chunks] == [[0, 1], [3], [4], [6, 7], [5], [2]]


def test_a_delay_is_left_to_the_server_to_count() -> None:
    [call] = sent(Batch.of([job()], {0: JobOptions(due=DelayFromNow(60_000))}))
    assert call.script == "schedule_batch"
    assert call.args[6] == "+60000"
    [call] = sent(Batch.of([job()], {0: JobOptions(has_own_id=True, due=DelayFromNow(60_999))}))
    assert call.script == "schedule_once"
    assert call.args[6:8] == (3660, "+60999")


def test_a_moment_is_compared_with_the_servers_clock_first() -> None:
    batch = Batch.of(jobs(2), {0: JobOptions(due=NOW + 5), 1: JobOptions(has_own_id=True, due=NOW + 5)})
    _, [asked, message] = run_flow_recording(adding(batch), [[CLOCK], [1, NOW]])
    assert [call.args for call in asked] == [("TIME",)]
    assert [call.script for call in message] == ["schedule_once", "schedule_batch"]
    assert message[0].args[7] == NOW + 5
    assert message[1].args[6] == str(NOW + 5)


@pytest.mark.parametrize("due", [NOW, NOW - 1, 0, DelayFromNow(0)])
def test_what_is_due_already_is_simply_added(due: Any) -> None:
    replies: list[Any] = [[CLOCK], [b"1-0"]] if isinstance(due, int) else [[b"1-0"]]
    _, batches = run_flow_recording(adding(Batch.of([job()], {0: JobOptions(due=due)})), replies)
    assert batches[-1][0].args[0] == "XADD"


@pytest.mark.parametrize(("form", "head"), [("u32le", b"\x02\x00\x00\x00hi"), ("u8", b"\x02hi")])
def test_a_delayed_jobs_name_is_written_with_the_chosen_prefix(form: Any, head: bytes) -> None:
    [call] = sent(
        Batch.of([job()], {0: JobOptions(due=DelayFromNow(1))}),
        ProducerOptions(cap=None, delayed_prefix=form),
    )
    member = call.args[-1]
    assert isinstance(member, bytes)
    assert member.startswith(head)
    assert delayed_member.decode(member).prefix == form


# What is not fit


@pytest.mark.parametrize(
    ("misfit", "terms", "message"),
    [
        (job(name="n" * 257), None, "job name exceeds 256-byte cap \\(got 257 bytes\\)"),
        (job(job_id=" "), JobOptions(has_own_id=True), "non-empty"),
        (job(data=object()), None, "cannot be stored"),
        (job(data="\ud800"), None, "not valid Unicode"),
        (job(), JobOptions(retry=RetryOverride(1, Backoff("linear", 1))), 'unknown backoff kind "linear"'),
        (job(), JobOptions(due=DelayFromNow(-1)), "delay_ms must be non-negative"),
        (
            job(),
            JobOptions(due=DelayFromNow(2_592_001_000)),
            "delay 2592001s exceeds max_delay_secs 2592000s",
        ),
    ],
)
def test_one_unfit_job_keeps_all_others_from_being_sent(misfit: Job, terms: JobOptions | None, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        adding(Batch.of([*jobs(600), misfit], {600: terms} if terms else {}))


def test_a_moment_too_far_away_keeps_all_others_from_being_sent() -> None:
    flow = adding(Batch.of(jobs(600), {599: JobOptions(due=NOW + 2_592_001_000)}))
    next(flow)
    with pytest.raises(ArgumentError, match="exceeds max_delay_secs"):
        flow.send([CLOCK])


# Room


def test_the_depth_is_asked_first_and_then_learned_along_the_way() -> None:
    memory, options = ProducerMemory("p"), ProducerOptions(cap=1000)
    _, [asked, message] = run_flow_recording(adding(Batch.of([job()]), memory, options), [[4], [b"1-0", 499]])
    assert asked[0].args == message[1].args == ("XLEN", KEYS.stream)
    assert memory.depth == 499
    _, rounds = run_flow(adding(Batch.of([job()]), memory, options), [[b"1-1", 500]])
    assert rounds == 1


def test_near_the_cap_the_depth_is_asked_each_time() -> None:
    memory = ProducerMemory("p", depth=500)
    _, rounds = run_flow(adding(Batch.of([job()]), memory, ProducerOptions(cap=1000)), [[500], [b"1-1", 501]])
    assert rounds == 2


def test_a_full_queue_is_asked_once_more_before_a_job_is_refused() -> None:
    memory, options = ProducerMemory("p", depth=9), ProducerOptions(cap=9)
    flow = adding(Batch.of([job()]), memory, options)
    next(flow)
    with pytest.raises(
        QueueFull, match="queue 'mail' is full: it holds 9 jobs, and 1 more would exceed its cap of 9"
    ) as full:
        flow.send([9])
    assert (full.value.depth, full.value.cap, full.value.adding, full.value.transient) == (9, 9, 1, True)
    delivery, _ = run_flow(adding(Batch.of([job()]), memory, options), [[3], [b"1-0", 4]])
    assert delivery.written == [True]


def test_a_long_call_asks_even_if_the_depth_was_low_and_is_taken_whole_or_not_at_all() -> None:
    flow = adding(Batch.of(jobs(501)), ProducerMemory("p", depth=0), ProducerOptions(cap=1000))
    next(flow)
    with pytest.raises(QueueFull, match="holds 500 jobs, and 501 more"):
        flow.send([500])


def test_delayed_jobs_need_no_room() -> None:
    _, rounds = run_flow(
        adding(
            Batch.of([job()], {0: JobOptions(due=DelayFromNow(5))}),
            ProducerMemory("p"),
            ProducerOptions(cap=1),
        ),
        [[NOW, 7]],
    )
    assert rounds == 1


def test_a_user_who_may_only_write_lets_the_queue_grow(caplog: pytest.LogCaptureFixture) -> None:
    denied = AuthRefused("this user has no permissions to run the 'xlen' command", code="NOPERM")
    delivery, _ = run_flow(
        adding(Batch.of([job()]), ProducerMemory("p"), ProducerOptions(cap=1)), [[denied], [b"1-0", denied]]
    )
    assert delivery.written == [True]
    assert "the cap cannot be kept" in caplog.text


# Answers


def test_a_repeated_id_is_recognised_by_its_first_entry() -> None:
    memory, batch = ProducerMemory("p"), Batch.of([job(job_id="x")], {0: JobOptions(has_own_id=True)})
    assert run_flow(adding(batch, memory), [[b"1-0"]])[0].duplicates == set()
    assert run_flow(adding(batch, memory), [[b"1-0"]])[0].duplicates == {0}
    assert run_flow(adding(batch, memory), [[b"9-0"]])[0].duplicates == set()


def test_a_ledger_forgets_the_oldest_ids() -> None:
    memory = ProducerMemory("p")
    for number in range(1001):
        memory.is_new(f"id-{number}", b"1-0")
    assert len(memory.entries) == 1000
    assert memory.is_new("id-0", b"1-0")
    assert not memory.is_new("id-1000", b"1-0")


@pytest.mark.parametrize(
    ("terms", "answers"),
    [
        (JobOptions(has_own_id=True, unique=True), (b"1-0", None)),
        (JobOptions(has_own_id=True, due=DelayFromNow(9)), (1, 0)),
    ],
)
def test_markers_distinguish_new_ids_from_used_ones(terms: JobOptions, answers: tuple[Any, Any]) -> None:
    for answer, repeated in zip(answers, (set(), {0}), strict=True):
        delivery, _ = run_flow(adding(Batch.of([job(job_id="x")], {0: terms})), [[answer]])
        assert delivery.duplicates == repeated


# Trouble


def failing(flow: Any, *problems: Exception) -> tuple[Delivery, int]:
    """What comes of a flow whose first rounds fail and whose others succeed."""
    rounds = 1
    batch = next(flow)
    try:
        for problem in problems:
            rounds += 1
            batch = flow.throw(problem)
        flow.send([b"1-0"] * len(batch))
    except StopIteration as end:
        return end.value, rounds
    raise AssertionError("there was more to come")


LOST = Unreachable("the connection broke", sent=True)


def test_a_lost_reply_is_asked_for_once_more_with_the_same_words() -> None:
    flow = adding(Batch.of(jobs(3)))
    first = list(next(flow))
    assert list(flow.throw(LOST)) == first
    with pytest.raises(StopIteration) as end:
        flow.send([b"1-0"])
    assert end.value.value.written == [True, True, True]


def test_two_lost_replies_leave_jobs_unconfirmed() -> None:
    delivery, rounds = failing(adding(Batch.of(jobs(3))), LOST, LOST)
    assert rounds == 3
    assert delivery.error is LOST
    assert delivery.written == [None, None, None]


def test_what_never_left_is_not_sent_again() -> None:
    unreachable = Unreachable("nothing listens")
    delivery, rounds = failing(adding(Batch.of(jobs(3))), unreachable)
    assert rounds == 2
    assert delivery.error is unreachable
    assert delivery.written == [False, False, False]


def test_a_repetition_found_after_a_lost_reply_is_taken_for_our_own() -> None:
    flow = adding(Batch.of([job(job_id="x")], {0: JobOptions(has_own_id=True, unique=True)}))
    next(flow)
    flow.throw(LOST)
    with pytest.raises(StopIteration) as end:
        flow.send([None])
    assert end.value.value.duplicates == set()


def test_a_refused_run_is_known_not_to_be_written_and_the_rest_stays_behind() -> None:
    full = ServerError("OOM", code="OOM", transient=True)
    delivery, rounds = run_flow(adding(Batch.of(jobs(10_500))), [[b"1-0", full, *[b"1-0"] * 18]])
    assert rounds == 1
    assert delivery.error is full
    assert delivery.written == [True] * 500 + [False] * 500 + [True] * 9000 + [False] * 500
    again, [train] = run_flow_recording(send_delivery(delivery), [[b"1-0", b"1-0"]])
    assert [len(call.args) for call in train] == [8 + 500, 8 + 500]
    assert again.written == [True] * 10_500
    assert again.error is None


def test_the_words_sent_later_are_those_that_would_have_been_sent_first() -> None:
    batch = Batch.of(jobs(1000), {3: JobOptions(due=DelayFromNow(50))})
    first = list(next(adding(batch)))
    delivery, _ = run_flow(adding(batch), [[WrongType("no stream")] * len(first)])
    assert [list(call.args) for call in next(send_delivery(delivery))] == [list(call.args) for call in first]


def test_ids_of_callers_travel_no_more_at_once_than_a_server_remembers() -> None:
    batch = Batch.of(jobs(250), {number: JobOptions(has_own_id=True) for number in range(250)})
    _, batches = run_flow_recording(adding(batch), [[b"1-0"] * 100, [b"2-0"] * 100, [b"3-0"] * 50])
    assert [len(load) for load in batches] == [100, 100, 50]
