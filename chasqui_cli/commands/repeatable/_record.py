"""Schedules as records: their shape, their columns, their patterns in words and their fires in local time."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from chasqui_cli.output.columns import Column, column
from chasqui_cli.output.job_text import record_pattern_text
from chasqui_cli.output.json_schema import OptionalKey
from chasqui_cli.output.records import spec_record
from chasqui_cli.output.times import format_duration, format_iso

if TYPE_CHECKING:
    from chasqui import RepeatSpec
    from chasqui.schedule.repeatable import ListedSpec
    from chasqui.undo.changed_schedules import RawSpec
    from chasqui_cli.output.columns import Record

SCHEDULE_SCHEMA = {
    "key": "str",
    "name": "str?",
    "pattern": {"kind": "str?", "expression": "str?", "tz": "str?", "interval_ms": "int?"},
    "next_fire_ms": "int",
    "limit": "int?",
    "fired": "int",
    "start_after_ms": "int?",
    "end_before_ms": "int?",
    "missed_fires": {"kind": "str?", "max_catchup": OptionalKey("int")},
    "overdue_ms": OptionalKey("int"),
    "undecodable": OptionalKey("str"),
}
CHANGE_SCHEMA = SCHEDULE_SCHEMA | {"outcome": "str"}
FIRE_SCHEMA = {"n": "int", "fire_ms": "int", "local": "str", "tz": "str", "note": "str?"}
OVERDUE_AFTER_MS = 5000
"""A scheduler ticks every second, and may be busy: what is later than this is overdue."""


def schedule_record(found: ListedSpec, now_ms: int) -> Record:
    """A stored schedule, with the error if it cannot be decoded, and how late it is."""
    from chasqui import Undecodable

    if isinstance(found.spec, Undecodable):
        nothing: Record = dict.fromkeys(name for name in SCHEDULE_SCHEMA if name not in ("overdue_ms", "undecodable"))
        record = nothing | {
            "key": found.key,
            "pattern": {"kind": None, "expression": None, "tz": None, "interval_ms": None},
            "next_fire_ms": found.next_ms,
            "fired": found.fired,
            "missed_fires": {"kind": None},
            "undecodable": found.spec.reason,
        }
    else:
        fields = spec_record(found.spec) | {"key": found.key, "next_fire_ms": found.next_ms, "fired": found.fired}
        record = {name: fields[name] for name in SCHEDULE_SCHEMA if name in fields}
    late_ms = now_ms - found.next_ms
    return record | ({"overdue_ms": late_ms} if late_ms > OVERDUE_AFTER_MS else {})


def planned_record(spec: RepeatSpec, next_ms: int, before: RawSpec) -> Record:
    """A schedule that is about to be stored."""
    fired = int(before.fired) if before.fired and before.fired.isdigit() else 0
    fields = spec_record(spec) | {"next_fire_ms": next_ms, "fired": fired}
    return {name: fields[name] for name in SCHEDULE_SCHEMA if name in fields}


def state_text(record: Record) -> str:
    """A word for how it is."""
    if "undecodable" in record:
        return f"unreadable: {record['undecodable']}"
    return f"OVERDUE {format_duration(record['overdue_ms'])}" if "overdue_ms" in record else "ok"


def fire_records(pattern: Any, times: Iterator[int]) -> Iterator[Record]:
    """Fires as the clocks of their zone show them, with what is odd about them."""
    from datetime import UTC

    from chasqui import cron
    from chasqui.cron import dst_notes

    expression = getattr(pattern, "expression", None)
    schedule = None if expression is None else cron.parse_cron(expression, pattern.tz)
    before: int | None = None
    for number, at_ms in enumerate(times, 1):
        yield {
            "n": number,
            "fire_ms": at_ms,
            "local": dst_notes.local_time_text(at_ms, schedule.zone if schedule else UTC),
            "tz": (schedule and schedule.tz) or "UTC",
            "note": dst_notes.dst_remark(schedule, at_ms, before) if schedule else None,
        }
        before = at_ms


def next_fires_text(spec: RepeatSpec, next_ms: int) -> list[str]:
    """The next three fires, in a sentence."""
    from chasqui.schedule import fire_times

    times = fire_times.upcoming_fires(spec.pattern, next_ms, 3, end_before_ms=spec.end_before_ms)
    fires = [one["local"] + (f" ({one['note']})" if one["note"] else "") for one in fire_records(spec.pattern, times)]
    return ["next: " + "; ".join(islice(fires, spec.limit or 3))]


def replaced_text(key: str, before: RawSpec, now_ms: int) -> list[str]:
    """What is replaced, in words."""
    from chasqui.schedule import repeatable

    if not before.exists:
        return []
    record = schedule_record(repeatable.decode_raw_spec(key, before), now_ms)
    return [
        f"instead of: {record_pattern_text(record)}, next {format_iso(record['next_fire_ms'])}, fired {record['fired']:,} times"
    ]


COLUMNS: list[Column] = [
    column("key"),
    column("name"),
    Column("when", record_pattern_text),
    column("next", "next_fire_ms", kind="moment"),
    column("fired", kind="count"),
    column("limit", kind="count"),
    Column("state", state_text),
    Column("missed", lambda record: record["missed_fires"]["kind"], wide=True),
    column("starts", "start_after_ms", kind="moment", wide=True),
    column("ends", "end_before_ms", kind="moment", wide=True),
]
CHANGE_COLUMNS = [*COLUMNS[:4], column("outcome")]
FIRE_COLUMNS = [column("n", align="right"), column("fires", "fire_ms", kind="moment"), column("local"), column("note")]
RUN_COLUMNS = [column("id"), column("entry", "entry_id")]
DRY_RUN_COLUMNS = [column("queue"), column("outcome")]
