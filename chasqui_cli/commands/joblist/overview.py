"""`chasqui joblist overview`: depths, ages and stale claims of queues."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chasqui_cli.commands.joblist._options import QueuesArgument, VisibilityOption, joblist_keys, require_queue
from chasqui_cli.context.command_context import CommandContext, command
from chasqui_cli.output.columns import Column, column
from chasqui_cli.output.times import parse_duration_ms

if TYPE_CHECKING:
    from chasqui.foreign.joblist import ListOverview
    from chasqui_cli.output.columns import Record

OVERVIEW_SCHEMA: dict[str, Any] = {
    "queue": "str",
    "server_time_ms": "int",
    "visibility_ms": "int",
    "pending": "int",
    "processing": "int",
    "stale": "int",
    "completed": "int",
    "failed": "int",
    "oldest_pending_ms": "int?",
    "oldest_claim_ms": "int?",
    "unsettled": [{"id": "str", "verdict": "str", "why": "str"}],
    "attempts": "any",
    "parked": "int",
}
OVERVIEW_COLUMNS: list[Column] = [
    column("queue"),
    *(column(name, kind="count") for name in ("pending", "processing", "stale", "completed", "failed")),
    column("oldest", "oldest_pending_ms", kind="span"),
    column("claim", "oldest_claim_ms", kind="span"),
    Column("broken", lambda row: len(row["unsettled"]), "right"),
    column("attempts", wide=True),
    column("parked", kind="count", wide=True),
]


@command("joblist overview", schema=OVERVIEW_SCHEMA)
def overview(ctx: CommandContext, queues: QueuesArgument = None, visibility: VisibilityOption = "5s") -> None:
    """Depths, ages, attempts, and how many claims are stale for a visibility that only the workers know."""
    from chasqui.foreign import discover, joblist

    visibility_ms = parse_duration_ms(visibility)
    with ctx.session() as session:
        names = queues or [keys.queue for keys in discover(session.link).joblists]
        rows = []
        for name in names:
            keys = joblist_keys(name)
            if queues:
                require_queue(session, keys)
            found = session.link.run(joblist.read_overview(keys, visibility_ms=visibility_ms))
            rows.append(_overview_record(name, found, visibility_ms))
    ctx.write_records(rows, OVERVIEW_COLUMNS)


def _overview_record(name: str, found: ListOverview, visibility_ms: int) -> Record:
    depths = found.depths
    return {
        "queue": name,
        "server_time_ms": found.now_ms,
        "visibility_ms": visibility_ms,
        "pending": depths.pending,
        "processing": depths.processing,
        "stale": found.stale,
        "completed": depths.completed,
        "failed": depths.failed,
        "oldest_pending_ms": found.oldest_pending_ms,
        "oldest_claim_ms": found.oldest_claim_ms,
        "unsettled": [{"id": one.claim.id, "verdict": one.status, "why": one.reason} for one in found.unsettled],
        "attempts": {str(tries): many for tries, many in sorted(found.attempts.items())},
        "parked": found.parked,
    }
