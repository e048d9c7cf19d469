"""Flows with which an operator tends an RSMQ queue: purge, move, sweep, expire, release, hold, import.

Each looks page by page and then acts on what is still as it was seen: a message that a consumer received in between is
left alone. So any of them may be ended in the middle and run again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from chasqui.errors import ArgumentError
from chasqui.foreign.rsmq import limits, message_queries
from chasqui.foreign.rsmq import rsmq_calls as calls
from chasqui.foreign.rsmq.message_queries import MessageFilter

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from chasqui.foreign.rsmq.keys import RsmqKeys
    from chasqui.foreign.rsmq.message_values import Message
    from chasqui.server.flow import Call, Flow, Reply

ChangeProgress = Callable[["MessageChanges"], None]


@dataclass(frozen=True, slots=True)
class MessageChanges:
    """What came of it. chosen: messages that were meant. done: those that it was done to (none in a dry run).

    changed: those that were not the same any more when it came to it. there: those whose id the other queue has.
    """

    looked: int = 0
    chosen: int = 0
    done: int = 0
    changed: int = 0
    there: int = 0

    def add_page(self, looked: int, told: Sequence[int], chosen: int) -> MessageChanges:
        """After one more page."""
        return MessageChanges(
            self.looked + looked,
            self.chosen + chosen,
            self.done + sum(answer == 1 for answer in told),
            self.changed + sum(answer == 0 for answer in told),
            self.there + sum(answer == -1 for answer in told),
        )


def purge(
    keys: RsmqKeys, wanted: MessageFilter, *, dry_run: bool = False, progress: ChangeProgress | None = None
) -> Flow[MessageChanges]:
    """Delete what is wanted; the queue's attributes and totals stay."""

    def change_call(messages: Sequence[Message], _: int) -> Call:
        return calls.purge(keys, _seen(messages))

    return (yield from _change_pages(keys, wanted, change_call, dry_run=dry_run, progress=progress))


def move(
    keys: RsmqKeys,
    target: RsmqKeys,
    wanted: MessageFilter,
    *,
    dry_run: bool = False,
    progress: ChangeProgress | None = None,
) -> Flow[MessageChanges]:
    """Move what is wanted to another queue, with id, body, counters and the time it becomes visible."""
    if keys == target:
        raise ArgumentError(f"{keys.queue!r} cannot be moved to itself")

    def act(messages: Sequence[Message], _: int) -> Call:
        return calls.move(keys, target, _seen(messages))

    return (yield from _change_pages(keys, wanted, act, dry_run=dry_run, progress=progress))


def sweep(
    keys: RsmqKeys, target: RsmqKeys, least_receives: int, *, dry_run: bool = False, held: bool = False
) -> Flow[MessageChanges]:
    """Move messages that were received so often to a queue for the dead."""
    return (
        yield from move(
            keys,
            target,
            MessageFilter(least_receives=least_receives, include_in_flight=held),
            dry_run=dry_run,
        )
    )


def expire(
    keys: RsmqKeys,
    older_than_ms: int,
    *,
    target: RsmqKeys | None = None,
    dry_run: bool = False,
    held: bool = False,
) -> Flow[MessageChanges]:
    """Delete messages sent longer ago, or move them to another queue; those whose ids tell no time stay."""
    wanted = MessageFilter(older_than_ms=older_than_ms, include_in_flight=held)
    if target is not None:
        return (yield from move(keys, target, wanted, dry_run=dry_run))
    return (yield from purge(keys, wanted, dry_run=dry_run))


def release(
    keys: RsmqKeys,
    wanted: MessageFilter | None = None,
    *,
    dry_run: bool = False,
    progress: ChangeProgress | None = None,
) -> Flow[MessageChanges]:
    """Make hidden messages visible now: of a consumer that is gone, or delayed ones that may go."""
    wanted = wanted or MessageFilter(state="in-flight")

    def act(messages: Sequence[Message], now_ms: int) -> Call:
        return calls.reschedule(keys, _with_score(messages, now_ms))

    return (yield from _change_pages(keys, wanted, act, dry_run=dry_run, progress=progress))


def hold(
    keys: RsmqKeys,
    wanted: MessageFilter,
    until_ms: int,
    *,
    dry_run: bool = False,
    progress: ChangeProgress | None = None,
) -> Flow[MessageChanges]:
    """Hide messages until a time of the server's clock, or reschedule delayed ones to it."""

    def act(messages: Sequence[Message], _: int) -> Call:
        return calls.reschedule(keys, _with_score(messages, until_ms))

    # what is held moves ahead of the walk, which must not meet it as something new
    others = replace(wanted, except_at_ms=until_ms)
    return (yield from _change_pages(keys, others, act, dry_run=dry_run, progress=progress))


def import_messages(keys: RsmqKeys, messages: Sequence[Message]) -> Flow[int]:
    """Put messages into a queue as they are, with id, time and counters; answers how many were not there already.

    Those that are stay untouched, so an import that was ended in the middle can be run again.
    """
    told: list[Reply] = yield [
        calls.send(
            keys,
            message.id,
            message.score,
            message.body or b"",
            receives=message.receives_seen,
            first_ms="" if message.first_received_ms is None else message.first_received_ms,
        )
        for message in messages
    ]
    if None in told:
        raise limits.QueueNotFound
    return sum(added for added, _ in told)


def _change_pages(
    keys: RsmqKeys,
    wanted: MessageFilter,
    act: Callable[[Sequence[Message], int], Call],
    *,
    dry_run: bool,
    progress: ChangeProgress | None,
) -> Flow[MessageChanges]:
    """Act on every wanted message. A page is looked at and acted on before the next is asked for."""
    so_far, after, seen_ids = MessageChanges(), None, set[str]()
    listed = None if wanted.ids is None else sorted(wanted.ids)
    while True:
        if listed is None:
            page = yield from message_queries.read_page(keys, after=after, preview=wanted.preview)
        else:
            page = yield from message_queries.messages_by_id(keys, listed[: message_queries.PAGE])
            listed = listed[message_queries.PAGE :]
        fresh = [message for message in page.messages if message.id not in seen_ids]
        seen_ids = {message.id for message in page.messages}
        chosen = [message for message in fresh if wanted.matches(message, page.now_ms)]
        told = [] if dry_run or not chosen else (yield [act(chosen, page.now_ms)])[0]
        if told is None:
            raise limits.QueueNotFound
        so_far = so_far.add_page(len(fresh), told, len(chosen))
        if progress:
            progress(so_far)
        if page.after is None and not listed:
            return so_far
        after = page.after


def _seen(messages: Iterable[Message]) -> list[str]:
    return [word for message in messages for word in message.version]


def _with_score(messages: Iterable[Message], score: int) -> list[str | int]:
    return [word for message in messages for word in (message.id, message.score, score)]
