"""Jobs put in by the producer and found again, on every kind of server."""

from __future__ import annotations

from chasqui import jobs, producer
from chasqui.producer import NewJob
from chasqui.server.call import Call, Flow
from chasqui.server.commands import Commands
from chasqui.server.link import Link
from chasqui.wire.envelope import Envelope
from chasqui.wire.keys import Keys
from chasqui.wire.packed import Undecodable
from tests.servers import Server

NOW = 1_794_796_970_454


def test_what_was_added_is_seen_again(server: Server, queue: str) -> None:
    with Link.open(server.url) as link:
        commands, keys = Commands(link.features()), Keys(queue)
        [now] = link.run(
            producer.add(commands, keys, [NewJob({"to": "ada"}, "mail")], producer_id="p", now_ms=NOW)
        )
        [later] = link.run(
            producer.add_later(commands, keys, [NewJob([1, 2], "late")], delay_ms=5, now_ms=NOW)
        )
        [seen_now] = link.run(jobs.waiting(commands, keys, 10))
        [seen_later] = link.run(jobs.delayed(commands, keys, 10))
    assert isinstance(seen_now.job, Envelope)
    assert (seen_now.entry_id, seen_now.name, seen_now.job.payload.data()) == (
        now.entry_id,
        "mail",
        {"to": "ada"},
    )
    assert isinstance(seen_later.job, Envelope)
    assert (seen_later.run_at_ms, seen_later.job.id, seen_later.prefix) == (
        later.run_at_ms,
        later.id,
        "u32le",
    )


def test_what_cannot_be_read_is_seen_with_its_bytes(server: Server, queue: str) -> None:
    with Link.open(server.url) as link:
        commands, keys = Commands(link.features()), Keys(queue)
        for fields in ([b"d", b"\xc1"], [b"x", b"no d at all"]):
            link.run(_say(commands.add_anyway(keys, fields)))
        link.run(_say(commands.schedule(keys, b"abc", 7)))
        seen = [*link.run(jobs.waiting(commands, keys, 10)), *link.run(jobs.delayed(commands, keys, 10))]
    assert [one.job.raw for one in seen if isinstance(one.job, Undecodable)] == [b"\xc1", b"", b"abc"]


def test_a_job_added_again_by_the_same_producer_is_added_once(server: Server, queue: str) -> None:
    with Link.open(server.url) as link:
        commands, keys = Commands(link.features()), Keys(queue)
        flows = [
            producer.add(commands, keys, [NewJob(1, id="once")], producer_id="p", now_ms=NOW)
            for _ in range(3)
        ]
        ids = {link.run(flow)[0].entry_id for flow in flows}
        assert len(ids) == 1
        assert len(link.run(jobs.waiting(commands, keys, 10))) == 1


def _say(call: Call) -> Flow[None]:
    yield [call]
