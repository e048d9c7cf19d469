"""`chasqui add`: put jobs into a queue, and print their ids."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import IO, TYPE_CHECKING, Annotated, Any

import typer

from chasqui_cli.changes.confirm import ChangePlan
from chasqui_cli.commands.add._job_lines import (
    JobDefaults,
    JobLine,
    check_lines,
    good_lines,
    open_rereadable,
    read_lines,
)
from chasqui_cli.commands.add._job_sender import JobSender
from chasqui_cli.context.command_context import CommandContext, command
from chasqui_cli.context.completion import complete_queues
from chasqui_cli.exit_codes import ExitCode
from chasqui_cli.input.values import parse_json_argument
from chasqui_cli.output.columns import Column, column
from chasqui_cli.output.json_schema import OptionalKey
from chasqui_cli.output.stdio import print_stderr
from chasqui_cli.output.times import parse_duration_ms
from chasqui_cli.output.writer import Format

if TYPE_CHECKING:
    from chasqui import ProducerOptions
    from chasqui.produce.prepared_batch import Added, JobRequest
    from chasqui_cli.context.session import Session
    from chasqui_cli.output.columns import Record


ADD_SCHEMA = {
    "queue": "str",
    "id": "str?",
    "entry_id": "str?",
    "run_at_ms": "int?",
    "duplicate": "bool",
    "outcome": OptionalKey("str"),
}
"""`outcome` only in a dry run: `would add`."""
COLUMNS: list[Column] = [
    column("id"),
    column("entry", "entry_id"),
    column("due", "run_at_ms", kind="moment"),
    column("duplicate"),
]
DRY_RUN_COLUMNS = [column("id"), column("due", "run_at_ms", kind="moment"), column("outcome")]
MAX_JOURNALED = 100_000
MAX_BAD_LINES_SHOWN = 20
FORBIDDEN_NAME_CHARS = "{}*?[]\\"


class OnFull(StrEnum):
    """What `--on-full` takes."""

    REFUSE = "refuse"
    GROW = "grow"


class Durability(StrEnum):
    """What `--durability` takes."""

    WRITTEN = "written"
    REPLICATED = "replicated"


@command("add", schema=ADD_SCHEMA, changes=True, asks="protected", undoable=True, local_paths=("file",))
def add(
    ctx: CommandContext,
    queue: Annotated[str, typer.Argument(help="Where to.", autocompletion=complete_queues)],
    data: Annotated[
        str | None,
        typer.Argument(help='What the job carries, as JSON (tags such as {"$bin": "00ff"} too); `-` reads stdin.'),
    ] = None,
    name: Annotated[str, typer.Option("--name", help="The job's name.")] = "",
    job_id: Annotated[
        str | None, typer.Option("--id", metavar="ID", help="An id of its own, instead of a new one.")
    ] = None,
    unique: Annotated[
        bool, typer.Option("--unique", help="Add nothing if anybody used this id within the last hour.")
    ] = False,
    delay: Annotated[
        str | None, typer.Option("--delay", metavar="TIME", help="Let it wait, as in 30s or 1d3h.")
    ] = None,
    at: Annotated[
        str | None, typer.Option("--at", metavar="TIME", help="When it is due: ISO-8601; UTC without a zone.")
    ] = None,
    attempts: Annotated[int | None, typer.Option("--attempts", min=0, help="How often it may run at most.")] = None,
    backoff: Annotated[
        str | None,
        typer.Option("--backoff", metavar="SPEC", help="Wait between attempts: 250, fixed:250, exponential:100:30000."),
    ] = None,
    file: Annotated[
        str | None,
        typer.Option(
            "--file",
            "-f",
            metavar="FILE",
            help='Many jobs, a line of JSON each: {"name","data","id"?,"delay_ms"?,"at"?,"attempts"?,"backoff"?}; `-` is stdin.',
        ),
    ] = None,
    rps: Annotated[
        float | None, typer.Option("--rps", min=0.1, metavar="N", help="At most so many jobs per second.")
    ] = None,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Add the good lines of a file that has bad ones too; exit 3.")
    ] = False,
    from_line: Annotated[int, typer.Option("--from-line", min=1, metavar="N", help="Begin a file at this line.")] = 1,
    on_full: Annotated[
        OnFull, typer.Option("--on-full", help="At --cap jobs: add no more, or let it grow.")
    ] = OnFull.REFUSE,
    durability: Annotated[
        Durability, typer.Option("--durability", help="When a job counts: on the server, or on a replica too.")
    ] = Durability.WRITTEN,
    cap: Annotated[
        int | None, typer.Option("--cap", min=1, metavar="N", help="How many jobs may wait; 1,000,000.")
    ] = None,
    max_delay: Annotated[
        str, typer.Option("--max-delay", metavar="TIME", help="Refuse to delay a job for longer.")
    ] = "30d",
    no_journal: Annotated[
        bool, typer.Option("--no-journal", help="Do not write the jobs down for `undo`; it is faster.")
    ] = False,
) -> None:
    """Add a job, or one for each line of a file, and print their ids.

    A file is looked at as a whole before anything is added. While jobs wait, `chasqui undo` takes them back.
    """
    from chasqui.errors import ArgumentError

    _check_queue_name(queue)
    if file is not None and (data is not None or job_id is not None):
        raise ArgumentError("--file brings its own data and ids", hint="give DATA and --id, or --file")
    usual = JobDefaults(name, job_id, unique, delay, at, attempts, backoff)
    adding = _AddCommand(ctx, queue, usual, _producer_options(on_full, cap, max_delay, durability), rps, not no_journal)
    if file is None:
        adding.add_one(None if data is None else parse_json_argument(data, "DATA"))
    else:
        with open_rereadable(file) as lines:
            adding.add_file(lines, from_line, skip_bad=skip_bad)


def _check_queue_name(queue: str) -> None:
    """A new queue gets a name that every tool accepts; existing queues with other names can still be managed."""
    from chasqui.errors import ArgumentError

    if not queue or not queue.isprintable() or any(char in FORBIDDEN_NAME_CHARS for char in queue):
        raise ArgumentError(
            f"{queue!r} is no name for a queue",
            hint=f"letters, digits, and signs other than {FORBIDDEN_NAME_CHARS}; no blanks that cannot be seen",
        )


def _producer_options(on_full: OnFull, cap: int | None, max_delay: str, durability: Durability) -> ProducerOptions:
    from chasqui import ProducerOptions

    options = ProducerOptions(
        max_delay_s=max(1, parse_duration_ms(max_delay) // 1000), replicas=int(durability is Durability.REPLICATED)
    )
    if on_full is OnFull.GROW:
        return options._replace(cap=None)
    return options if cap is None else options._replace(cap=cap)


@dataclass(frozen=True, slots=True)
class _AddCommand:
    """Everything one command line asks for."""

    ctx: CommandContext
    queue: str
    usual: JobDefaults
    options: ProducerOptions
    rps: float | None
    journal: bool

    def add_one(self, data: Any) -> None:
        from chasqui.produce import prepared_batch

        with self.ctx.session() as session:
            # The data's tags are values by now, so it is not described like a line's.
            now_ms = session.server_now_ms() if self.usual.at or self.ctx.change_options.dry_run else 0
            job = self.usual.build_job({}, now_ms)._replace(data=data)
            prepared_batch.prepare_batch(
                [job], now_ms, self.options
            )  # an invalid job is refused before the confirmation
            if not self._confirm(1):
                self._write_dry_run([job], now_ms, alone=True)
                return
            with self._open_sender(session, 1) as sender:
                self._write_added(map(self._record, sender.send([job])), alone=True)
        _report_end(sender, 1, None)

    def add_file(self, file: IO[bytes], first: int, *, skip_bad: bool) -> None:
        numbers: list[int] = []
        with self.ctx.session() as session:
            now_ms = session.server_now_ms()
            total, bad = self._check_file(file, first, now_ms, skip_bad=skip_bad)
            if not total:
                self.ctx.info("nothing to do: there are no jobs in it")
                return
            lines = good_lines(file, self.usual, now_ms, first=first, bad=bad)
            if not self._confirm(total):
                self._write_dry_run((one.job for one in lines), now_ms)
                return
            jobs = _track_lines(lines, numbers)
            with (
                self._open_sender(session, total) as sender,
                self.ctx.progress(f"adding to {self.queue}", total) as advance,
            ):
                self._write_added(self._sent_records(sender, jobs, advance))
        _report_end(sender, total, numbers)
        if bad:
            raise typer.Exit(ExitCode.PARTLY)

    def _check_file(self, file: IO[bytes], first: int, now_ms: int, *, skip_bad: bool) -> tuple[int, set[int]]:
        """The number of jobs, and the bad lines, which are printed; they stop it unless they are to be skipped."""
        from chasqui.errors import ArgumentError

        total, bad = 0, set[int]()
        for one in check_lines(read_lines(file, self.usual, now_ms, first=first), self.options, now_ms):
            if isinstance(one, JobLine):
                total += 1
                continue
            bad.add(one.line)
            if len(bad) <= MAX_BAD_LINES_SHOWN:
                print_stderr(f"line {one.line}: {one.why}")
        if len(bad) > MAX_BAD_LINES_SHOWN:
            print_stderr(f"… and {len(bad) - MAX_BAD_LINES_SHOWN:,} more bad lines")
        if bad and not skip_bad:
            raise ArgumentError(
                f"{len(bad):,} of {total + len(bad):,} lines are no jobs; nothing was added",
                hint="mend them, or add the others with --skip-bad",
            )
        return total, bad

    def _confirm(self, total: int) -> bool:
        noun = "job" if total == 1 else "jobs"
        return self.ctx.confirm(ChangePlan("add", self.queue, noun, [{}] * total, preposition="to"))

    @contextmanager
    def _open_sender(self, session: Session, total: int) -> Iterator[JobSender]:
        """Somebody to send them, and the journal open for the time."""
        from chasqui import Keys

        journal = self.journal and total <= MAX_JOURNALED
        if self.journal and not journal:
            self.ctx.info(
                f"more than {MAX_JOURNALED:,} jobs: they are not written down, and `undo` cannot take them back"
            )
        with self.ctx.journal_operation(self.queue) as pen:
            sender = JobSender(session, Keys(self.queue), self.options, pen if journal else None, self.rps)
            try:
                yield sender
            finally:
                pen.done = sender.done
                pen.set_result(added=sender.done, repeated=sender.duplicates)
                pen.nothing_changed = sender.error is not None and not sender.done and not sender.unconfirmed

    def _sent_records(
        self, sender: JobSender, jobs: Iterable[JobRequest], advance: Callable[[int], None]
    ) -> Iterator[Record]:
        for added in sender.send(jobs):
            advance(sender.done)
            yield self._record(added)

    def _write_added(self, records: Iterable[Record], *, alone: bool = False) -> None:
        """One id per line for people; a job that is added alone is an object, not a list of one."""
        ctx = self.ctx if self.ctx.output is not Format.TABLE else replace(self.ctx, output=Format.NAME)
        if alone and ctx.output in (Format.JSON, Format.YAML):
            for record in records:
                ctx.write_record(record, COLUMNS)
        else:
            ctx.write_records(records, COLUMNS)

    def _record(self, added: Added) -> Record:
        return added_record(self.queue, added.id, added.entry_id, added.run_at_ms, duplicate=added.duplicate)

    def _write_dry_run(self, jobs: Iterable[JobRequest], now_ms: int, *, alone: bool = False) -> None:
        """What would be added. A generated id is not known before."""
        ctx = self.ctx
        records = (
            added_record(self.queue, job.job_id, None, _due_at_ms(job, now_ms)) | {"outcome": "would add"}
            for job in jobs
        )
        if ctx.output is Format.NAME:
            ctx.write_records((one for one in records if one["id"]), COLUMNS)
        elif alone and ctx.output in (Format.JSON, Format.YAML):
            ctx.write_record(next(records))
        else:
            ctx.write_records(records, DRY_RUN_COLUMNS, now_ms=now_ms)


def added_record(
    queue: str, job_id: str | None, entry_id: str | None, run_at_ms: int | None = None, *, duplicate: bool = False
) -> Record:
    """The record of a job that was added."""
    return {
        "queue": queue, "id": job_id, "entry_id": entry_id, "run_at_ms": run_at_ms, "duplicate": duplicate,
    }  # fmt: skip


def _due_at_ms(job: JobRequest, now_ms: int) -> int | None:
    due = job.options.due if job.options else None
    return due if due is None or isinstance(due, int) else now_ms + due.delay_ms


def _track_lines(lines: Iterable[JobLine], numbers: list[int]) -> Iterator[JobRequest]:
    """The jobs, with their lines noted down as they leave."""
    for one in lines:
        numbers.append(one.number)
        yield one.job


def _report_end(sender: JobSender, total: int, numbers: list[int] | None) -> None:
    """How it ended, for the shell: what was added is added, whatever came after it."""
    from chasqui.errors import QueueFull

    error = sender.error
    if error is None:
        return
    if isinstance(error, QueueFull):
        error.hint = "wait for the workers, raise --cap, or let the queue grow with --on-full grow"
    if not sender.done and not sender.unconfirmed:
        raise error
    print_stderr(f"error: {sender.done:,} of {total:,} jobs were added, then: {error}")
    if sender.unconfirmed:
        print_stderr(f"hint: {sender.unconfirmed:,} jobs may have been added without an answer; `chasqui why ID` tells")
    elif numbers and sender.in_order:
        print_stderr(f"hint: {error.hint or 'try again later'}; go on with --from-line {numbers[sender.done]}")
    else:
        print_stderr(f"hint: {error.hint or 'try again later'}; the ids that were printed are added")
    raise typer.Exit(ExitCode.PARTLY)
