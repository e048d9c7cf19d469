"""What a job or a spec says about its own retries: `[max_attempts, [kind, delay, max, multiplier, jitter]]`.

What the numbers lead to is worked out in `chasqui/backoff.py` and `chasqui/attempts.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from chasqui.errors import ArgumentError, WireError
from chasqui.wire.packed import U32_MAX, Pairs, Value, stray_bytes
from chasqui.wire.record import (
    NIL,
    Shape,
    checked,
    decoded,
    kind_of,
    number,
    optional,
    storable,
    text,
    u32,
    u64,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

KINDS = ("fixed", "exponential")
UNKNOWN = "unknown"
_RETRY = Shape("retry", ("max_attempts", "backoff"), shortest=2, required=0)
_BACKOFF = Shape(
    "backoff", ("kind", "delay_ms", "max_delay_ms", "multiplier", "jitter_ms"), shortest=5, required=2
)
_U32_OR_NIL, _U64_OR_NIL, _NUMBER_OR_NIL = optional(u32), optional(u64), optional(number)


@dataclass(frozen=True, slots=True)
class Backoff:
    """How long to wait before the next attempt; a None is the queue's default. Any kind but fixed grows."""

    kind: str
    delay_ms: int
    max_delay_ms: int | None = None
    multiplier: float | None = None
    jitter_ms: int | None = None


@dataclass(frozen=True, slots=True)
class RetryOverride:
    """What this job does differently from its queue; a None is the queue's default."""

    max_attempts: int | None = None
    backoff: Backoff | None = None


def check_backoff(backoff: Backoff) -> Backoff:
    """A producer's backoff: only kinds that every consumer knows."""
    if backoff.kind not in KINDS:
        raise ArgumentError(f"unknown backoff kind \"{backoff.kind}\"; expected 'fixed' or 'exponential'")
    return backoff


def to_list(retry: RetryOverride) -> list[Value]:
    """The override as it stands in an envelope or a spec."""
    backoff = retry.backoff
    most = storable("retry.max_attempts", retry.max_attempts, U32_MAX)
    if backoff is None:
        return [most, None]
    fields = [
        backoff.kind,
        storable("backoff.delay_ms", backoff.delay_ms),
        storable("backoff.max_delay_ms", backoff.max_delay_ms),
        None if backoff.multiplier is None else _float(backoff.multiplier),
        storable("backoff.jitter_ms", backoff.jitter_ms),
    ]
    return [most, fields]


def from_list(value: Value) -> RetryOverride | None:
    """The override in a value decoded already, if it has the form we write; nil is none."""
    if value is None:
        return None
    fields = _RETRY.of_list(value)
    backoff = fields["backoff"]
    return _override(fields["max_attempts"], None if backoff is None else _BACKOFF.of_list(backoff))


def from_element(element: bytes) -> RetryOverride | None:
    """The override in these bytes, in any form; nil is none. What nobody knows is not decoded."""
    if element == NIL:
        return None
    fields = _RETRY.of_element(element)
    backoff = fields.get("backoff", NIL)
    return _override(decoded(fields, "max_attempts"), None if backoff == NIL else _decoded_backoff(backoff))


def _float(multiplier: float) -> float:
    try:
        return float(multiplier)
    except (TypeError, ValueError, OverflowError) as fault:
        raise ArgumentError("backoff.multiplier must be a float") from fault


def _decoded_backoff(element: bytes) -> dict[str, Value]:
    fields = _BACKOFF.of_element(element)
    return {name: decoded(fields, name) for name in fields}


def _override(max_attempts: Value, backoff: Mapping[str, Value] | None) -> RetryOverride:
    return RetryOverride(
        checked("retry max_attempts", _U32_OR_NIL, max_attempts),
        None if backoff is None else _backoff(backoff),
    )


def _backoff(fields: Mapping[str, Value]) -> Backoff:
    return Backoff(
        checked("backoff kind", _kind, fields["kind"]),
        checked("backoff delay_ms", u64, fields["delay_ms"]),
        checked("backoff max_delay_ms", _U64_OR_NIL, fields.get("max_delay_ms")),
        checked("backoff multiplier", _NUMBER_OR_NIL, fields.get("multiplier")),
        checked("backoff jitter_ms", _U64_OR_NIL, fields.get("jitter_ms")),
    )


def _kind(value: Value) -> str:
    """A kind as text, as the number of its variant, or as a map from either to nil.

    A number beyond the known ones and bytes that are no text have no name to keep.
    """
    if isinstance(value, dict | Pairs):
        value = _only_key(value)
    if type(value) is int and value >= 0:
        return KINDS[value] if value < len(KINDS) else UNKNOWN
    return text(value) if stray_bytes(value) is None else UNKNOWN


def _only_key(value: dict[str, Value] | Pairs) -> Value:
    pairs = value.pairs if isinstance(value, Pairs) else tuple(value.items())
    if len(pairs) != 1 or pairs[0][1] is not None:
        raise WireError(f"{kind_of(value)} that is not one name with nil", b"")
    return pairs[0][0]
