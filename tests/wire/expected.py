"""How a golden item describes its content, and how ours is compared with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chasqui.wire import msgpack_codec
from chasqui.wire.retry_override import to_list
from tests import golden

if TYPE_CHECKING:
    from chasqui.wire import envelope


def unhex(text: str) -> bytes:
    return bytes.fromhex(text)


def field_words(fields: list[list[str]]) -> list[bytes]:
    return [word for name, value in fields for word in (name.encode(), unhex(value))]


def assert_matches_golden(job: envelope.Envelope, expect: dict[str, Any]) -> None:
    assert (job.elements, job.id, job.created_at_ms, job.attempt) == (
        expect["elements"],
        expect["id"],
        golden.value(expect["created_at_ms"]),
        expect["attempt"],
    )
    assert golden.tag(to_list(job.retry) if job.retry else None) == _retry_list(expect["retry"])
    assert (job.payload.form == "bin") is expect["payload_is_bin"]
    content = job.payload.raw if job.payload.form == "bin" else job.payload.data()
    assert golden.tag(content) == expect["payload"]
    if "data" in expect:
        assert golden.tag(job.payload.data()) == expect["data"]
    if "data_error" in expect:
        assert isinstance(job.payload.data_or_bytes(), msgpack_codec.Undecodable)


def _retry_list(expect: dict[str, Any] | None) -> list[Any] | None:
    if expect is None:
        return None
    spec = expect["backoff"]
    fields = [spec[name] for name in ("kind", "delay_ms", "max_delay_ms", "multiplier", "jitter_ms")] if spec else None
    if fields and isinstance(fields[3], int):
        fields[3] = {"$float": repr(float(fields[3]))}
    return [expect["max_attempts"], fields]


def with_kind_unknown(rewritten: bytes, job: envelope.Envelope) -> bytes:
    """The reference rewrites a kind it does not know to "unknown". We keep the text; this undoes that."""
    if not job.retry or not job.retry.backoff or job.retry.backoff.kind in ("fixed", "exponential"):
        return rewritten
    kind = msgpack_codec.pack(job.retry.backoff.kind)
    before, found, after = rewritten.rpartition(b"\x95" + kind)
    assert found, "the kind's own text must survive"
    return before + b"\x95" + msgpack_codec.pack("unknown") + after


def reference_runs(attempt: int, delivered_before: int, most: int) -> bool:
    """Whether the reference runs a delivered job.

    It mixes both counts and then forgives one crash: a job allowed a single attempt runs twice if its worker
    died, while one that failed never and crashed often dies as `retries_exhausted`.
    """
    return max(attempt, delivered_before - 1) + 1 <= most
