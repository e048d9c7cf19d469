"""Flows that change RSMQ messages that were read before: purge, move, reschedule, import.

A message must be unchanged since it was read: one that a consumer received meanwhile is left alone. So a change may be
interrupted and run again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from chasqui.errors import ArgumentError
from chasqui.foreign.rsmq import limits
from chasqui.foreign.rsmq import rsmq_calls as calls

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from chasqui.foreign.rsmq.keys import RsmqKeys
    from chasqui.foreign.rsmq.message_values import Message
    from chasqui.server.flow import Flow, Reply

ChangeOutcome: TypeAlias = Literal["done", "changed", "there"]
"""changed: it is not what was seen any more, or gone. there: the other queue has a message of this id."""
_OUTCOMES: dict[int, ChangeOutcome] = {1: "done", 0: "changed", -1: "there"}


def purge(keys: RsmqKeys, messages: Sequence[Message]) -> Flow[list[ChangeOutcome]]:
    """Delete these messages, in one round trip."""
    if not messages:
        return []
    [replies] = yield [calls.purge(keys, _versions(messages))]
    return [_OUTCOMES[answer] for answer in replies]


def move(keys: RsmqKeys, target: RsmqKeys, messages: Sequence[Message]) -> Flow[list[ChangeOutcome]]:
    """Move these messages to another queue, in one round trip."""
    if keys == target:
        raise ArgumentError(f"{keys.queue!r} cannot be moved to itself")
    if not messages:
        return []
    [replies] = yield [calls.move(keys, target, _versions(messages))]
    if replies is None:
        raise limits.QueueNotFound
    return [_OUTCOMES[answer] for answer in replies]


def reschedule(keys: RsmqKeys, messages: Sequence[Message], at_ms: int) -> Flow[list[ChangeOutcome]]:
    """Let these messages become visible at this time, in one round trip."""
    if not messages:
        return []
    words = [word for message in messages for word in (message.id, message.score, at_ms)]
    [replies] = yield [calls.reschedule(keys, words)]
    return [_OUTCOMES[answer] for answer in replies]


def import_messages(keys: RsmqKeys, messages: Sequence[Message]) -> Flow[int]:
    """Put messages into a queue as they are, with id, time and counters; answers how many were not there already.

    Those that are stay untouched, so an import that was ended in the middle can be run again.
    """
    replies: list[Reply] = yield [
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
    if None in replies:
        raise limits.QueueNotFound
    return sum(added for added, _ in replies)


def _versions(messages: Iterable[Message]) -> list[str]:
    return [word for message in messages for word in message.version]
