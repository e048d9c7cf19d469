"""How a list job queue, its jobs and what its workers agreed on are named on a command line; what is told of a job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from chasqui_cli.context.completion import complete_joblist_queues
from chasqui_cli.output.columns import Column, column
from chasqui_cli.output.times import parse_duration_ms

if TYPE_CHECKING:
    from chasqui.foreign import JobListKeys
    from chasqui.foreign.joblist import JobListOptions, ListJob
    from chasqui_cli.context.command_context import CommandContext
    from chasqui_cli.context.session import Session
    from chasqui_cli.output.columns import Record

ListName = Literal["pending", "processing", "completed", "failed"]
HistoryName = Literal["completed", "failed"]
QueueArgument = Annotated[
    str, typer.Argument(metavar="QUEUE", help="Which queue.", autocompletion=complete_joblist_queues)
]
JobIdsArgument = Annotated[list[str] | None, typer.Argument(metavar="[ID]...", help="Which jobs.")]
VisibilityOption = Annotated[
    str,
    typer.Option("--visibility", metavar="TIME", help="After how long a claim is stale; only its workers know."),
]
TtlOption = Annotated[str, typer.Option("--ttl", metavar="TIME", help="How long completed and failed jobs are kept.")]
HistoryOption = Annotated[
    int, typer.Option("--history", min=1, metavar="N", help="How many completed and failed ids are kept.")
]
AllOption = Annotated[bool, typer.Option("--all", help="Every job of the list, if no ids say which.")]

JOB_SCHEMA: dict[str, Any] = {
    "queue": "str",
    "id": "str",
    "lists": "any",
    "status": "str?",
    "attempts": "int?",
    "enqueued_at_ms": "int?",
    "claimed_at_ms": "int?",
    "completed_at_ms": "int?",
    "reclaimed_at_ms": "int?",
    "claim_token": "str?",
    "expires_in_ms": "int?",
    "payload": "any",
    "result": "any",
    "last_error": "any",
    "last_error_at_ms": "int?",
    "expired": "bool",
    "fields": "any",
}
_NUMBER_FIELDS = (
    "attempts",
    "enqueued_at_ms",
    "claimed_at_ms",
    "completed_at_ms",
    "reclaimed_at_ms",
    "last_error_at_ms",
)
_KNOWN_FIELDS = {*_NUMBER_FIELDS, "id", "status", "claim_token", "payload", "result", "last_error"}
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
    """The keys of a queue."""
    from chasqui.foreign import JobListKeys

    return JobListKeys(queue)


def joblist_options(
    visibility: str = "5s", ttl: str = "5m", history: int = 50, max_attempts: int = 3
) -> JobListOptions:
    """What every process of a queue must be told alike."""
    from chasqui.foreign.joblist import JobListOptions

    return JobListOptions(
        visibility_ms=parse_duration_ms(visibility),
        ttl_s=max(1, parse_duration_ms(ttl) // 1000),
        history=history,
        max_attempts=max_attempts,
    )


def joblist_job_record(desk: CommandContext, queue: str, job: ListJob) -> Record:
    """Everything known of a job; what its hash holds besides is in `fields`."""
    numbers = {name: job.number(name) for name in _NUMBER_FIELDS}
    others = {name: job.text(name) for name in job.fields if name not in _KNOWN_FIELDS}
    return {
        "queue": queue,
        "id": job.id,
        "lists": {name: list(places) for name, places in job.places.items()},
        "status": job.text("status"),
        "claim_token": job.text("claim_token") if desk.show_secrets else _shortened_token(job.text("claim_token")),
        "expires_in_ms": job.ttl_ms,
        "payload": desk.redacted(job.value("payload")),
        "result": desk.redacted(job.value("result")),
        "last_error": desk.redacted(job.text("last_error")),
        "expired": job.is_expired,
        "fields": desk.redacted(others),
        **numbers,
    }


def _shortened_token(token: str | None) -> str | None:
    """Whoever has the token can settle the job; that there is one may be seen."""
    return token and f"{token[:4]}…"


def require_queue(session: Session, keys: JobListKeys) -> None:
    """A queue without any list is none."""
    from chasqui.errors import NotFound
    from chasqui.foreign import joblist

    depths = session.link.run(joblist.read_depths(keys))
    if not (depths.pending or depths.processing or depths.completed or depths.failed):
        raise NotFound(
            f"there is no list job queue named {keys.queue!r}, or it is empty: empty lists are not there",
            hint="`chasqui queues` lists them",
        )
