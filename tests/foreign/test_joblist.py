"""What an operator can do with a list job queue, on every server; and damaged data, which is told and put right."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import pytest

from chasqui.errors import ArgumentError
from chasqui.foreign import joblist
from chasqui.foreign.joblist import Ailment, Claim, Event, JobListKeys, Options
from chasqui.server.call import Call
from chasqui.server.link import Link
from tests.engines import await_that
from tests.foreign.conftest import Desk, disturbed, interrupted

QUICK = Options(visibility_ms=1000, max_attempts=2)


@pytest.fixture
def keys(desk: Desk) -> JobListKeys:
    return desk.jobs


def added(desk: Desk, *payloads: Any, ago_ms: int = 0) -> list[str]:
    now_ms = desk.now_ms() - ago_ms
    return [desk.run(joblist.enqueue(desk.jobs, payload, now_ms=now_ms)) for payload in payloads]


def claimed(desk: Desk, *, ago_ms: int = 0) -> Claim:
    claim = desk.run(joblist.claim(desk.jobs, block_ms=100, now_ms=desk.now_ms() - ago_ms))
    assert claim is not None
    return claim


def failed(desk: Desk, payload: Any = "x") -> str:
    [job_id] = added(desk, payload)
    claim = claimed(desk)
    now_ms = desk.now_ms()
    flow = joblist.fail(desk.jobs, claim.id, claim.token, "broken", attempts=3, now_ms=now_ms)
    assert desk.run(flow) == "failed"
    return job_id


def ids(desk: Desk, which: Any) -> list[str]:
    return desk.run(joblist.ids(desk.jobs, which))


def test_an_overview_tells_depths_ages_and_what_is_stale(desk: Desk, keys: JobListKeys) -> None:
    added(desk, 1, 2, 3, 4, ago_ms=60_000)
    claimed(desk, ago_ms=9_000)
    claimed(desk)
    desk.say("LPUSH", keys.processing, "no-such-job")
    seen = desk.run(joblist.overview(keys, visibility_ms=5000))
    assert (seen.depths.pending, seen.depths.processing, seen.stale) == (2, 3, 1)
    assert 60_000 <= (seen.oldest_pending_ms or 0) < 90_000
    assert 9_000 <= (seen.oldest_claim_ms or 0) < 30_000
    assert [(one.held.id, one.verdict) for one in seen.unsettled] == [("no-such-job", "orphan")]
    assert seen.attempts == {1: 2}
    assert desk.run(joblist.overview(keys, visibility_ms=60_000)).stale == 0


def test_a_job_is_shown_with_its_places_and_its_time_left(desk: Desk, keys: JobListKeys) -> None:
    job_id = failed(desk, {"to": "ada", "é": [1.5]})
    job = desk.run(joblist.job(keys, job_id))
    assert job is not None
    assert job.places == {"failed": (0,)}
    assert (job.value("payload"), job.text("last_error")) == ({"to": "ada", "é": [1.5]}, "broken")
    assert 0 < (job.ttl_ms or 0) <= 300_000
    desk.say("DEL", keys.job(job_id))
    gone = desk.run(joblist.job(keys, job_id))
    assert gone is not None
    assert gone.expired
    assert desk.run(joblist.job(keys, "nobody")) is None


def test_a_retry_ends_the_expiry_and_counts_anew(desk: Desk, keys: JobListKeys) -> None:
    first, second, expired = failed(desk), failed(desk), failed(desk)
    desk.say("DEL", keys.job(expired))
    waiting = added(desk, "waits")
    tended = desk.run(joblist.retry(keys, [first, expired, "nobody"]))
    assert (tended.done, tended.expired, tended.missing) == ((first,), (expired,), ("nobody",))
    assert desk.run(joblist.retry(keys, [second], at_once=True, reset=False)).done == (second,)
    assert ids(desk, "pending") == [second, *waiting, first]
    assert ids(desk, "failed") == [expired]
    assert desk.say("PTTL", keys.job(first)) == -1
    assert desk.say("HMGET", keys.job(first), "status", "attempts", "claim_token") == [b"pending", b"0", b""]
    assert desk.say("HGET", keys.job(second), "attempts") == b"1"
    assert claimed(desk).id == second
    with pytest.raises(ArgumentError, match="only completed and failed"):
        desk.run(joblist.retry(keys, [second], source="processing"))


def test_pending_jobs_are_cancelled_bumped_and_moved(desk: Desk, keys: JobListKeys) -> None:
    a, b, c, d = added(desk, "a", "b", "c", "d")
    assert desk.run(joblist.cancel(keys, [b, "nobody"])).done == (b,)
    assert desk.say("EXISTS", keys.job(b)) == 0
    desk.run(joblist.bump(keys, [d, c]))
    assert ids(desk, "pending") == [d, c, a]
    other = JobListKeys(f"{desk.name}-other")
    assert desk.run(joblist.move(keys, other, [c])).done == (c,)
    assert desk.run(joblist.ids(other, "pending")) == [c]
    moved = desk.run(joblist.job(other, c))
    assert moved is not None
    assert moved.value("payload") == "c"
    desk.run(joblist.enqueue(other, "same", now_ms=1, job_id=a))
    assert desk.run(joblist.move(keys, other, [a])).there == (a,)
    with pytest.raises(ArgumentError, match="its worker's"):
        desk.run(joblist.move(keys, other, [a], source="processing"))
    assert desk.run(joblist.purge(keys, "pending", dry_run=True)) == 2
    assert desk.run(joblist.purge(keys, "pending")) == 2
    assert desk.run(joblist.depths(keys)).pending == 0


def test_an_operator_settles_a_job_and_its_worker_loses_it_cleanly(desk: Desk, keys: JobListKeys) -> None:
    added(desk, "a", "b")
    first, second = claimed(desk), claimed(desk)
    now_ms = desk.now_ms()
    assert desk.run(joblist.fail_by_hand(keys, second.id, "stop", now_ms=now_ms)) == "retry"
    late = joblist.complete(keys, second.id, second.token, {}, now_ms=now_ms)
    assert desk.run(late) is False
    assert desk.run(joblist.complete_by_hand(keys, first.id, {"by": "hand"}, now_ms=now_ms))
    assert not desk.run(joblist.complete_by_hand(keys, second.id, {}, now_ms=now_ms))
    assert ids(desk, "completed") == [first.id]
    assert ids(desk, "pending") == [second.id]


def test_a_sweep_says_first_what_it_would_do_and_skips_what_it_cannot_judge(
    desk: Desk, keys: JobListKeys
) -> None:
    added(desk, "old", "live", "odd")
    old, live, odd = claimed(desk, ago_ms=9_000), claimed(desk), claimed(desk)
    desk.say("HSET", keys.job(odd.id), "claimed_at_ms", "soon")
    desk.say("LPUSH", keys.processing, "orphan")
    everything = (*keys.lists, keys.job(old.id), keys.job(odd.id))
    before = desk.dump(*everything)
    plan = desk.run(joblist.reclaim(keys, dry_run=True))
    assert desk.dump(*everything) == before
    told = desk.run(joblist.reclaim(keys))
    assert told == plan
    assert (told.moved, told.changed) == ((old.id,), ())
    assert {one.held.id: one.why for one in told.skipped} == {
        odd.id: "claimed_at_ms is no number: 'soon'",
        "orphan": "there is no job of this id",
    }
    assert ids(desk, "pending") == [old.id]
    assert set(ids(desk, "processing")) == {live.id, odd.id, "orphan"}
    assert desk.run(joblist.reclaim(keys, drop_orphans=True)).dropped == ("orphan",)
    assert set(ids(desk, "processing")) == {live.id, odd.id}


def test_a_claim_that_was_renewed_after_it_was_judged_is_not_taken(desk: Desk, keys: JobListKeys) -> None:
    added(desk, "x")
    claim = claimed(desk, ago_ms=9_000)
    renewing = joblist.renew(keys, [claim], now_ms=desk.now_ms())
    told = desk.run(interrupted(joblist.reclaim(keys), "joblist/reclaim", lambda: desk.run(renewing)))
    assert (told.moved, told.changed) == ((), (claim.id,))
    assert ids(desk, "processing") == [claim.id]


def test_a_job_that_kills_its_workers_is_given_up(desk: Desk, keys: JobListKeys) -> None:
    [job_id] = added(desk, "poison")
    for _ in range(2):
        claimed(desk, ago_ms=9_000)
        assert desk.run(joblist.reclaim(keys, give_up_at=3)).moved == (job_id,)
    claimed(desk, ago_ms=9_000)
    assert desk.run(joblist.reclaim(keys, give_up_at=3)).failed == (job_id,)
    assert ids(desk, "failed") == [job_id]
    assert b"3 attempts" in desk.say("HGET", keys.job(job_id), "last_error")
    assert desk.run(joblist.retry(keys, [job_id])).done == (job_id,)


def test_a_worker_that_has_just_moved_a_job_is_given_time_to_sign(desk: Desk, keys: JobListKeys) -> None:
    [job_id] = added(desk, "waited long", ago_ms=3_600_000)
    desk.say("LMOVE", keys.pending, keys.processing, "RIGHT", "LEFT")
    assert desk.run(joblist.reclaim(keys, dry_run=True)).moved == (job_id,), (
        "the guide's rule takes it at once"
    )
    now_ms = desk.now_ms()
    patient = desk.run(joblist.reclaim(keys, rule=joblist.patient({}), options=QUICK))
    assert (patient.moved, patient.unsigned) == ((), (job_id,))
    early = joblist.patient({job_id: now_ms - 900})
    assert desk.run(joblist.reclaim(keys, rule=early, options=QUICK, now_ms=now_ms)).moved == ()
    late = joblist.patient({job_id: now_ms - 1001})
    assert desk.run(joblist.reclaim(keys, rule=late, options=QUICK, now_ms=now_ms)).moved == (job_id,)


def test_a_worker_does_not_sign_for_what_was_taken_back(desk: Desk, keys: JobListKeys) -> None:
    [job_id] = added(desk, "x", ago_ms=3_600_000)
    taken_back: list[str] = []
    flow = joblist.claim(keys, block_ms=100, now_ms=desk.now_ms())
    sweep = interrupted(
        flow, "joblist/claim", lambda: taken_back.extend(desk.run(joblist.reclaim(keys)).moved)
    )
    assert desk.run(sweep) is None
    assert taken_back == [job_id]
    assert desk.say("HGET", keys.job(job_id), "claim_token") == b""
    assert claimed(desk).id == job_id


def test_events_are_heard_as_they_are_told(desk: Desk, keys: JobListKeys) -> None:
    added(desk, "a", "b")
    heard: list[Event] = []
    with Link.open(desk.link.address) as link:
        events = joblist.tail(link, keys)

        def listen() -> None:
            heard.extend(next(events) for _ in range(4))

        thread = threading.Thread(target=listen)
        thread.start()
        await_that(lambda: desk.say("PUBSUB", "NUMSUB", keys.events)[1] == 1, "somebody listens")
        first, second = claimed(desk), claimed(desk)
        now_ms = desk.now_ms()
        desk.run(joblist.complete(keys, first.id, first.token, 1, now_ms=now_ms))
        desk.run(joblist.fail(keys, second.id, second.token, "x", attempts=9, now_ms=now_ms))
        desk.run(joblist.retry(keys, [second.id]))
        desk.say("PUBLISH", keys.events, b"\xff no event")
        thread.join(10)
    told = [(event.id, event.status) for event in heard]
    assert told == [(first.id, "completed"), (second.id, "failed"), (second.id, "retry"), (None, None)]
    assert heard[3].raw == b"\xff no event"


async def test_events_are_heard_by_those_who_await_them(desk: Desk, keys: JobListKeys) -> None:
    import asyncio

    from chasqui.server.link import AsyncLink

    async with AsyncLink.open(desk.link.address) as link:
        events = joblist.tail_async(link, keys)
        coming = asyncio.ensure_future(anext(events))
        await asyncio.to_thread(
            await_that, lambda: desk.say("PUBSUB", "NUMSUB", keys.events)[1] == 1, "somebody listens"
        )
        desk.say("PUBLISH", keys.events, '{"id":"a","status":"retry"}')
        assert (await coming).status == "retry"
        await events.aclose()  # type: ignore[attr-defined]


def test_the_doctor_finds_what_is_wrong_and_puts_right_what_can_be(desk: Desk, keys: JobListKeys) -> None:
    sound, twice, expiring, told_wrong, doubled, lost = added(desk, *"abcdef")
    desk.say("LPUSH", keys.pending, twice, "nobody")
    desk.say("EXPIRE", keys.job(expiring), 500)
    desk.say("HSET", keys.job(told_wrong), "status", "completed", "claimed_at_ms", "soon")
    desk.say("HSET", keys.job(doubled), "status", "odd")
    desk.say("LREM", keys.pending, 0, lost)
    desk.say("LPUSH", keys.completed, "expired", sound)
    desk.say("HSET", f"queue:{desk.name}:stats", "enqueued_total", 3)
    desk.say("LPUSH", keys.processing, doubled, "timeless")
    desk.say("HSET", keys.job("timeless"), "id", "timeless", "payload", "{}", "status", "processing")
    desk.say("HSET", keys.job("empty"), "status", "processing", "claimed_at_ms", 5)
    findings = desk.run(joblist.examine(keys))
    assert all(finding.advice for finding in findings)
    assert {(finding.ailment, finding.subject, finding.where) for finding in findings} == {
        (Ailment.TWICE, twice, "pending"),
        (Ailment.NO_JOB, "nobody", "pending"),
        (Ailment.EXPIRING, expiring, "pending"),
        (Ailment.STATUS, told_wrong, "pending"),
        (Ailment.BAD_TIME, told_wrong, "pending"),
        (Ailment.LOST_JOB, lost, ""),
        (Ailment.EMPTY_JOB, "empty", ""),
        (Ailment.EXPIRED, "expired", "completed"),
        (Ailment.TWO_LISTS, sound, "pending"),
        (Ailment.TWO_LISTS, doubled, "pending"),
        (Ailment.UNSIGNED, "timeless", "processing"),
        (Ailment.BAD_TIME, "timeless", "processing"),
        (Ailment.COUNTERS, f"queue:{desk.name}:stats", ""),
    }
    assert desk.run(joblist.repair(keys, findings)) == 11
    left = desk.run(joblist.examine(keys))
    assert {finding.ailment for finding in left} == {Ailment.COUNTERS, Ailment.UNSIGNED}
    assert desk.say("PTTL", keys.job(expiring)) == -1
    assert sorted(ids(desk, "pending")) == sorted([sound, twice, expiring, told_wrong, doubled, lost])
    assert (ids(desk, "processing"), ids(desk, "completed")) == (["timeless"], [])
    assert desk.run(joblist.repair(keys, findings)) == 0, "what is right is left alone"
    desk.run(joblist.reclaim(keys, options=Options(visibility_ms=0), now_ms=desk.now_ms() + 1000))
    assert "timeless" in ids(desk, "pending"), "a claim that has a time now becomes stale"


def test_a_job_that_fell_out_of_a_full_history_is_not_run_again(desk: Desk, keys: JobListKeys) -> None:
    first, second = added(desk, "a", "b")
    options = Options(history=1)
    for _ in range(2):
        claim = desk.run(joblist.claim(keys, block_ms=100, now_ms=desk.now_ms()))
        assert claim is not None
        desk.run(joblist.complete(keys, claim.id, claim.token, 1, now_ms=desk.now_ms(), options=options))
    assert ids(desk, "completed") == [second]
    assert desk.run(joblist.examine(keys)) == []
    lost = joblist.Finding(Ailment.LOST_JOB, first)
    assert desk.run(joblist.repair(keys, [lost])) == 0
    assert ids(desk, "pending") == []


def test_jobs_that_move_while_they_are_examined_are_no_findings(desk: Desk, keys: JobListKeys) -> None:
    """Between the pages of a look jobs are claimed, one is completed, and more are enqueued: all is well."""
    added(desk, "a", "b", "c")
    moves: list[str] = []

    def move(calls: Sequence[Call]) -> None:
        if calls[0].words[0] == "LRANGE":
            claim = claimed(desk)
            moves.append(claim.id)
            if len(moves) == 2:
                desk.run(joblist.complete(keys, claim.id, claim.token, 1, now_ms=desk.now_ms()))
            added(desk, "more")

    assert desk.run(disturbed(joblist.examine(keys), move)) == []
    assert len(moves) >= 3


def test_a_key_of_another_type_is_told_and_harms_nothing_else(desk: Desk, keys: JobListKeys) -> None:
    [job_id] = added(desk, "x")
    desk.say("LPUSH", keys.processing, "odd")
    desk.say("SET", keys.job("odd"), "no hash")
    told = desk.run(joblist.reclaim(keys))
    assert [one.verdict for one in told.skipped] == ["broken"]
    assert {finding.ailment for finding in desk.run(joblist.examine(keys))} == {Ailment.WRONG_TYPE}
    desk.say("SET", keys.failed, "no list")
    assert {finding.subject for finding in desk.run(joblist.examine(keys))} == {keys.failed}
    assert ids(desk, "pending") == [job_id]
