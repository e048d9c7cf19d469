"""A still life: fixed data for every tab, a clock that stands, and a feed that shows them. For pictures.

The same picture every time, so that one that differs is a change of the dashboard.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal
from zoneinfo import ZoneInfo

from chasqui.foreign import ForeignSnapshot, JobListKeys, RsmqKeys
from chasqui.inspect.event_stats import EventStats, JobNameStats, Percentiles
from chasqui.inspect.snapshot import GroupSnapshot, LockHolder, Snapshot
from chasqui.server.commands.replies import StreamExtent
from chasqui_cli.tui.command_runner import CommandRunner
from chasqui_cli.tui.dashboard import DashboardApp
from chasqui_cli.tui.dashboard_options import DashboardOptions
from chasqui_cli.tui.feed_messages import (
    FindingRow,
    FleetView,
    QueueRow,
    ReadCost,
    ReadTarget,
    ServerIdentified,
    ServerInfo,
    ViewReady,
)
from chasqui_cli.tui.trends import Rates
from chasqui_cli.tui.views import (
    CronView,
    DeadLetterGroupRow,
    DeadLetterRow,
    DelayedView,
    DlqView,
    EventRow,
    EventsView,
    FireRow,
    HealthView,
    InFlightRow,
    JobRow,
    JobsView,
    QueueView,
    ScheduleRow,
    View,
    WorkerRow,
    WorkersView,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.message import Message

NOW_MS = 1_794_916_800_000
LINE = (None, None, 2, 5, 9, 14, 30, 52, 71, 84)


def snapshot(queue: str, **news: Any) -> Snapshot:
    fields: dict[str, Any] = {
        "queue": queue, "server_time_ms": NOW_MS, "stream_depth": 64, "waiting": 0, "pending": 64, "consumers": 4,
        "dlq_depth": 0, "delayed_depth": 0, "delayed_due": 0, "oldest_delayed_lag_ms": 0, "oldest_waiting_ms": 0,
        "repeatable_count": 0, "repeatable_overdue": 0, "events_depth": 81_204,
        "promoter_lock": LockHolder("worker-7a/promoter", 4100), "scheduler_lock": None,
        "groups": (GroupSnapshot("default", 4, 64, 0, 0, f"{NOW_MS}-0", None, f"{NOW_MS - 4000}-0", 4000),),
        "next_delayed_ms": None, "next_repeat_ms": None, "longest_idle_ms": 4000,
        "stream": StreamExtent(64, f"{NOW_MS - 90_000}-0", f"{NOW_MS}-0", 910_223), "dlq": StreamExtent(), "events": StreamExtent(),
    }  # fmt: skip
    return Snapshot(**(fields | news))


def row(queue: str, level: int = 0, word: str = "working", **news: Any) -> QueueRow:
    glyph = {"working": "●", "idle": "○", "warning": "◆", "critical": "▲"}[word]
    own = {name: news.pop(name) for name in ("rates", "died", "line", "findings") if name in news}
    return QueueRow(
        queue=queue,
        snapshot=snapshot(queue, **news),
        error=None,
        level=level,
        glyph=glyph,
        state=word,
        rates=own.get("rates", Rates(9.0, 9.0, 20_000)),
        died=own.get("died", 0),
        watched_ms=540_000,
        waiting_history=own.get("line", (3, 3, 2, 4, 3, 2, 3, 3, 2, 3)),
        findings=own.get("findings", ()),
    )


def foreign_queue_row(queue: str, kind: Literal["rsmq", "joblist"], *, rates: Rates | None, **news: Any) -> QueueRow:
    """A queue of another system: what it has no idea of is None."""
    fields: dict[str, Any] = {"server_time_ms": NOW_MS, "stream_depth": 64, "longest_idle_ms": None}
    keys = RsmqKeys(queue, news.pop("namespace", "rsmq")) if kind == "rsmq" else JobListKeys(queue)
    seen = ForeignSnapshot(queue=queue, keys=keys, **(fields | news))
    return replace(row(queue, rates=rates), snapshot=seen)


FINDINGS = (
    FindingRow(3, "backlog", "84,213 jobs wait", "chasqui watch payments"),
    FindingRow(2, "dead-letters", "318 dead letters", "chasqui dlq groups payments"),
    FindingRow(2, "grows", "more come (52.0/s) than are read (40.0/s): the backlog grows", "chasqui watch payments"),
)
PAYMENTS = row(
    "payments",
    3,
    "critical",
    stream_depth=84_313,
    waiting=84_213,
    oldest_waiting_ms=724_000,
    pending=100,
    dlq_depth=318,
    delayed_depth=9_120,
    repeatable_count=3,
    repeatable_overdue=1,
    rates=Rates(52.0, 40.0, 20_000),
    died=301,
    line=LINE,
    findings=FINDINGS,
)


def fleet() -> FleetView:
    rows = [
        PAYMENTS,
        row("emails", 3, "critical", waiting=612, oldest_waiting_ms=95_000, pending=64, consumers=0, delayed_depth=41_002,
            delayed_due=612, repeatable_count=4, repeatable_overdue=2, promoter_lock=None, rates=Rates(0, 0, 20_000),
            line=(88, 60, 31, 12, 9, 9, 9, 9, 9, 9)),
        row("search-index", 2, "warning", waiting=1_204, oldest_waiting_ms=31_000, rates=Rates(80, 122, 20_000), dlq_depth=2),
        row("thumbnails", waiting=12, oldest_waiting_ms=3_000, pending=4),
        foreign_queue_row("rsmq:invoices", "rsmq", waiting=48, pending=6, delayed_depth=2, oldest_waiting_ms=12_000, rates=Rates(3.1, 3.0, 20_000)),
        foreign_queue_row("list:webhooks", "joblist", waiting=5, pending=2, dlq_depth=3, oldest_waiting_ms=900, rates=None),
        row("billing\x1b[2J-nightly", 0, "idle", pending=0, consumers=2, repeatable_count=12, rates=Rates(0, 0, 20_000)),
        row("[red]exports[/red]", 0, "idle", pending=0, consumers=1, delayed_depth=7, rates=Rates(0, 0, 20_000)),
        row("größenänderung", 0, "working", waiting=3, oldest_waiting_ms=400, pending=2),
    ]  # fmt: skip
    return FleetView(tuple(rows), 5000, 5000, complete=True)


def one_queue() -> QueueView:
    names = (
        JobNameStats("charge", 61, 14, 4.1, Percentiles(61, 41.0, 310.0, 902.0)),
        JobNameStats("refund", 9, 1, 0.6, Percentiles(9, 55.0, 120.0, 120.0)),
        JobNameStats("receipt", 30, 0, 2.0, Percentiles(30, 8.1, 12.0, 13.5)),
    )
    stats = EventStats(
        200,
        14_800,
        Percentiles(60, 61_000, 724_000, 731_000),
        Percentiles(100, 38.2, 290.0, 880.0),
        85,
        15,
        names,
    )
    pace = (None, None, None, 20, 40, 44, 51, 60, 70, 66, 68, 71, 80, 86, 90, 99, 104, 120, 118, 122)
    left = (None, None, None, 20, 40, 41, 44, 50, 50, 48, 47, 50, 52, 50, 51, 49, 50, 52, 51, 50)
    return QueueView(PAYMENTS, stats, pace, left)


def _jobs(count: int, *, due: bool = False) -> tuple[JobRow, ...]:
    return tuple(
        JobRow(
            f"{NOW_MS - 724_000 + nth * 1900}-{nth % 3}",
            f"01KA{nth:022d}",
            ("charge", "refund", "receipt")[nth % 3],
            nth % 4 == 3,
            NOW_MS - 724_000 + nth * 1900,
            NOW_MS - 40_000 + nth * 61_000 if due else None,
            120 + nth * 37,
            f'{{"order": {8800 + nth}, "amount": {nth * 13}.50, "card": "«redacted»"}}',
            ("job", nth),
        )
        for nth in range(count)
    )


def jobs() -> JobsView:
    flights = tuple(
        InFlightRow(f"{NOW_MS - 9000 - nth * 777}-0", "default", f"worker-{nth % 4}", 400 + nth * 5200, 1 + (nth == 5))
        for nth in range(8)
    )
    return JobsView(PAYMENTS, _jobs(30), flights)


GROUPS = (
    DeadLetterGroupRow(
        "a",
        "charge",
        "retries_exhausted",
        "SMTP timeout after <n> ms",
        214,
        NOW_MS - 900_000,
        NOW_MS - 4000,
        True,
    ),
    DeadLetterGroupRow(
        "b", "charge", "unrecoverable", "card_declined <id>", 88, NOW_MS - 90_000_000, NOW_MS - 61_000, False
    ),
    DeadLetterGroupRow(
        "c", "", "decode_failed", "<n> elements, not <n>", 16, NOW_MS - 3_000_000, NOW_MS - 2_000_000, True
    ),
)


def dead() -> DlqView:
    letters = tuple(
        DeadLetterRow(
            f"{NOW_MS - 4000 - nth * 3100}-0",
            f"{NOW_MS - 64_000 - nth * 3100}-0",
            "" if nth % 9 == 8 else f"01KA{nth:022d}",
            "" if nth % 9 == 8 else "charge",
            "decode_failed" if nth % 9 == 8 else "retries_exhausted",
            "" if nth % 9 == 8 else f"SMTP timeout after {3000 + nth} ms",
            None if nth % 9 == 8 else 5,
            NOW_MS - 4000 - nth * 3100,
            36 + nth,
            "a" if nth % 9 != 8 else "c",
            "5 elements, not 4" if nth % 9 == 8 else None,
            ("letter", nth),
        )
        for nth in range(40)
    )
    return DlqView(PAYMENTS, letters, GROUPS, all_read=False)


def delayed() -> DelayedView:
    start = NOW_MS // 300_000 * 300_000
    counts = (412, 1800, 4100, 2600, 900, 300, 120, 40, 10, 3, 0, 1)
    buckets = [(start + nth * 300_000, start + (nth + 1) * 300_000, count) for nth, count in enumerate(counts)]
    return DelayedView(PAYMENTS, _jobs(30, due=True), ((None, NOW_MS, 12), *buckets))


def cron() -> CronView:
    first = datetime(2026, 11, 17, 12, 59, tzinfo=ZoneInfo("Europe/Madrid"))
    fires = tuple(
        FireRow(int(day.timestamp() * 1000), f"{day:%a %Y-%m-%d %H:%M:%S %Z}", "")
        for day in (first + timedelta(days=nth) for nth in range(5))
    )
    specs = (
        ScheduleRow(
            "digest::cron:59 12 * * *",
            "digest",
            "at 12:59 (Europe/Madrid)",
            fires[0].at_ms,
            412,
            None,
            fires,
            None,
        ),
        ScheduleRow("tick", "tick", "every 1m00s", NOW_MS + 31_000, 9120, 10_000, fires[1:], None),
        ScheduleRow("old", "", "", NOW_MS + 900_000, 0, None, (), "not msgpack: it ends too early"),
    )
    return CronView(PAYMENTS, specs)


def workers() -> WorkersView:
    rows = (
        WorkerRow("default", "worker-old-3", 12, 812_000, 812_000, 815_000, 3, "gone"),
        WorkerRow("default", "worker-2", 25, 44_000, 24_000, 25_000, 0, "not polling"),
        WorkerRow("default", "worker-0", 38, 900, 120, 130, 0, "working"),
        WorkerRow("default", "worker-1", 25, 1200, 80, 81, 1, "working"),
        WorkerRow("default", "worker-4", 0, None, 900, None, 0, "waiting"),
    )
    return WorkersView(PAYMENTS, rows)


def events() -> EventsView:
    kinds = (
        "active",
        "completed",
        "active",
        "failed",
        "retry-scheduled",
        "active",
        "completed",
        "active",
        "dlq",
    )
    notes = {
        "completed": "ran 41.2 ms", "failed": "ran 3001.0 ms  SMTP timeout after 3001 ms", "retry-scheduled": "again in 4s",
        "dlq": "retries_exhausted",
    }  # fmt: skip
    lines = [
        EventRow(
            f"{NOW_MS - 30_000 + nth * 430}-0",
            NOW_MS - 30_000 + nth * 430,
            kinds[nth % 9],
            "charge",
            f"01KA{nth // 2:022d}",
            1 + (kinds[nth % 9] == "retry-scheduled"),
            notes.get(kinds[nth % 9], ""),
        )
        for nth in range(60)
    ]
    lines.insert(
        50,
        EventRow("gap-1", NOW_MS, "gap", "", "", None, "1,204 events missing: trimmed before they could be read"),
    )
    return EventsView(PAYMENTS, tuple(lines), restarted=True, horizon_ms=4800, sampled=False)


def health() -> HealthView:
    found = (
        FindingRow(3, "evicts", "when memory is full this server deletes keys (allkeys-lru), jobs among them",
                   "redis-cli CONFIG SET maxmemory-policy noeviction"),
        FindingRow(2, "ghosts", "3 entries are pending whose job is gone from the stream", "chasqui workers claim payments"),
        FindingRow(1, "snapshots-only", "this server saves now and then: a crash loses the jobs since the last save", None),
    )  # fmt: skip
    facts = (
        ("server", "redis 8.6.3"), ("role", "master"), ("up", "12d04h"), ("memory", "812.4 MB"), ("eviction", "allkeys-lru"),
        ("persistence", "rdb"), ("clients", "41"), ("keys", "91204"), ("stand-ins", "none"),
    )  # fmt: skip
    return HealthView("payments", NOW_MS, found, facts)


VIEWS: dict[str, Callable[[], View]] = {
    "fleet": fleet,
    "queue": one_queue,
    "jobs": jobs,
    "dlq": dead,
    "delayed": delayed,
    "cron": cron,
    "workers": workers,
    "events": events,
    "health": health,
}


class FixedFeed:
    """Shows the same view whenever it is asked."""

    interval_s = 2.0

    def __init__(self) -> None:
        self._post: Callable[[Message], Any] = lambda _: None

    def set_listener(self, post: Callable[[Message], Any]) -> None:
        self._post = post

    async def run(self) -> None:
        self._post(ServerIdentified(ServerInfo("redis://redis-7a:6379", "redis", "8.6.3")))

    def set_target(self, target: ReadTarget) -> None:
        self._post(ViewReady(target, VIEWS[target.tab](), ReadCost(1, 43, 27_400, 6.2), NOW_MS, 2.0))

    def refresh(self) -> None: ...

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def job_details(self, raw: Any) -> list[tuple[str, str]]:
        return [
            ("id", f"01KA{raw[1]:022d}"),
            ("created", "2026-11-17T12:00:00.000Z"),
            ("attempt", "5"),
            ("retry", '{"max_attempts": 5}'),
            ("payload", "120 bytes, bin"),
            ("data", '{\n  "order": 8800,\n  "amount": 12.5,\n  "card": "«redacted»"\n}'),
            ("hex", "83a56f72646572cd2260a6616d6f756e74cb4029000000000000"),
        ]


class FixedClock:
    """Always the same moment."""

    def monotonic(self) -> float:
        return 0.0


def fixed_dashboard(theme: str, *, read_only: bool = False) -> DashboardApp:
    setup = DashboardOptions(
        "redis://redis-7a:6379",
        "prod",
        "red",
        read_only=read_only,
        protected=True,
        keeps_awake=True,
        theme=theme,
    )
    return DashboardApp(FixedFeed(), CommandRunner({}), setup, FixedClock())
