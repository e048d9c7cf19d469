"""Flows that carry RSMQ messages to a queue of ours, page by page: on the same server, or by way of the parking set.

The mover is one more consumer: it takes a message exactly when RSMQ would hand it out, or when it is delayed and was
never received. What a consumer holds stays until it is deleted or visible again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chasqui.foreign import conversion
from chasqui.foreign.common_calls import clock
from chasqui.foreign.conversion import NotConvertible
from chasqui.foreign.decoding import to_text
from chasqui.foreign.rsmq import message_queries
from chasqui.foreign.rsmq import rsmq_calls as calls
from chasqui.foreign.rsmq.message_values import Message
from chasqui.foreign.transfer import ParkedPage, SourceCounts, TransferResult, convert, without_dead_letters
from chasqui.server.commands import members_with_scores, parse_server_time

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from chasqui.foreign.conversion import ConversionOptions
    from chasqui.foreign.job_import import ImportedJob
    from chasqui.foreign.rsmq.keys import RsmqKeys
    from chasqui.foreign.transfer import Cursor
    from chasqui.server.flow import Flow
    from chasqui.wire.keys import Keys

PAGE = 100


class RsmqSource:
    """An RSMQ queue as something to move away from."""

    kind = "rsmq"

    def __init__(self, keys: RsmqKeys, terms: ConversionOptions) -> None:
        self.keys = keys
        self._terms = terms

    def count(self) -> Flow[SourceCounts]:
        """How many messages could go now, and how many are held."""
        counts = yield from message_queries.count_by_state(self.keys)
        [snapshot] = yield [calls.read_snapshot(self.keys)]
        if isinstance(snapshot, Exception):
            raise snapshot
        _, _, _, fields, _, parked = snapshot
        sent, received = (int(field or 0) for field in fields[5:7]) if fields else (0, 0)
        return SourceCounts(
            ready=counts.ready,
            delayed=counts.delayed,
            held=counts.in_flight,
            parked=parked,
            sent=sent,
            received=received,
        )

    def forward(self, target: Keys, cursor: Cursor) -> Flow[tuple[TransferResult, Cursor]]:
        """Move the next page to a queue on the same server, each message in one step."""
        page = yield from message_queries.read_page(self.keys, after=cursor, count=PAGE)
        free = [message for message in page.messages if message.state(page.now_ms) != "in-flight"]
        ready, crossed = convert(free, self._to_job(page.now_ms))
        crossed.add("held", len(page.messages) - len(free))
        replies = yield [
            calls.forward_message(
                self.keys, target, imported, receives=message.receives_seen, now_ms=page.now_ms, caps=self._terms.caps
            )
            for message, imported in ready
        ]
        crossed.add_replies(replies)
        return crossed, page.after

    def park(self, cursor: Cursor, *, dead_letters: bool = True) -> Flow[tuple[TransferResult, Cursor]]:
        """Set the next page aside for another server."""
        page = yield from message_queries.read_page(self.keys, after=cursor, count=PAGE, preview=0)
        ready, crossed = convert(page.messages, self._to_parked_job(page.now_ms))
        free = [(message, job) for message, job in ready if message.state(page.now_ms) != "in-flight"]
        crossed.add("held", len(ready) - len(free))
        free = free if dead_letters else without_dead_letters(free, crossed)
        crossed.add_replies((yield [calls.park_message(self.keys, message.id) for message, _ in free]))
        return crossed, page.after

    def read_parked(self) -> Flow[ParkedPage]:
        """Some of what is set aside. A message without a body was deleted by its consumer meanwhile: it is done."""
        now, rows = yield [clock(), calls.parked_messages(self.keys, PAGE)]
        members = members_with_scores(rows)
        ids = [to_text(member) for member, _ in members]
        fields = yield [calls.message_fields(self.keys, message_id) for message_id in ids]
        messages = [
            Message.from_row([member, str(score).encode(), receives, first, None if body is None else len(body), body])
            for (member, score), (body, receives, first) in zip(members, fields, strict=True)
        ]
        done = [message.id for message in messages if message.body is None]
        whole = [message for message in messages if message.body is not None]
        ready, crossed = convert(whole, self._to_job(parse_server_time(now)))
        return ParkedPage([imported for _, imported in ready], done, crossed.failures, len(ids))

    def delete_parked(self, job_ids: Sequence[str]) -> Flow[None]:
        """Forget what has arrived."""
        yield [calls.delete_parked(self.keys, job_ids)]

    def return_parked(self) -> Flow[int]:
        """Return what is set aside to the queue."""
        back = 0
        while True:
            [rows] = yield [calls.parked_messages(self.keys, PAGE)]
            ids = [to_text(member) for member, _ in members_with_scores(rows)]
            if not ids:
                return back
            [some] = yield [calls.unpark_messages(self.keys, ids)]
            back += some

    def _to_job(self, now_ms: int) -> Callable[[Message], ImportedJob]:
        return lambda message: conversion.job_from_message(message, self._terms, now_ms)

    def _to_parked_job(self, now_ms: int) -> Callable[[Message], ImportedJob]:
        """As `_to_job`, before the body is read."""

        def to_job(message: Message) -> ImportedJob:
            if message.body is not None and not conversion.is_valid_job_id(message.id):
                raise NotConvertible("its id is no text")
            return conversion.job_from_message(message, self._terms, now_ms)

        return to_job
