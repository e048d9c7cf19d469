"""Findings on real servers: each trouble is seeded and found, and a healthy queue has none."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from chasqui import health
from chasqui.checkup import Examination, examine
from chasqui.health import Finding, Level
from chasqui.health.sampled import runs_twice
from chasqui.options import Checkup, Health, Limit
from chasqui.server.commands import Commands
from chasqui.server.link import Link
from tests.cli.seed_look import GROUP, Seed
from tests.servers import Server

HOUR_MS = 3_600_000
Spoil = Callable[[Seed], object]


@pytest.fixture
def seed(server: Server, queue: str) -> Iterator[Seed]:
    with Link.open(server.url) as link:
        yield Seed(link, queue)


def examined(seed: Seed, options: Checkup | None = None) -> Examination:
    with Link.open(seed.link.address, read_only=True) as viewer:
        return viewer.run(examine(Commands(viewer.features()), seed.keys, options=options))


def found(seed: Seed) -> list[Finding]:
    seen = examined(seed)
    return [*health.of_queue(seen.queue), *health.of_examination(seen)]


def healthy(seed: Seed) -> None:
    """Work of every kind, all of it as it should be."""
    seed.group()
    seed.add()
    seed.add()
    seed.read(1)
    seed.delay(60_000, "later")
    seed.repeat("tick", 30_000)
    seed.lead()
    for attempt in (1, 2):
        seed.tell("active", "retried", attempt=attempt)
        seed.tell("failed", "retried", attempt=attempt, reason="no")
        seed.tell("retry-scheduled", "retried", attempt=attempt + 1, backoff_ms=5)
    seed.tell("active", "fine", attempt=1)
    seed.tell("completed", "fine", attempt=1, duration_us=900)


def make_idle(seed: Seed, ms: int, deliveries: int = 1) -> None:
    [row] = seed.say("XPENDING", seed.keys.stream, GROUP, "-", "+", 1)
    words = ("IDLE", ms, "RETRYCOUNT", deliveries, "JUSTID")
    seed.say("XCLAIM", seed.keys.stream, GROUP, row[1], 0, row[0], *words)


def ghost(seed: Seed) -> None:
    seed.say("XDEL", seed.keys.stream, seed.say("XRANGE", seed.keys.stream, "-", "+", "COUNT", 1)[0][0])


def lose_workers(seed: Seed) -> None:
    for row in seed.say("XPENDING", seed.keys.stream, GROUP, "-", "+", 10):
        seed.say("XACK", seed.keys.stream, GROUP, row[0])
        seed.say("XDEL", seed.keys.stream, row[0])
    seed.say("XGROUP", "DELCONSUMER", seed.keys.stream, GROUP, "c-7")


def unlock(seed: Seed, *locks: str) -> None:
    seed.say("DEL", *locks)


def late_delay(seed: Seed) -> None:
    seed.delay(-20_000)
    unlock(seed, seed.keys.promoter_lock)


def late_repeat(seed: Seed) -> None:
    seed.repeat("late", -20_000)
    unlock(seed, seed.keys.scheduler_lock)


def overlapping(seed: Seed) -> None:
    for _ in range(2):
        seed.tell("active", "twice", attempt=3)


def bury_garbage(seed: Seed) -> None:
    seed.say("XADD", seed.keys.dlq, "*", "d", b"\xc1", "source_id", "1-0", "reason", "decode_failed")


def unreadable_spec(seed: Seed) -> None:
    seed.say("HSET", seed.keys.repeat_spec("broken"), "spec", b"\xc1")
    seed.say("ZADD", seed.keys.repeat, seed.now_ms + HOUR_MS, "broken")


SPOILS: dict[str, tuple[Level, Spoil]] = {
    "wrong-type": (Level.CRITICAL, lambda s: s.say("SET", s.keys.dlq, "no stream")),
    "endless-lock": (Level.CRITICAL, lambda s: s.lead(ttl_ms=None)),
    "no-group": (Level.CRITICAL, lambda s: s.say("XGROUP", "DESTROY", s.keys.stream, GROUP)),
    "no-workers": (Level.CRITICAL, lose_workers),
    "abandoned": (Level.CRITICAL, lambda s: make_idle(s, 700_000)),
    "no-promoter": (Level.CRITICAL, late_delay),
    "delayed-late": (Level.WARNING, lambda s: s.delay(-40_000)),
    "no-scheduler": (Level.CRITICAL, late_repeat),
    "cron-overdue": (Level.WARNING, lambda s: s.repeat("late", -70_000)),
    "dead-letters": (Level.WARNING, lambda s: s.bury()),
    "ghosts": (Level.WARNING, ghost),
    "redelivered": (Level.WARNING, lambda s: make_idle(s, 0, deliveries=3)),
    "long-runs": (Level.WARNING, lambda s: s.tell("completed", "long", duration_us=29_000_000)),
    "ran-twice": (Level.WARNING, overlapping),
    "worker-clock": (Level.WARNING, lambda s: s.tell("active", "odd", at_ms=60_000, attempt=1)),
    "garbage-member": (Level.CRITICAL, lambda s: s.say("ZADD", s.keys.delayed, s.now_ms + HOUR_MS, b"x")),
    "unreadable-spec": (Level.CRITICAL, unreadable_spec),
    "too-frequent": (Level.WARNING, lambda s: s.repeat("often", 60_000, every_ms=400)),
}


def test_a_healthy_queue_has_no_findings(seed: Seed) -> None:
    healthy(seed)
    assert found(seed) == []
    assert health.state(examined(seed).queue, []).word == "working"


@pytest.mark.parametrize("code", SPOILS)
def test_each_trouble_is_found_with_what_mends_it(seed: Seed, code: str) -> None:
    level, spoil = SPOILS[code]
    healthy(seed)
    spoil(seed)
    told = {finding.code: finding for finding in found(seed)}
    assert code in told
    finding = told[code]
    assert (finding.level, finding.queue) == (level, seed.queue)
    assert finding.mend
    assert finding.mend.split()[0] in ("chasqui", "redis-cli", "timedatectl")
    assert finding.evidence


@pytest.mark.parametrize("place", ["stream", "delayed", "dlq"])
def test_what_cannot_be_read_is_found_in_every_place(seed: Seed, place: str) -> None:
    healthy(seed)
    if place == "stream":
        seed.say("XADD", seed.keys.stream, "*", "d", b"\xc1\xc1")
    elif place == "delayed":
        seed.say("ZADD", seed.keys.delayed, seed.now_ms + HOUR_MS, b"no job at all")
    else:
        bury_garbage(seed)
    told = [finding for finding in found(seed) if finding.code == "undecodable"]
    assert [(one.evidence["place"], one.evidence["unreadable"]) for one in told] == [(place, 1)]
    assert told[0].level == (Level.NOTE if place == "dlq" else Level.WARNING)


def test_consumers_that_are_gone_are_told_apart_by_what_they_hold(seed: Seed) -> None:
    healthy(seed)
    seed.say("XGROUP", "CREATECONSUMER", seed.keys.stream, GROUP, "old")
    seen = examined(seed)
    told = health.of_examination(seen, Checkup(gone_ms=0))
    gone = [finding for finding in told if finding.code == "gone-consumers"]
    assert [(one.level, one.evidence["consumers"], one.evidence["pending"]) for one in gone] == [
        (Level.WARNING, 2, 1)
    ]


def test_a_look_is_bounded_and_says_how_far_it_went(seed: Seed) -> None:
    healthy(seed)
    for _ in range(30):
        seed.add()
    stream, delayed, dlq, repeat = examined(seed, Checkup(sample=10)).samples
    assert (stream.looked, stream.total) == (10, 32)
    assert (delayed.looked, dlq.looked, repeat.looked) == (1, 0, 1)


def test_an_examination_takes_five_round_trips(seed: Seed) -> None:
    healthy(seed)
    with Link.open(seed.link.address, read_only=True) as viewer:
        commands = Commands(viewer.features())
        before = viewer.round_trips
        viewer.run(examine(commands, seed.keys))
        assert viewer.round_trips - before == 5


def test_an_empty_queue_can_be_examined(seed: Seed) -> None:
    assert found(seed) == []
    assert not examined(seed).queue.exists


def test_limits_are_the_callers(seed: Seed) -> None:
    healthy(seed)
    seen = examined(seed).queue
    strict = Health(waiting=Limit(1, None), age_ms=Limit(None, 0), full_percent=Limit(0, None))
    codes = {finding.code: finding.level for finding in health.of_queue(seen, strict)}
    assert codes == {
        "backlog": Level.WARNING,
        "old-backlog": Level.CRITICAL,
        "nearly-full": Level.WARNING,
    }


def test_an_own_id_may_be_used_again_and_a_failure_may_be_tried_again(seed: Seed) -> None:
    seed.tell("active", "order-17", attempt=1)
    seed.tell("completed", "order-17", attempt=1)
    seed.tell("active", "order-17", attempt=1)
    seed.tell("active", "01M7P2F79BM060N4F8AGZ1S68C", attempt=1)
    seed.tell("completed", "01M7P2F79BM060N4F8AGZ1S68C", attempt=1)
    assert runs_twice(examined(seed).events) == []
    seed.tell("active", "01M7P2F79BM060N4F8AGZ1S68C", attempt=1)
    assert runs_twice(examined(seed).events) == [("01M7P2F79BM060N4F8AGZ1S68C", 1)]
