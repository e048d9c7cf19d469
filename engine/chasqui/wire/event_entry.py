"""An entry of the events stream: plain text fields `e id ts [n]` and what the kind of event adds.

Any event can be read, also kinds and fields we do not know; when which is emitted is not decided here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from chasqui.wire.entry_fields import EntryFields, FieldPair, flatten

if TYPE_CHECKING:
    from collections.abc import Sequence

ACTIVE, COMPLETED, FAILED = "active", "completed", "failed"
RETRY_SCHEDULED, DLQ = "retry-scheduled", "dlq"
WAITING, DELAYED, DRAINED = "waiting", "delayed", "drained"


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened, at `ts` by the teller's clock.

    job_id: None for events of the whole queue and of unreadable entries. attempt: the run's number,
    from 1; in "retry-scheduled" that of the run to come. reason: the error's text in "failed", why it died in
    "dlq". extra: every field that has no place here or could not be read, unchanged.
    """

    kind: str
    job_id: str | None
    ts: int | None
    name: str = ""
    attempt: int | None = None
    reason: str | None = None
    duration_us: int | None = None
    backoff_ms: int | None = None
    delay_ms: int | None = None
    extra: tuple[FieldPair, ...] = ()


def encode(event: Event) -> list[bytes]:
    """The words after the entry id in an XADD, in the reference's order."""
    values = [
        (b"e", event.kind),
        (b"id", event.job_id or ""),
        (b"ts", event.ts),
        (b"n", event.name or None),
        (b"attempt", event.attempt),
        (b"reason", event.reason),
        (b"duration_us", event.duration_us),
        (b"backoff_ms", event.backoff_ms),
        (b"delay_ms", event.delay_ms),
    ]
    # An error's text comes from anywhere: what is not UTF-8 must not prevent the event.
    pairs = [(name, str(value).encode("utf-8", "replace")) for name, value in values if value is not None]
    return flatten([*pairs, *event.extra])


def decode(flat: Sequence[bytes]) -> Event:
    """The event in the fields as Redis sent them."""
    fields = EntryFields(flat)
    return Event(
        kind=fields.text(b"e") or "",
        job_id=fields.text(b"id") or None,
        ts=fields.number(b"ts"),
        name=fields.text(b"n") or "",
        attempt=fields.number(b"attempt"),
        reason=fields.text(b"reason"),
        duration_us=fields.number(b"duration_us"),
        backoff_ms=fields.number(b"backoff_ms"),
        delay_ms=fields.number(b"delay_ms"),
        extra=fields.rest,
    )
