"""The retry settings of one job or spec: `[max_attempts, [kind, delay, max, multiplier, jitter]]`.

What the numbers lead to is worked out in `chasqui/backoff.py` and `chasqui/attempts.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from chasqui.errors import ArgumentError, WireError
from chasqui.wire.msgpack_codec import U32_MAX, MsgpackMap, Value, non_utf8_bytes
from chasqui.wire.record_layout import (
    NIL,
    RecordLayout,
    as_float,
    as_text,
    as_u32,
    as_u64,
    check_field,
    check_storable,
    decode_field,
    optional,
    type_name,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

BACKOFF_KINDS = ("fixed", "exponential")
UNKNOWN_KIND = "unknown"
_RETRY = RecordLayout("retry", ("max_attempts", "backoff"), min_elements=2, required=0)
_BACKOFF = RecordLayout(
    "backoff", ("kind", "delay_ms", "max_delay_ms", "multiplier", "jitter_ms"), min_elements=5, required=2
)
_U32_OR_NIL, _U64_OR_NIL, _NUMBER_OR_NIL = optional(as_u32), optional(as_u64), optional(as_float)


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
    if backoff.kind not in BACKOFF_KINDS:
        raise ArgumentError(f"unknown backoff kind \"{backoff.kind}\"; expected 'fixed' or 'exponential'")
    return backoff


def to_list(retry: RetryOverride) -> list[Value]:
    """The override as it is stored in an envelope or a spec."""
    backoff = retry.backoff
    most = check_storable("retry.max_attempts", retry.max_attempts, U32_MAX)
    if backoff is None:
        return [most, None]
    fields = [
        backoff.kind,
        check_storable("backoff.delay_ms", backoff.delay_ms),
        check_storable("backoff.max_delay_ms", backoff.max_delay_ms),
        None if backoff.multiplier is None else _float(backoff.multiplier),
        check_storable("backoff.jitter_ms", backoff.jitter_ms),
    ]
    return [most, fields]


def from_list(value: Value) -> RetryOverride | None:
    """The override in a value decoded already, if it has the form we write; nil is none."""
    if value is None:
        return None
    fields = _RETRY.from_list(value)
    backoff = fields["backoff"]
    return _decode_override(fields["max_attempts"], None if backoff is None else _BACKOFF.from_list(backoff))


def from_element(element: bytes) -> RetryOverride | None:
    """The override in these bytes, in any form; nil means none. Unknown parts are not decoded."""
    if element == NIL:
        return None
    fields = _RETRY.from_element(element)
    backoff = fields.get("backoff", NIL)
    return _decode_override(decode_field(fields, "max_attempts"), None if backoff == NIL else _backoff_fields(backoff))


def _float(multiplier: float) -> float:
    try:
        return float(multiplier)
    except (TypeError, ValueError, OverflowError) as fault:
        raise ArgumentError("backoff.multiplier must be a float") from fault


def _backoff_fields(element: bytes) -> dict[str, Value]:
    fields = _BACKOFF.from_element(element)
    return {name: decode_field(fields, name) for name in fields}


def _decode_override(max_attempts: Value, backoff: Mapping[str, Value] | None) -> RetryOverride:
    return RetryOverride(
        check_field("retry max_attempts", _U32_OR_NIL, max_attempts),
        None if backoff is None else _decode_backoff(backoff),
    )


def _decode_backoff(fields: Mapping[str, Value]) -> Backoff:
    return Backoff(
        check_field("backoff kind", _decode_kind, fields["kind"]),
        check_field("backoff delay_ms", as_u64, fields["delay_ms"]),
        check_field("backoff max_delay_ms", _U64_OR_NIL, fields.get("max_delay_ms")),
        check_field("backoff multiplier", _NUMBER_OR_NIL, fields.get("multiplier")),
        check_field("backoff jitter_ms", _U64_OR_NIL, fields.get("jitter_ms")),
    )


def _decode_kind(value: Value) -> str:
    """A kind as text, as the number of its variant, or as a map from either to nil.

    An unknown number, or bytes that are not text, have no name to preserve.
    """
    if isinstance(value, dict | MsgpackMap):
        value = _only_key(value)
    if type(value) is int and value >= 0:
        return BACKOFF_KINDS[value] if value < len(BACKOFF_KINDS) else UNKNOWN_KIND
    return as_text(value) if non_utf8_bytes(value) is None else UNKNOWN_KIND


def _only_key(value: dict[str, Value] | MsgpackMap) -> Value:
    pairs = value.pairs if isinstance(value, MsgpackMap) else tuple(value.items())
    if len(pairs) != 1 or pairs[0][1] is not None:
        raise WireError(f"{type_name(value)} that is not one name with nil", b"")
    return pairs[0][0]
