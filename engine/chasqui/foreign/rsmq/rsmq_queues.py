"""Flows for RSMQ queues: create, drop, list, describe, change. They write exactly what npm rsmq writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chasqui.foreign.common_calls import clock
from chasqui.foreign.decoding import to_text
from chasqui.foreign.rsmq import limits
from chasqui.foreign.rsmq import rsmq_calls as calls
from chasqui.foreign.rsmq.keys import NAMESPACE, RsmqKeys
from chasqui.foreign.rsmq.message_values import QueueAttributes, QueueStats
from chasqui.server.commands import parse_server_time

if TYPE_CHECKING:
    from chasqui.server.flow import Flow


def create_queue(
    keys: RsmqKeys, *, vt_s: object = limits.VT_S, delay_s: object = limits.DELAY_S, maxsize: object = limits.MAXSIZE
) -> Flow[None]:
    """Create a queue, or raise `QueueExists`; then missing attributes of the one that is there were filled in.

    Running it twice is harmless for that reason.
    """
    limits.check_name(keys.queue)
    wanted = {
        "vt_s": limits.parse_seconds("vt", vt_s),
        "delay_s": limits.parse_seconds("delay", delay_s),
        "maxsize": limits.parse_maxsize(maxsize),
    }
    [now] = yield [clock()]
    [created] = yield [calls.create_queue(keys, **wanted, now_s=int(now[0]))]
    if not created:
        raise limits.QueueExists


def drop_queue(keys: RsmqKeys) -> Flow[None]:
    """Delete a queue with all its messages, or raise `QueueNotFound`; its name is taken off the list in any case."""
    [(removed, _)] = yield [calls.drop_queue(keys)]
    if not removed:
        raise limits.QueueNotFound


def list_queues(namespace: str = NAMESPACE) -> Flow[list[str]]:
    """The queues a namespace lists, in alphabetical order."""
    [found] = yield [calls.queue_names(RsmqKeys("", namespace).queues)]
    return sorted(map(to_text, found))


def queue_stats(keys: RsmqKeys) -> Flow[QueueStats]:
    """A queue's attributes and how many messages it has. Missing attributes: `QueueNotFound`, as npm rsmq has it."""
    now, fields, messages = yield [clock(), calls.read_attributes(keys), calls.message_count(keys)]
    if None in fields[:3]:
        raise limits.QueueNotFound
    now_ms = parse_server_time(now)
    hidden, hidden_now = yield [calls.count_from(keys, int(now[0]) * 1000), calls.count_from(keys, now_ms)]
    return QueueStats(QueueAttributes.from_fields(fields), now_ms, messages, hidden, hidden_now)


def set_attributes(
    keys: RsmqKeys, *, vt_s: object = None, delay_s: object = None, maxsize: object = None
) -> Flow[QueueStats]:
    """Change what is given of a queue's attributes; messages that are there keep their times."""
    fields: dict[str, int] = {}
    if vt_s is not None:
        fields["vt"] = limits.parse_seconds("vt", vt_s)
    if delay_s is not None:
        fields["delay"] = limits.parse_seconds("delay", delay_s)
    if maxsize is not None:
        fields["maxsize"] = limits.parse_maxsize(maxsize)
    if not fields:
        raise limits.NoAttributeSupplied
    now, found = yield [clock(), calls.read_attributes(keys)]
    if None in found[:3]:
        raise limits.QueueNotFound
    yield [calls.set_attributes(keys, {"modified": int(now[0]), **fields})]
    return (yield from queue_stats(keys))


def read_attributes(keys: RsmqKeys) -> Flow[tuple[QueueAttributes, list[bytes | None]]]:
    """A queue's attributes as numbers, and as stored. Missing ones are None: nothing is refused."""
    [fields] = yield [calls.read_attributes(keys)]
    return QueueAttributes.from_fields(fields), list(fields)
