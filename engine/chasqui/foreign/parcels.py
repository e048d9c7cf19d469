"""What a foreign message becomes as a job of ours: id, body, sent time, due time and receive count survive.

Bytes only; how the parcels travel is in `migration.py` and the crossings.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from chasqui.errors import ArgumentError, ChasquiError
from chasqui.server.commands.arrivals import CAPS, Parcel
from chasqui.wire import dead_entry, envelope, payload
from chasqui.wire.dead_entry import DeadEntry, Reason
from chasqui.wire.packed import U32_MAX
from chasqui.wire.stream_entry import check_name

if TYPE_CHECKING:
    from chasqui.foreign.joblist.values import Job
    from chasqui.foreign.rsmq.values import Message
    from chasqui.options import Caps
    from chasqui.wire.packed import Value

Body: TypeAlias = Literal["auto", "bytes", "json"]
OverLimit: TypeAlias = Literal["keep", "clamp", "dlq", "reset"]


@dataclass(frozen=True, slots=True)
class Terms:
    """How messages are to be taken over.

    name: the jobs' name. body: "auto" makes text of what is UTF-8 and bytes of the rest, "bytes" bytes of everything,
    "json" the value that the JSON says, and text where it is none. max_attempts: what the workers there allow, when
    something is to be done about messages that were received as often: "keep" their count, so that they are buried on
    arrival; "clamp" it, for one more try; "dlq" puts them among the dead letters; "reset" begins anew. caps: how many
    jobs and dead letters there may be, for beyond it producers trim what nobody has read.
    """

    name: str = ""
    body: Body | None = None
    max_attempts: int | None = None
    over_limit: OverLimit = "keep"
    caps: Caps = CAPS

    def __post_init__(self) -> None:
        check_name(self.name)


class NotAJob(ChasquiError):
    """A message that cannot become a job as it is; it stays where it is, and the report tells why."""


def can_be_an_id(message_id: str) -> bool:
    """Whether a job can have this id: any that is text."""
    try:
        return bool(message_id.encode())
    except UnicodeEncodeError:
        return False


def of_message(message: Message, terms: Terms, now_ms: int) -> Parcel:
    """An RSMQ message as a job. When it was sent is told by its id, else by its first receive, else unknown: now."""
    if message.body is None:
        raise NotAJob("it has no body")
    sent_ms = message.first_received_ms or now_ms if message.sent_us is None else message.sent_us // 1000
    return _packed(
        message.id,
        _value(message.body, terms.body or "auto"),
        sent_ms,
        message.receives or 0,
        terms,
        due_ms=message.visible_at_ms,
    )


def of_job(job: Job, terms: Terms, now_ms: int) -> Parcel:
    """A list queue's job as one of ours; a failed one as a dead letter, with its error."""
    raw = job.fields.get("payload")
    if raw is None:
        raise NotAJob("its hash is gone" if job.expired else "it has no payload")
    failed = job.text("status") == "failed"
    return _packed(
        job.id,
        _value(raw, terms.body or "json"),
        job.number("enqueued_at_ms") or now_ms,
        job.number("attempts") or 0,
        terms,
        death=(job.text("last_error") or "") if failed else None,
    )


def _packed(
    job_id: str,
    value: Value,
    created_at_ms: int,
    attempts: int,
    terms: Terms,
    *,
    due_ms: int | None = None,
    death: str | None = None,
) -> Parcel:
    """Pack a job; `death` is what it died of."""
    attempt, exhausted = _counted(attempts, terms)
    try:
        job = envelope.Envelope(job_id, payload.from_data(value), max(0, created_at_ms), attempt)
        raw = envelope.encode(job)
    except (ArgumentError, UnicodeEncodeError) as fault:
        raise NotAJob(f"it cannot be packed: {fault}") from fault
    name = terms.name.encode()
    if death is None and exhausted:
        death = f"received {attempts} times, and {terms.max_attempts} are allowed"
    if death is None:
        return Parcel(job_id, raw, name, due_ms)
    letter = DeadEntry(raw, job_id, Reason.RETRIES_EXHAUSTED, death or None, name_bytes=name)
    return Parcel(job_id, raw, name, due_ms, tuple(dead_entry.encode(letter)))


def _counted(attempts: int, terms: Terms) -> tuple[int, bool]:
    """The attempt to write, and whether the job is over."""
    most = terms.max_attempts
    if most is not None and attempts >= most:
        if terms.over_limit == "clamp":
            return max(0, most - 1), False
        if terms.over_limit == "reset":
            return 0, False
        return min(attempts, U32_MAX), terms.over_limit == "dlq"
    return min(max(0, attempts), U32_MAX), False


def _value(raw: bytes, form: Body) -> Value:
    if form == "bytes":
        return raw
    if form == "json":
        try:
            value: Value = json.loads(raw)
            payload.from_data(value)
            return value
        except (ValueError, RecursionError, ChasquiError, OverflowError):
            pass  # no JSON, or none that msgpack can say: it stays what it was
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw
