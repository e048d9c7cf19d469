"""The reports once more, by plain loops over the same events: what Spark answers must be this."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from chasqui.errors import WireError
from chasqui.inspect.error_fingerprint import fingerprint
from chasqui.spark.reports import PERCENTILES
from chasqui.wire import dead_letter_entry, envelope
from chasqui.wire.job_id import created_ms
from tests.support.seeds.event_history import PastEvent

Rows = list[dict[str, Any]]


def percentile(values: Sequence[float], share: float) -> float | None:
    """Linear between neighbours."""
    if not values:
        return None
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def age(one: PastEvent) -> int | None:
    made = created_ms(one.event.job_id or "")
    return None if made is None or one.event.ts is None else max(0, one.event.ts - made)


def throughput(events: Sequence[PastEvent], queue: str, step: int) -> Rows:
    sums: dict[int, Counter[str]] = defaultdict(Counter)
    for one in events:
        if one.event.kind in ("completed", "failed", "retry-scheduled", "dlq"):
            sums[one.ms - one.ms % step][one.event.kind] += 1
    return [
        {"queue": queue, "at_ms": at, "completed": n["completed"], "failed": n["failed"],
         "retried": n["retry-scheduled"], "dead": n["dlq"]}
        for at, n in sorted(sums.items())
    ]  # fmt: skip


def latency(events: Sequence[PastEvent], queue: str) -> Rows:
    found = []
    for name in sorted({one.event.name for one in events if one.event.kind in ("active", "completed", "failed")}):
        mine = [one for one in events if one.event.name == name]
        ran = [one.event.duration_us or 0 for one in mine if one.event.kind in ("completed", "failed")]
        waits = [age(one) or 0 for one in mine if one.event.kind == "active" and one.event.attempt == 1]
        ends = [age(one) or 0 for one in mine if one.event.kind == "completed"]
        kinds = Counter(one.event.kind for one in mine)
        row: dict[str, Any] = {
            "queue": queue,
            "name": name,
            "completed": kinds["completed"],
            "failed": kinds["failed"],
        }
        for label, values in (("run_us", ran), ("wait_ms", waits), ("e2e_ms", ends)):
            row |= {f"{label}_p{round(share * 100)}": percentile(values, share) for share in PERCENTILES}
        found.append(row)
    return found


def retries(events: Sequence[PastEvent], queue: str) -> Rows:
    sums: dict[int, Counter[str]] = defaultdict(Counter)
    for one in events:
        if one.event.attempt is not None and one.event.kind in ("active", "completed", "failed", "dlq"):
            sums[one.event.attempt][one.event.kind] += 1
    return [
        {"queue": queue, "attempt": n, "started": c["active"], "completed": c["completed"], "failed": c["failed"],
         "dead": c["dlq"]}
        for n, c in sorted(sums.items())
    ]  # fmt: skip


def failures(events: Sequence[PastEvent], queue: str, top: int) -> Rows:
    groups: dict[tuple[str, str], list[PastEvent]] = defaultdict(list)
    for one in events:
        if one.event.kind == "failed":
            groups[(one.event.name, fingerprint(one.event.reason or ""))].append(one)
    rows: Rows = [
        {"queue": queue, "name": name, "error": error, "failures": len(group),
         "jobs": len({one.event.job_id for one in group}), "first_ms": min(one.ms for one in group),
         "last_ms": max(one.ms for one in group), "sample": min(one.event.reason or "" for one in group)}
        for (name, error), group in groups.items()
    ]  # fmt: skip
    return sorted(rows, key=lambda row: (-row["failures"], row["name"], row["error"]))[:top]


def dead(letters: Sequence[Any], events: Sequence[PastEvent], queue: str, top: int) -> Rows:
    """Dead letters as the server returns them: entry id and fields."""
    last_words = {one.event.job_id: one.event.reason for one in events if one.event.kind == "failed"}
    groups: dict[tuple[str, str, str], list[tuple[int, str | None]]] = defaultdict(list)
    for entry_id, fields in letters:
        letter = dead_letter_entry.decode(fields)
        try:
            job_id: str | None = envelope.decode(letter.d or b"").id
        except WireError:
            job_id = None
        why = letter.detail if letter.detail is not None else last_words.get(job_id)
        groups[(letter.reason or "", letter.name, fingerprint(why or ""))].append(
            (int(entry_id.split(b"-")[0]), job_id)
        )
    rows: Rows = [
        {"queue": queue, "reason": reason, "name": name, "error": error, "letters": len(group),
         "first_ms": min(ms for ms, _ in group), "last_ms": max(ms for ms, _ in group),
         "sample_job_id": min((job_id for _, job_id in group if job_id is not None), default=None)}
        for (reason, name, error), group in groups.items()
    ]  # fmt: skip
    return sorted(rows, key=lambda row: (-row["letters"], row["reason"], row["name"], row["error"]))[:top]


def sla(events: Sequence[PastEvent], queue: str, limit_ms: int) -> Rows:
    groups: dict[str, list[int]] = defaultdict(list)
    for one in events:
        if one.event.kind == "completed":
            groups[one.event.name].append(age(one) or 0)
    rows = []
    for name, took in groups.items():
        late = sum(ms > limit_ms for ms in took)
        rows.append(
            {"queue": queue, "name": name, "completed": len(took), "breaches": late, "share": late / len(took),
             "worst_ms": max(took)}
        )  # fmt: skip
    return sorted(rows, key=lambda row: (-row["share"], -row["breaches"], row["name"]))


def slowest(events: Sequence[PastEvent], queue: str, top: int) -> Rows:
    ran = [one for one in events if one.event.kind in ("completed", "failed")]
    ran.sort(key=lambda one: (-(one.event.duration_us or 0), one.ms, one.seq))
    return [
        {"queue": queue, "name": one.event.name, "job_id": one.event.job_id, "attempt": one.event.attempt,
         "event": one.event.kind, "duration_us": one.event.duration_us, "ms": one.ms}
        for one in ran[:top]
    ]  # fmt: skip


def heatmap(events: Sequence[PastEvent], queue: str) -> Rows:
    sums: dict[tuple[int, int], Counter[str]] = defaultdict(Counter)
    for one in events:
        if one.event.kind in ("completed", "failed"):
            at = datetime.fromtimestamp(one.ms / 1000, UTC)
            sums[(at.weekday(), at.hour)][one.event.kind] += 1
    return [
        {"queue": queue, "weekday": day, "hour": hour, "completed": n["completed"], "failed": n["failed"]}
        for (day, hour), n in sorted(sums.items())
    ]


def timeline(events: Sequence[PastEvent], queue: str, job_id: str) -> Rows:
    rows: Rows = []
    before: int | None = None
    for one in events:
        event = one.event
        if event.job_id == job_id and event.ts is not None:
            rows.append(
                {"queue": queue, "ms": one.ms, "since_ms": None if before is None else event.ts - before,
                 "event": event.kind, "job_id": job_id, "name": event.name or None, "attempt": event.attempt,
                 "duration_us": event.duration_us, "backoff_ms": event.backoff_ms, "reason": event.reason}
            )  # fmt: skip
            before = event.ts
    return rows


def diff(events: Sequence[PastEvent], queue: str, at_ms: int, span_ms: int) -> Rows:
    rows = []
    near = [one for one in events if at_ms - span_ms <= one.ms < at_ms + span_ms]
    for name in {one.event.name for one in near if one.event.kind in ("completed", "failed")}:
        row: dict[str, Any] = {"queue": queue, "name": name}
        for label, is_after in (("before", False), ("after", True)):
            side = [one for one in near if one.event.name == name and (one.ms >= at_ms) is is_after]
            row[f"completed_{label}"] = sum(one.event.kind == "completed" for one in side)
            row[f"failed_{label}"] = sum(one.event.kind == "failed" for one in side)
            ran = [one.event.duration_us or 0 for one in side if one.event.kind in ("completed", "failed")]
            row[f"run_us_p95_{label}"] = percentile(ran, 0.95)
        before, after = row["run_us_p95_before"], row["run_us_p95_after"]
        row["run_ratio"] = after / before if before and after is not None else None
        rows.append(row)
    return sorted(rows, key=lambda row: (row["run_ratio"] is None, -(row["run_ratio"] or 0), row["name"]))
