"""A server with everything an operator meets: queues that are idle, busy, stalled, delayed, overdue, dead and hostile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chasqui import BackoffSpec, Keys, Link, RepeatPattern, SyncQueue
from chasqui.wire import dead_letter_entry, envelope, event_entry
from chasqui.wire.payload import from_data
from tests.support import links

if TYPE_CHECKING:
    from chasqui.server.flow import Arg

GROUP = "default"


def command(link: Link, *words: Arg) -> Any:
    return link.run(links.command(*words))


def add_waiting(link: Link, queue: str, count: int, name: str = "send-email") -> None:
    with SyncQueue(queue, link=link) as producer:
        for nth in range(count):
            producer.add(name, {"to": f"user{nth}@example.com", "token": "s3cret-token"}, job_id=f"{name}-{nth}")


def add_in_flight(link: Link, queue: str, count: int, consumer: str = "worker-1", *, name: str = "resize") -> None:
    """Jobs that a consumer has read and not settled."""
    keys = Keys(queue)
    with SyncQueue(queue, link=link) as producer:
        for nth in range(count):
            producer.add(name, {"nth": nth}, job_id=f"{name}-fly-{consumer}-{nth}")
    if not command(link, "XINFO", "GROUPS", keys.stream):
        command(link, "XGROUP", "CREATE", keys.stream, GROUP, "0")
    command(link, "XREADGROUP", "GROUP", GROUP, consumer, "COUNT", count, "STREAMS", keys.stream, ">")


def add_dead_letters(
    link: Link,
    queue: str,
    count: int,
    *,
    name: str = "charge",
    reason: str = "retries_exhausted",
    detail: str | None = "card declined",
    data: Any = None,
) -> list[str]:
    """Dead letters, as a worker writes them."""
    keys = Keys(queue)
    ids = []
    for nth in range(count):
        job = envelope.Envelope(
            f"{name}-dead-{nth}", from_data(data or {"card": 4242, "nth": nth}), 1_794_000_000_000, 3
        )
        letter = dead_letter_entry.DeadLetterEntry(
            envelope.encode(job),
            f"179400000000{nth}-0",
            reason,
            detail,
            name,
            name.encode("utf-8", "surrogateescape"),
        )
        ids.append(command(link, "XADD", keys.dlq, "*", *dead_letter_entry.encode(letter)).decode())
    return ids


def add_undecodable(link: Link, queue: str) -> str:
    letter = dead_letter_entry.DeadLetterEntry(b"\x92\xa4oops", "1794000000099-0", "decode_failed", "5 elements, not 4")
    return str(command(link, "XADD", Keys(queue).dlq, "*", *dead_letter_entry.encode(letter)).decode())


def add_failed_event(link: Link, queue: str, job_id: str, error: str) -> None:
    event = event_entry.Event("failed", job_id, 1_794_000_000_000, "charge", 3, error, 1200)
    command(link, "XADD", Keys(queue).events, "*", *event_entry.encode(event))


def add_run_events(link: Link, queue: str, now_ms: int, count: int = 40) -> None:
    """Events of runs."""
    names = ("send-email", "charge", "resize")
    for nth in range(count):
        name, job_id = names[nth % 3], f"job-{nth}"
        at = now_ms - (count - nth) * 500
        events = [event_entry.Event("active", job_id, at, name, 1)]
        if nth % 5 == 4:
            events.append(event_entry.Event("failed", job_id, at + 90, name, 1, "SMTP timeout after 3000 ms", 90_000))
            events.append(event_entry.Event("retry-scheduled", job_id, at + 91, name, 2, backoff_ms=4000))
        else:
            events.append(event_entry.Event("completed", job_id, at + 20 + nth, name, 1, duration_us=(20 + nth) * 1000))
        for place, event in enumerate(events):
            command(link, "XADD", Keys(queue).events, f"{at}-{place}", *event_entry.encode(event))


def add_delayed(link: Link, queue: str, count: int, *, step_ms: int = 60_000, name: str = "remind") -> None:
    with SyncQueue(queue, link=link) as producer:
        for nth in range(count):
            producer.add(
                name,
                {"nth": nth},
                job_id=f"{name}-{nth}",
                delay_ms=step_ms * (nth + 1),
                backoff=BackoffSpec.fixed(100),
            )


def add_schedules(link: Link, queue: str) -> None:
    with SyncQueue(queue, link=link) as producer:
        producer.upsert_repeatable_job(
            "digest", {"to": "all"}, repeat=RepeatPattern.cron("0 9 * * MON-FRI", tz="Europe/Madrid")
        )
        producer.upsert_repeatable_job("tick", None, repeat=RepeatPattern.every(60_000), limit=5)


def make_schedules_overdue(link: Link, queue: str, now_ms: int) -> None:
    """The schedules should have fired long ago."""
    keys = Keys(queue)
    for member in command(link, "ZRANGE", keys.repeat, 0, 0):
        command(link, "ZADD", keys.repeat, now_ms - 3_600_000, member)


def add_every_state(link: Link, queue: str, now_ms: int) -> None:
    """All states in one queue."""
    add_in_flight(link, queue, 3)
    add_waiting(link, queue, 7)
    add_dead_letters(link, queue, 4)
    add_dead_letters(link, queue, 3, name="send-email", detail="SMTP timeout after 3000 ms")
    add_undecodable(link, queue)
    add_delayed(link, queue, 6)
    add_schedules(link, queue)
    add_run_events(link, queue, now_ms)
