"""The dead letters a worker writes: every byte of the entry, and the reason.

The fields of a dead letter are defined in `wire/dead_letter_entry.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chasqui.consume.held_entries import FIELDS, ID
from chasqui.server.commands import MAX_FIELDS
from chasqui.wire import dead_letter_entry, envelope, msgpack_codec, stream_entry
from chasqui.wire.dead_letter_entry import DeadLetterEntry

if TYPE_CHECKING:
    from chasqui.consume.dead_letter_reasons import ReasonAndDetail
    from chasqui.consume.entry_checks import RejectedEntry
    from chasqui.wire.entry_fields import FieldPair
    from chasqui.wire.envelope import Envelope
    from chasqui.wire.stream_entry import StreamEntry

RESERVED_FIELDS = 6
"""Fields of a dead letter other than those of the entry, and one for what had to be folded."""
FOLDED = b"folded"


def for_rejected_entry(rejected: RejectedEntry) -> list[bytes]:
    """The fields of the dead letter for an entry that never ran, with its original bytes."""
    entry = stream_entry.decode(rejected.row[FIELDS])
    return _encode(rejected.row[ID], entry, entry.d or b"", (rejected.reason, rejected.detail))


def for_failed_run(entry_id: bytes, entry: StreamEntry, job: Envelope, why: ReasonAndDetail) -> list[bytes]:
    """The fields of the dead letter for a job that failed finally, with its envelope in canonical form."""
    return _encode(entry_id, entry, envelope.encode(job, exact_payload=True), why)


def _encode(entry_id: bytes, entry: StreamEntry, d: bytes, why: ReasonAndDetail) -> list[bytes]:
    reason, detail = why
    return dead_letter_entry.encode(
        DeadLetterEntry(
            d, entry_id.decode(), reason.value, detail, name_bytes=entry.name_bytes, original=_fold_surplus(entry.extra)
        )
    )


def _fold_surplus(fields: tuple[FieldPair, ...]) -> tuple[FieldPair, ...]:
    """A script takes only as many fields as fit its stack: the fields beyond that become one."""
    most = MAX_FIELDS - RESERVED_FIELDS
    if len(fields) <= most:
        return fields
    return (*fields[:most], (FOLDED, msgpack_codec.pack([list(pair) for pair in fields[most:]])))
