"""What a foreign message becomes as a job of ours: id, body, sent time, due time and receive count survive.

Bytes only; how the parcels travel is in `migration.py` and the crossings.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from chasqui.errors import ArgumentError, ChasquiError
from chasqui.foreign.job_import import DEFAULT_CAPS, ImportedJob
from chasqui.wire import dead_letter_entry, envelope, payload
from chasqui.wire.dead_letter_entry import DeadLetterEntry, DeadLetterReason
from chasqui.wire.msgpack_codec import U32_MAX
from chasqui.wire.stream_entry import encode_name

if TYPE_CHECKING:
    from chasqui.defaults import StreamCaps
    from chasqui.foreign.joblist.joblist_values import ListJob
    from chasqui.foreign.rsmq.message_values import Message
    from chasqui.wire.msgpack_codec import Value

BodyFormat: TypeAlias = Literal["auto", "bytes", "json"]
OverLimitPolicy: TypeAlias = Literal["keep", "clamp", "dlq", "reset"]


@dataclass(frozen=True, slots=True)
class ConversionOptions:
    """How messages are to be taken over.

    name: the jobs' name. body: "auto" makes text of what is UTF-8 and bytes of the rest, "bytes" bytes of everything,
    "json" the value of the JSON, and text where it is none. max_attempts: what the workers there allow, when
    something is to be done about messages that were received as often: "keep" their count, so that they
    become dead letters on arrival; "clamp" it, for one more try; "dlq" adds them as dead letters; "reset" starts again
    at 0. caps: how many jobs and dead letters there may be, for beyond it producers trim unread ones.
    """

    name: str = ""
    body: BodyFormat | None = None
    max_attempts: int | None = None
    over_limit: OverLimitPolicy = "keep"
    caps: StreamCaps = DEFAULT_CAPS

    def __post_init__(self) -> None:
        encode_name(self.name)


class NotConvertible(ChasquiError):
    """A message that cannot become a job as it is; it stays where it is, and the report has the reason."""


def is_valid_job_id(message_id: str) -> bool:
    """Whether a job can have this id: any that is text."""
    try:
        return bool(message_id.encode())
    except UnicodeEncodeError:
        return False


def job_from_message(message: Message, terms: ConversionOptions, now_ms: int) -> ImportedJob:
    """An RSMQ message as a job. The time it was sent comes from its id, else from its first receive, else it is now."""
    if message.body is None:
        raise NotConvertible("it has no body")
    sent_ms = message.first_received_ms or now_ms if message.sent_us is None else message.sent_us // 1000
    return _pack_job(
        message.id,
        _decode_body(message.body, terms.body or "auto"),
        sent_ms,
        message.receives or 0,
        terms,
        due_ms=message.visible_at_ms,
    )


def job_from_list_job(job: ListJob, terms: ConversionOptions, now_ms: int) -> ImportedJob:
    """A list queue's job as one of ours; a failed one as a dead letter, with its error."""
    raw = job.fields.get("payload")
    if raw is None:
        raise NotConvertible("its hash is gone" if job.is_expired else "it has no payload")
    failed = job.text("status") == "failed"
    return _pack_job(
        job.id,
        _decode_body(raw, terms.body or "json"),
        job.number("enqueued_at_ms") or now_ms,
        job.number("attempts") or 0,
        terms,
        failure=(job.text("last_error") or "") if failed else None,
    )


def _pack_job(
    job_id: str,
    value: Value,
    created_at_ms: int,
    attempts: int,
    terms: ConversionOptions,
    *,
    due_ms: int | None = None,
    failure: str | None = None,
) -> ImportedJob:
    """Pack a job; `death` is what it died of."""
    attempt, exhausted = _attempt_index(attempts, terms)
    try:
        job = envelope.Envelope(job_id, payload.from_data(value), max(0, created_at_ms), attempt)
        raw = envelope.encode(job)
    except (ArgumentError, UnicodeEncodeError) as fault:
        raise NotConvertible(f"it cannot be packed: {fault}") from fault
    name = terms.name.encode()
    if failure is None and exhausted:
        failure = f"received {attempts} times, and {terms.max_attempts} are allowed"
    if failure is None:
        return ImportedJob(job_id, raw, name, due_ms)
    letter = DeadLetterEntry(raw, job_id, DeadLetterReason.RETRIES_EXHAUSTED, failure or None, name_bytes=name)
    return ImportedJob(job_id, raw, name, due_ms, tuple(dead_letter_entry.encode(letter)))


def _attempt_index(attempts: int, terms: ConversionOptions) -> tuple[int, bool]:
    """The attempt to write, and whether the job is over."""
    most = terms.max_attempts
    if most is not None and attempts >= most:
        if terms.over_limit == "clamp":
            return max(0, most - 1), False
        if terms.over_limit == "reset":
            return 0, False
        return min(attempts, U32_MAX), terms.over_limit == "dlq"
    return min(max(0, attempts), U32_MAX), False


def _decode_body(raw: bytes, form: BodyFormat) -> Value:
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
