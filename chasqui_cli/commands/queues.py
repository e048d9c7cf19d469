"""`chasqui queues`: every queue found, one row each, the worst first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chasqui_cli.context.command_context import CommandContext, command
from chasqui_cli.context.shared_options import JoblistVisibilityOption, RescanOption
from chasqui_cli.output.columns import Column, column
from chasqui_cli.output.records import FINDING_SCHEMA, SNAPSHOT_SCHEMA, finding_record, snapshot_record
from chasqui_cli.output.times import parse_optional_duration_ms

if TYPE_CHECKING:
    from chasqui_cli.output.columns import Record
    from chasqui_cli.queues.queue_names import AnySnapshot


_SNAPSHOT_FIELDS = (
    "kind", "server_time_ms", "waiting", "oldest_waiting_ms", "pending", "dlq_depth", "delayed_depth", "delayed_due",
    "repeatable_count", "repeatable_overdue", "consumers",
)  # fmt: skip
QUEUE_SCHEMA: dict[str, Any] = {
    "queue": "str",
    "state": "str",
    "glyph": "str",
    **{name: f"{str(SNAPSHOT_SCHEMA[name]).removesuffix('?')}?" for name in _SNAPSHOT_FIELDS},
    "findings": [FINDING_SCHEMA],
}
COLUMNS: list[Column] = [
    column("queue"),
    Column("state", lambda row: f"{row['glyph']} {row['state']}"),
    column("kind"),
    column("waiting", kind="count"),
    column("age", "oldest_waiting_ms", kind="span"),
    column("flight", "pending", kind="count"),
    column("dlq", "dlq_depth", kind="count"),
    column("delayed", "delayed_depth", kind="count"),
    column("due", "delayed_due", kind="count"),
    column("cron!", "repeatable_overdue", kind="count"),
    column("workers", "consumers", kind="count"),
    Column("why", lambda row: row["findings"][0]["text"] if row["findings"] else None),
]


@command("queues", schema=QUEUE_SCHEMA)
def queues(ctx: CommandContext, rescan: RescanOption = False, visibility: JoblistVisibilityOption = None) -> None:
    """Every queue of the server, one row each, the worst first.

    Nobody registers queues, so the server's keys are looked through, page by page. Among very many keys the names
    found are remembered for ten minutes; --rescan looks again. RSMQ queues (rsmq:NAME) and list job queues (list:NAME)
    stand among ours, with dashes where a system has no such idea.
    """
    from chasqui_cli.queues.targets import queue_snapshots

    with ctx.session() as session:
        seen = queue_snapshots(
            ctx, session, None, rescan=rescan, visibility_ms=parse_optional_duration_ms(visibility), warns=False
        )
    rows = [row for _, row in sorted(map(_ranked_record, seen), key=_worst_first)]
    now_ms = next((row["server_time_ms"] for row in rows if row["server_time_ms"]), None)
    ctx.write_records(rows, COLUMNS, now_ms=now_ms)
    if not rows:
        ctx.info("no queues on this server; `chasqui add QUEUE DATA` makes one")


def _ranked_record(seen: AnySnapshot) -> tuple[int, Record]:
    """The worst level, and the queue with its findings, or with the error where it could not be read."""
    from chasqui import health
    from chasqui.inspect.snapshot import SnapshotFailure
    from chasqui_cli.queues.queue_health import queue_findings

    if isinstance(seen, SnapshotFailure):
        refused = health.Finding(health.Level.CRITICAL, "refused", str(seen.error), seen.queue)
        nothing = dict.fromkeys(_SNAPSHOT_FIELDS)
        return health.Level.CRITICAL, {
            "queue": seen.queue,
            "state": "unseen",
            "glyph": "?",
            **nothing,
            "findings": [finding_record(refused)],
        }
    findings = queue_findings(seen)
    state = health.queue_status(seen, findings)
    fields = snapshot_record(seen)
    return state.level, {
        "queue": seen.queue,
        "state": state.word,
        "glyph": state.glyph,
        **{name: fields[name] for name in _SNAPSHOT_FIELDS},
        "findings": [finding_record(one) for one in findings],
    }


def _worst_first(judged: tuple[int, Record]) -> tuple[Any, ...]:
    level, row = judged
    return (-level, -(row["oldest_waiting_ms"] or 0), -(row["waiting"] or 0), -(row["dlq_depth"] or 0), row["queue"])
