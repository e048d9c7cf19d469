"""An entry of the stream of dead letters: `d [n] source_id reason [detail]`, and further fields, which are preserved.

The envelope in `d` may be unreadable, that is often why it is here; `envelope.py` tries.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from chasqui.wire.entry_fields import EntryFields, FieldPair, flatten
from chasqui.wire.stream_entry import decode_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

NO_PAYLOAD_DETAIL = "missing or non-bytes payload field"
_ORIGINAL = b"orig:"


class DeadLetterReason(StrEnum):
    """Why a job died. `STALLED` is what newer releases of the reference write; `CRASHED` is ours."""

    RETRIES_EXHAUSTED = "retries_exhausted"
    UNRECOVERABLE = "unrecoverable"
    DECODE_FAILED = "decode_failed"
    MALFORMED = "malformed"
    OVERSIZE_PAYLOAD = "oversize_payload"
    STALLED = "stalled"
    CRASHED = "crashed"


@dataclass(frozen=True, slots=True)
class DeadLetterEntry:
    """A dead letter. `reason` is text, since others may know reasons we do not.

    original: the other fields of the stream entry it was, which the reference drops. extra: fields of
    other programs, or that could not be read.
    """

    d: bytes
    source_id: str
    reason: str
    detail: str | None = None
    name: str = ""
    name_bytes: bytes = b""
    original: tuple[FieldPair, ...] = ()
    extra: tuple[FieldPair, ...] = ()


def encode(entry: DeadLetterEntry) -> list[bytes]:
    """The words after the entry id in an XADD: the reference's fields in its order, then ours.

    Fields of the original entry are kept under `orig:<field>`, so none can be taken for a field of the dead letter.
    """
    name = entry.name_bytes or entry.name.encode()
    pairs: list[FieldPair] = [(b"d", entry.d)]
    if name:
        pairs.append((b"n", name))
    pairs += [(b"source_id", entry.source_id.encode()), (b"reason", entry.reason.encode())]
    if entry.detail is not None:
        pairs.append((b"detail", entry.detail.encode("utf-8", "replace")))
    pairs += [(_ORIGINAL + field, value) for field, value in entry.original]
    return flatten([*pairs, *entry.extra])


def decode(flat: Sequence[bytes]) -> DeadLetterEntry:
    """The dead letter in the fields as Redis sent them; what is missing is empty."""
    fields = EntryFields(flat)
    name = fields.raw(b"n") or b""
    return DeadLetterEntry(
        d=fields.raw(b"d") or b"",
        source_id=fields.text(b"source_id") or "",
        reason=fields.text(b"reason") or "",
        detail=fields.text(b"detail"),
        name=decode_name(name),
        name_bytes=name,
        original=_original_fields(fields.rest),
        extra=tuple(pair for pair in fields.rest if not pair[0].startswith(_ORIGINAL)),
    )


def _original_fields(pairs: Iterable[FieldPair]) -> tuple[FieldPair, ...]:
    return tuple((name[len(_ORIGINAL) :], value) for name, value in pairs if name.startswith(_ORIGINAL))
