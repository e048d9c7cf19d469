"""RSMQ queues shared with its real clients, in both directions: messages, visibility, deletes and counts agree."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from chasqui.foreign import RsmqKeys, rsmq
from chasqui.foreign.rsmq import Draft, RsmqProblem
from chasqui.server.link import Link
from tests.support.links import command
from tests.support.processes.rsmq_clients import VERSIONS, Client, NoClientError, open_client
from tests.support.servers.pool import do_without
from tests.support.servers.server import Server

MESSAGES = 1000


@pytest.fixture(scope="module", params=VERSIONS)
def client(request: pytest.FixtureRequest, redis: Server) -> Iterator[Client]:
    try:
        with open_client(request.param, redis.port or 0) as ready:
            yield ready
    except NoClientError as missing:
        do_without(str(missing))


@pytest.fixture
def link(redis: Server) -> Iterator[Link]:
    with Link.open(redis.url) as open_link:
        yield open_link


@pytest.fixture
def keys(queue: str) -> RsmqKeys:
    return RsmqKeys(queue)


def body(number: int) -> str:
    return [f"plain {number}", f'{{"n": {number}, "é": [1.50]}}', f"😀\n\t{number}"][number % 3]


def agree(link: Link, client: Client, keys: RsmqKeys) -> dict[str, Any]:
    """Both count alike, unless a second passes just then: so ours are asked before and after."""
    for _ in range(5):
        before = _counted(link, keys)
        theirs = client.call("stats", queue=keys.queue)
        after = _counted(link, keys)
        theirs = {name: float(value) for name, value in theirs.items()}
        for ours in (before, after):
            hidden = {ours.pop("hidden"), ours.pop("hidden_now")}
            if theirs["hiddenmsgs"] in hidden and {**theirs, "hiddenmsgs": 0} == {**ours, "hiddenmsgs": 0}:
                return theirs
    raise AssertionError(f"theirs {theirs}, ours {after}")


def _counted(link: Link, keys: RsmqKeys) -> dict[str, Any]:
    stats = link.run(rsmq.queue_stats(keys))
    about = stats.attributes
    return {
        "vt": about.vt_s,
        "delay": about.delay_s,
        "maxsize": about.maxsize,
        "created": about.created_s,
        "modified": about.modified_s,
        "totalsent": about.sent,
        "totalrecv": about.received,
        "msgs": stats.messages,
        "hidden": stats.hidden,
        "hidden_now": stats.hidden_now,
    }


def test_a_thousand_messages_of_theirs_are_ours_to_receive(link: Link, client: Client, keys: RsmqKeys) -> None:
    client.call("create", queue=keys.queue, vt=45)
    bodies = [body(number) for number in range(MESSAGES)]
    sent = client.call("send", queue=keys.queue, bodies=bodies)
    assert agree(link, client, keys)["msgs"] == MESSAGES
    assert [message.id for message in link.run(rsmq.peek(keys, 2 * MESSAGES))] == sorted(sent)
    received = link.run(rsmq.receive_many(keys, MESSAGES + 5))
    assert {message.id: (message.body or b"").decode() for message in received} == dict(zip(sent, bodies, strict=True))
    assert {message.receives for message in received} == {1}
    assert agree(link, client, keys)["totalrecv"] == MESSAGES
    assert client.call("receive", queue=keys.queue, count=1) == []
    assert all(link.run(rsmq.delete_many(keys, sent[::2])))
    assert all(client.call("delete", queue=keys.queue, ids=sent[1::2]))
    assert agree(link, client, keys)["msgs"] == 0
    assert link.run(rsmq.examine(keys)) == []
    client.call("drop", queue=keys.queue)
    with pytest.raises(rsmq.QueueNotFound):
        link.run(rsmq.queue_stats(keys))


def test_a_thousand_messages_of_ours_are_theirs_to_receive(link: Link, client: Client, keys: RsmqKeys) -> None:
    link.run(rsmq.create_queue(keys, vt_s=45))
    bodies = [body(number) for number in range(MESSAGES)]
    sent = link.run(rsmq.send_many(keys, [Draft(text) for text in bodies]))
    assert keys.queue in client.call("names")
    assert agree(link, client, keys)["totalsent"] == MESSAGES
    received = client.call("receive", queue=keys.queue, count=MESSAGES + 5, vt=45)
    assert {message["id"]: message["body"] for message in received} == dict(zip(sent, bodies, strict=True))
    assert {message["receives"] for message in received} == {1}
    ours = {message.id: message.first_received_ms for message in link.run(rsmq.peek(keys, MESSAGES))}
    assert {message["id"]: message["first"] for message in received} == ours
    assert agree(link, client, keys)["totalrecv"] == MESSAGES
    assert link.run(rsmq.count_by_state(keys)).in_flight == MESSAGES
    assert all(client.call("delete", queue=keys.queue, ids=sent))
    assert not any(link.run(rsmq.delete_many(keys, sent)))
    assert agree(link, client, keys)["msgs"] == 0
    assert link.run(rsmq.examine(keys)) == []
    link.run(rsmq.drop_queue(keys))
    assert keys.queue not in client.call("names")


def test_visibility_and_delays_hold_on_both_sides(link: Link, client: Client, keys: RsmqKeys) -> None:
    link.run(rsmq.create_queue(keys))
    [mine] = link.run(rsmq.send_many(keys, [Draft("mine")]))
    [taken] = client.call("receive", queue=keys.queue, count=1, vt=600)
    assert link.run(rsmq.receive(keys)) is None
    assert link.run(rsmq.change_visibility(keys, mine, 0))
    again = link.run(rsmq.receive(keys, vt_ms=600_000))
    assert again is not None
    assert (again.id, again.receives, again.first_received_ms) == (mine, 2, taken["first"])
    assert client.call("receive", queue=keys.queue, count=1) == []
    assert client.call("hide", queue=keys.queue, message_id=mine, vt=0)
    popped = client.call("pop", queue=keys.queue)
    assert (popped["id"], popped["receives"], popped["first"]) == (mine, 3, taken["first"])
    [theirs] = client.call("send", queue=keys.queue, bodies=["later"], delay=600)
    link.run(rsmq.send(keys, "later", delay_ms=600_000))
    counts = link.run(rsmq.count_by_state(keys))
    assert (counts.delayed, counts.ready, counts.in_flight) == (2, 0, 0)
    assert client.call("receive", queue=keys.queue, count=5) == []
    waiting = link.run(rsmq.messages_by_id(keys, [theirs]))
    assert link.run(rsmq.reschedule(keys, waiting.messages, waiting.now_ms)) == ["done"]
    assert [message["id"] for message in client.call("receive", queue=keys.queue, count=5)] == [theirs]
    assert agree(link, client, keys)["totalsent"] == 3


def test_what_our_doctor_adopts_their_client_can_use(link: Link, client: Client, keys: RsmqKeys) -> None:
    link.run(rsmq.create_queue(keys))
    link.run(rsmq.send(keys, "late"))
    link.run(command("HDEL", keys.hash, "vt", "delay", "maxsize", "created", "modified"))
    link.run(command("SREM", keys.queues, keys.queue))
    findings = link.run(rsmq.examine(keys))
    assert [finding.problem for finding in findings] == [RsmqProblem.GHOST]
    assert link.run(rsmq.repair(keys, findings)) == 1
    assert [message["body"] for message in client.call("receive", queue=keys.queue, count=5)] == ["late"]
