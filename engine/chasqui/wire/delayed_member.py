"""A member of the delayed set: the name's length, the name, the envelope; the score is the due time.

We write the four-byte length the released engine reads and read also the one-byte length of its public
pages and bare envelopes. `docs/wire.md` explains why; scores and commands are not known here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from chasqui.defaults import ProducerOptions
from chasqui.errors import ArgumentError, WireError
from chasqui.wire import envelope
from chasqui.wire.msgpack_codec import MAX_PAYLOAD, Undecodable
from chasqui.wire.stream_entry import MAX_NAME_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator

NamePrefix = Literal["u32le", "u8", "none"]
_MAX_U8_NAME = 255


@dataclass(frozen=True, slots=True)
class DelayedMember:
    """A parked job. `name` is for showing (odd bytes replaced); `name_bytes` is the name."""

    name: str
    name_bytes: bytes
    prefix: NamePrefix
    envelope_bytes: bytes
    envelope: envelope.Envelope


def encode(envelope_bytes: bytes, name: str | bytes = "", form: Literal["u32le", "u8"] = "u32le") -> bytes:
    """The member's bytes. Only "u32le" survives the released engine's promoter."""
    raw = name.encode() if isinstance(name, str) else name
    if form == "u32le":
        return len(raw).to_bytes(4, "little") + raw + envelope_bytes
    if len(raw) > _MAX_U8_NAME:
        raise ArgumentError(f"a one-byte prefix holds names to {_MAX_U8_NAME} bytes (got {len(raw)} bytes)")
    return len(raw).to_bytes(1, "little") + raw + envelope_bytes


def decode(member: bytes, limit: int = MAX_PAYLOAD) -> DelayedMember:
    """The parked job in these bytes: the first reading whose envelope decodes.

    Behind a four-byte length bytes may follow the envelope, as the reference has it. The other readings are
    guesses: one that leaves no bytes is the better, or a payload that holds an envelope would make the job
    around it a name. `server/lua/promote.lua` must choose alike.
    """
    faults, with_trailing = [], None
    for prefix, name, body in _candidate_splits(member):
        try:
            job = envelope.decode(body, limit)
        except WireError as fault:
            faults.append(f"{prefix}: {fault}")
            continue
        found = DelayedMember(name.decode("utf-8", "replace"), name, prefix, body, job)
        if prefix == "u32le" or not job.trailing:
            return found
        with_trailing = with_trailing or found
    if with_trailing:
        return with_trailing
    raise WireError(f"delayed member has no readable form ({'; '.join(faults)})", member)


def decode_or_undecodable(member: bytes) -> DelayedMember | Undecodable:
    """The parked job in these bytes, of any length, or why it cannot be read."""
    try:
        return decode(member, len(member))
    except WireError as fault:
        return Undecodable(member, str(fault))


def job_stamp(member: bytes) -> envelope.JobStamp | None:
    """Which job the member holds; None if it cannot be read."""
    found = decode_or_undecodable(member)
    return (
        None if isinstance(found, Undecodable) else envelope.JobStamp(found.envelope.id, found.envelope.created_at_ms)
    )


def check_delay(delay_ms: int, max_delay_s: int = ProducerOptions().max_delay_s) -> int:
    """A producer's delay. Bounded in whole seconds, as the reference bounds it; 0 bounds nothing."""
    if delay_ms < 0:
        raise ArgumentError(f"delay_ms must be non-negative; got {delay_ms}")
    seconds = delay_ms // 1000
    if max_delay_s and seconds > max_delay_s:
        raise ArgumentError(
            f"delay {seconds}s exceeds max_delay_secs {max_delay_s}s",
            hint="a longer one has to be allowed: max_delay_secs, or --max-delay on the command line",
        )
    return delay_ms


def _candidate_splits(member: bytes) -> Iterator[tuple[NamePrefix, bytes, bytes]]:
    """Every way to split the member, likeliest first.

    A four-byte length beyond the cap comes last: only specs, whose names have no cap, lead to one, and an
    old one-byte member must not be taken for it.
    """
    wide = int.from_bytes(member[:4], "little")
    fits = len(member) >= 4 + wide
    if fits and wide <= MAX_NAME_BYTES:
        yield "u32le", member[4 : 4 + wide], member[4 + wide :]
    if member and len(member) > member[0]:
        yield "u8", member[1 : 1 + member[0]], member[1 + member[0] :]
    yield "none", b"", member
    if fits and wide > MAX_NAME_BYTES:
        yield "u32le", member[4 : 4 + wide], member[4 + wide :]
