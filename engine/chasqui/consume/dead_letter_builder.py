"""The dead letters a worker writes: every byte of the entry kept, and why it died.

Fields of a letter are `wire/dead_entry.py`'s; when a job is dead is decided elsewhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chasqui.server.commands import MAX_FIELDS
from chasqui.wire import dead_letter_entry, envelope, msgpack_codec, stream_entry
from chasqui.wire.dead_letter_entry import DeadLetterEntry, DeadLetterReason

if TYPE_CHECKING:
    from chasqui.consume.entry_checks import RejectedEntry
    from chasqui.wire.entry_fields import FieldPair
    from chasqui.wire.envelope import Envelope
    from chasqui.wire.stream_entry import StreamEntry

RESERVED_FIELDS = 6
"""Fields of a letter besides those it keeps, and one for what had to be folded."""
FOLDED = b"folded"


def for_rejected_entry(misfit: RejectedEntry) -> list[bytes]:
    """A letter for an entry that never ran: its bytes as they were."""
    entry = stream_entry.decode(misfit.row[1])
    return _encode(misfit.row[0], entry, entry.d or b"", misfit.reason, misfit.detail)


def for_failed_run(
    entry_id: bytes, entry: StreamEntry, job: Envelope, reason: DeadLetterReason, detail: str
) -> list[bytes]:
    """A letter for a job that failed for good: the envelope in canonical form, as it was when it ran."""
    return _encode(entry_id, entry, envelope.encode(job, exact_payload=True), reason, detail)


def error_detail(error: BaseException, most: int) -> str:
    """What went wrong, cut to so many bytes."""
    told = f"{type(error).__name__}: {error}".encode("utf-8", "replace")
    if len(told) <= most:
        return told.decode()
    return told[: most - 3].decode(errors="ignore") + "…"


def _encode(entry_id: bytes, entry: StreamEntry, d: bytes, reason: DeadLetterReason, detail: str | None) -> list[bytes]:
    return dead_letter_entry.encode(
        DeadLetterEntry(
            d,
            entry_id.decode(),
            reason.value,
            detail,
            name_bytes=entry.name_bytes,
            original=_fold_surplus(entry.extra),
        )
    )


def _fold_surplus(fields: tuple[FieldPair, ...]) -> tuple[FieldPair, ...]:
    """A script cannot take more fields than fit its stack: what is too much becomes one."""
    most = MAX_FIELDS - RESERVED_FIELDS
    if len(fields) <= most:
        return fields
    return (*fields[:most], (FOLDED, msgpack_codec.pack([list(pair) for pair in fields[most:]])))
