"""Verdicts and jobs as records: the JSON of `why` and `job`, written once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chasqui_cli.output.job_text import state_sentence
from chasqui_cli.output.records import EVENT_SCHEMA, event_record, payload_record, retry_record

if TYPE_CHECKING:
    from chasqui.inspect.job_search import SearchCoverage
    from chasqui.inspect.job_state import JobState, JobStateReport
    from chasqui_cli.context.command_context import CommandContext
    from chasqui_cli.output.columns import Record

_EVIDENCE_FIELDS = (
    "entry_id", "age_ms", "behind", "has_group", "group", "consumer", "idle_ms", "deliveries", "run_at_ms", "lag_ms",
    "dead_id", "error", "result_bytes", "result_ttl_ms", "next_fire_ms", "events_since_ms", "was_scheduled",
)  # fmt: skip

SEARCHED_SCHEMA = {"place": "str", "entries": "int", "complete": "bool"}
JOB_STATE_SCHEMA: dict[str, Any] = {
    "queue": "str",
    "id": "str",
    "state": "str",
    "text": "str",
    "server_time_ms": "int",
    "evidence": "any",
    "also": [{"state": "str", "text": "str", "evidence": "any"}],
    "events": [EVENT_SCHEMA],
    "looked": [SEARCHED_SCHEMA],
}
JOB_SCHEMA: dict[str, Any] = {
    "queue": "str",
    "id": "str",
    "state": "str",
    "text": "str",
    "name": "str?",
    "created_at_ms": "int?",
    "attempt": "int?",
    "retry": "any",
    "data": "any",
    "payload_bytes": "int?",
    "undecodable": "str?",
    "result": "any",
    "evidence": "any",
    "also": JOB_STATE_SCHEMA["also"],
    "events": [EVENT_SCHEMA],
    "looked": [SEARCHED_SCHEMA],
}


def job_state_record(report: JobStateReport, ctx: CommandContext) -> Record:
    """What became of a job, and how that is known. Errors quote payloads, so their secrets are covered as well."""
    now_ms = report.server_time_ms

    def finding_record(finding: JobState) -> Record:
        return {
            "state": finding.state,
            "text": ctx.redacted(state_sentence(finding, now_ms)),
            "evidence": ctx.redacted(evidence_record(finding)),
        }

    return {
        "queue": report.queue,
        "id": report.job_id,
        **finding_record(report.primary),
        "server_time_ms": now_ms,
        "also": [finding_record(one) for one in report.also],
        "events": [redacted_event(event_record(event), ctx) for event in report.events],
        "looked": [_searched_record(one) for one in report.coverage],
    }


def redacted_event(record: Record, ctx: CommandContext) -> Record:
    """An event, the secrets in its error covered."""
    return record | {"reason": ctx.redacted(record["reason"])} if "reason" in record else record


def job_record(report: JobStateReport, result: Any, ctx: CommandContext) -> Record:
    """Everything known of a job, merged from wherever it was found."""
    state = job_state_record(report, ctx)
    found = (report.primary, *report.also)
    job = next((one.job for one in found if hasattr(one, "job")), None)
    names = [getattr(one, "name", "") or getattr(getattr(one, "letter", None), "name", "") for one in found]
    names += [event.event.name for event in reversed(report.events)]
    record = {
        "queue": state["queue"],
        "id": state["id"],
        "state": state["state"],
        "text": state["text"],
        "name": next((name for name in names if name), None),
        **_payload_fields(job, ctx),
        "result": ctx.redacted(result),
    }
    return record | {name: state[name] for name in ("evidence", "also", "events", "looked")}


def evidence_record(finding: JobState) -> Record:
    """The numbers and ids behind a finding."""
    evidence: Record = {name: getattr(finding, name) for name in _EVIDENCE_FIELDS if hasattr(finding, name)}
    letter = getattr(finding, "letter", None)
    if letter is not None:
        evidence |= {"reason": letter.reason, "detail": letter.detail, "source_id": letter.source_id}
    return evidence


def _payload_fields(job: Any, ctx: CommandContext) -> Record:
    from chasqui import Envelope, Undecodable

    record: Record = dict.fromkeys(("created_at_ms", "attempt", "retry", "data", "payload_bytes", "undecodable"))
    if isinstance(job, Envelope):
        payload = payload_record(job.payload)
        return record | {
            "created_at_ms": job.created_at_ms,
            "attempt": job.attempt,
            "retry": retry_record(job.retry),
            "data": ctx.redacted(payload["data"]),
            "payload_bytes": len(job.payload.raw),
            "undecodable": payload.get("undecodable"),
        }
    if isinstance(job, Undecodable):
        return record | {"data": job.raw, "payload_bytes": len(job.raw), "undecodable": job.reason}
    return record


def _searched_record(looked: SearchCoverage) -> Record:
    return {"place": looked.place, "entries": looked.scanned, "complete": looked.complete}
