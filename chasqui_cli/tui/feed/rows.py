"""Engine values made into what is drawn: a queue with its trend and findings, a job with a preview of what it carries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chasqui import Undecodable, health
from chasqui.errors import WireError
from chasqui.health import Level
from chasqui.snapshot import Unseen
from chasqui_cli.records import retry_record
from chasqui_cli.redaction import redacted
from chasqui_cli.tagged import json_text
from chasqui_cli.times import iso
from chasqui_cli.tui.messages import FindingRow, JobRow, QueueRow
from chasqui_cli.tui.trends import Trend

if TYPE_CHECKING:
    from chasqui import Envelope
    from chasqui.health import Finding
    from chasqui.snapshot import Snapshot
    from chasqui_cli.tui.trends import Rates

PREVIEW_BYTES = 4096
"""Larger payloads are not opened for a line in a table."""
PREVIEW_CHARS = 120
DETAIL_BYTES = 65_536
SURE_MS = 8_000
"""Rates over less than this are too young to be held against a queue."""


class Memory:
    """What is remembered of queues while they are watched."""

    def __init__(self) -> None:
        self._trends: dict[str, Trend] = {}

    def trend(self, queue: str) -> Trend:
        """What one queue did."""
        return self._trends.setdefault(queue, Trend())

    def row(self, seen: Snapshot | Unseen) -> QueueRow:
        """A queue that was just looked at."""
        trend = self.trend(seen.queue)
        if isinstance(seen, Unseen):
            return QueueRow(
                seen.queue, None, str(seen.error), 3, "▲", "unseen", None, 0, 0, tuple(trend.line()), ()
            )
        trend.note(seen)
        rates = trend.rates()
        found = health.of_queue(seen)
        moving = _moving(seen, rates)
        state = health.state(seen, [*found, *moving])
        died, watched_ms = trend.died()
        return QueueRow(
            queue=seen.queue,
            seen=seen,
            error=None,
            level=state.level,
            glyph=state.glyph,
            word=state.word,
            rates=rates,
            died=died,
            watched_ms=watched_ms,
            line=tuple(trend.line()),
            findings=tuple(finding_row(one) for one in sorted([*found, *moving], key=lambda one: -one.level)),
        )


def rank(row: QueueRow) -> tuple[int, int, int, int, str]:
    """Worst first: by level, then by how long and how many wait or are dead."""
    if row.seen is None:
        return (-row.level, 0, 0, 0, row.queue)
    late = max(row.seen.oldest_waiting_ms, row.seen.oldest_delayed_lag_ms) // 1000
    return (-row.level, -late, -row.seen.waiting, -row.seen.dlq_depth, row.queue)


def _moving(seen: Snapshot, rates: Rates | None) -> list[Finding]:
    """What only shows over time: a backlog that nobody works off, or that grows."""
    if rates is None or rates.window_ms < SURE_MS or not seen.waiting or not seen.consumers:
        return []
    watch = f"chasqui watch {seen.queue}"
    if not rates.leaving:
        text = f"{seen.waiting:,} wait, there are workers, and for {rates.window_ms // 1000} s none was read"
        return [health.Finding(Level.WARNING, "stalled", text, seen.queue, mend=watch)]
    if rates.arriving > rates.leaving * 1.05:
        text = f"more come ({rates.arriving:.1f}/s) than are read ({rates.leaving:.1f}/s): the backlog grows"
        return [health.Finding(Level.WARNING, "grows", text, seen.queue, mend=watch)]
    return []


def finding_row(one: Finding) -> FindingRow:
    """A finding."""
    return FindingRow(int(one.level), one.code, one.text, one.mend)


def job_row(
    key: str, job: Envelope | Undecodable, name: str, due_ms: int | None, raw: Any, ref: str = ""
) -> JobRow:
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


def describe(raw: Any) -> list[tuple[str, str]]:
    """All there is to say about a job or a dead letter, as fields. Large payloads are shown in hex, cut."""
    fields: list[tuple[str, str]] = []
    letter = raw if hasattr(raw, "dead_id") else None
    if letter is not None:
        opened = letter.opened()
        fields += [("died", iso(letter.died_ms)), ("dlq id", letter.dead_id), ("was entry", opened.source_id)]
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
    return fields + (_unread(job) if isinstance(job, Undecodable) else _opened(job))


def _unread(job: Undecodable) -> list[tuple[str, str]]:
    return [("unreadable", job.reason), ("bytes", f"{len(job.raw):,}"), ("hex", job.raw[:DETAIL_BYTES].hex())]


def _given(value: Any) -> Any:
    """Without what was not said."""
    if not isinstance(value, dict):
        return value
    return {name: _given(item) for name, item in value.items() if item is not None}


def _opened(job: Envelope) -> list[tuple[str, str]]:
    raw = job.payload.raw
    fields = [
        ("id", job.id),
        ("created", iso(job.created_at_ms)),
        ("attempt", str(job.attempt)),
        ("retry", "–" if job.retry is None else json_text(_given(retry_record(job.retry)))),
        ("payload", f"{len(raw):,} bytes, {job.payload.form}"),
    ]
    if len(raw) > DETAIL_BYTES:
        return [*fields, ("hex", raw[:1024].hex() + "…")]
    try:
        data = json_text(redacted(job.payload.data(DETAIL_BYTES)), indent=2)
    except (WireError, RecursionError) as error:
        return [*fields, ("unreadable", str(error)), ("hex", raw[:1024].hex())]
    return [*fields, ("data", data), ("hex", raw[:1024].hex())]
