"""A job of a list queue as a record."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chasqui.foreign.joblist import ListJob
    from chasqui_cli.context.command_context import CommandContext
    from chasqui_cli.output.columns import Record

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


def joblist_job_record(ctx: CommandContext, queue: str, job: ListJob) -> Record:
    """Everything known of a job; other fields of its hash are in `fields`."""
    numbers = {name: job.number(name) for name in _NUMBER_FIELDS}
    others = {name: job.text(name) for name in job.fields if name not in _KNOWN_FIELDS}
    return {
        "queue": queue,
        "id": job.id,
        "lists": {name: list(places) for name, places in job.places.items()},
        "status": job.text("status"),
        "claim_token": job.text("claim_token") if ctx.show_secrets else _shortened_token(job.text("claim_token")),
        "expires_in_ms": job.ttl_ms,
        "payload": ctx.redacted(job.value("payload")),
        "result": ctx.redacted(job.value("result")),
        "last_error": ctx.redacted(job.text("last_error")),
        "expired": job.is_expired,
        "fields": ctx.redacted(others),
        **numbers,
    }


def _shortened_token(token: str | None) -> str | None:
    """The start of the token: with all of it, anyone could settle the job."""
    return token and f"{token[:4]}…"
