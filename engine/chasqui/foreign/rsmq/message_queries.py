"""Flows that look at an RSMQ queue without receiving anything: page by page, one message, counts by state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from chasqui.foreign.cluster_slots import is_cross_slot_error, raise_if_refused
from chasqui.foreign.common_calls import clock, read_time_ms
from chasqui.foreign.decoding import to_bytes, to_text
from chasqui.foreign.rsmq import rsmq_calls as calls
from chasqui.foreign.rsmq.message_values import Message, MessageCounts
from chasqui.server.commands import parse_server_time

if TYPE_CHECKING:
    import re
    from collections.abc import Sequence

    from chasqui.foreign.rsmq.keys import RsmqKeys
    from chasqui.foreign.rsmq.message_values import MessageState
    from chasqui.server.flow import Flow, Reply

PAGE = 200
COUNT_PAGE = 2000
"""How many hidden messages one call counts: about a millisecond of the server's time."""


@dataclass(frozen=True, slots=True)
class MessageFilter:
    """Which messages are meant: those that match everything that is given.

    include_in_flight: also those that consumers hold.
    """

    state: MessageState | None = None
    older_than_ms: int | None = None
    least_receives: int | None = None
    body: re.Pattern[bytes] | None = None
    include_in_flight: bool = False

    def matches(self, message: Message, now_ms: int) -> bool:
        """Whether this message is meant, at this time."""
        state = message.state(now_ms)
        if state == "in-flight" and not (self.include_in_flight or self.state == "in-flight"):
            return False
        if self.state is not None and state != self.state:
            return False
        if self.least_receives is not None and (message.receives or 0) < self.least_receives:
            return False
        age_ms = message.age_ms(now_ms)
        if self.older_than_ms is not None and (age_ms is None or age_ms < self.older_than_ms):
            return False
        return self.body is None or bool(message.body is not None and self.body.search(message.body))


ALL_MESSAGES = MessageFilter(include_in_flight=True)


@dataclass(frozen=True, slots=True)
class MessagePage:
    """Messages at the time `now_ms`, and where to go on; `after` is None when there are no more."""

    messages: tuple[Message, ...]
    now_ms: int
    after: Message | None


def read_page(
    keys: RsmqKeys, *, after: Message | None = None, count: int = PAGE, preview: int | None = None
) -> Flow[MessagePage]:
    """The next messages in the order they become visible, with the first bytes of each body, or the whole body."""
    least, last = (after.score, after.id) if after else ("-inf", "")
    now, rows = yield [clock(), calls.read_page(keys, least=least, last=last, count=count, preview=preview)]
    if is_cross_slot_error(rows):
        rows = yield from _read_split_page(keys, least, last, count, preview)
    found = tuple(map(Message.from_row, raise_if_refused(rows)))
    return MessagePage(found, parse_server_time(now), found[-1] if len(found) == count else None)


def _read_split_page(keys: RsmqKeys, least: str, last: str, count: int, preview: int | None) -> Flow[list[list[Reply]]]:
    """The same rows from keys that lie apart on a cluster, step by step."""
    before, score, rank = yield [
        calls.count_before(keys, least),
        calls.message_score(keys, last),
        calls.message_rank(keys, last),
    ]
    go_on = last and score is not None and rank is not None and to_text(score) == least
    [found] = yield [calls.ids_by_rank(keys, rank + 1 if go_on else before, count)]
    ids = [to_text(message_id) for message_id in found[::2]]
    fields = yield [calls.message_fields(keys, message_id) for message_id in ids]
    return [
        [to_bytes(message_id), score, receives, first, None if body is None else len(body), body and body[:preview]]
        for message_id, score, (body, receives, first) in zip(ids, found[1::2], fields, strict=True)
    ]


def peek(
    keys: RsmqKeys, limit: int, *, wanted: MessageFilter = ALL_MESSAGES, preview: int | None = None
) -> Flow[list[Message]]:
    """At most this many of the wanted messages, next visible first. None of them is changed."""
    found: list[Message] = []
    after: Message | None = None
    read = preview if wanted.body is None else None
    while len(found) < limit:
        count = min(limit - len(found), PAGE) if wanted is ALL_MESSAGES else PAGE
        seen = yield from read_page(keys, after=after, count=count, preview=read)
        found += [message for message in seen.messages if wanted.matches(message, seen.now_ms)]
        after = seen.after
        if after is None:
            break
    return found[:limit]


def messages_by_id(keys: RsmqKeys, message_ids: Sequence[str]) -> Flow[MessagePage]:
    """Messages by id, whole, in one round trip; what is not there is left out."""
    now, *replies = yield [
        clock(),
        *(calls.message_score(keys, message_id) for message_id in message_ids),
        *(calls.message_fields(keys, message_id) for message_id in message_ids),
    ]
    scores, rows = replies[: len(message_ids)], replies[len(message_ids) :]
    found = [
        Message.from_row([to_bytes(message_id), score, receives, first, None if body is None else len(body), body])
        for message_id, score, (body, receives, first) in zip(message_ids, scores, rows, strict=True)
        if score is not None
    ]
    return MessagePage(tuple(found), parse_server_time(now), None)


def read_message(keys: RsmqKeys, message_id: str) -> Flow[Message | None]:
    """One message, whole; None when there is none of this id."""
    seen = yield from messages_by_id(keys, [message_id])
    return seen.messages[0] if seen.messages else None


def count_by_state(keys: RsmqKeys) -> Flow[MessageCounts]:
    """Messages by state, by the server's clock in ms. Hidden ones are looked at, some thousand at a time."""
    now_ms = yield from read_time_ms()
    looked = in_flight = 0
    while True:
        [counted] = yield [calls.count_hidden(keys, now_ms=now_ms, skip=looked, count=COUNT_PAGE)]
        if is_cross_slot_error(counted):
            counted = yield from _count_split(keys, now_ms, looked)
        messages, hidden, received, seen = raise_if_refused(counted)
        looked, in_flight = looked + seen, in_flight + received
        if seen < COUNT_PAGE:
            return MessageCounts(now_ms, messages, messages - hidden, max(0, hidden - in_flight), in_flight)


def _count_split(keys: RsmqKeys, now_ms: int, skip: int) -> Flow[tuple[int, int, int, int]]:
    """The same counts from keys that lie apart on a cluster, step by step."""
    messages, shown = yield [calls.message_count(keys), calls.count_before(keys, now_ms + 1)]
    [found] = yield [calls.ids_by_rank(keys, shown + skip, COUNT_PAGE)]
    ids = [to_text(message_id) for message_id in found[::2]]
    received = yield [calls.was_received(keys, message_id) for message_id in ids]
    return messages, messages - shown, sum(received), len(ids)
