"""Options and arguments that name a list job queue, its jobs and its workers' settings; the columns of a job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from chasqui_cli.context.completion import complete_joblist_queues
from chasqui_cli.output.columns import Column, column
from chasqui_cli.output.times import parse_duration_ms

if TYPE_CHECKING:
    from chasqui.foreign import JobListKeys
    from chasqui.foreign.joblist import JobListOptions
    from chasqui_cli.context.session import Session

ListName = Literal["pending", "processing", "completed", "failed"]
HistoryName = Literal["completed", "failed"]
QueueArgument = Annotated[
    str, typer.Argument(metavar="QUEUE", help="Which queue.", autocompletion=complete_joblist_queues)
]
QueuesArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="[QUEUE]...", help="Which; none means all.", autocompletion=complete_joblist_queues),
]
JobIdsArgument = Annotated[list[str] | None, typer.Argument(metavar="[ID]...", help="Which jobs.")]
VisibilityOption = Annotated[
    str, typer.Option("--visibility", metavar="TIME", help="After how long a claim is stale; only its workers know.")
]
TtlOption = Annotated[str, typer.Option("--ttl", metavar="TIME", help="How long completed and failed jobs are kept.")]
HistoryOption = Annotated[
    int, typer.Option("--history", min=1, metavar="N", help="How many completed and failed ids are kept.")
]
AllOption = Annotated[bool, typer.Option("--all", help="Every job of the list, if no ids say which.")]

COLUMNS: list[Column] = [
    column("id"),
    column("status"),
    column("lists"),
    column("attempts", kind="count"),
    column("enqueued", "enqueued_at_ms", kind="moment"),
    column("claimed", "claimed_at_ms", kind="moment"),
    column("expires", "expires_in_ms", kind="span"),
    column("payload"),
    column("result"),
    column("error", "last_error"),
]


def joblist_keys(queue: str) -> JobListKeys:
    from chasqui.foreign import JobListKeys

    return JobListKeys(queue)


def joblist_options(
    visibility: str = "5s", ttl: str = "5m", history: int = 50, max_attempts: int = 3
) -> JobListOptions:
    """The settings that all processes of a queue must share."""
    from chasqui.foreign.joblist import JobListOptions

    return JobListOptions(
        visibility_ms=parse_duration_ms(visibility),
        ttl_s=max(1, parse_duration_ms(ttl) // 1000),
        history=history,
        max_attempts=max_attempts,
    )


def require_queue(session: Session, keys: JobListKeys) -> None:
    """Raise `NotFound` for a queue without any list."""
    from chasqui.errors import NotFound
    from chasqui.foreign import joblist

    depths = session.link.run(joblist.read_depths(keys))
    if not (depths.pending or depths.processing or depths.completed or depths.failed):
        raise NotFound(
            f"there is no list job queue named {keys.queue!r}, or it is empty: empty lists are not there",
            hint="`chasqui queues` lists them",
        )
