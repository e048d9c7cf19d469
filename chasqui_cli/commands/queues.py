"""`chasqui queues`: every queue found, one row each, the worst first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from chasqui_cli.columns import Column, column
from chasqui_cli.desk import Desk, at_desk
from chasqui_cli.options import ListVisibility, Rescan
from chasqui_cli.records import FINDING, SNAPSHOT, finding_record, snapshot_record
from chasqui_cli.times import stale_after

if TYPE_CHECKING:
    from chasqui_cli.columns import Record
    from chasqui_cli.places import Seen

app = typer.Typer(add_completion=False, rich_markup_mode=None)

_FROM_SNAPSHOT = (
    "kind", "server_time_ms", "waiting", "oldest_waiting_ms", "pending", "dlq_depth", "delayed_depth", "delayed_due",
    "repeatable_count", "repeatable_overdue", "consumers",
)  # fmt: skip
SHAPE: dict[str, Any] = {
    "queue": "str",
    "state": "str",
    "glyph": "str",
    **{name: f"{str(SNAPSHOT[name]).removesuffix('?')}?" for name in _FROM_SNAPSHOT},
    "findings": [FINDING],
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


@app.command()
@at_desk(shape=SHAPE)
def queues(desk: Desk, rescan: Rescan = False, visibility: ListVisibility = None) -> None:
    """Every queue of the server, one row each, the worst first.

    Nobody registers queues, so the server's keys are looked through, page by page. Among very many keys the names
    found are remembered for ten minutes; --rescan looks again. RSMQ queues (rsmq:NAME) and list job queues (list:NAME)
    stand among ours, with dashes where a system has no such idea.
    """
    from chasqui_cli.finding import seen_queues

    with desk.session() as session:
        seen = seen_queues(
            desk, session, None, anew=rescan, visibility_ms=stale_after(visibility), warns=False
        )
    rows = [row for _, row in sorted(map(_row, seen), key=_worst_first)]
    now_ms = next((row["server_time_ms"] for row in rows if row["server_time_ms"]), None)
    desk.emit(rows, COLUMNS, now_ms=now_ms)
    if not rows:
        desk.say("no queues on this server; `chasqui add QUEUE DATA` makes one")


def _row(seen: Seen) -> tuple[int, Record]:
    """How bad it is, and the queue with what is wrong with it; one that could not be looked at says why."""
    from chasqui import health
    from chasqui.snapshot import Unseen
    from chasqui_cli.judging import findings_of

    if isinstance(seen, Unseen):
        refused = health.Finding(health.Level.CRITICAL, "refused", str(seen.error), seen.queue)
        nothing = dict.fromkeys(_FROM_SNAPSHOT)
        return health.Level.CRITICAL, {
            "queue": seen.queue,
            "state": "unseen",
            "glyph": "?",
            **nothing,
            "findings": [finding_record(refused)],
        }
    findings = findings_of(seen)
    state = health.state(seen, findings)
    told = snapshot_record(seen)
    return state.level, {
        "queue": seen.queue,
        "state": state.word,
        "glyph": state.glyph,
        **{name: told[name] for name in _FROM_SNAPSHOT},
        "findings": [finding_record(one) for one in findings],
    }


def _worst_first(judged: tuple[int, Record]) -> tuple[Any, ...]:
    level, row = judged
    return (
        -level,
        -(row["oldest_waiting_ms"] or 0),
        -(row["waiting"] or 0),
        -(row["dlq_depth"] or 0),
        row["queue"],
    )
