"""The state of single jobs on real servers: every state a job can be in, found by its id, with its evidence."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from chasqui.defaults import SearchLimits
from chasqui.errors import ArgumentError
from chasqui.inspect.job_state import (
    DeadState,
    DelayedState,
    DoneState,
    InFlightState,
    JobStateReport,
    PassedState,
    ScheduleState,
    UnknownState,
    WaitingState,
)
from chasqui.inspect.job_state_search import find_job_state
from chasqui.server.commands import Commands, parse_server_time
from chasqui.server.flow import Arg
from chasqui.server.link import Link
from chasqui.wire import dead_letter_entry, delayed_member, envelope, event_entry, msgpack_codec, stream_entry
from chasqui.wire.dead_letter_entry import DeadLetterEntry
from chasqui.wire.event_entry import Event
from chasqui.wire.job_id import new_job_id
from chasqui.wire.keys import Keys
from chasqui.wire.msgpack_codec import Undecodable
from chasqui.wire.payload import Payload
from tests.support.links import command, command_batch
from tests.support.servers.server import Server

BOTH_KINDS = pytest.mark.parametrize("own_id", [None, "order-17"], ids=["ULID", "own id"])


@dataclass(slots=True)
class Scene:
    """A queue to put jobs into, and a link that can only look."""

    link: Link
    viewer: Link
    commands: Commands
    keys: Keys
    now_ms: int

    def command(self, *words: Arg) -> Any:
        return self.link.run(command(*words))

    def job(self, own_id: str | None = None, *, attempt: int = 0, data: Any = 1, at_ms: int = 0) -> envelope.Envelope:
        minted = self.now_ms + at_ms
        payload = Payload("bin", msgpack_codec.pack(data))
        return envelope.Envelope(own_id or new_job_id(minted), payload, minted, attempt)

    def add(self, job: envelope.Envelope, name: str = "mail", entry_id: str = "*") -> str:
        fields = stream_entry.encode(envelope.encode(job), name)
        added: bytes = self.command("XADD", self.keys.stream, entry_id, *fields)
        return added.decode()

    def crowd(self, many: int, *, at_ms: int = 0) -> None:
        """Other jobs, in the stream."""
        for start in range(0, many, 1000):
            jobs = [self.job(at_ms=at_ms) for _ in range(start, min(many, start + 1000))]
            rows = [stream_entry.encode(envelope.encode(job)) for job in jobs]
            self.link.run(command_batch(*(self.commands.add_unchecked(self.keys, row) for row in rows)))

    def group(self, read: int = 0, name: str = "default") -> None:
        self.command("XGROUP", "CREATE", self.keys.stream, name, "0", "MKSTREAM")
        if read:
            self.command("XREADGROUP", "GROUP", name, "c-7", "COUNT", read, "STREAMS", self.keys.stream, ">")

    def delay(self, job: envelope.Envelope, in_ms: int, name: str = "mail") -> None:
        member = delayed_member.encode(envelope.encode(job), name)
        self.command("ZADD", self.keys.delayed, self.now_ms + in_ms, member)

    def add_dead_letter(self, job: envelope.Envelope, reason: str, detail: str | None = None) -> None:
        entry = DeadLetterEntry(envelope.encode(job), "1-0", reason, detail, "mail")
        self.command("XADD", self.keys.dlq, "*", *dead_letter_entry.encode(entry))

    def add_events(self, *events: Event) -> None:
        for event in events:
            self.command("XADD", self.keys.events, "*", *event_entry.encode(event))

    def why(self, job_id: str, **options: int) -> JobStateReport:
        return self.viewer.run(find_job_state(self.commands, self.keys, job_id, options=SearchLimits(**options)))


@pytest.fixture
def scene(server: Server, queue: str) -> Iterator[Scene]:
    with Link.open(server.url) as link, Link.open(server.url, read_only=True) as viewer:
        yield Scene(
            link,
            viewer,
            Commands(viewer.features()),
            Keys(queue),
            parse_server_time(link.run(command("TIME"))),
        )


@BOTH_KINDS
def test_a_job_waits_behind_others(scene: Scene, own_id: str | None) -> None:
    scene.group()
    scene.crowd(3)
    scene.command("XREADGROUP", "GROUP", "default", "c", "COUNT", 1, "STREAMS", scene.keys.stream, ">")
    scene.crowd(1500)
    job = scene.job(own_id)
    entry_id = scene.add(job)
    scene.crowd(10)
    report = scene.why(job.id)
    assert isinstance(report.primary, WaitingState)
    assert (report.state, report.primary.behind, report.primary.entry_id) == ("waiting", 1502, entry_id)
    assert (report.primary.job, report.primary.name, report.primary.has_group) == (job, "mail", True)
    assert 0 <= report.primary.age_ms < 10_000
    assert (report.queue, report.also, report.events) == (scene.keys.queue, (), ())


def test_a_job_without_anybody_to_read_it_waits_too(scene: Scene) -> None:
    scene.crowd(2)
    job = scene.job()
    scene.add(job)
    finding = scene.why(job.id).primary
    assert isinstance(finding, WaitingState)
    assert (finding.behind, finding.has_group) == (2, False)


def test_a_place_too_far_back_to_be_counted_is_counted_from_the_end_or_not_at_all(scene: Scene) -> None:
    scene.group()
    scene.crowd(300)
    middle, near_the_end = scene.job(), scene.job()
    scene.add(middle)
    scene.crowd(300)
    scene.add(near_the_end)
    scene.crowd(5)
    found = [scene.why(job.id, max_entries_nearby=200, max_entries=1000).primary for job in (near_the_end, middle)]
    assert [one.behind for one in found if isinstance(one, WaitingState)] == [601, None]


@BOTH_KINDS
def test_a_job_is_in_flight_on_a_consumer(scene: Scene, own_id: str | None) -> None:
    job = scene.job(own_id)
    entry_id = scene.add(job)
    scene.group(read=5)
    scene.add_events(Event("active", job.id, 1, attempt=1), Event("active", "another", 1, attempt=1))
    scene.command("XCLAIM", scene.keys.stream, "default", "c-8", 0, entry_id, "IDLE", 41_000, "RETRYCOUNT", 3)
    report = scene.why(job.id)
    finding = report.primary
    assert isinstance(finding, InFlightState)
    assert (finding.state, finding.group, finding.consumer, finding.deliveries) == (
        "in-flight",
        "default",
        "c-8",
        3,
    )
    assert 41_000 <= finding.idle_ms < 60_000
    assert [stored.event.kind for stored in report.events] == ["active"]


def test_a_job_that_every_group_read_and_none_has_pending_was_passed_over(scene: Scene) -> None:
    job = scene.job()
    entry_id = scene.add(job)
    scene.group(read=1)
    scene.command("XACK", scene.keys.stream, "default", entry_id)
    assert scene.why(job.id).primary == PassedState(entry_id, job, "mail")


def test_a_job_scheduled_with_an_id_is_found_by_its_index(scene: Scene) -> None:
    job = scene.job("order-17")
    member = delayed_member.encode(envelope.encode(job), "mail")
    due_ms = scene.now_ms + 60_000
    scene.link.run(command_batch(scene.commands.schedule_once(scene.keys, job.id, member, due_ms, now_ms=scene.now_ms)))
    before = scene.viewer.round_trips
    assert scene.why(job.id).primary == DelayedState(due_ms, 0, job, "mail")
    scene.viewer.run(command("PING"))
    assert scene.viewer.round_trips - before <= 5


@BOTH_KINDS
def test_a_job_that_waits_for_its_retry_is_found_by_its_events(scene: Scene, own_id: str | None) -> None:
    job = scene.job(own_id, attempt=2)
    for number in range(50):
        scene.delay(scene.job(at_ms=number), 1000 * number)
    scene.delay(job, 30_000)
    scene.add_events(
        Event("failed", job.id, 1, attempt=2, reason="no route", duration_us=5),
        Event("retry-scheduled", job.id, 1, attempt=3, backoff_ms=30_000),
    )
    report = scene.why(job.id, max_entries=5)
    assert isinstance(report.primary, DelayedState)
    assert (report.primary.run_at_ms, report.primary.job) == (scene.now_ms + 30_000, job)
    assert [stored.event.reason for stored in report.events] == ["no route", None]


def test_an_overdue_job_is_found_without_any_hint_with_its_lag(scene: Scene) -> None:
    job = scene.job(attempt=2)
    scene.delay(job, -90_000)
    finding = scene.why(job.id).primary
    assert isinstance(finding, DelayedState)
    assert 90_000 <= finding.lag_ms < 110_000


@BOTH_KINDS
@pytest.mark.parametrize("crowd", [0, 700])
def test_a_dead_job_is_found_with_the_error_that_killed_it(scene: Scene, own_id: str | None, crowd: int) -> None:
    job = scene.job(own_id, attempt=2)
    for _ in range(crowd):
        scene.add_dead_letter(scene.job(), "unrecoverable")
    scene.add_events(
        Event("failed", job.id, 1, attempt=2, reason="earlier", duration_us=5),
        Event("failed", job.id, 1, attempt=3, reason="no route to host", duration_us=5),
        Event("dlq", job.id, 1, attempt=3, reason="retries_exhausted"),
    )
    scene.add_dead_letter(job, "retries_exhausted")
    for _ in range(crowd):
        scene.add_dead_letter(scene.job(), "unrecoverable")
    report = scene.why(job.id)
    assert isinstance(report.primary, DeadState)
    assert (report.state, report.primary.letter.reason) == ("dead", "retries_exhausted")
    assert (report.primary.error, report.primary.job) == ("no route to host", job)


def test_a_dead_letter_shows_its_own_error_when_it_has_one(scene: Scene) -> None:
    job = scene.job()
    scene.add_dead_letter(job, "unrecoverable", "card refused")
    finding = scene.why(job.id).primary
    assert isinstance(finding, DeadState)
    assert finding.error == "card refused"


def test_a_dead_letter_that_cannot_be_read_is_found_by_the_id_in_its_bytes(scene: Scene) -> None:
    job_id = new_job_id(scene.now_ms)
    broken = msgpack_codec.pack([job_id, b"x", 1, 0, None, "one element too many"])
    scene.command(
        "XADD",
        scene.keys.dlq,
        "*",
        *dead_letter_entry.encode(DeadLetterEntry(broken, "1-0", "decode_failed")),
    )
    finding = scene.why(job_id).primary
    assert isinstance(finding, DeadState)
    assert isinstance(finding.job, Undecodable)


@BOTH_KINDS
def test_a_job_is_done_by_its_result_or_by_its_event_or_both(scene: Scene, own_id: str | None) -> None:
    job = scene.job(own_id)
    scene.command("SET", scene.keys.result(job.id), b"\x81\xa1a\x01", "EX", 60)
    by_result = scene.why(job.id).primary
    assert isinstance(by_result, DoneState)
    assert (by_result.result_bytes, by_result.completed) == (4, None)
    assert 0 < (by_result.result_ttl_ms or 0) <= 60_000
    scene.add_events(Event("completed", job.id, 1, attempt=1, duration_us=1500))
    both = scene.why(job.id).primary
    assert isinstance(both, DoneState)
    assert both.completed
    assert (both.result_bytes, both.completed.event.duration_us) == (4, 1500)
    scene.command("DEL", scene.keys.result(job.id))
    by_event = scene.why(job.id).primary
    assert isinstance(by_event, DoneState)
    assert (by_event.result_bytes, by_event.completed) == (None, both.completed)


def test_an_id_that_is_used_again_waits_and_was_done(scene: Scene) -> None:
    job = scene.job("daily")
    scene.add_events(Event("completed", "daily", 1, attempt=1, duration_us=5))
    scene.crowd(10)
    scene.add(job)
    report = scene.why("daily")
    assert (report.state, [one.state for one in report.also]) == ("waiting", ["done"])


def test_a_promoted_job_is_found_where_it_was_put_not_where_its_id_points(scene: Scene) -> None:
    job = scene.job(at_ms=-3_600_000)
    scene.crowd(100)
    entry_id = scene.add(job)
    scene.add_events(Event("waiting", job.id, 1))
    report = scene.why(job.id)
    assert isinstance(report.primary, WaitingState)
    assert report.primary.entry_id == entry_id


def test_the_key_of_a_repeatable_job_is_recognised(scene: Scene) -> None:
    scene.command("ZADD", scene.keys.repeat, scene.now_ms + 5000, "mail::every:60000")
    assert scene.why("mail::every:60000").primary == ScheduleState(scene.now_ms + 5000, 0)


def test_an_id_without_a_trace_is_unknown_with_the_coverage_of_the_search(scene: Scene) -> None:
    scene.crowd(30)
    scene.delay(scene.job(), 1000)
    scene.add_dead_letter(scene.job(), "unrecoverable")
    scene.add_events(Event("completed", "another", 1, attempt=1, duration_us=5))
    report = scene.why("nobody")
    assert isinstance(report.primary, UnknownState)
    assert abs((report.primary.events_since_ms or 0) - scene.now_ms) < 10_000
    assert {(one.place, one.scanned, one.complete) for one in report.coverage} == {
        ("events", 1, True), ("stream", 30, True), ("delayed", 1, True), ("dlq", 1, True),
    }  # fmt: skip
    bounded = scene.why("nobody", max_entries=20)
    assert ("stream", 20, False) in {(one.place, one.scanned, one.complete) for one in bounded.coverage}


def test_in_an_empty_queue_everything_is_unknown_in_one_round_trip(scene: Scene) -> None:
    scene.why("nobody")
    before = scene.viewer.round_trips
    assert scene.why(new_job_id(scene.now_ms)).primary == UnknownState(None, was_scheduled=False, last=None)
    assert scene.viewer.round_trips - before == 1


def test_a_used_up_id_without_any_other_trace_is_reported(scene: Scene) -> None:
    scene.command("SET", scene.keys.delayed_marker("order-17"), "1", "EX", 60)
    assert scene.why("order-17").primary == UnknownState(None, was_scheduled=True, last=None)


def test_an_id_that_only_occurs_in_other_jobs_is_not_taken_for_one_of_them(scene: Scene) -> None:
    for number in range(60):
        scene.add(scene.job(data={"parent": "order-17", "number": number}))
    scene.delay(scene.job(data="order-17"), 1000)
    scene.add_dead_letter(scene.job(data=["order-17"]), "unrecoverable")
    scene.add_events(Event("failed", "another", 1, reason="order-17"))
    assert scene.why("order-17").state == "unknown"
    wanted = scene.job("order-17")
    scene.add(wanted)
    finding = scene.why("order-17").primary
    assert isinstance(finding, WaitingState)
    assert (finding.job, finding.behind) == (wanted, 60)


@pytest.mark.parametrize("job_id", ["1", "\x1b[2J", "%s*?", "ü" * 40, "x" * 70_000])
def test_ids_of_any_kind_are_found(scene: Scene, job_id: str) -> None:
    scene.crowd(50)
    scene.add_events(Event("active", "2", 1, attempt=1), Event("active", job_id, 1, attempt=1))
    job = scene.job(job_id)
    scene.add(job)
    report = scene.why(job_id)
    assert (report.state, len(report.events)) == ("waiting", 1)


def test_an_empty_id_is_refused(scene: Scene) -> None:
    with pytest.raises(ArgumentError, match="non-empty"):
        scene.why("")


def test_keys_of_wrong_types_hide_only_what_they_would_hold(scene: Scene) -> None:
    job = scene.job("order-17")
    for key in (scene.keys.dlq, scene.keys.delayed, scene.keys.repeat, scene.keys.events):
        scene.command("SET", key, "of another type")
    scene.command("RPUSH", scene.keys.result(job.id), "no string")
    scene.command("RPUSH", scene.keys.delayed_index(job.id), "no string")
    scene.add(job)
    report = scene.why(job.id)
    assert (report.state, report.also) == ("waiting", ())


def test_large_payloads_stay_on_the_server(scene: Scene) -> None:
    large = b"x" * (1 << 20)
    for _ in range(3):
        scene.add(scene.job(data=large))
        scene.delay(scene.job(data=large), 1000)
        scene.add_dead_letter(scene.job(data=large), "unrecoverable")
    job = scene.job("order-17")
    scene.add(job)
    scene.why(job.id)
    before = scene.viewer.bytes_in
    assert scene.why("nobody").state == "unknown"
    assert scene.why(job.id).state == "waiting"
    assert scene.viewer.bytes_in - before < 4000


def test_a_job_among_many_is_found_by_its_time_in_a_few_round_trips(scene: Scene) -> None:
    scene.group()
    scene.crowd(2000)
    scene.now_ms = parse_server_time(scene.command("TIME"))
    job = scene.job()
    scene.add(job)
    scene.crowd(2000)
    scene.why(job.id)
    before = scene.viewer.round_trips
    report = scene.why(job.id)
    assert isinstance(report.primary, WaitingState)
    assert report.primary.behind == 2000
    assert report.coverage[0].scanned <= 2500
    assert scene.viewer.round_trips - before <= 25
