"""Delayed jobs and the histogram of their due times as records: shapes, columns, words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chasqui_cli.output.columns import Column, column
from chasqui_cli.output.json_schema import Nullable, OptionalKey
from chasqui_cli.output.records import job_ref, retry_record
from chasqui_cli.output.times import format_iso

if TYPE_CHECKING:
    from chasqui.operate.delayed_jobs import DelayedJob, Histogram
    from chasqui_cli.context.command_context import CommandContext
    from chasqui_cli.output.columns import Record

BACKOFF_SCHEMA = Nullable(
    {"kind": "str", "delay_ms": "int", "max_delay_ms": "int?", "multiplier": "float?", "jitter_ms": "int?"}
)
DELAYED_SCHEMA = {
    "queue": "str",
    "ref": "str",
    "id": "str?",
    "name": "str",
    "run_at_ms": "int",
    "attempt": "int?",
    "created_at_ms": "int?",
    "data": "any",
    "retry": Nullable({"max_attempts": "int?", "backoff": BACKOFF_SCHEMA}),
    "member_bytes": "int",
    "undecodable": "str?",
    "hex": OptionalKey("str"),
}
CHANGE_SCHEMA = DELAYED_SCHEMA | {"outcome": "str", "entry_id": OptionalKey("str?"), "moved_to_ms": OptionalKey("int")}
BUCKET_SCHEMA = {"queue": "str", "from_ms": "int?", "to_ms": "int?", "jobs": "int"}
COLUMNS: list[Column] = [
    column("id", "ref"),
    column("name"),
    column("due", "run_at_ms", kind="moment"),
    column("attempt", kind="attempt"),
    column("created", "created_at_ms", kind="moment", wide=True),
    column("size", "member_bytes", kind="bytes", wide=True),
    column("data"),
    column("undecodable"),
]
CHANGE_COLUMNS = [column("id", "ref"), column("name"), column("due", "run_at_ms", kind="moment"), column("outcome")]


def delayed_job_record(ctx: CommandContext, queue: str, member: DelayedJob) -> Record:
    """A delayed job, secrets redacted; bytes that are not a job are shown as hex."""
    from chasqui import Undecodable

    job = member.job
    record = {
        "queue": queue,
        "ref": job_ref(member),
        "id": None,
        "name": member.name,
        "run_at_ms": member.run_at_ms,
        "attempt": None,
        "created_at_ms": None,
        "data": None,
        "retry": None,
        "member_bytes": len(member.member),
        "undecodable": None,
    }
    if isinstance(job, Undecodable):
        return record | {"undecodable": job.reason, "hex": member.member.hex()}
    data = job.payload.data_or_bytes()
    if isinstance(data, Undecodable):
        record |= {"undecodable": data.reason, "hex": job.payload.raw.hex()}
    else:
        record["data"] = ctx.redacted(data)
    return record | {
        "id": job.id,
        "attempt": job.attempt,
        "created_at_ms": job.created_at_ms,
        "retry": retry_record(job.retry),
    }


def bucket_records(queue: str, found: Histogram) -> list[Record]:
    """The buckets, and what lies before and after them, if anything does."""
    rows: list[tuple[int | None, int | None, int]] = [(b.from_ms, b.to_ms, b.jobs) for b in found.buckets]
    if found.overdue:
        rows.insert(0, (None, found.now_ms, found.overdue))
    if found.later:
        rows.append((found.buckets[-1].to_ms if found.buckets else found.now_ms, None, found.later))
    return [{"queue": queue, "from_ms": a, "to_ms": b, "jobs": jobs} for a, b, jobs in rows]


def bucket_label(record: Record) -> str:
    """A bucket's times."""
    if record["from_ms"] is None:
        return "overdue"
    if record["to_ms"] is None:
        return f"from {format_iso(record['from_ms'])[:16].replace('T', ' ')} on"
    return time_range(record["from_ms"], record["to_ms"])


def time_range(from_ms: int, to_ms: int) -> str:
    """`2026-11-18 09:00–09:05`; whole days by their dates, and seconds where they matter."""
    day = 86_400_000
    first, last = format_iso(from_ms), format_iso(to_ms)
    if from_ms % day == 0 and to_ms % day == 0:
        return first[:10] if to_ms - from_ms == day else f"{first[:10]}–{format_iso(to_ms - day)[:10]}"
    end = 16 if from_ms % 60_000 == 0 and to_ms % 60_000 == 0 else 19
    until = last[11:end] if from_ms // day == (to_ms - 1) // day else last[:end].replace("T", " ")
    return f"{first[:end].replace('T', ' ')}–{until}"
