"""Jobs put in by the producer and found again, on every kind of server."""

from __future__ import annotations

from chasqui import SyncQueue
from chasqui.inspect import jobs_by_state
from chasqui.server.commands import Commands
from chasqui.server.flow import Call, Flow
from chasqui.server.link import Link
from chasqui.wire import delayed_member
from chasqui.wire.envelope import Envelope
from chasqui.wire.keys import Keys
from chasqui.wire.msgpack_codec import Undecodable
from tests.support.servers.server import Server


def test_what_was_added_is_seen_again(server: Server, queue: str) -> None:
    with Link.open(server.url) as link:
        commands, keys = Commands(link.features()), Keys(queue)
        producer = SyncQueue(queue, link=link)
        now = producer.add("mail", {"to": "ada"})
        later = producer.add("late", [1, 2], delay_ms=5000)
        [seen_now] = link.run(jobs_by_state.list_waiting(commands, keys, 10))
        [seen_later] = link.run(jobs_by_state.list_delayed(commands, keys, 10))
    assert isinstance(seen_now.job, Envelope)
    assert seen_now.entry_id
    assert (seen_now.job.id, seen_now.name, seen_now.job.payload.data()) == (now.id, "mail", {"to": "ada"})
    assert isinstance(seen_later.job, Envelope)
    assert seen_later.run_at_ms
    assert (seen_later.job.id, seen_later.name) == (later.id, "late")
    assert delayed_member.decode(seen_later.member).prefix == "u32le"


def test_what_cannot_be_read_is_seen_with_its_bytes(server: Server, queue: str) -> None:
    with Link.open(server.url) as link:
        commands, keys = Commands(link.features()), Keys(queue)
        for fields in ([b"d", b"\xc1"], [b"x", b"no d at all"]):
            link.run(_send(commands.add_unchecked(keys, fields)))
        link.run(_send(commands.schedule(keys, b"abc", 7)))
        waiting = link.run(jobs_by_state.list_waiting(commands, keys, 10))
        delayed = link.run(jobs_by_state.list_delayed(commands, keys, 10))
    seen = [one.job for one in waiting] + [one.job for one in delayed]
    assert [job.raw for job in seen if isinstance(job, Undecodable)] == [b"\xc1", b"", b"abc"]


def _send(call: Call) -> Flow[None]:
    yield [call]
