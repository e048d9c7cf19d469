"""Moving queues to ours: what survives, what is not touched, and a mover that dies after any round trip."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import pytest

from chasqui import foreign
from chasqui.defaults import StreamCaps
from chasqui.foreign import ConversionOptions, JobListKeys, MigrationReport, RsmqKeys, joblist, rsmq
from chasqui.foreign.joblist.joblist_transfer import JobListSource
from chasqui.foreign.rsmq import Draft
from chasqui.foreign.rsmq.keys import new_message_id
from chasqui.foreign.rsmq.rsmq_transfer import RsmqSource
from chasqui.server.flow import Call, Flow
from chasqui.server.link import Link
from chasqui.sync_queue import SyncQueue
from chasqui.wire import dead_letter_entry, delayed_member, envelope, stream_entry
from chasqui.wire.keys import Keys
from tests.foreign.conftest import ForeignServer, interrupt_after_each, interrupt_before
from tests.support.links import command
from tests.support.servers.clusters import cluster_servers
from tests.support.servers.server import start_server

T = TypeVar("T")
HOUR_MS = 3_600_000
TEXT, BYTES = '{"to": "ada", "é": 1.50}', b"\xff\x00\xfe"


@dataclass(slots=True)
class Road:
    """A source, and where its messages go: the same server, or another one."""

    server: ForeignServer
    target: Link
    far: bool

    @property
    def ours(self) -> Keys:
        return self.server.ours

    def go(self, source: Any, **named: Any) -> MigrationReport:
        far = self.target if self.far else None
        return foreign.migrate(self.server.link, source, self.ours, target_link=far, **named)

    def stream(self) -> list[envelope.Envelope]:
        rows = self.target.run(command("XRANGE", self.ours.stream, "-", "+", keys=(self.ours.stream,)))
        entries = [stream_entry.decode(fields) for _, fields in rows]
        return [envelope.decode(entry.d or b"") for entry in entries]

    def delayed(self) -> dict[str, tuple[int, delayed_member.DelayedMember]]:
        words = ("ZRANGE", self.ours.delayed, 0, -1, "WITHSCORES")
        rows = self.target.run(command(*words, keys=(self.ours.delayed,)))
        pairs = zip(rows[::2], rows[1::2], strict=True)
        found = [(delayed_member.decode(member), int(score)) for member, score in pairs]
        return {member.envelope.id: (score, member) for member, score in found}

    def dead(self) -> list[dead_letter_entry.DeadLetterEntry]:
        rows = self.target.run(command("XRANGE", self.ours.dlq, "-", "+", keys=(self.ours.dlq,)))
        return [dead_letter_entry.decode(fields) for _, fields in rows]

    def arrived(self) -> list[str]:
        """The ids of everything that is ours now."""
        dead = [envelope.decode(letter.d).id for letter in self.dead()]
        return sorted([job.id for job in self.stream()] + [*self.delayed()] + dead)


@pytest.fixture(params=["the same server", "another server"])
def road(request: pytest.FixtureRequest, foreign_server: ForeignServer) -> Iterator[Road]:
    if request.param == "the same server":
        yield Road(foreign_server, foreign_server.link, far=False)
        return
    with start_server("valkey-9.1") as other, Link.open(other.url) as link:
        yield Road(foreign_server, link, far=True)


def test_everything_of_a_message_survives(road: Road) -> None:
    server, keys = road.server, road.server.rsmq
    server.run(rsmq.create_queue(keys))
    old = new_message_id((server.now_ms() - HOUR_MS) * 1000 + 7)
    drafts = [Draft(TEXT, id=old), Draft(BYTES), Draft(""), Draft("later", delay_ms=HOUR_MS)]
    ids = server.run(rsmq.send_many(keys, drafts))
    for _ in range(2):
        server.run(rsmq.receive(keys, vt_ms=0))
    due = server.run(rsmq.read_message(keys, ids[3]))
    report = road.go(keys)
    assert report.counts == {"stream": 3, "delayed": 1}
    jobs = {job.id: job for job in road.stream()}
    assert jobs.keys() == set(ids[:3])
    assert [jobs[one].payload.data() for one in ids[:3]] == [TEXT, BYTES, ""]
    assert jobs[old].created_at_ms == (int(old[:10], 36)) // 1000
    assert sum(job.attempt for job in jobs.values()) == 2
    score, member = road.delayed()[ids[3]]
    assert due is not None
    assert (score, member.prefix, member.envelope.payload.data()) == (due.visible_at_ms, "u32le", "later")
    assert (report.after.ready, report.after.delayed, report.after.parked) == (0, 0, 0)
    left = server.command("HKEYS", keys.hash)
    assert not [name for name in left if any(name.startswith(one.encode()) for one in ids)]
    assert server.command("EXISTS", keys.messages, keys.in_migration) == 0


def test_a_delayed_message_can_be_cancelled_as_a_job(road: Road) -> None:
    road.server.run(rsmq.create_queue(road.server.rsmq))
    later = road.server.run(rsmq.send(road.server.rsmq, "later", delay_ms=HOUR_MS))
    road.go(road.server.rsmq)
    with SyncQueue(road.ours.queue, link=road.target) as queue:
        assert queue.cancel_delayed(later)
    assert road.delayed() == {}


def test_what_a_consumer_holds_is_not_taken_from_it(road: Road) -> None:
    server, keys = road.server, road.server.rsmq
    server.run(rsmq.create_queue(keys))
    held, free = server.run(rsmq.send_many(keys, [Draft("held"), Draft("free")]))
    received = server.run(rsmq.receive(keys, vt_ms=HOUR_MS))
    assert received is not None
    report = road.go(keys)
    assert (report.counts, report.after.held) == ({"stream": 1, "held": 1}, 1)
    assert [job.id for job in road.stream()] == [free if received.id == held else held]
    server.run(rsmq.change_visibility(keys, received.id, 0))
    assert road.go(keys).counts == {"stream": 1}
    assert sorted(job.id for job in road.stream()) == sorted([held, free])
    assert {job.id: job.attempt for job in road.stream()}[received.id] == 1


def test_a_dry_run_reports_and_changes_nothing(road: Road) -> None:
    server, keys = road.server, road.server.rsmq
    server.run(rsmq.create_queue(keys))
    server.run(rsmq.send_many(keys, [Draft("x"), Draft("x"), Draft("x", delay_ms=HOUR_MS)]))
    server.run(rsmq.receive(keys, vt_ms=HOUR_MS))
    before = server.dump(keys.messages, keys.hash, keys.queues)
    report = road.go(keys, dry_run=True)
    assert report.dry_run
    assert (report.before.ready, report.before.delayed, report.before.held) == (1, 1, 1)
    assert (report.before.sent, report.before.received, report.moved) == (3, 1, 0)
    assert server.dump(keys.messages, keys.hash, keys.queues) == before
    assert road.arrived() == []


def test_it_reports_progress_and_continues_while_asked(road: Road) -> None:
    server, keys = road.server, road.server.rsmq
    server.run(rsmq.create_queue(keys))
    server.run(rsmq.send_many(keys, [Draft(str(n)) for n in range(350)]))
    moved: list[int] = []
    late: list[str] = []

    def keep_on(report: MigrationReport) -> bool:
        if not late:
            late.append(server.run(rsmq.send(keys, "late")))
        return report.passes < 3

    report = road.go(keys, progress=lambda report: moved.append(report.moved), keep_on=keep_on)
    assert moved == sorted(moved)
    assert len(set(moved)) >= 4
    assert (report.moved, report.passes) == (351, 3)
    assert late[0] in road.arrived()


def test_the_order_of_a_queue_survives(road: Road) -> None:
    server, keys = road.server, road.server.rsmq
    server.run(rsmq.create_queue(keys))
    start = server.now_ms() * 1000 - 900
    ids = [new_message_id(start + n) for n in range(250)]
    server.run(rsmq.send_many(keys, [Draft(str(n), id=one) for n, one in enumerate(ids)]))
    road.go(keys)
    assert [job.payload.data() for job in road.stream()] == [str(n) for n in range(250)]


@pytest.mark.parametrize(
    ("over_limit", "attempt", "where"), [("keep", 5, "stream"), ("clamp", 2, "stream"), ("reset", 0, "stream"), ("dlq", 5, "dlq")]
)  # fmt: skip
def test_messages_that_were_received_too_often(road: Road, over_limit: Any, attempt: int, where: str) -> None:
    server, keys = road.server, road.server.rsmq
    server.run(rsmq.create_queue(keys))
    sent = server.run(rsmq.send(keys, "x"))
    for _ in range(5):
        server.run(rsmq.receive(keys, vt_ms=0))
    report = road.go(keys, terms=ConversionOptions(name="mail", max_attempts=3, over_limit=over_limit))
    assert report.counts == {where: 1}
    if where == "dlq":
        [letter] = road.dead()
        assert (letter.reason, letter.name, letter.source_id) == ("retries_exhausted", "mail", sent)
        assert letter.detail == "received 5 times, and 3 are allowed"
        assert envelope.decode(letter.d).attempt == attempt
    else:
        assert [job.attempt for job in road.stream()] == [attempt]


@pytest.mark.parametrize(
    ("form", "data"), [("auto", '{"a": 1}'), ("bytes", b'{"a": 1}'), ("json", {"a": 1}), (None, '{"a": 1}')]
)
def test_bodies_become_what_was_asked_for(road: Road, form: Any, data: Any) -> None:
    server, keys = road.server, road.server.rsmq
    server.run(rsmq.create_queue(keys))
    server.run(rsmq.send(keys, '{"a": 1}'))
    road.go(keys, terms=ConversionOptions(body=form))
    assert [job.payload.data() for job in road.stream()] == [data]


def test_damaged_messages_stay_and_are_reported(road: Road) -> None:
    server, keys = road.server, road.server.rsmq
    server.run(rsmq.create_queue(keys))
    server.command("ZADD", keys.messages, 1, "empty" + "0" * 27, 2, b"\xff odd id")
    server.command("HSET", keys.hash, b"\xff odd id", "x")
    fine = server.run(rsmq.send(keys, "fine"))
    report = road.go(keys)
    assert [job.id for job in road.stream()] == [fine]
    assert len(report.failures) == 2
    assert report.failures["empty" + "0" * 27] == "it has no body"
    assert report.after.ready == 2
    assert server.command("EXISTS", keys.in_migration) == 0


def test_the_ghost_of_a_dropped_queue_is_moved_too(road: Road) -> None:
    server, keys = road.server, road.server.rsmq
    ghost = new_message_id(server.now_ms() * 1000)
    server.command("ZADD", keys.messages, 5, ghost)
    server.command("HSET", keys.hash, ghost, "late")
    assert road.go(keys).counts == {"stream": 1}
    assert road.arrived() == [ghost]


def test_a_list_queue_moves_with_its_failed_jobs_as_dead_letters(road: Road) -> None:
    server, keys = road.server, road.server.jobs
    then = server.now_ms() - HOUR_MS
    payloads = [{"n": 1}, "text", [1, 2.5, None], 2**70]
    ids = [server.run(joblist.enqueue(keys, payload, now_ms=then)) for payload in payloads]
    odd = server.run(joblist.enqueue(keys, b"no json \xff", now_ms=then))
    bad = server.run(joblist.enqueue(keys, "bad", now_ms=then))
    server.run(joblist.move_to_front(keys, [bad]))
    claim = server.run(joblist.claim(keys, block_ms=100, now_ms=then))
    assert claim is not None
    flow = joblist.fail(keys, bad, claim.token, "smtp timeout", attempts=3, now_ms=server.now_ms())
    assert server.run(flow) == "failed"
    running = server.run(joblist.claim(keys, block_ms=100, now_ms=server.now_ms()))
    assert running is not None
    server.command("RPUSH", keys.pending, "no-hash")
    report = road.go(keys)
    assert report.counts == {"stream": 4, "dlq": 1}
    assert report.failures == {"no-hash": "its hash is gone"}
    jobs = road.stream()
    assert [job.id for job in jobs] == [*ids[1:], odd]
    assert [job.payload.data() for job in jobs] == ["text", [1, 2.5, None], str(2**70), b"no json \xff"]
    assert {job.created_at_ms for job in jobs} == {then}
    [letter] = road.dead()
    assert (letter.reason, letter.detail) == ("retries_exhausted", "smtp timeout")
    assert envelope.decode(letter.d).attempt == 1
    assert server.run(joblist.read_depths(keys)) == joblist.ListDepths(1, 1, 0, 0)
    assert server.command("EXISTS", keys.job(ids[1]), keys.job(bad), keys.in_migration) == 0


def test_claims_of_dead_workers_are_taken_back_only_when_a_visibility_is_given(road: Road) -> None:
    server, keys = road.server, road.server.jobs
    stale, live = (server.run(joblist.enqueue(keys, n, now_ms=server.now_ms())) for n in range(2))
    for ago in (9000, 0):
        server.run(joblist.claim(keys, block_ms=100, now_ms=server.now_ms() - ago))
    assert road.go(keys).moved == 0
    assert road.go(keys, visibility_ms=5000).counts == {"stream": 1}
    [job] = road.stream()
    assert (job.id, job.attempt) == (stale, 1)
    assert server.run(joblist.list_ids(keys, "processing")) == [live]


class Killed(BaseException):
    """The mover is gone."""


class Mortal:
    """A link whose user dies at a given round trip: before it is sent, or when it was done and the reply is lost."""

    def __init__(self, link: Link, life: list[int], *, after_it: bool) -> None:
        self._link = link
        self._life = life
        self._after_it = after_it
        self.address = link.address

    def run(self, flow: Flow[T]) -> T:
        return self._link.run(self._lived(flow))

    def _lived(self, flow: Flow[T]) -> Flow[T]:
        try:
            batch = next(flow)
            while True:
                self._life[0] -= 1
                if self._life[0] == 0 and not self._after_it:
                    raise Killed
                replies = yield batch
                if self._life[0] == 0:
                    raise Killed
                batch = flow.send(replies)
        except StopIteration as end:
            result: T = end.value
            return result


@pytest.mark.parametrize("after_it", [False, True], ids=["before it is sent", "after it was done"])
@pytest.mark.parametrize("kind", ["rsmq", "joblist"])
def test_a_mover_that_dies_at_any_round_trip_loses_and_doubles_nothing(road: Road, kind: str, after_it: bool) -> None:
    server = road.server
    source: Any = server.rsmq if kind == "rsmq" else server.jobs
    fill: Callable[[], list[str]] = _rsmq_filler(server) if kind == "rsmq" else _joblist_filler(server)
    sent: list[str] = []
    for lived in range(1, 60):
        sent += fill()
        life = [lived]
        near, far = (Mortal(link, life, after_it=after_it) for link in (server.link, road.target))
        try:
            way: Any = foreign.migrate
            way(near, source, road.ours, target_link=far if road.far else None)
        except Killed:
            continue
        break
    else:
        pytest.fail("it never got through")
    assert lived > 5
    road.go(source)
    assert road.arrived() == sorted(sent)


def _rsmq_filler(server: ForeignServer) -> Callable[[], list[str]]:
    server.run(rsmq.create_queue(server.rsmq))

    def fill() -> list[str]:
        drafts = [*[Draft("x")] * 60, *[Draft("y", delay_ms=HOUR_MS)] * 60]
        return server.run(rsmq.send_many(server.rsmq, drafts))

    return fill


def _joblist_filler(server: ForeignServer) -> Callable[[], list[str]]:
    def fill() -> list[str]:
        return [server.run(joblist.enqueue(server.jobs, n, now_ms=server.now_ms())) for n in range(120)]

    return fill


@pytest.mark.parametrize("kind", ["rsmq", "joblist"])
def test_what_a_mover_set_aside_and_left_can_be_given_back(foreign_server: ForeignServer, kind: str) -> None:
    source: Any = foreign_server.rsmq if kind == "rsmq" else foreign_server.jobs
    (_rsmq_filler(foreign_server) if kind == "rsmq" else _joblist_filler(foreign_server))()
    keys = (source.messages, source.hash) if kind == "rsmq" else source.lists
    before = foreign_server.dump(*keys)
    with start_server("valkey-9.1") as other, Link.open(other.url) as far:
        near: Any = Mortal(foreign_server.link, [100], after_it=False)
        dead: Any = Mortal(far, [2], after_it=False)
        with pytest.raises(Killed):
            foreign.migrate(near, source, foreign_server.ours, target_link=dead)
    assert foreign_server.dump(*keys) != before
    assert foreign.return_parked(foreign_server.link, source) == 100
    after = foreign_server.dump(*keys)
    assert after.keys() == before.keys()
    assert all(sorted(after[key]) == sorted(before[key]) for key in keys if key in before)
    assert foreign.return_parked(foreign_server.link, source) == 0


def test_a_cluster_is_as_far_as_another_server() -> None:
    with cluster_servers("valkey-9.1") as nodes, Link.open(nodes.url) as link:
        keys, jobs = RsmqKeys("orders", "{rsmq}"), JobListKeys("{jobs}")
        link.run(rsmq.create_queue(keys))
        sent = link.run(rsmq.send_many(keys, [Draft("x"), Draft("y", delay_ms=HOUR_MS)]))
        sent.append(link.run(joblist.enqueue(jobs, "x", now_ms=1)))
        ours = Keys("q")
        assert foreign.migrate(link, keys, ours).counts == {"stream": 1, "delayed": 1}
        assert foreign.migrate(link, jobs, ours).counts == {"stream": 1}
        assert Road(ForeignServer(link, "q"), link, far=True).arrived() == sorted(sent)


@pytest.mark.parametrize("way", ["forward", "park"])
def test_a_message_received_after_it_was_looked_at_is_its_consumers(foreign_server: ForeignServer, way: str) -> None:
    foreign_server.run(rsmq.create_queue(foreign_server.rsmq))
    sent = foreign_server.run(rsmq.send(foreign_server.rsmq, "x"))
    source = RsmqSource(foreign_server.rsmq, ConversionOptions())
    flow = source.forward(foreign_server.ours, None) if way == "forward" else source.park(None)
    script = "rsmq/forward_message" if way == "forward" else "rsmq/park"
    receiving = rsmq.receive(foreign_server.rsmq, vt_ms=HOUR_MS)
    crossed, _ = foreign_server.run(interrupt_before(flow, script, lambda: foreign_server.run(receiving)))
    assert set(crossed.counts) <= {"held", "changed"}
    assert crossed.counts.total() == 1
    assert foreign_server.run(rsmq.count_by_state(foreign_server.rsmq)).in_flight == 1
    assert foreign_server.run(rsmq.read_message(foreign_server.rsmq, sent)) is not None
    assert foreign_server.command("EXISTS", foreign_server.ours.stream, foreign_server.rsmq.in_migration) == 0


def test_a_job_claimed_after_it_was_looked_at_is_its_workers(road: Road) -> None:
    server, keys = road.server, road.server.jobs
    server.run(joblist.enqueue(keys, "x", now_ms=server.now_ms()))
    source = JobListSource(keys, ConversionOptions())
    flow = source.park(None) if road.far else source.forward(road.ours, None)
    claims: list[joblist.JobClaim | None] = []
    claiming = joblist.claim(keys, block_ms=100, now_ms=server.now_ms())
    script = "joblist/park" if road.far else "joblist/forward_job"
    crossed, _ = server.run(interrupt_before(flow, script, lambda: claims.append(server.run(claiming))))
    assert crossed.counts == {"gone": 1}
    [claim] = claims
    assert claim is not None
    assert server.run(joblist.complete(keys, claim.id, claim.token, 1, now_ms=server.now_ms()))
    assert road.arrived() == []


def test_more_broken_jobs_than_a_page_do_not_hide_the_rest(road: Road) -> None:
    server, keys = road.server, road.server.jobs
    job_id = server.run(joblist.enqueue(keys, "x", now_ms=server.now_ms()))
    server.command("RPUSH", keys.pending, *(f"orphan-{n}" for n in range(250)))
    report = road.go(keys)
    assert (report.counts, len(report.failures)) == ({"stream": 1}, 250)
    assert road.arrived() == [job_id]


def test_more_broken_messages_than_a_page_do_not_hide_the_rest(road: Road) -> None:
    server, keys = road.server, road.server.rsmq
    server.run(rsmq.create_queue(keys))
    for number in range(250):
        server.command("ZADD", keys.messages, 5, f"empty-{number}")
    sent = server.run(rsmq.send(keys, "x"))
    report = road.go(keys)
    assert (report.counts, len(report.failures)) == ({"stream": 1}, 250)
    assert road.arrived() == [sent]


def test_round_trips_are_counted_by_the_page_not_by_the_message(road: Road) -> None:
    server, keys = road.server, road.server.rsmq
    server.run(rsmq.create_queue(keys))
    server.run(rsmq.send_many(keys, [Draft("x")] * 100))
    road.go(keys)
    server.run(rsmq.send_many(keys, [Draft("x")] * 1000))
    before = server.link.round_trips
    assert road.go(keys).moved == 1000
    pages = 11
    assert server.link.round_trips - before <= (8 * pages if road.far else 2 * pages) + 6


def test_a_job_that_another_mover_takes_meanwhile_is_no_failure(foreign_server: ForeignServer) -> None:
    foreign_server.run(joblist.enqueue(foreign_server.jobs, {}, now_ms=foreign_server.now_ms(), job_id="x"))

    def another(calls: Sequence[Call]) -> None:
        if any(call.args[0] == "LRANGE" for call in calls):
            foreign.migrate(foreign_server.link, foreign_server.jobs, foreign_server.ours)

    source = JobListSource(foreign_server.jobs, ConversionOptions())
    crossed, _ = foreign_server.run(interrupt_after_each(source.forward(foreign_server.ours, None), another))
    assert (crossed.failures, dict(crossed.counts)) == ({}, {})
    assert foreign_server.command("XLEN", foreign_server.ours.stream) == 1


def test_without_room_for_dead_letters_failed_jobs_stay_in_their_list(road: Road) -> None:
    server, keys = road.server, road.server.jobs
    bad, good = (server.run(joblist.enqueue(keys, n, now_ms=server.now_ms())) for n in range(2))
    claim = server.run(joblist.claim(keys, block_ms=100, now_ms=server.now_ms()))
    assert claim is not None
    server.run(joblist.fail(keys, bad, claim.token, "x", attempts=9, now_ms=server.now_ms()))
    road.target.run(command("XADD", road.ours.dlq, "*", "d", "x", keys=(road.ours.dlq,)))
    report = road.go(keys, terms=ConversionOptions(caps=StreamCaps(dlq=1)))
    assert report.counts == {"stream": 1, "full": 1}
    assert [job.id for job in road.stream()] == [good]
    assert server.run(joblist.list_ids(keys, "failed")) == [bad]
    assert server.command("EXISTS", keys.in_migration) == 0


def test_without_room_for_dead_letters_messages_that_are_over_stay_in_their_queue(road: Road) -> None:
    server, keys = road.server, road.server.rsmq
    server.run(rsmq.create_queue(keys))
    over = server.run(rsmq.send(keys, "over"))
    server.run(rsmq.receive(keys, vt_ms=0))
    road.target.run(command("XADD", road.ours.dlq, "*", "d", "x", keys=(road.ours.dlq,)))
    terms = ConversionOptions(max_attempts=1, over_limit="dlq", caps=StreamCaps(dlq=1))
    assert road.go(keys, terms=terms).counts == {"full": 1}
    assert [message.id for message in server.run(rsmq.peek(keys, 9))] == [over]
    assert server.command("EXISTS", keys.in_migration) == 0


def test_messages_that_cannot_be_packed_are_not_set_aside_and_do_not_hide_the_rest(road: Road) -> None:
    server, keys = road.server, road.server.rsmq
    server.run(rsmq.create_queue(keys))
    for number in range(100):
        server.command("ZADD", keys.messages, 5, f"odd-{number}")
        server.command("HSET", keys.hash, f"odd-{number}", "x", f"odd-{number}:rc", 1, f"odd-{number}:fr", 10**30)
    sent = server.run(rsmq.send(keys, "x"))
    report = road.go(keys)
    assert (report.counts, len(report.failures)) == ({"stream": 1}, 100)
    assert road.arrived() == [sent]
    assert server.run(rsmq.count_by_state(keys)).messages == 100
    assert server.command("EXISTS", keys.in_migration) == 0
