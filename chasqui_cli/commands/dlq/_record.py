"""Dead letters as records: their columns, and the errors they died of.

`_search.py` finds and selects them; the verbs change them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chasqui_cli.context.completion import complete_queues
from chasqui_cli.output.columns import Column, column

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from chasqui import Envelope, Keys, Undecodable
    from chasqui.operate.dead_letters import DeadLetter
    from chasqui_cli.context.command_context import CommandContext
    from chasqui_cli.context.session import Session
    from chasqui_cli.output.columns import Record

QueueName = Annotated[str, typer.Argument(metavar="QUEUE", help="Which queue.", autocompletion=complete_queues)]
DeadLetterIdsArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="[ID]...", help="Which letters: their own ids or job ids. None: those the filters choose."),
]

DEAD_LETTER_SCHEMA = {
    "dlq_id": "str",
    "source_id": "str",
    "reason": "str",
    "detail": "str?",
    "error": "str?",
    "name": "str",
    "id": "str?",
    "attempt": "int?",
    "created_at_ms": "int?",
    "data": "any",
    "retry": "any",
    "payload_bytes": "int",
    "undecodable": "str?",
}
_FIELDS_OUTSIDE_JOB = {*DEAD_LETTER_SCHEMA, "@"} - {"data", "id", "attempt", "created_at_ms"}
OUTCOME_SCHEMA = {"dlq_id": "str", "id": "str?", "name": "str", "reason": "str", "outcome": "str"}
OUTCOME_COLUMNS = [column(name) for name in OUTCOME_SCHEMA]
ENTRY_ID = re.compile(r"\d{1,20}-\d{1,20}", re.ASCII)


def died_ms(record: Record) -> int:
    """When the dead letter was written, by the server's clock: the first half of its id."""
    from chasqui import entry_time_ms

    return entry_time_ms(record["dlq_id"])


DIED_COLUMN = Column("died", died_ms, kind="moment")
PREVIEW_COLUMNS = [column("dlq_id"), DIED_COLUMN, column("name"), column("id"), column("reason")]


@dataclass(slots=True)
class DeadLetterMatch:
    """A dead letter that matches, and the job in it."""

    letter: DeadLetter
    job: Envelope | Undecodable

    def summary_record(self) -> Record:
        """What identifies it."""
        return {
            "dlq_id": self.letter.dead_id,
            "id": getattr(self.job, "id", None),
            "name": self.letter.name,
            "reason": self.letter.field(b"reason").decode("utf-8", "replace"),
        }

    @property
    def size_bytes(self) -> int:
        """How many bytes it is."""
        return sum(map(len, self.letter.fields))

    def filter_record(self, failures: FoundErrors, asks_for: frozenset[str]) -> Record:
        """As much of the record as an expression uses: the fields around the job are most of the work."""
        from chasqui import Undecodable

        if not asks_for.isdisjoint(_FIELDS_OUTSIDE_JOB) or isinstance(self.job, Undecodable):
            return self.record(failures)
        payload = self.job.payload
        data = payload.data_or_bytes(len(payload.raw)) if "data" in asks_for else None
        return {
            "id": self.job.id,
            "attempt": self.job.attempt,
            "created_at_ms": self.job.created_at_ms,
            "data": payload.raw if isinstance(data, Undecodable) else data,
        }

    def record(self, failures: FoundErrors) -> Record:
        """All of it, as `dlq peek` shows it, secrets included. Bytes that cannot be read are there, with the reason."""
        from chasqui import Undecodable
        from chasqui_cli.output.records import retry_record

        decoded, job = self.letter.decoded(), self.job
        record: Record = {
            "dlq_id": self.letter.dead_id,
            "source_id": decoded.source_id,
            "reason": decoded.reason,
            "detail": decoded.detail,
            "error": decoded.detail,
            "name": decoded.name,
            "id": None,
            "attempt": None,
            "created_at_ms": None,
            "data": decoded.d,
            "retry": None,
            "payload_bytes": len(decoded.d),
            "undecodable": None,
        }
        if isinstance(job, Undecodable):
            return record | {"undecodable": job.reason}
        data = job.payload.data_or_bytes(len(job.payload.raw))
        broken = data.reason if isinstance(data, Undecodable) else None
        return record | {
            "error": decoded.detail or failures.reason_of(job.id),
            "id": job.id,
            "attempt": job.attempt,
            "created_at_ms": job.created_at_ms,
            "data": job.payload.raw if broken else data,
            "retry": retry_record(job.retry),
            "payload_bytes": len(job.payload.raw),
            "undecodable": f"payload: {broken}" if broken else None,
        }


@dataclass(slots=True)
class FoundErrors:
    """The errors in the events, by job id; read when first used, unless they are given."""

    session: Session
    keys: Keys
    texts: Mapping[str, str] | None = None

    def reason_of(self, job_id: str) -> str | None:
        """The job's last error, if an event still has it."""
        from chasqui.inspect import error_search as failures

        if self.texts is None:
            self.texts = self.session.query(failures.find_recent_errors, self.keys).texts
        return self.texts.get(job_id)


def load_failure_reasons(session: Session, keys: Keys, matches: Iterable[DeadLetterMatch]) -> FoundErrors:
    """The errors of these jobs, where their dead letters have none; two round trips for a page of them."""
    from chasqui import Undecodable
    from chasqui.inspect import error_search as failures

    died = {
        one.job.id: one.letter.died_at_ms
        for one in matches
        if not isinstance(one.job, Undecodable) and not one.letter.field(b"detail")
    }
    return FoundErrors(session, keys, session.query(failures.find_errors, keys, died).texts)


def redacted_record(ctx: CommandContext, record: Record) -> Record:
    """A record with its secrets covered, unless they were asked for."""
    covered: Record = {name: ctx.redacted(record[name]) for name in ("data", "error", "detail")}
    return record | covered


def chunked(items: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    """The items in chunks of `size`."""
    for start in range(0, len(items), size):
        yield items[start : start + size]
