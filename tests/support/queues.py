"""Both queues behind one face, so that every test of a door is a test of both; and what lies behind the door."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Self

import pytest

from chasqui.models import SyncJob
from chasqui.queue import Queue
from chasqui.sync_queue import SyncQueue
from chasqui.wire import delayed_member, envelope, stream_entry
from chasqui.wire.keys import Keys

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.queue_harness import QueueHarness


class BlockingQueue:
    """A `SyncQueue`, or a job of one, whose methods can be awaited; they block all the same."""

    def __init__(self, blocking: Any) -> None:
        self._blocking = blocking

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._blocking, name)
        return _awaitable(found) if inspect.ismethod(found) else found

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._blocking.close()


def _awaitable(method: Callable[..., Any]) -> Callable[..., Any]:
    async def call(*words: Any, **named: Any) -> Any:
        return _wrapped(method(*words, **named))

    return call


def _wrapped(value: Any) -> Any:
    if isinstance(value, list):
        return [_wrapped(item) for item in value]
    return BlockingQueue(value) if isinstance(value, SyncJob) else value


def awaiting(*words: Any, **named: Any) -> Any:
    return Queue(*words, **named)


def blocking(*words: Any, **named: Any) -> Any:
    return BlockingQueue(SyncQueue(*words, **named))


both_queues = pytest.mark.parametrize("open_queue", [awaiting, blocking], ids=["Queue", "SyncQueue"])


def waiting_jobs(b: QueueHarness) -> list[tuple[str, str, Any]]:
    """Id, name and data of every job in the stream."""
    entries = [stream_entry.decode(fields) for _, fields in b.command("XRANGE", b.keys.stream, "-", "+")]
    jobs = [(envelope.decode(entry.d or b""), entry.name) for entry in entries]
    return [(job.id, name, job.payload.data()) for job, name in jobs]


def delayed_jobs(b: QueueHarness) -> dict[str, int]:
    """When each delayed job is due, in ms from the server's now."""
    now = b.now_ms()
    rows = b.command("ZRANGE", Keys(b.queue).delayed, 0, -1, "WITHSCORES")
    members = [delayed_member.decode(member) for member in rows[::2]]
    return {one.envelope.id: int(due) - now for one, due in zip(members, rows[1::2], strict=True)}
