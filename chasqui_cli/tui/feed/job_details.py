"""Jobs and dead letters opened for people: a line for a table, or all there is to say. Secrets are hidden here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chasqui import Undecodable
from chasqui.errors import WireError
from chasqui_cli.output.records import retry_record
from chasqui_cli.output.redaction import redacted
from chasqui_cli.output.tagged_json import json_text
from chasqui_cli.output.times import format_iso
from chasqui_cli.tui.views import JobRow

if TYPE_CHECKING:
    from chasqui import Envelope

PREVIEW_BYTES = 4096
"""Larger payloads are not opened for a line in a table."""
PREVIEW_CHARS = 120
DETAIL_BYTES = 65_536


def job_row(key: str, job: Envelope | Undecodable, name: str, due_ms: int | None, raw: Any, ref: str = "") -> JobRow:
    """A job, opened as far as a table needs it. ref: what to call it when it has no id."""
    if isinstance(job, Undecodable):
        return JobRow(key, ref, name, None, None, due_ms, len(job.raw), f"unreadable: {job.reason}", raw)
    return JobRow(
        key=key,
        job_id=job.id,
        name=name,
        attempt=job.attempt,
        created_ms=job.created_at_ms,
        due_ms=due_ms,
        size=len(job.payload.raw),
        preview=preview(job),
        raw=raw,
    )


def preview(job: Envelope) -> str:
    """What a job carries, in a line."""
    if len(job.payload.raw) > PREVIEW_BYTES:
        return f"({len(job.payload.raw):,} bytes)"
    try:
        return json_text(redacted(job.payload.data(PREVIEW_BYTES)))[: PREVIEW_CHARS * 2]
    except (WireError, RecursionError):
        return "(unreadable)"


def job_details(raw: Any) -> list[tuple[str, str]]:
    """All there is to say about a job or a dead letter, as fields. Large payloads are shown in hex, cut."""
    fields: list[tuple[str, str]] = []
    letter = raw if hasattr(raw, "dead_id") else None
    if letter is not None:
        opened = letter.decoded()
        fields += [("died", format_iso(letter.died_at_ms)), ("dlq id", letter.dead_id), ("was entry", opened.source_id)]
        fields += [
            ("reason", opened.reason),
            ("detail", str(redacted(opened.detail)) if opened.detail else "–"),
            ("name", opened.name or "–"),
        ]
        fields += [(f"orig {key!r}", repr(value)) for key, value in opened.original[:8]]
        job = letter.job()
    else:
        job = raw.job
        fields += [("name", raw.name or "–")]
    return fields + (_undecodable_fields(job) if isinstance(job, Undecodable) else _job_fields(job))


def _undecodable_fields(job: Undecodable) -> list[tuple[str, str]]:
    return [("unreadable", job.reason), ("bytes", f"{len(job.raw):,}"), ("hex", job.raw[:DETAIL_BYTES].hex())]


def _without_none(value: Any) -> Any:
    """Without what was not said."""
    if not isinstance(value, dict):
        return value
    return {name: _without_none(item) for name, item in value.items() if item is not None}


def _job_fields(job: Envelope) -> list[tuple[str, str]]:
    raw = job.payload.raw
    fields = [
        ("id", job.id),
        ("created", format_iso(job.created_at_ms)),
        ("attempt", str(job.attempt + 1)),
        ("retry", "–" if job.retry is None else json_text(_without_none(retry_record(job.retry)))),
        ("payload", f"{len(raw):,} bytes, {job.payload.form}"),
    ]
    if len(raw) > DETAIL_BYTES:
        return [*fields, ("hex", raw[:1024].hex() + "…")]
    try:
        data = json_text(redacted(job.payload.data(DETAIL_BYTES)), indent=2)
    except (WireError, RecursionError) as error:
        return [*fields, ("unreadable", str(error)), ("hex", raw[:1024].hex())]
    return [*fields, ("data", data), ("hex", raw[:1024].hex())]
