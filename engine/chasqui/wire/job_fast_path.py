"""The usual job, opened in one go: what nearly every producer writes, at a third of the price of looking closely.

Whatever is not usual is left to `envelope.py` and `payload.py`, which know every form and say what is wrong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgpack import unpackb

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from chasqui.wire.envelope import Envelope
    from chasqui.wire.msgpack_codec import Value

DECODE_ERRORS = (ValueError, TypeError, OverflowError, RecursionError, MemoryError)


def make_decoder(make_job: Callable[..., Any], max_bytes: int, max_attempts: int) -> Callable[[Sequence[bytes]], Any]:
    """A function that makes the job in the fields of an entry; it returns None for one that needs the full decoder.

    A function made once instead of a method: it runs for every job that passes.
    """

    def opened(fields: Sequence[bytes]) -> Any:
        try:
            d = fields[1]
            if len(d) > max_bytes:
                return None
            job_id, content, created_at_ms, attempt = unpackb(d)
            if (
                type(job_id) is not str
                or type(content) is not bytes
                or type(created_at_ms) is not int
                or type(attempt) is not int
                or not 0 <= attempt < max_attempts
                or fields[0] != b"d"
            ):
                return None
            if len(fields) == 2:
                return make_job(job_id, "", unpackb(content), attempt, created_at_ms)
            if len(fields) == 4 and fields[2] == b"n":
                return make_job(job_id, fields[3].decode(), unpackb(content), attempt, created_at_ms)
        except DECODE_ERRORS:
            pass
        return None

    return opened


def handler_value(envelope: Envelope, limit: int) -> Value:
    """What a handler gets: plain values where plain values can say it, also with numbers as keys of a map.

    Raises `WireError` when the payload cannot be decoded.
    """
    if envelope.payload.form == "bin" and len(envelope.payload.raw) <= limit:
        try:
            return unpackb(envelope.payload.raw, strict_map_key=False)
        except DECODE_ERRORS:
            pass
    return envelope.payload.handler_value(limit)
