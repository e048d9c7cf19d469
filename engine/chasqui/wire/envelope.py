"""The job envelope, field `d`: `[id, payload, created_at_ms, attempt, retry?]` in msgpack.

Reads every form the reference reads, and payloads it does not; writes the canonical form. The job's name
travels outside, in `stream_entry` and `delayed_member`.
"""

from __future__ import annotations

from typing import NamedTuple

from chasqui.errors import WireError
from chasqui.wire import msgpack_codec, retry_override
from chasqui.wire.msgpack_codec import MAX_PAYLOAD, U32_MAX, PackFunction, Undecodable, Value, unpack
from chasqui.wire.msgpack_scan import split_value
from chasqui.wire.payload import Payload, from_element
from chasqui.wire.record_layout import NIL, ZERO, RecordLayout, as_text, as_u32, as_u64, check_field, decode_field
from chasqui.wire.retry_override import Backoff, RetryOverride

__all__ = ["Backoff", "Envelope", "Payload", "RetryOverride", "decode", "encode"]

_SHAPE = RecordLayout("envelope", ("id", "payload", "created_at_ms", "attempt", "retry"), min_elements=3, required=3)


class JobStamp(NamedTuple):
    """A job by its id and when it was made: an id alone may be used again."""

    job_id: str
    created_at_ms: int


class Envelope(NamedTuple):
    """One job. `elements` (length of the array found, 0 for a map) and `trailing` only describe the source.

    A named tuple, like `Payload`: one is made for every job that passes, and a frozen dataclass costs
    three times as much.
    """

    id: str
    payload: Payload
    created_at_ms: int
    attempt: int = 0
    retry: RetryOverride | None = None
    elements: int = 4
    trailing: bytes = b""

    def with_attempt(self, attempt: int) -> Envelope:
        """The same job at another attempt, never past what the field holds."""
        return self._replace(attempt=min(attempt, U32_MAX))


def encode(envelope: Envelope, *, pack: PackFunction = msgpack_codec.pack, exact_payload: bool = False) -> bytes:
    """Canonical bytes, as the reference rewrites a job when it is retried, replayed or becomes a dead letter; but an unknown
    backoff kind keeps its text, which the reference loses.

    A payload spelled as an array of small numbers becomes a bin, unless `exact_payload` asks for the form it
    had: a typed consumer may not read the other. `pack` is a batch's own packer, for speed.
    """
    octets = None if exact_payload else envelope.payload.octets
    if octets is not None:
        return pack(_elements(envelope, octets))
    around_nil = pack(_elements(envelope, None))
    start = 1 + len(pack(envelope.id))
    return around_nil[:start] + envelope.payload.to_element() + around_nil[start + 1 :]


def decode(data: bytes, limit: int = MAX_PAYLOAD) -> Envelope:
    """The envelope in these bytes. Its payload is not looked into."""
    if len(data) > limit:
        raise WireError(f"envelope of {len(data)} bytes, over the limit of {limit}", data)
    try:
        return _decode_fast(data) or _decode_any_form(data)
    except WireError as fault:
        raise WireError(str(fault), data) from fault


def decode_or_undecodable(data: bytes) -> Envelope | Undecodable:
    """The envelope in these bytes, of any length, or why it cannot be read."""
    try:
        return decode(data, len(data))
    except WireError as fault:
        return Undecodable(data, str(fault))


def job_stamp(data: bytes) -> JobStamp | None:
    """Which job the envelope holds; None if it cannot be read."""
    job = decode_or_undecodable(data)
    return None if isinstance(job, Undecodable) else JobStamp(job.id, job.created_at_ms)


def _elements(envelope: Envelope, content: bytes | None) -> list[Value]:
    elements: list[Value] = [envelope.id, content, envelope.created_at_ms, envelope.attempt]
    if envelope.retry is not None:
        elements.append(retry_override.to_list(envelope.retry))
    return elements


def _decode_fast(data: bytes) -> Envelope | None:
    """Nearly every envelope there is, decoded in one go; None for those that need a closer look."""
    try:
        elements = unpack(data, len(data))
        if type(elements) is not list or not 4 <= len(elements) <= 5:
            return None
        retry = retry_override.from_list(elements[4]) if len(elements) == 5 else None
    except WireError:
        return None
    job_id, content, created_at_ms, attempt = elements[:4]
    if type(job_id) is not str or not job_id.isascii() or type(content) is not bytes:
        return None
    if type(created_at_ms) is not int or type(attempt) is not int:
        return None
    if created_at_ms < 0 or not 0 <= attempt <= U32_MAX:
        return None
    return Envelope(job_id, Payload("bin", content), created_at_ms, attempt, retry, len(elements))


def _decode_any_form(data: bytes) -> Envelope:
    found = split_value(data)
    fields = _SHAPE.from_parts(found)
    return Envelope(
        id=check_field("envelope id", as_text, decode_field(fields, "id")),
        payload=from_element(fields["payload"]),
        created_at_ms=check_field("envelope created_at_ms", as_u64, decode_field(fields, "created_at_ms")),
        attempt=check_field("envelope attempt", as_u32, decode_field(fields, "attempt", ZERO)),
        retry=retry_override.from_element(fields.get("retry", NIL)),
        elements=len(found.children) if found.kind == "array" else 0,
        trailing=found.rest,
    )
