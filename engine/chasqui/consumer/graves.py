"""The dead letters a worker writes: every byte of the entry kept, and why it died.

Fields of a letter are `wire/dead_entry.py`'s; when a job is dead is decided elsewhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chasqui.server.commands import MAX_FIELDS
from chasqui.wire import dead_entry, envelope, packed, stream_entry
from chasqui.wire.dead_entry import DeadEntry, Reason

if TYPE_CHECKING:
    from chasqui.consumer.arrivals import Misfit
    from chasqui.wire.envelope import Envelope
    from chasqui.wire.fields import Pair
    from chasqui.wire.stream_entry import StreamEntry

OWN_FIELDS = 6
"""Fields of a letter besides those it keeps, and one for what had to be folded."""
FOLDED = b"folded"


def on_arrival(misfit: Misfit) -> list[bytes]:
    """A letter for an entry that never ran: its bytes as they were."""
    entry = stream_entry.decode(misfit.row[1])
    return _letter(misfit.row[0], entry, entry.d or b"", misfit.reason, misfit.detail)


def after_a_run(
    entry_id: bytes, entry: StreamEntry, job: Envelope, reason: Reason, detail: str
) -> list[bytes]:
    """A letter for a job that failed for good: the envelope in canonical form, as it was when it ran."""
    return _letter(entry_id, entry, envelope.encode(job, exact_payload=True), reason, detail)


def detail(error: BaseException, most: int) -> str:
    """What went wrong, cut to so many bytes."""
    told = f"{type(error).__name__}: {error}".encode("utf-8", "replace")
    if len(told) <= most:
        return told.decode()
    return told[: most - 3].decode(errors="ignore") + "…"


def _letter(entry_id: bytes, entry: StreamEntry, d: bytes, reason: Reason, detail: str | None) -> list[bytes]:
    return dead_entry.encode(
        DeadEntry(
            d,
            entry_id.decode(),
            reason.value,
            detail,
            name_bytes=entry.name_bytes,
            original=_kept(entry.extra),
        )
    )


def _kept(fields: tuple[Pair, ...]) -> tuple[Pair, ...]:
    """A script cannot take more fields than fit its stack: what is too much becomes one."""
    most = MAX_FIELDS - OWN_FIELDS
    if len(fields) <= most:
        return fields
    return (*fields[:most], (FOLDED, packed.pack([list(pair) for pair in fields[most:]])))
