"""What every script for other systems' layouts promises: twice is once, unless that system means otherwise."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from chasqui.errors import ServerError
from chasqui.foreign import joblist, rsmq
from chasqui.foreign.job_import import ImportedJob
from chasqui.foreign.joblist import joblist_calls
from chasqui.foreign.joblist.keys import JobListKeys
from chasqui.foreign.rsmq import rsmq_calls
from chasqui.foreign.rsmq.keys import RsmqKeys
from chasqui.server import scripts
from chasqui.server.flow import Call
from chasqui.server.link import Link
from tests.foreign.conftest import ForeignServer
from tests.support.links import command_batch
from tests.support.servers.pool import FASTEST_FIRST

NOT_IDEMPOTENT = {"rsmq/receive", "rsmq/pop", "joblist/sign_claim", "joblist/complete"}
"""Receiving, popping and claiming take the next one; and the guide's complete succeeds again, by its token."""
ID = "gqll7vywlc0000000000000000000000"
OTHER_ID = "gqll7vywlc1111111111111111111111"


def _queue(server: ForeignServer, *, receives: int = 0) -> RsmqKeys:
    server.run(rsmq.create_queue(server.rsmq))
    server.run(rsmq.send_many(server.rsmq, [rsmq.Draft("x", id=ID)]))
    for _ in range(receives):
        server.run(rsmq.receive(server.rsmq, vt_ms=0))
    return server.rsmq


def _seen(server: ForeignServer, keys: RsmqKeys) -> tuple[str, str, str]:
    [message] = server.run(rsmq.peek(keys, 1))
    return message.version


def _other(server: ForeignServer) -> RsmqKeys:
    other = RsmqKeys("other", server.name)
    server.run(rsmq.create_queue(other))
    return other


def _rescored(server: ForeignServer) -> Call:
    message_id, score, _ = _seen(server, _queue(server))
    return rsmq_calls.reschedule(server.rsmq, [message_id, score, 5])


def _stray(server: ForeignServer) -> Call:
    server.command("HSET", _queue(server).hash, f"{OTHER_ID}:rc", 1)
    return rsmq_calls.delete_stray_fields(server.rsmq, [f"{OTHER_ID}:rc"])


def _empty(server: ForeignServer) -> Call:
    server.command("ZADD", _queue(server).messages, 1, OTHER_ID)
    return rsmq_calls.delete_empty_messages(server.rsmq, [OTHER_ID])


def _phantom(server: ForeignServer) -> Call:
    server.command("SADD", server.rsmq.queues, server.rsmq.queue)
    return rsmq_calls.remove_from_queue_list(server.rsmq)


def _parked(server: ForeignServer) -> RsmqKeys:
    keys = _queue(server)
    server.run(command_batch(rsmq_calls.park_message(keys, ID)))
    return keys


def _jobs(server: ForeignServer, *, claims: int = 0, ends: bool = False) -> JobListKeys:
    now_ms = server.now_ms()
    server.run(joblist.enqueue(server.jobs, "x", now_ms=now_ms, job_id=ID))
    for _ in range(claims):
        server.run(command_batch(joblist_calls.take_next(server.jobs, block_ms=100)))
        server.run(command_batch(joblist_calls.sign_claim(server.jobs, ID, "token", now_ms=now_ms)))
    if ends:
        server.run(joblist.fail(server.jobs, ID, "token", "x", attempts=9, now_ms=now_ms))
    return server.jobs


def _moved(server: ForeignServer) -> Call:
    keys, other = _jobs(server), JobListKeys(f"{server.name}-other")
    return joblist_calls.move(keys, other, (keys.pending, other.pending), ID, keep=True)


def _twice(server: ForeignServer) -> Call:
    server.command("LPUSH", _jobs(server).pending, ID)
    return joblist_calls.remove_duplicates(server.jobs.pending, ID)


def _lost(server: ForeignServer) -> Call:
    server.command("DEL", _jobs(server).pending)
    return joblist_calls.requeue_lost(server.jobs, ID)


def _stub(server: ForeignServer) -> Call:
    server.command("HSET", server.jobs.job(ID), "status", "processing")
    return joblist_calls.delete_empty_job(server.jobs, ID)


def _in_two_lists(server: ForeignServer) -> Call:
    server.command("LPUSH", _jobs(server).completed, ID)
    return joblist_calls.keep_in_list(server.jobs, "pending", ID)


def _orphan(server: ForeignServer) -> Call:
    server.command("DEL", _jobs(server).job(ID))
    return joblist_calls.remove_orphan_id(server.jobs, server.jobs.pending, ID)


def _bumped(server: ForeignServer) -> Call:
    server.run(joblist.enqueue(server.jobs, "first", now_ms=1))
    return joblist_calls.move_to_front(_jobs(server), ID)


def _on_its_way(server: ForeignServer) -> JobListKeys:
    keys = _jobs(server)
    server.run(command_batch(joblist_calls.park_job(keys, keys.pending, ID)))
    return keys


def _claim(server: ForeignServer) -> Call:
    server.run(command_batch(joblist_calls.take_next(_jobs(server), block_ms=100)))
    return joblist_calls.sign_claim(server.jobs, ID, "token", now_ms=5)


def _token(server: ForeignServer) -> dict[str, Any]:
    keys = _jobs(server, claims=1)
    [[claimed]] = server.run(command_batch(joblist_calls.job_field_values(keys, ID, ["claimed_at_ms"])))
    return {"token": "token", "claimed": claimed.decode()}


END = {"now_ms": 5, "ttl_s": 300, "history": 50}

CASES: dict[str, Callable[[ForeignServer], Call]] = {
    "rsmq/create_queue": lambda d: rsmq_calls.create_queue(d.rsmq, vt_s=1, delay_s=2, maxsize=3, now_s=4),
    "rsmq/drop_queue": lambda d: rsmq_calls.drop_queue(_queue(d)),
    "rsmq/send": lambda d: rsmq_calls.send(_queue(d), OTHER_ID, 5, b"x", receives=1, first_ms=2),
    "rsmq/restore": lambda d: rsmq_calls.restore(_queue(d), "op", OTHER_ID, 5, b"x", receives=1, first_ms=2),
    "rsmq/receive": lambda d: rsmq_calls.receive(_queue(d), now_ms=d.now_ms(), until_ms=9),
    "rsmq/pop": lambda d: rsmq_calls.pop(_queue(d), now_ms=d.now_ms()),
    "rsmq/delete": lambda d: rsmq_calls.delete(_queue(d, receives=1), [ID]),
    "rsmq/page": lambda d: rsmq_calls.read_page(_queue(d), count=5),
    "rsmq/count_hidden": lambda d: rsmq_calls.count_hidden(_queue(d), now_ms=1, skip=0, count=5),
    "rsmq/purge": lambda d: rsmq_calls.purge(_queue(d, receives=1), _seen(d, d.rsmq)),
    "rsmq/move": lambda d: rsmq_calls.move(_queue(d, receives=2), _other(d), _seen(d, d.rsmq)),
    "rsmq/reschedule": _rescored,
    "rsmq/find_stray_fields": lambda d: rsmq_calls.find_stray_fields(_queue(d), b"0", count=5),
    "rsmq/delete_stray_fields": _stray,
    "rsmq/delete_empty_messages": _empty,
    "rsmq/set_field": lambda d: rsmq_calls.set_field(_queue(d), "vt", seen="30", value=7),
    "rsmq/remove_from_queue_list": _phantom,
    "rsmq/snapshot": lambda d: rsmq_calls.read_snapshot(_queue(d)),
    "rsmq/forward_message": lambda d: rsmq_calls.forward_message(
        _queue(d), d.ours, ImportedJob(ID, b"x"), receives="", now_ms=5
    ),
    "rsmq/park": lambda d: rsmq_calls.park_message(_queue(d), ID),
    "rsmq/delete_parked": lambda d: rsmq_calls.delete_parked(_parked(d), [ID]),
    "rsmq/unpark": lambda d: rsmq_calls.unpark_messages(_parked(d), [ID]),
    "joblist/enqueue": lambda d: joblist_calls.enqueue(d.jobs, ID, "1", now_ms=5),
    "joblist/sign_claim": _claim,
    "joblist/complete": lambda d: joblist_calls.complete(_jobs(d, claims=1), ID, "token", "1", **END),
    "joblist/fail": lambda d: joblist_calls.fail(_jobs(d, claims=1), ID, "token", "x", retry=True, **END),
    "joblist/reclaim": lambda d: joblist_calls.reclaim(d.jobs, ID, **_token(d), now_ms=9),
    "joblist/fail_stale": lambda d: joblist_calls.give_up(d.jobs, ID, **_token(d), error="x", **END),
    "joblist/renew": lambda d: joblist_calls.renew(_jobs(d, claims=1), ID, "token", now_ms=9),
    "joblist/retry": lambda d: joblist_calls.retry(
        _jobs(d, claims=1, ends=True), d.jobs.failed, ID, at_once=False, reset=True
    ),
    "joblist/move_to_front": _bumped,
    "joblist/delete_job": lambda d: joblist_calls.delete_job(_jobs(d), d.jobs.pending, ID),
    "joblist/restore": lambda d: joblist_calls.restore(
        d.jobs, "op", d.jobs.pending, ID, ["payload", "1"], expires_ms=""
    ),
    "joblist/remove_orphan_id": _orphan,
    "joblist/remove_duplicates": _twice,
    "joblist/requeue_lost": _lost,
    "joblist/delete_empty_job": _stub,
    "joblist/job_state": lambda d: joblist_calls.read_job_state(_jobs(d), ID),
    "joblist/keep_in_list": _in_two_lists,
    "joblist/set_claim_time": lambda d: joblist_calls.set_claim_time(_jobs(d), d.jobs.pending, ID, seen="", value=5),
    "joblist/set_status": lambda d: joblist_calls.set_status(_jobs(d), d.jobs.pending, ID, "odd", keep=True),
    "joblist/move": _moved,
    "joblist/snapshot": lambda d: joblist_calls.read_snapshot(_jobs(d, claims=1)),
    "joblist/forward_job": lambda d: joblist_calls.forward_job(
        _jobs(d), d.jobs.pending, d.ours, ImportedJob(ID, b"x"), attempts="0"
    ),
    "joblist/park": lambda d: joblist_calls.park_job(_jobs(d), d.jobs.pending, ID),
    "joblist/delete_parked": lambda d: joblist_calls.delete_parked(_on_its_way(d), ID),
}


def test_every_script_has_a_case() -> None:
    assert sorted(CASES) == [name for name in scripts.script_names() if name.startswith(scripts.FOREIGN_FOLDERS)]


@pytest.mark.parametrize("name", CASES)
def test_running_a_script_twice_is_running_it_once(foreign_server: ForeignServer, name: str) -> None:
    call = CASES[name](foreign_server)
    assert call.script == name
    before = everything(foreign_server)
    foreign_server.run(command_batch(call))
    once = everything(foreign_server)
    foreign_server.run(command_batch(call))
    assert (once != before) is not scripts.is_read_only_script(name), f"{name} did nothing, so this proves nothing"
    if name not in NOT_IDEMPOTENT:
        assert everything(foreign_server) == once


def everything(server: ForeignServer) -> dict[str, object]:
    found = sorted(key.decode() for key in server.command("KEYS", f"*{server.name}*"))
    return server.dump(*found)


WRITES = [
    (name, word)
    for name in CASES
    if not scripts.is_read_only_script(name)
    for word in sorted(set(re.findall(r"redis\.call\(\s*'(\w+)'", scripts.script_text(name))))
]
FILLS_IN = {("rsmq/create_queue", "SADD")}
"""Attributes that are missing are filled in before the name is listed, and that may be done again."""


@pytest.mark.parametrize("server", FASTEST_FIRST[:1], indirect=True)
@pytest.mark.parametrize(("name", "word"), WRITES)
def test_a_user_without_one_of_the_commands_of_a_script_changes_nothing(
    foreign_server: ForeignServer, name: str, word: str
) -> None:
    call, user = CASES[name](foreign_server), foreign_server.name
    before = everything(foreign_server)
    foreign_server.command("ACL", "SETUSER", user, "on", ">pw", "~*", "&*", "+@all", f"-{word}")
    socket = str(foreign_server.link.address).removeprefix("unix://")
    with Link.open(f"unix://{user}:pw@{socket}") as link:
        try:
            link.run(command_batch(call))
        except ServerError:
            if (name, word) not in FILLS_IN:
                assert everything(foreign_server) == before
        else:
            assert everything(foreign_server) != before, f"it does nothing without {word}, so this proves nothing"
