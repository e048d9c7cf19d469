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

ANEW = {"rsmq/receive", "rsmq/pop", "joblist/sign_claim", "joblist/complete"}
"""Receiving, popping and claiming take the next one; and the guide's complete succeeds again, by its token."""
ID = "gqll7vywlc0000000000000000000000"
OTHER_ID = "gqll7vywlc1111111111111111111111"


def _queue(desk: ForeignServer, *, receives: int = 0) -> RsmqKeys:
    desk.run(rsmq.create_queue(desk.rsmq))
    desk.run(rsmq.send_many(desk.rsmq, [rsmq.Draft("x", id=ID)]))
    for _ in range(receives):
        desk.run(rsmq.receive(desk.rsmq, vt_ms=0))
    return desk.rsmq


def _seen(desk: ForeignServer, keys: RsmqKeys) -> tuple[str, str, str]:
    [message] = desk.run(rsmq.peek(keys, 1))
    return message.version


def _other(desk: ForeignServer) -> RsmqKeys:
    other = RsmqKeys("other", desk.name)
    desk.run(rsmq.create_queue(other))
    return other


def _rescored(desk: ForeignServer) -> Call:
    message_id, score, _ = _seen(desk, _queue(desk))
    return rsmq_calls.reschedule(desk.rsmq, [message_id, score, 5])


def _stray(desk: ForeignServer) -> Call:
    desk.command("HSET", _queue(desk).hash, f"{OTHER_ID}:rc", 1)
    return rsmq_calls.delete_stray_fields(desk.rsmq, [f"{OTHER_ID}:rc"])


def _empty(desk: ForeignServer) -> Call:
    desk.command("ZADD", _queue(desk).messages, 1, OTHER_ID)
    return rsmq_calls.delete_empty_messages(desk.rsmq, [OTHER_ID])


def _phantom(desk: ForeignServer) -> Call:
    desk.command("SADD", desk.rsmq.queues, desk.rsmq.queue)
    return rsmq_calls.remove_from_queue_list(desk.rsmq)


def _parked(desk: ForeignServer) -> RsmqKeys:
    keys = _queue(desk)
    desk.run(command_batch(rsmq_calls.park_message(keys, ID)))
    return keys


def _jobs(desk: ForeignServer, *, claims: int = 0, ends: bool = False) -> JobListKeys:
    now_ms = desk.now_ms()
    desk.run(joblist.enqueue(desk.jobs, "x", now_ms=now_ms, job_id=ID))
    for _ in range(claims):
        desk.run(command_batch(joblist_calls.take_next(desk.jobs, block_ms=100)))
        desk.run(command_batch(joblist_calls.sign_claim(desk.jobs, ID, "token", now_ms=now_ms)))
    if ends:
        desk.run(joblist.fail(desk.jobs, ID, "token", "x", attempts=9, now_ms=now_ms))
    return desk.jobs


def _moved(desk: ForeignServer) -> Call:
    keys, other = _jobs(desk), JobListKeys(f"{desk.name}-other")
    return joblist_calls.move(keys, other, (keys.pending, other.pending), ID, keep=True)


def _twice(desk: ForeignServer) -> Call:
    desk.command("LPUSH", _jobs(desk).pending, ID)
    return joblist_calls.remove_duplicates(desk.jobs.pending, ID)


def _lost(desk: ForeignServer) -> Call:
    desk.command("DEL", _jobs(desk).pending)
    return joblist_calls.requeue_lost(desk.jobs, ID)


def _stub(desk: ForeignServer) -> Call:
    desk.command("HSET", desk.jobs.job(ID), "status", "processing")
    return joblist_calls.delete_empty_job(desk.jobs, ID)


def _in_two_lists(desk: ForeignServer) -> Call:
    desk.command("LPUSH", _jobs(desk).completed, ID)
    return joblist_calls.keep_in_list(desk.jobs, "pending", ID)


def _orphan(desk: ForeignServer) -> Call:
    desk.command("DEL", _jobs(desk).job(ID))
    return joblist_calls.remove_orphan_id(desk.jobs, desk.jobs.pending, ID)


def _bumped(desk: ForeignServer) -> Call:
    desk.run(joblist.enqueue(desk.jobs, "first", now_ms=1))
    return joblist_calls.move_to_front(_jobs(desk), ID)


def _on_its_way(desk: ForeignServer) -> JobListKeys:
    keys = _jobs(desk)
    desk.run(command_batch(joblist_calls.park_job(keys, keys.pending, ID)))
    return keys


def _claim(desk: ForeignServer) -> Call:
    desk.run(command_batch(joblist_calls.take_next(_jobs(desk), block_ms=100)))
    return joblist_calls.sign_claim(desk.jobs, ID, "token", now_ms=5)


def _token(desk: ForeignServer) -> dict[str, Any]:
    keys = _jobs(desk, claims=1)
    [[claimed]] = desk.run(command_batch(joblist_calls.job_field_values(keys, ID, ["claimed_at_ms"])))
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
    if name not in ANEW:
        assert everything(foreign_server) == once


def everything(desk: ForeignServer) -> dict[str, object]:
    found = sorted(key.decode() for key in desk.command("KEYS", f"*{desk.name}*"))
    return desk.dump(*found)


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
