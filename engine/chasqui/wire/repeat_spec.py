"""A repeatable job as stored: an array of key, name, pattern, payload, bounds and what to do with missed fires.

The hash field `spec` holds these bytes. `chasqui/cron/` computes when a pattern fires next.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from chasqui.errors import ArgumentError, WireError
from chasqui.wire import msgpack_codec, retry_override
from chasqui.wire.msgpack_codec import MAX_PAYLOAD, U32_MAX, U64_MAX, Undecodable, Value, unpack
from chasqui.wire.msgpack_scan import end_of, split_value
from chasqui.wire.payload import Payload, from_element
from chasqui.wire.record_layout import (
    NIL,
    ZERO,
    RecordLayout,
    as_text,
    as_u64,
    check_field,
    check_storable,
    decode_field,
    optional,
    type_name,
)

if TYPE_CHECKING:
    from chasqui.wire.retry_override import RetryOverride

_SPEC = RecordLayout(
    "spec",
    (
        "key", "job_name", "pattern", "payload", "limit", "start_after_ms", "end_before_ms",
        "fired", "missed_fires", "retry",
    ),
    min_elements=7,
    required=4,
)  # fmt: skip
_EVERY = RecordLayout("every", ("interval_ms",), min_elements=1, required=1)
_CRON = RecordLayout("cron", ("expression", "tz"), min_elements=2, required=1)
_FIRE_ALL = RecordLayout("fire-all", ("max_catchup",), min_elements=1, required=1)


@dataclass(frozen=True, slots=True)
class Every:
    """Fires each time this long has passed."""

    interval_ms: int


@dataclass(frozen=True, slots=True)
class Cron:
    """Fires by the calendar; no zone means UTC. Both texts are kept unchanged."""

    expression: str
    tz: str | None = None


@dataclass(frozen=True, slots=True)
class Skip:
    """Missed fires are gone."""


@dataclass(frozen=True, slots=True)
class FireOnce:
    """However many were missed, one is made up for."""


@dataclass(frozen=True, slots=True)
class FireAll:
    """Missed fires are made up for, to this many."""

    max_catchup: int


Pattern = Every | Cron
MissedFires = Skip | FireOnce | FireAll


@dataclass(frozen=True, slots=True)
class RepeatSpec:
    """A repeatable job. A `limit` of 0 or None means unlimited; `retry` is known to newer engines only.

    `payload` is that of each job it makes. `fired` is a relic: the live count is a field of the hash.
    """

    key: str
    job_name: str
    pattern: Pattern
    payload: Payload
    limit: int | None = None
    start_after_ms: int | None = None
    end_before_ms: int | None = None
    missed_fires: MissedFires = Skip()
    fired: int = 0
    retry: RetryOverride | None = None


def default_key(job_name: str, pattern: Pattern) -> str:
    """The key of a spec that was given none: its name and pattern, verbatim."""
    if isinstance(pattern, Every):
        return f"{job_name}::every:{pattern.interval_ms}"
    zone = "UTC" if pattern.tz is None else pattern.tz
    return f"{job_name}::cron:{pattern.expression}:{zone}"


def check(spec: RepeatSpec) -> RepeatSpec:
    """A producer's spec; stored ones are read whatever they say."""
    if isinstance(spec.pattern, Every) and not check_storable("pattern.interval_ms", spec.pattern.interval_ms):
        raise ArgumentError("pattern.interval_ms must be > 0")
    if isinstance(spec.missed_fires, FireAll):
        got = spec.missed_fires.max_catchup
        if not check_storable("missed_fires.max_catchup", got, U32_MAX):
            raise ArgumentError(f"missed_fires.max_catchup must be a positive integer (>= 1), got {got}")
    for name in ("limit", "start_after_ms", "end_before_ms"):
        check_storable(f"spec.{name}", getattr(spec, name))
    return spec


def encode(spec: RepeatSpec) -> bytes:
    """Canonical bytes: 8 elements; 9 unless missed fires are skipped; 10 only with a retry, which released
    schedulers drop together with the spec.
    """
    elements = [
        spec.key,
        spec.job_name,
        _pattern_value(spec.pattern),
        spec.payload.to_element(),
        spec.limit,
        spec.start_after_ms,
        spec.end_before_ms,
        spec.fired,
    ]
    if spec.retry is not None or spec.missed_fires != Skip():
        elements.append(_missed_fires_value(spec.missed_fires))
    if spec.retry is not None:
        elements.append(retry_override.to_list(spec.retry))
    return msgpack_codec.pack(elements)


def decode(data: bytes, limit: int = MAX_PAYLOAD) -> RepeatSpec:
    """The spec in these bytes: an array of 7 to 10 elements, or a map."""
    if len(data) > limit:
        raise WireError(f"spec of {len(data)} bytes, over the limit of {limit}", data)
    try:
        return _decode_fields(_SPEC.from_parts(split_value(data)))
    except WireError as fault:
        raise WireError(str(fault), data) from fault


def decode_or_undecodable(data: bytes) -> RepeatSpec | Undecodable:
    """The spec in these bytes, of any length, or why it cannot be read."""
    try:
        return decode(data, len(data))
    except WireError as fault:
        return Undecodable(data, str(fault))


def _decode_fields(fields: dict[str, bytes]) -> RepeatSpec:
    def count(name: str) -> int | None:
        return check_field(f"spec {name}", optional(as_u64), decode_field(fields, name))

    return RepeatSpec(
        key=check_field("spec key", as_text, decode_field(fields, "key")),
        job_name=check_field("spec job_name", as_text, decode_field(fields, "job_name")),
        pattern=_decode_pattern(fields["pattern"]),
        payload=_decode_payload(fields["payload"]),
        limit=count("limit"),
        start_after_ms=count("start_after_ms"),
        end_before_ms=count("end_before_ms"),
        missed_fires=_decode_missed_fires(fields["missed_fires"]) if "missed_fires" in fields else Skip(),
        fired=check_field("spec fired", as_u64, decode_field(fields, "fired", ZERO)),
        retry=retry_override.from_element(fields.get("retry", NIL)),
    )


def _decode_payload(element: bytes) -> Payload:
    """The spec wraps a whole payload element once more: in a bin, or in what the reference takes for one."""
    wrapped = from_element(element).octets
    if wrapped is None:
        raise WireError("spec payload is not wrapped in a bin", element)
    return check_field("spec payload", _first_element, wrapped)


def _first_element(wrapped: bytes) -> Payload:
    # Behind bytes it can fire the reference passes over the rest; behind anything else a rest means that
    # this is not a payload.
    first = from_element(wrapped[: end_of(wrapped)])
    return first if first.octets is not None else from_element(wrapped)


def _decode_pattern(element: bytes) -> Pattern:
    variant, content = _decode_variant("pattern", element, ("Every", "Cron"))
    if variant == "Every":
        return Every(
            check_field("every interval_ms", as_u64, decode_field(_EVERY.from_element(content), "interval_ms"))
        )
    if variant == "Cron":
        fields = _CRON.from_element(content)
        return Cron(
            check_field("cron expression", as_text, decode_field(fields, "expression")),
            check_field("cron tz", optional(as_text), decode_field(fields, "tz")),
        )
    raise WireError("spec pattern is none we know", b"")


def _decode_missed_fires(element: bytes) -> MissedFires:
    variant, content = _decode_variant("missed_fires", element, ("Skip", "FireOnce", "FireAll"))
    if variant in ("Skip", "FireOnce") and unpack(content, U64_MAX) in (None, []):
        return Skip() if variant == "Skip" else FireOnce()
    if variant == "FireAll":
        fields = _FIRE_ALL.from_element(content)
        return FireAll(check_field("fire-all max_catchup", as_u64, decode_field(fields, "max_catchup")))
    raise WireError("spec missed_fires is none we know", b"")


def _decode_variant(what: str, element: bytes, names: tuple[str, ...]) -> tuple[str, bytes]:
    """A variant's name and content: a name alone, or a map of one; a number counts the names from 0."""
    found = split_value(element)
    name, content = found.children if found.kind == "map" and len(found.children) == 2 else (element, NIL)
    variant = unpack(name, U64_MAX)
    if type(variant) is int and 0 <= variant < len(names):
        return names[variant], content
    if isinstance(variant, str | bytes):
        return check_field(f"spec {what}", as_text, variant), content
    raise WireError(f"spec {what} is {type_name(variant)}, not one named variant", b"")


def _pattern_value(pattern: Pattern) -> Value:
    if isinstance(pattern, Every):
        return {"Every": [pattern.interval_ms]}
    return {"Cron": [pattern.expression, pattern.tz]}


def _missed_fires_value(policy: MissedFires) -> Value:
    if isinstance(policy, FireAll):
        return {"FireAll": [policy.max_catchup]}
    return type(policy).__name__
