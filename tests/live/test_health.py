"""Findings on real servers: each trouble is seeded and found, and a healthy queue has none."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from chasqui import health
from chasqui.health import Finding, Level
from chasqui.health.rules_samples import double_runs
from chasqui.health.samples import QueueSamples, sample_queue
from chasqui.health.thresholds import HealthThresholds, SampleLimits, Threshold
from chasqui.server.commands import Commands
from chasqui.server.link import Link
from tests.support.seeds.every_state import GROUP, QueueSeeder
from tests.support.servers.server import Server

HOUR_MS = 3_600_000
Spoil = Callable[[QueueSeeder], object]


@pytest.fixture
def seed(server: Server, queue: str) -> Iterator[QueueSeeder]:
    with Link.open(server.url) as link:
        yield QueueSeeder(link, queue)


def examined(seed: QueueSeeder, options: SampleLimits | None = None) -> QueueSamples:
    with Link.open(seed.link.address, read_only=True) as viewer:
        return viewer.run(sample_queue(Commands(viewer.features()), seed.keys, options=options))


def found(seed: QueueSeeder) -> list[Finding]:
    seen = examined(seed)
    return [*health.check_queue(seen.snapshot), *health.check_samples(seen)]


def healthy(seed: QueueSeeder) -> None:
    """Work of every kind, all of it as it should be."""
    seed.group()
    seed.add()
    seed.add()
    seed.read(1)
    seed.delay(60_000, "later")
    seed.repeat("tick", 30_000)
    seed.take_leader_locks()
    for attempt in (1, 2):
        seed.add_event("active", "retried", attempt=attempt)
        seed.add_event("failed", "retried", attempt=attempt, reason="no")
        seed.add_event("retry-scheduled", "retried", attempt=attempt + 1, backoff_ms=5)
    seed.add_event("active", "fine", attempt=1)
    seed.add_event("completed", "fine", attempt=1, duration_us=900)


def make_idle(seed: QueueSeeder, ms: int, deliveries: int = 1) -> None:
    [row] = seed.command("XPENDING", seed.keys.stream, GROUP, "-", "+", 1)
    words = ("IDLE", ms, "RETRYCOUNT", deliveries, "JUSTID")
    seed.command("XCLAIM", seed.keys.stream, GROUP, row[1], 0, row[0], *words)


def ghost(seed: QueueSeeder) -> None:
    seed.command("XDEL", seed.keys.stream, seed.command("XRANGE", seed.keys.stream, "-", "+", "COUNT", 1)[0][0])


def lose_workers(seed: QueueSeeder) -> None:
    for row in seed.command("XPENDING", seed.keys.stream, GROUP, "-", "+", 10):
        seed.command("XACK", seed.keys.stream, GROUP, row[0])
        seed.command("XDEL", seed.keys.stream, row[0])
    seed.command("XGROUP", "DELCONSUMER", seed.keys.stream, GROUP, "c-7")


def unlock(seed: QueueSeeder, *locks: str) -> None:
    seed.command("DEL", *locks)


def late_delay(seed: QueueSeeder) -> None:
    seed.delay(-20_000)
    unlock(seed, seed.keys.promoter_lock)


def late_repeat(seed: QueueSeeder) -> None:
    seed.repeat("late", -20_000)
    unlock(seed, seed.keys.scheduler_lock)


def overlapping(seed: QueueSeeder) -> None:
    for _ in range(2):
        seed.add_event("active", "twice", attempt=3)


def add_garbage_dead_letter(seed: QueueSeeder) -> None:
    seed.command("XADD", seed.keys.dlq, "*", "d", b"\xc1", "source_id", "1-0", "reason", "decode_failed")


def unreadable_spec(seed: QueueSeeder) -> None:
    seed.command("HSET", seed.keys.repeat_spec("broken"), "spec", b"\xc1")
    seed.command("ZADD", seed.keys.repeat, seed.now_ms + HOUR_MS, "broken")


SPOILS: dict[str, tuple[Level, Spoil]] = {
    "wrong-type": (Level.CRITICAL, lambda s: s.command("SET", s.keys.dlq, "no stream")),
    "endless-lock": (Level.CRITICAL, lambda s: s.take_leader_locks(ttl_ms=None)),
    "no-group": (Level.CRITICAL, lambda s: s.command("XGROUP", "DESTROY", s.keys.stream, GROUP)),
    "no-workers": (Level.CRITICAL, lose_workers),
    "abandoned": (Level.CRITICAL, lambda s: make_idle(s, 700_000)),
    "no-promoter": (Level.CRITICAL, late_delay),
    "delayed-late": (Level.WARNING, lambda s: s.delay(-40_000)),
    "no-scheduler": (Level.CRITICAL, late_repeat),
    "cron-overdue": (Level.WARNING, lambda s: s.repeat("late", -70_000)),
    "dead-letters": (Level.WARNING, lambda s: s.add_dead_letter()),
    "ghosts": (Level.WARNING, ghost),
    "redelivered": (Level.WARNING, lambda s: make_idle(s, 0, deliveries=3)),
    "long-runs": (Level.WARNING, lambda s: s.add_event("completed", "long", duration_us=29_000_000)),
    "ran-twice": (Level.WARNING, overlapping),
    "worker-clock": (Level.WARNING, lambda s: s.add_event("active", "odd", at_ms=60_000, attempt=1)),
    "garbage-member": (Level.CRITICAL, lambda s: s.command("ZADD", s.keys.delayed, s.now_ms + HOUR_MS, b"x")),
    "unreadable-spec": (Level.CRITICAL, unreadable_spec),
    "too-frequent": (Level.WARNING, lambda s: s.repeat("often", 60_000, every_ms=400)),
}


def test_a_healthy_queue_has_no_findings(seed: QueueSeeder) -> None:
    healthy(seed)
    assert found(seed) == []
    assert health.queue_status(examined(seed).snapshot, []).word == "working"


@pytest.mark.parametrize("code", SPOILS)
def test_each_problem_is_found_with_its_fix(seed: QueueSeeder, code: str) -> None:
    level, spoil = SPOILS[code]
    healthy(seed)
    spoil(seed)
    findings = {finding.code: finding for finding in found(seed)}
    assert code in findings
    finding = findings[code]
    assert (finding.level, finding.queue) == (level, seed.queue)
    assert finding.fix
    assert finding.fix.split()[0] in ("chasqui", "redis-cli", "timedatectl")
    assert finding.evidence


@pytest.mark.parametrize("place", ["stream", "delayed", "dlq"])
def test_what_cannot_be_read_is_found_in_every_place(seed: QueueSeeder, place: str) -> None:
    healthy(seed)
    if place == "stream":
        seed.command("XADD", seed.keys.stream, "*", "d", b"\xc1\xc1")
    elif place == "delayed":
        seed.command("ZADD", seed.keys.delayed, seed.now_ms + HOUR_MS, b"no job at all")
    else:
        add_garbage_dead_letter(seed)
    undecodable = [finding for finding in found(seed) if finding.code == "undecodable"]
    assert [(one.evidence["place"], one.evidence["unreadable"]) for one in undecodable] == [(place, 1)]
    assert undecodable[0].level == (Level.NOTE if place == "dlq" else Level.WARNING)


def test_a_dead_letter_without_a_payload_field_is_reported_as_such(seed: QueueSeeder) -> None:
    healthy(seed)
    seed.command("XADD", seed.keys.dlq, "*", "source_id", "1-0", "reason", "malformed")
    [finding] = [finding for finding in found(seed) if finding.code == "undecodable"]
    assert finding.text == "1 of 1 looked at among the dead letters cannot be read: the letter has no field d"


def test_consumers_that_are_gone_differ_by_what_they_hold(seed: QueueSeeder) -> None:
    healthy(seed)
    seed.command("XGROUP", "CREATECONSUMER", seed.keys.stream, GROUP, "old")
    seen = examined(seed)
    findings = health.check_samples(seen, SampleLimits(gone_ms=0))
    gone = [finding for finding in findings if finding.code == "gone-consumers"]
    assert [(one.level, one.evidence["consumers"], one.evidence["pending"]) for one in gone] == [(Level.WARNING, 2, 1)]


def test_sampling_is_bounded_and_reports_its_extent(seed: QueueSeeder) -> None:
    healthy(seed)
    for _ in range(30):
        seed.add()
    stream, delayed, dlq, repeat = examined(seed, SampleLimits(sample=10)).samples
    assert (stream.sampled, stream.total) == (10, 32)
    assert (delayed.sampled, dlq.sampled, repeat.sampled) == (1, 0, 1)


def test_an_examination_takes_five_round_trips(seed: QueueSeeder) -> None:
    healthy(seed)
    with Link.open(seed.link.address, read_only=True) as viewer:
        commands = Commands(viewer.features())
        before = viewer.round_trips
        viewer.run(sample_queue(commands, seed.keys))
        assert viewer.round_trips - before == 5


def test_an_empty_queue_can_be_examined(seed: QueueSeeder) -> None:
    assert found(seed) == []
    assert not examined(seed).snapshot.exists


def test_limits_are_the_callers(seed: QueueSeeder) -> None:
    healthy(seed)
    seen = examined(seed).snapshot
    strict = HealthThresholds(waiting=Threshold(1, None), age_ms=Threshold(None, 0), full_percent=Threshold(0, None))
    codes = {finding.code: finding.level for finding in health.check_queue(seen, strict)}
    assert codes == {
        "backlog": Level.WARNING,
        "old-backlog": Level.CRITICAL,
        "nearly-full": Level.WARNING,
    }


def test_an_own_id_may_be_used_again_and_a_failure_may_be_tried_again(seed: QueueSeeder) -> None:
    seed.add_event("active", "order-17", attempt=1)
    seed.add_event("completed", "order-17", attempt=1)
    seed.add_event("active", "order-17", attempt=1)
    seed.add_event("active", "01M7P2F79BM060N4F8AGZ1S68C", attempt=1)
    seed.add_event("completed", "01M7P2F79BM060N4F8AGZ1S68C", attempt=1)
    assert double_runs(examined(seed).events) == []
    seed.add_event("active", "01M7P2F79BM060N4F8AGZ1S68C", attempt=1)
    assert double_runs(examined(seed).events) == [("01M7P2F79BM060N4F8AGZ1S68C", 1)]
