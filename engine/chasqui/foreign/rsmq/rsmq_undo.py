"""What a journal stores of RSMQ messages and queues before they are changed, and the flow that takes the change back.

Names and bytes are in hex. A message that a consumer received since is left alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from chasqui.foreign.common_calls import clock
from chasqui.foreign.decoding import to_bytes, to_text
from chasqui.foreign.rsmq import rsmq_calls as calls
from chasqui.foreign.rsmq.keys import RsmqKeys
from chasqui.foreign.rsmq.message_values import Message
from chasqui.foreign.rsmq.rsmq_doctor import RsmqProblem
from chasqui.foreign.rsmq.rsmq_queues import read_attributes
from chasqui.server.commands import parse_server_time

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chasqui.foreign.diagnosis import DoctorFinding
    from chasqui.server.commands import Commands
    from chasqui.server.flow import Call, Flow
    from chasqui.wire.keys import Keys

JournalItem: TypeAlias = Mapping[str, Any]


def message_item(keys: RsmqKeys, what: str, message: Message, **more: Any) -> dict[str, Any]:
    """What a journal keeps of a message that is about to be changed; `what` is going to be done to it."""
    return {
        "kind": "rsmq",
        "what": what,
        **_queue_fields(keys),
        "id": message.id,
        "id_hex": to_bytes(message.id).hex(),
        "score": message.score,
        "receives": message.receives_seen,
        "first_ms": message.first_received_ms,
        "body": None if message.body is None else message.body.hex(),
        **more,
    }


def moved_item(keys: RsmqKeys, target: RsmqKeys, message: Message) -> dict[str, Any]:
    """The same of a message that is about to be moved."""
    return message_item(keys, "moved", message, to=_queue_fields(target))


def queue_item(keys: RsmqKeys, fields: Sequence[bytes | None]) -> dict[str, Any]:
    """What a journal keeps of a queue that is about to be deleted."""
    stored = zip(calls.ATTRIBUTES, fields, strict=True)
    saved = {name: value.hex() for name, value in stored if value is not None}
    return {"kind": "rsmq", "what": "dropped", **_queue_fields(keys), "id": keys.queue, "attributes": saved}


def stray_items(keys: RsmqKeys, findings: Sequence[DoctorFinding]) -> Flow[list[dict[str, Any] | None]]:
    """What a journal keeps of bodies that belong to no message, one by one: an undo makes messages of them. Counters
    and all other fields need no undo.
    """
    bodies = [one.subject for one in findings if one.problem is RsmqProblem.STRAY_FIELD and _is_body(one.subject)]
    if not bodies:
        return [None] * len(findings)
    now, stored = yield [clock(), calls.hash_fields(keys, bodies)]
    found = dict(zip(bodies, stored, strict=True))
    score = str(parse_server_time(now))
    return [
        None
        if (body := found.get(one.subject)) is None
        else message_item(keys, "purged", Message(one.subject, body, score=score))
        for one in findings
    ]


def _is_body(field: str) -> bool:
    return not field.endswith((":rc", ":fr"))


def revert(commands: Commands, _: Keys, op: str, items: Sequence[JournalItem]) -> Flow[list[str]]:
    """Take back what was done to messages: a word for each. A message that a consumer received since is left alone."""
    results: dict[int, str] = {}
    for at, one in enumerate(items):
        if one["what"] == "dropped":
            results[at] = yield from _recreate_queue(_item_keys(one), one)
    rest = [(at, one) for at, one in enumerate(items) if at not in results]
    replies = yield [_revert_call(op, one) for _, one in rest]
    unsure: list[tuple[int, JournalItem]] = []
    for (at, one), reply in zip(rest, replies, strict=True):
        answer = reply[0] if isinstance(reply, list) else reply
        word = _revert_result(one["what"], answer)
        results[at] = word or "changed"
        if word is None:
            unsure.append((at, one))
    scores = yield [calls.message_score(_item_keys(one), to_text(bytes.fromhex(one["id_hex"]))) for _, one in unsure]
    for (at, one), score in zip(unsure, scores, strict=True):
        if score is not None and to_text(score) == one["score"]:
            results[at] = "already"
    return [results[at] for at in range(len(items))]


def _revert_call(op: str, one: JournalItem) -> Call:
    keys = _item_keys(one)
    match one["what"]:
        case "moved":
            return calls.move(_item_keys(one["to"]), keys, _item_version(one))
        case "rescheduled":
            return calls.reschedule(keys, [bytes.fromhex(one["id_hex"]), one["new_score"], one["score"]])
        case "sent":
            return calls.purge(keys, _item_version(one))
        case _:
            return calls.restore(
                keys,
                op,
                bytes.fromhex(one["id_hex"]),
                one["score"],
                bytes.fromhex(one["body"] or ""),
                receives=one["receives"],
                first_ms="" if one["first_ms"] is None else one["first_ms"],
            )


def _revert_result(what: str, answer: int | None) -> str | None:
    """What an answer means; None where the message must be compared with its former state."""
    if answer is None or (what == "purged" and answer == -1):
        return "no queue"
    if answer == 1:
        return "removed" if what == "sent" else "restored"
    return {"purged": "already", "sent": "changed"}.get(what)


def _recreate_queue(keys: RsmqKeys, one: JournalItem) -> Flow[str]:
    saved = {name: bytes.fromhex(value) for name, value in one["attributes"].items()}
    if not saved:
        return "untouched"
    _, found = yield from read_attributes(keys)
    if any(value is not None for value in found):
        return "already"
    yield [calls.set_attributes(keys, saved), calls.add_to_queue_list(keys)]
    return "restored"


def _item_version(one: JournalItem) -> list[bytes | str]:
    return [bytes.fromhex(one["id_hex"]), one["score"], one["receives"]]


def _queue_fields(keys: RsmqKeys) -> dict[str, str]:
    return {"namespace": to_bytes(keys.namespace).hex(), "queue": to_bytes(keys.queue).hex()}


def _item_keys(place: JournalItem) -> RsmqKeys:
    return RsmqKeys(to_text(bytes.fromhex(place["queue"])), to_text(bytes.fromhex(place["namespace"])))
