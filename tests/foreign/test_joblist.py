"""Managing a list job queue, and finding and repairing damaged data, on every server."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any

import pytest

from chasqui.errors import ArgumentError
from chasqui.foreign import DoctorFinding, diagnose, joblist
from chasqui.foreign.joblist import JobClaim, JobListKeys, JobListOptions, JobListProblem, ListJobEvent
from chasqui.server.flow import Call
from chasqui.server.link import Link
from tests.foreign.conftest import ForeignServer, interrupt_after_each, interrupt_before
from tests.support.processes.engines import wait_until

QUICK = JobListOptions(visibility_ms=1000, max_attempts=2)


@pytest.fixture
def keys(foreign_server: ForeignServer) -> JobListKeys:
    return foreign_server.jobs


def added(server: ForeignServer, *payloads: Any, ago_ms: int = 0) -> list[str]:
    now_ms = server.now_ms() - ago_ms
    return [server.run(joblist.enqueue(server.jobs, payload, now_ms=now_ms)) for payload in payloads]


def claimed(server: ForeignServer, *, ago_ms: int = 0) -> JobClaim:
    claim = server.run(joblist.claim(server.jobs, block_ms=100, now_ms=server.now_ms() - ago_ms))
    assert claim is not None
    return claim


def failed(server: ForeignServer, payload: Any = "x") -> str:
    [job_id] = added(server, payload)
    claim = claimed(server)
    now_ms = server.now_ms()
    flow = joblist.fail(server.jobs, claim.id, claim.token, "broken", attempts=3, now_ms=now_ms)
    assert server.run(flow) == "failed"
    return job_id


def ids(server: ForeignServer, which: Any) -> list[str]:
    return server.run(joblist.list_ids(server.jobs, which))


def test_an_overview_shows_depths_ages_and_stale_claims(foreign_server: ForeignServer, keys: JobListKeys) -> None:
    added(foreign_server, 1, 2, 3, 4, ago_ms=60_000)
    claimed(foreign_server, ago_ms=9_000)
    claimed(foreign_server)
    foreign_server.command("LPUSH", keys.processing, "no-such-job")
    seen = foreign_server.run(joblist.read_overview(keys, visibility_ms=5000))
    assert (seen.depths.pending, seen.depths.processing, seen.stale) == (2, 3, 1)
    assert 60_000 <= (seen.oldest_pending_ms or 0) < 90_000
    assert 9_000 <= (seen.oldest_claim_ms or 0) < 30_000
    assert [(one.claim.id, one.status) for one in seen.unsettled] == [("no-such-job", "orphan")]
    assert seen.attempts == {1: 2}
    assert foreign_server.run(joblist.read_overview(keys, visibility_ms=60_000)).stale == 0


def test_a_job_is_shown_with_its_places_and_its_time_left(foreign_server: ForeignServer, keys: JobListKeys) -> None:
    job_id = failed(foreign_server, {"to": "ada", "é": [1.5]})
    job = foreign_server.run(joblist.read_job(keys, job_id))
    assert job is not None
    assert job.places == {"failed": (0,)}
    assert (job.value("payload"), job.text("last_error")) == ({"to": "ada", "é": [1.5]}, "broken")
    assert 0 < (job.ttl_ms or 0) <= 300_000
    foreign_server.command("DEL", keys.job(job_id))
    gone = foreign_server.run(joblist.read_job(keys, job_id))
    assert gone is not None
    assert gone.is_expired
    assert foreign_server.run(joblist.read_job(keys, "nobody")) is None


def test_a_retry_removes_the_expiry_and_resets_the_attempts(foreign_server: ForeignServer, keys: JobListKeys) -> None:
    first, second, expired = failed(foreign_server), failed(foreign_server), failed(foreign_server)
    foreign_server.command("DEL", keys.job(expired))
    waiting = added(foreign_server, "waits")
    retried = foreign_server.run(joblist.retry(keys, [first, expired, "nobody"]))
    assert (retried.done, retried.expired, retried.missing) == ((first,), (expired,), ("nobody",))
    assert foreign_server.run(joblist.retry(keys, [second], at_once=True, reset=False)).done == (second,)
    assert ids(foreign_server, "pending") == [second, *waiting, first]
    assert ids(foreign_server, "failed") == [expired]
    assert foreign_server.command("PTTL", keys.job(first)) == -1
    assert foreign_server.command("HMGET", keys.job(first), "status", "attempts", "claim_token") == [
        b"pending",
        b"0",
        b"",
    ]
    assert foreign_server.command("HGET", keys.job(second), "attempts") == b"1"
    assert claimed(foreign_server).id == second
    with pytest.raises(ArgumentError, match="only completed and failed"):
        foreign_server.run(joblist.retry(keys, [second], source="processing"))


def test_pending_jobs_are_cancelled_bumped_and_moved(foreign_server: ForeignServer, keys: JobListKeys) -> None:
    a, b, c, d = added(foreign_server, "a", "b", "c", "d")
    assert foreign_server.run(joblist.cancel(keys, [b, "nobody"])).done == (b,)
    assert foreign_server.command("EXISTS", keys.job(b)) == 0
    foreign_server.run(joblist.move_to_front(keys, [d, c]))
    assert ids(foreign_server, "pending") == [d, c, a]
    other = JobListKeys(f"{foreign_server.name}-other")
    assert foreign_server.run(joblist.move(keys, other, [c])).done == (c,)
    assert foreign_server.run(joblist.list_ids(other, "pending")) == [c]
    moved = foreign_server.run(joblist.read_job(other, c))
    assert moved is not None
    assert moved.value("payload") == "c"
    foreign_server.run(joblist.enqueue(other, "same", now_ms=1, job_id=a))
    assert foreign_server.run(joblist.move(keys, other, [a])).there == (a,)
    with pytest.raises(ArgumentError, match="its worker's"):
        foreign_server.run(joblist.move(keys, other, [a], source="processing"))
    assert foreign_server.run(joblist.purge(keys, "pending", dry_run=True)) == 2
    assert foreign_server.run(joblist.purge(keys, "pending")) == 2
    assert foreign_server.run(joblist.read_depths(keys)).pending == 0


def test_an_operator_settles_a_job_and_its_worker_loses_it_cleanly(
    foreign_server: ForeignServer, keys: JobListKeys
) -> None:
    added(foreign_server, "a", "b")
    first, second = claimed(foreign_server), claimed(foreign_server)
    now_ms = foreign_server.now_ms()
    assert foreign_server.run(joblist.fail_for_worker(keys, second.id, "stop", now_ms=now_ms)) == "retry"
    late = joblist.complete(keys, second.id, second.token, {}, now_ms=now_ms)
    assert foreign_server.run(late) is False
    assert foreign_server.run(joblist.complete_for_worker(keys, first.id, {"by": "hand"}, now_ms=now_ms))
    assert not foreign_server.run(joblist.complete_for_worker(keys, second.id, {}, now_ms=now_ms))
    assert ids(foreign_server, "completed") == [first.id]
    assert ids(foreign_server, "pending") == [second.id]


def test_a_dry_run_predicts_the_sweep_which_skips_damaged_claims(
    foreign_server: ForeignServer, keys: JobListKeys
) -> None:
    added(foreign_server, "old", "live", "odd")
    old, live, odd = claimed(foreign_server, ago_ms=9_000), claimed(foreign_server), claimed(foreign_server)
    foreign_server.command("HSET", keys.job(odd.id), "claimed_at_ms", "soon")
    foreign_server.command("LPUSH", keys.processing, "orphan")
    everything = (*keys.lists, keys.job(old.id), keys.job(odd.id))
    before = foreign_server.dump(*everything)
    plan = foreign_server.run(joblist.reclaim(keys, dry_run=True))
    assert foreign_server.dump(*everything) == before
    outcome = foreign_server.run(joblist.reclaim(keys))
    assert outcome == plan
    assert (outcome.moved, outcome.changed) == ((old.id,), ())
    assert {one.claim.id: one.reason for one in outcome.skipped} == {
        odd.id: "claimed_at_ms is no number: 'soon'",
        "orphan": "there is no job of this id",
    }
    assert ids(foreign_server, "pending") == [old.id]
    assert set(ids(foreign_server, "processing")) == {live.id, odd.id, "orphan"}
    assert foreign_server.run(joblist.reclaim(keys, drop_orphans=True)).dropped == ("orphan",)
    assert set(ids(foreign_server, "processing")) == {live.id, odd.id}


def test_a_claim_that_was_renewed_after_it_was_judged_is_not_taken(
    foreign_server: ForeignServer, keys: JobListKeys
) -> None:
    added(foreign_server, "x")
    claim = claimed(foreign_server, ago_ms=9_000)
    renewing = joblist.renew(keys, [claim], now_ms=foreign_server.now_ms())
    outcome = foreign_server.run(
        interrupt_before(joblist.reclaim(keys), "joblist/reclaim", lambda: foreign_server.run(renewing))
    )
    assert (outcome.moved, outcome.changed) == ((), (claim.id,))
    assert ids(foreign_server, "processing") == [claim.id]


def test_a_job_that_kills_its_workers_is_given_up(foreign_server: ForeignServer, keys: JobListKeys) -> None:
    [job_id] = added(foreign_server, "poison")
    for _ in range(2):
        claimed(foreign_server, ago_ms=9_000)
        assert foreign_server.run(joblist.reclaim(keys, give_up_at=3)).moved == (job_id,)
    claimed(foreign_server, ago_ms=9_000)
    assert foreign_server.run(joblist.reclaim(keys, give_up_at=3)).failed == (job_id,)
    assert ids(foreign_server, "failed") == [job_id]
    assert b"3 attempts" in foreign_server.command("HGET", keys.job(job_id), "last_error")
    assert foreign_server.run(joblist.retry(keys, [job_id])).done == (job_id,)


def test_a_worker_that_has_just_moved_a_job_is_given_time_to_sign(
    foreign_server: ForeignServer, keys: JobListKeys
) -> None:
    [job_id] = added(foreign_server, "waited long", ago_ms=3_600_000)
    foreign_server.command("LMOVE", keys.pending, keys.processing, "RIGHT", "LEFT")
    assert foreign_server.run(joblist.reclaim(keys, dry_run=True)).moved == (job_id,), (
        "the guide's rule takes it at once"
    )
    now_ms = foreign_server.now_ms()
    patient = foreign_server.run(joblist.reclaim(keys, rule=joblist.patient_rule({}), options=QUICK))
    assert (patient.moved, patient.unsigned) == ((), (job_id,))
    early = joblist.patient_rule({job_id: now_ms - 900})
    assert foreign_server.run(joblist.reclaim(keys, rule=early, options=QUICK, now_ms=now_ms)).moved == ()
    late = joblist.patient_rule({job_id: now_ms - 1001})
    assert foreign_server.run(joblist.reclaim(keys, rule=late, options=QUICK, now_ms=now_ms)).moved == (job_id,)


def test_a_worker_does_not_sign_for_what_was_taken_back(foreign_server: ForeignServer, keys: JobListKeys) -> None:
    [job_id] = added(foreign_server, "x", ago_ms=3_600_000)
    taken_back: list[str] = []
    flow = joblist.claim(keys, block_ms=100, now_ms=foreign_server.now_ms())
    sweep = interrupt_before(
        flow, "joblist/sign_claim", lambda: taken_back.extend(foreign_server.run(joblist.reclaim(keys)).moved)
    )
    assert foreign_server.run(sweep) is None
    assert taken_back == [job_id]
    assert foreign_server.command("HGET", keys.job(job_id), "claim_token") == b""
    assert claimed(foreign_server).id == job_id


def test_events_are_received_in_the_order_they_are_published(foreign_server: ForeignServer, keys: JobListKeys) -> None:
    added(foreign_server, "a", "b")
    received: list[ListJobEvent] = []
    with Link.open(foreign_server.link.address) as link:
        events = joblist.follow_events(link, keys)

        def listen() -> None:
            received.extend(next(events) for _ in range(4))

        thread = threading.Thread(target=listen)
        thread.start()
        wait_until(lambda: foreign_server.command("PUBSUB", "NUMSUB", keys.events)[1] == 1, "somebody listens")
        first, second = claimed(foreign_server), claimed(foreign_server)
        now_ms = foreign_server.now_ms()
        foreign_server.run(joblist.complete(keys, first.id, first.token, 1, now_ms=now_ms))
        foreign_server.run(joblist.fail(keys, second.id, second.token, "x", attempts=9, now_ms=now_ms))
        foreign_server.run(joblist.retry(keys, [second.id]))
        foreign_server.command("PUBLISH", keys.events, b"\xff no event")
        thread.join(10)
    statuses = [(event.id, event.status) for event in received]
    assert statuses == [(first.id, "completed"), (second.id, "failed"), (second.id, "retry"), (None, None)]
    assert received[3].raw == b"\xff no event"


async def test_events_can_be_awaited(foreign_server: ForeignServer, keys: JobListKeys) -> None:
    import asyncio

    from chasqui.server.link import AsyncLink

    async with AsyncLink.open(foreign_server.link.address) as link:
        events = joblist.follow_events_async(link, keys)
        coming = asyncio.ensure_future(anext(events))
        await asyncio.to_thread(
            wait_until,
            lambda: foreign_server.command("PUBSUB", "NUMSUB", keys.events)[1] == 1,
            "somebody listens",
        )
        foreign_server.command("PUBLISH", keys.events, '{"id":"a","status":"retry"}')
        assert (await coming).status == "retry"
        await events.aclose()  # type: ignore[attr-defined]


def test_the_doctor_finds_what_is_wrong_and_puts_right_what_can_be(
    foreign_server: ForeignServer, keys: JobListKeys
) -> None:
    sound, twice, expiring, mislabeled, doubled, lost = added(foreign_server, *"abcdef")
    foreign_server.command("LPUSH", keys.pending, twice, "nobody")
    foreign_server.command("EXPIRE", keys.job(expiring), 500)
    foreign_server.command("HSET", keys.job(mislabeled), "status", "completed", "claimed_at_ms", "soon")
    foreign_server.command("HSET", keys.job(doubled), "status", "odd")
    foreign_server.command("LREM", keys.pending, 0, lost)
    foreign_server.command("LPUSH", keys.completed, "expired", sound)
    foreign_server.command("HSET", f"queue:{foreign_server.name}:stats", "enqueued_total", 3)
    foreign_server.command("LPUSH", keys.processing, doubled, "timeless")
    foreign_server.command("HSET", keys.job("timeless"), "id", "timeless", "payload", "{}", "status", "processing")
    foreign_server.command("HSET", keys.job("empty"), "status", "processing", "claimed_at_ms", 5)
    findings = foreign_server.run(joblist.examine(keys))
    assert all(finding.advice for finding in findings)
    assert {(finding.problem, finding.subject, finding.list_name) for finding in findings} == {
        (JobListProblem.TWICE, twice, "pending"),
        (JobListProblem.NO_JOB, "nobody", "pending"),
        (JobListProblem.EXPIRING, expiring, "pending"),
        (JobListProblem.STATUS, mislabeled, "pending"),
        (JobListProblem.BAD_TIME, mislabeled, "pending"),
        (JobListProblem.LOST_JOB, lost, ""),
        (JobListProblem.EMPTY_JOB, "empty", ""),
        (JobListProblem.EXPIRED, "expired", "completed"),
        (JobListProblem.TWO_LISTS, sound, "pending"),
        (JobListProblem.TWO_LISTS, doubled, "pending"),
        (JobListProblem.UNSIGNED, "timeless", "processing"),
        (JobListProblem.BAD_TIME, "timeless", "processing"),
        (JobListProblem.COUNTERS, f"queue:{foreign_server.name}:stats", ""),
    }
    assert foreign_server.run(joblist.repair(keys, findings)) == 11
    left = foreign_server.run(joblist.examine(keys))
    assert {finding.problem for finding in left} == {JobListProblem.COUNTERS, JobListProblem.UNSIGNED}
    assert foreign_server.command("PTTL", keys.job(expiring)) == -1
    assert sorted(ids(foreign_server, "pending")) == sorted([sound, twice, expiring, mislabeled, doubled, lost])
    assert (ids(foreign_server, "processing"), ids(foreign_server, "completed")) == (["timeless"], [])
    assert foreign_server.run(joblist.repair(keys, findings)) == 0, "what is right is left alone"
    foreign_server.run(
        joblist.reclaim(keys, options=JobListOptions(visibility_ms=0), now_ms=foreign_server.now_ms() + 1000)
    )
    assert "timeless" in ids(foreign_server, "pending"), "a claim that has a time now becomes stale"


def test_a_job_that_fell_out_of_a_full_history_is_not_run_again(
    foreign_server: ForeignServer, keys: JobListKeys
) -> None:
    first, second = added(foreign_server, "a", "b")
    options = JobListOptions(history=1)
    for _ in range(2):
        claim = foreign_server.run(joblist.claim(keys, block_ms=100, now_ms=foreign_server.now_ms()))
        assert claim is not None
        foreign_server.run(
            joblist.complete(keys, claim.id, claim.token, 1, now_ms=foreign_server.now_ms(), options=options)
        )
    assert ids(foreign_server, "completed") == [second]
    assert foreign_server.run(joblist.examine(keys)) == []
    lost = DoctorFinding(JobListProblem.LOST_JOB, first)
    assert foreign_server.run(joblist.repair(keys, [lost])) == 0
    assert ids(foreign_server, "pending") == []


def test_jobs_that_move_while_they_are_examined_are_no_findings(
    foreign_server: ForeignServer, keys: JobListKeys
) -> None:
    """Between the pages of a look jobs are claimed, one is completed, and more are enqueued: all is well."""
    added(foreign_server, "a", "b", "c")
    moves: list[str] = []

    def move(calls: Sequence[Call]) -> None:
        if calls[0].args[0] == "LRANGE":
            claim = claimed(foreign_server)
            moves.append(claim.id)
            if len(moves) == 2:
                foreign_server.run(joblist.complete(keys, claim.id, claim.token, 1, now_ms=foreign_server.now_ms()))
            added(foreign_server, "more")

    assert foreign_server.run(interrupt_after_each(joblist.examine(keys), move)) == []
    assert len(moves) >= 3


def test_a_key_of_another_type_is_reported_and_harms_nothing_else(
    foreign_server: ForeignServer, keys: JobListKeys
) -> None:
    [job_id] = added(foreign_server, "x")
    foreign_server.command("LPUSH", keys.processing, "odd")
    foreign_server.command("SET", keys.job("odd"), "no hash")
    outcome = foreign_server.run(joblist.reclaim(keys))
    assert [one.status for one in outcome.skipped] == ["broken"]
    assert {finding.problem for finding in foreign_server.run(joblist.examine(keys))} == {JobListProblem.WRONG_TYPE}
    foreign_server.command("SET", keys.failed, "no list")
    assert {finding.subject for finding in foreign_server.run(joblist.examine(keys))} == {keys.failed}
    assert ids(foreign_server, "pending") == [job_id]


def test_a_job_key_of_another_type_that_no_list_has_is_renamed_by_its_own_name(foreign_server: ForeignServer) -> None:
    keys = foreign_server.jobs
    foreign_server.command("SET", keys.job("abc"), "no hash")
    [finding] = foreign_server.run(diagnose(joblist.JobListDoctor(keys), "list:jobs", most=100_000)).findings
    assert finding.code == "wrong-type"
    assert finding.fix == f"redis-cli RENAME {keys.job('abc')} {keys.job('abc')}.aside"


def test_a_sweep_over_very_many_stale_claims_takes_linear_time() -> None:
    ids = [str(number).encode() for number in range(40_000)]

    def reply(call: Call) -> Any:
        match call.args:
            case ("LRANGE", _, int(first), int(last)):
                return ids[first : last + 1]
            case ("TIME",):
                return [b"1000", b"0"]
            case ("LLEN", _):
                return len(ids)
        return [b"t", b"1", b"1", b"3", b"processing"]

    flow = joblist.reclaim(JobListKeys(), give_up_at=3, dry_run=True)
    started = time.process_time()
    calls, plan = next(flow), None
    while plan is None:
        try:
            calls = flow.send([reply(call) for call in calls])
        except StopIteration as end:
            plan = end.value
    assert len(plan.failed) == 40_000
    assert time.process_time() - started < 5
