"""Why a job becomes a dead letter: one function per reason, each returns the reason and the detail that is stored.

`entry_checks.py` and `outcomes.py` decide when; `dead_letter_builder.py` builds the dead letter.
"""

from __future__ import annotations

from chasqui.errors import UnrecoverableError, WireError
from chasqui.wire import dead_letter_entry
from chasqui.wire.dead_letter_entry import DeadLetterReason

ReasonAndDetail = tuple[DeadLetterReason, str | None]


def malformed() -> ReasonAndDetail:
    """The entry has no payload field."""
    return DeadLetterReason.MALFORMED, dead_letter_entry.NO_PAYLOAD_DETAIL


def oversize_payload(size: int, max_bytes: int) -> ReasonAndDetail:
    return DeadLetterReason.OVERSIZE_PAYLOAD, f"{size} bytes, over the limit of {max_bytes}"


def decode_failed(error: WireError) -> ReasonAndDetail:
    """The envelope cannot be decoded."""
    return DeadLetterReason.DECODE_FAILED, str(error)


def payload_decode_failed(error: WireError) -> ReasonAndDetail:
    """The envelope can be decoded, the data in it cannot."""
    return DeadLetterReason.DECODE_FAILED, f"payload: {error}"


def crashed(starts: int) -> ReasonAndDetail:
    """No worker survived a run of the job."""
    return DeadLetterReason.CRASHED, f"started {starts} times, and no worker lived to tell what came of it"


def retries_exhausted() -> ReasonAndDetail:
    """The job arrived with no attempt left."""
    return DeadLetterReason.RETRIES_EXHAUSTED, None


def failed(error: BaseException, max_bytes: int) -> ReasonAndDetail:
    """The handler raised in the last attempt, or an error after which there is no other."""
    final = isinstance(error, UnrecoverableError)
    reason = DeadLetterReason.UNRECOVERABLE if final else DeadLetterReason.RETRIES_EXHAUSTED
    return reason, error_detail(error, max_bytes)


def error_detail(error: BaseException, max_bytes: int) -> str:
    """The type and text of an error, cut to at most `max_bytes` of UTF-8."""
    text = f"{type(error).__name__}: {error}".encode("utf-8", "replace")
    if len(text) <= max_bytes:
        return text.decode()
    return text[: max_bytes - 3].decode(errors="ignore") + "…"
