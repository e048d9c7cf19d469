"""Engine values as records: the JSON shapes that scripts rely on, written once for every verb."""

from __future__ import annotations

import hashlib
import json
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from chasqui_cli.output.json_schema import Nullable, OptionalKey

if TYPE_CHECKING:
    from chasqui import Backoff, DelayedMember, Envelope, Payload, RepeatSpec, RetryOverride
    from chasqui.foreign import ForeignSnapshot
    from chasqui.health import Finding
    from chasqui.inspect.events import Gap, StoredEvent
    from chasqui.inspect.snapshot import Snapshot
    from chasqui.operate.delayed_jobs import DelayedJob
    from chasqui_cli.output.columns import Record


def envelope_record(envelope: Envelope) -> Record:
    """`d` of a stream entry, opened."""
    return {
        "kind": "envelope",
        "id": envelope.id,
        "created_at_ms": envelope.created_at_ms,
        "attempt": envelope.attempt,
        "retry": retry_record(envelope.retry),
        "payload": payload_record(envelope.payload),
        "elements": envelope.elements or None,
    }


def delayed_member_record(member: DelayedMember) -> Record:
    """A member of the delayed set: its prefix, its name and the envelope behind them."""
    record = envelope_record(member.envelope) | {"kind": "delayed", "prefix": member.prefix, "name": member.name}
    if member.name.encode(errors="replace") != member.name_bytes:
        record["name_hex"] = member.name_bytes.hex()
    return record


def retry_record(retry: RetryOverride | None) -> Record | None:
    """A job's own retry rule."""
    if retry is None:
        return None
    return {"max_attempts": retry.max_attempts, "backoff": _backoff(retry.backoff)}


def _backoff(backoff: Backoff | None) -> Record | None:
    if backoff is None:
        return None
    return {
        "kind": backoff.kind,
        "delay_ms": backoff.delay_ms,
        "max_delay_ms": backoff.max_delay_ms,
        "multiplier": backoff.multiplier,
        "jitter_ms": backoff.jitter_ms,
    }


def spec_record(spec: RepeatSpec) -> Record:
    """A repeatable job as stored. When it fires next is the sorted set's to know, so here it is empty."""
    return {
        "kind": "spec",
        "key": spec.key,
        "name": spec.job_name,
        "pattern": _pattern(spec),
        "next_fire_ms": None,
        "limit": spec.limit,
        "fired": spec.fired,
        "start_after_ms": spec.start_after_ms,
        "end_before_ms": spec.end_before_ms,
        "missed_fires": _missed_fires(spec),
        "retry": retry_record(spec.retry),
        "payload": payload_record(spec.payload),
    }


def _pattern(spec: RepeatSpec) -> Record:
    record = {"kind": type(spec.pattern).__name__.lower(), "expression": None, "tz": None, "interval_ms": None}
    return record | {field.name: getattr(spec.pattern, field.name) for field in fields(spec.pattern)}


def _missed_fires(spec: RepeatSpec) -> Record:
    kind = {"Skip": "skip", "FireOnce": "fire-once", "FireAll": "fire-all"}[type(spec.missed_fires).__name__]
    return {"kind": kind} | {field.name: getattr(spec.missed_fires, field.name) for field in fields(spec.missed_fires)}


def payload_record(payload: Payload) -> Record:
    """The user's data with the bytes it came from; if they cannot be read, why.

    `data` is what stands there. Where that is an array of small numbers, as a typed producer may write bytes,
    `spells` is what a handler is given.
    """
    from chasqui.errors import WireError

    record: dict[str, Any] = {"form": payload.form, "hex": payload.raw.hex()}
    try:
        record["data"] = payload.data(len(payload.raw))
    except WireError as error:
        return record | {"data": None, "undecodable": str(error)}
    if payload.form == "inline" and payload.octets is not None:
        record["spells"] = payload.handler_value(len(payload.raw))
    return record


_LOCK_SCHEMA = Nullable({"holder": "str", "ttl_ms": "int?"})
_FOREIGN_ONLY_FIELDS = {
    "namespace": "str?",
    "hidden": "int?",
    "completed": "int?",
    "stale": "int?",
    "parked": "int",
    "listed": "bool?",
}
SNAPSHOT_SCHEMA: dict[str, Any] = {
    "queue": "str",
    "kind": "str",
    "server_time_ms": "int",
    "stream_depth": "int",
    "waiting": "int",
    "pending": "int?",
    "consumers": "int?",
    "dlq_depth": "int?",
    "delayed_depth": "int?",
    "delayed_due": "int?",
    "oldest_delayed_lag_ms": "int?",
    "oldest_waiting_ms": "int",
    "repeatable_count": "int?",
    "repeatable_overdue": "int?",
    "events_depth": "int?",
    "promoter_lock": _LOCK_SCHEMA,
    "scheduler_lock": _LOCK_SCHEMA,
    "groups": [
        {
            "name": "str",
            "consumers": "int",
            "pending": "int",
            "waiting": "int",
            "lag": "int?",
            "last_id": "str",
            "oldest_waiting_id": "str?",
            "oldest_pending_id": "str?",
            "longest_idle_ms": "int",
        }
    ],
    "next_delayed_ms": "int?",
    "next_repeat_ms": "int?",
    "longest_idle_ms": "int?",
    "wrong": [{"key": "str", "found": "str", "expected": "str"}],
    "caps": Nullable({"stream": "int", "dlq": "int", "events": "int"}),
    **{name: OptionalKey(kind) for name, kind in _FOREIGN_ONLY_FIELDS.items()},
}
"""What is null is an idea that the queue's system does not have; what only other systems know comes last."""


def snapshot_record(snapshot: Snapshot | ForeignSnapshot) -> Record:
    """A queue at one moment."""
    from chasqui.inspect.snapshot import Snapshot

    if isinstance(snapshot, Snapshot):
        return {
            name: _as_object(getattr(snapshot, name)) for name in SNAPSHOT_SCHEMA if name not in _FOREIGN_ONLY_FIELDS
        }
    record = {name: _as_object(getattr(snapshot, name, None)) for name in SNAPSHOT_SCHEMA}
    return record | {"groups": []}


def _as_object(value: Any) -> Any:
    """Named tuples as objects, wherever they stand."""
    if hasattr(value, "_asdict"):
        return value._asdict()
    return [_as_object(item) for item in value] if isinstance(value, tuple) else value


FINDING_SCHEMA = {"level": "str", "code": "str", "queue": "str?", "text": "str", "evidence": "any", "mend": "str?"}


def finding_record(finding: Finding) -> Record:
    """Something that is not well."""
    return {
        "level": finding.level.word,
        "code": finding.code,
        "queue": finding.queue,
        "text": finding.text,
        "evidence": finding.evidence,
        "mend": finding.fix,
    }


_EVENT_NUMBERS = ("attempt", "backoff_ms", "delay_ms", "duration_us")
EVENT_SCHEMA = {
    "queue": "str",
    "entry_id": "str",
    "event": "str",
    "id": "str?",
    "name": "str",
    "ts": "int?",
    **{name: OptionalKey("int") for name in _EVENT_NUMBERS},
    "reason": OptionalKey("str"),
    "extra": OptionalKey("any"),
    "from_id": OptionalKey("str"),
    "lost_estimate": OptionalKey("int?"),
}


def event_record(stored: StoredEvent) -> Record:
    """Something that happened; what it does not say is not there."""
    event = stored.event
    record: Record = {
        "queue": stored.queue,
        "entry_id": stored.entry_id,
        "event": event.kind,
        "id": event.job_id,
        "name": event.name,
        "ts": event.ts,
    }
    known = {name: getattr(event, name) for name in (*_EVENT_NUMBERS, "reason")}
    record |= {name: value for name, value in known.items() if value is not None}
    if event.extra:
        record["extra"] = [
            [name.decode("utf-8", "surrogateescape"), value.decode("utf-8", "surrogateescape")]
            for name, value in event.extra
        ]
    return record


def gap_record(gap: Gap) -> Record:
    """Events that were trimmed, in the place where they would stand."""
    return {
        "queue": gap.queue,
        "entry_id": gap.to_id,
        "event": "gap",
        "id": None,
        "name": "",
        "ts": None,
        "reason": gap.why,
        "from_id": gap.from_id,
        "lost_estimate": gap.lost_estimate,
    }


def job_ref(member: DelayedJob) -> str:
    """How a job is named on the command line: its id, or a digest of bytes that are not a job."""
    return job_id(member) or "~" + hashlib.sha256(member.member).hexdigest()[:12]


def body_value(body: bytes | None) -> Any:
    """The content of a body: its JSON value, else its text, else its bytes."""
    if body is None:
        return None
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return body
    try:
        return json.loads(text) if text[:1] in '{["' else text
    except (ValueError, RecursionError):
        return text


def job_id(member: DelayedJob) -> str | None:
    """The job's id; None for bytes that are not a job."""
    return getattr(member.job, "id", None)
