"""How a list job queue, its jobs and what its workers agreed on are named on a command line; what is told of a job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from chasqui_cli.columns import Column, column
from chasqui_cli.completing import list_names
from chasqui_cli.times import duration_ms

if TYPE_CHECKING:
    from chasqui.foreign import JobListKeys
    from chasqui.foreign.joblist import Job, Options
    from chasqui_cli.columns import Record
    from chasqui_cli.desk import Desk
    from chasqui_cli.session import Session

ListName = Literal["pending", "processing", "completed", "failed"]
History = Literal["completed", "failed"]
QueueName = Annotated[str, typer.Argument(metavar="QUEUE", help="Which queue.", autocompletion=list_names)]
Ids = Annotated[list[str] | None, typer.Argument(metavar="[ID]...", help="Which jobs.")]
Visibility = Annotated[
    str,
    typer.Option(
        "--visibility", metavar="TIME", help="After how long a claim is stale; only its workers know."
    ),
]
KeptFor = Annotated[
    str, typer.Option("--ttl", metavar="TIME", help="How long completed and failed jobs are kept.")
]
HistoryLength = Annotated[
    int, typer.Option("--history", min=1, metavar="N", help="How many completed and failed ids are kept.")
]
All = Annotated[bool, typer.Option("--all", help="Every job of the list, if no ids say which.")]

JOB: dict[str, Any] = {
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
_NUMBERS = (
    "attempts",
    "enqueued_at_ms",
    "claimed_at_ms",
    "completed_at_ms",
    "reclaimed_at_ms",
    "last_error_at_ms",
)
_KNOWN = {*_NUMBERS, "id", "status", "claim_token", "payload", "result", "last_error"}
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


def keys_of(queue: str) -> JobListKeys:
    """The keys of a queue."""
    from chasqui.foreign import JobListKeys

    return JobListKeys(queue)


def options_of(visibility: str = "5s", ttl: str = "5m", history: int = 50, max_attempts: int = 3) -> Options:
    """What every process of a queue must be told alike."""
    from chasqui.foreign.joblist import Options

    return Options(
        visibility_ms=duration_ms(visibility),
        ttl_s=max(1, duration_ms(ttl) // 1000),
        history=history,
        max_attempts=max_attempts,
    )


def job_record(desk: Desk, queue: str, job: Job) -> Record:
    """Everything known of a job; what its hash holds besides is in `fields`."""
    numbers = {name: job.number(name) for name in _NUMBERS}
    others = {name: job.text(name) for name in job.fields if name not in _KNOWN}
    return {
        "queue": queue,
        "id": job.id,
        "lists": {name: list(places) for name, places in job.places.items()},
        "status": job.text("status"),
        "claim_token": job.text("claim_token") if desk.show_secrets else _covered(job.text("claim_token")),
        "expires_in_ms": job.ttl_ms,
        "payload": desk.shown(job.value("payload")),
        "result": desk.shown(job.value("result")),
        "last_error": desk.shown(job.text("last_error")),
        "expired": job.expired,
        "fields": desk.shown(others),
        **numbers,
    }


def _covered(token: str | None) -> str | None:
    """Whoever has the token can settle the job; that there is one may be seen."""
    return token and f"{token[:4]}…"


def check_queue(session: Session, keys: JobListKeys) -> None:
    """A queue without any list is none."""
    from chasqui.errors import NotFound
    from chasqui.foreign import joblist

    depths = session.link.run(joblist.depths(keys))
    if not (depths.pending or depths.processing or depths.completed or depths.failed):
        raise NotFound(
            f"there is no list job queue named {keys.queue!r}, or it is empty: empty lists are not there",
            hint="`chasqui queues` lists them",
        )
