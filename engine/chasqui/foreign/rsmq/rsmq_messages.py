"""Flows for RSMQ messages: send, receive, pop, hide, delete. They write exactly what npm rsmq writes.

What is visible is decided by the server's clock, asked in the round trip that reads the queue.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from chasqui.foreign.common_calls import clock, publish
from chasqui.foreign.rsmq import limits
from chasqui.foreign.rsmq import rsmq_calls as calls
from chasqui.foreign.rsmq.keys import new_message_id
from chasqui.foreign.rsmq.message_values import Message, QueueAttributes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chasqui.foreign.rsmq.keys import RsmqKeys
    from chasqui.server.flow import Flow


@dataclass(frozen=True, slots=True)
class Draft:
    """A message to be sent. `delay_ms` is instead of the queue's delay. `id`: one's own, so that sending it again
    adds nothing; it should have the form of `rsmq_keys.mint`, or other clients cannot delete it.
    """

    body: str | bytes
    delay_ms: int | None = None
    id: str | None = None


@dataclass(frozen=True, slots=True)
class _QueueContext:
    """What is read of a queue before anything is done with it, and when."""

    attributes: QueueAttributes
    now_us: int

    @property
    def now_ms(self) -> int:
        return self.now_us // 1000

    @property
    def vt_ms(self) -> int:
        return int(_default(self.attributes.vt_s, limits.VT_S)) * 1000

    @property
    def delay_ms(self) -> int:
        return int(_default(self.attributes.delay_s, limits.DELAY_S)) * 1000

    @property
    def maxsize(self) -> int:
        return int(_default(self.attributes.maxsize, limits.MAXSIZE))


def send(keys: RsmqKeys, body: str | bytes, *, delay_ms: int | None = None, realtime: bool = False) -> Flow[str]:
    """Send a message; returns its id. Two round trips, and one more to notify the listeners in `realtime`."""
    [message_id] = yield from send_many(keys, [Draft(body, delay_ms)], realtime=realtime)
    return message_id


def prepare_messages(keys: RsmqKeys, drafts: Sequence[Draft]) -> Flow[list[Message]]:
    """The messages that drafts become, each with its id and the time it is visible at, by the server's clock.

    Nothing is sent. If one of the drafts is not fit to be sent, none is prepared.
    """
    for draft in drafts:
        if draft.delay_ms is not None:
            limits.check_milliseconds("delay", draft.delay_ms)
    opened = yield from _read_queue(keys)
    return [
        Message(
            draft.id or new_message_id(opened.now_us),
            limits.encode_body(draft.body, opened.maxsize),
            score=str(opened.now_ms + (opened.delay_ms if draft.delay_ms is None else draft.delay_ms)),
        )
        for draft in drafts
    ]


def send_many(keys: RsmqKeys, drafts: Sequence[Draft], *, realtime: bool = False) -> Flow[list[str]]:
    """Send messages, in this order; answers their ids. If one of them is not fit to be sent, none is.

    Each step of the server is a message, so a queue that is dropped in the middle raises `QueueNotFound` and the
    earlier ones went with it. Ids that are there already are not sent again.
    """
    messages = yield from prepare_messages(keys, drafts)
    replies = yield [calls.send(keys, message.id, message.score, message.body or b"") for message in messages]
    if None in replies:
        raise limits.QueueNotFound
    if realtime:
        yield [publish(keys.channel, size) for added, size in replies if added]
    return [message.id for message in messages]


def receive(keys: RsmqKeys, *, vt_ms: int | None = None) -> Flow[Message | None]:
    """The first visible message, hidden from now on for `vt_ms` or the queue's own time; None when there is none."""
    found = yield from receive_many(keys, 1, vt_ms=vt_ms)
    return found[0] if found else None


def receive_many(keys: RsmqKeys, count: int, *, vt_ms: int | None = None) -> Flow[list[Message]]:
    """At most `count` messages, each received as `receive` does, in two round trips."""
    if vt_ms is not None:
        limits.check_milliseconds("vt", vt_ms)
    opened = yield from _read_queue(keys)
    until_ms = opened.now_ms + (opened.vt_ms if vt_ms is None else vt_ms)
    replies = yield [calls.receive(keys, now_ms=opened.now_ms, until_ms=until_ms) for _ in range(count)]
    return [Message.from_receipt(reply, until_ms) for reply in replies if reply]


def pop(keys: RsmqKeys) -> Flow[Message | None]:
    """The first visible message, deleted in the same step: it is lost if the answer is."""
    opened = yield from _read_queue(keys)
    [reply] = yield [calls.pop(keys, now_ms=opened.now_ms)]
    return Message.from_receipt(reply, opened.now_ms) if reply else None


def change_visibility(keys: RsmqKeys, message_id: str, vt_ms: int) -> Flow[bool]:
    """Hide any message for so long from now, or show it at once with 0; False when there is none of this id."""
    limits.check_milliseconds("vt", vt_ms)
    opened = yield from _read_queue(keys)
    score, _ = yield [
        calls.message_score(keys, message_id),
        calls.set_message_score(keys, message_id, opened.now_ms + vt_ms),
    ]
    return score is not None


def delete(keys: RsmqKeys, message_id: str) -> Flow[bool]:
    """Delete a message, even one that a consumer holds; False when there was none."""
    return (yield from delete_many(keys, [message_id]))[0]


def delete_many(keys: RsmqKeys, message_ids: Sequence[str]) -> Flow[list[bool]]:
    """The same for many, in one round trip."""
    if not message_ids:
        return []
    [replies] = yield [calls.delete(keys, message_ids)]
    return [bool(was_there and fields) for was_there, fields in replies]


def _read_queue(keys: RsmqKeys) -> Flow[_QueueContext]:
    fields, now = yield [calls.read_attributes(keys), clock()]
    if None in fields[:3]:
        raise limits.QueueNotFound
    return _QueueContext(QueueAttributes.from_fields(fields), int(now[0]) * 1_000_000 + int(now[1]))


def _default(found: float | None, default: int) -> float:
    return default if found is None else found
