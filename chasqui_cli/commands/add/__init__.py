"""`chasqui add`: put jobs into a queue, and print their ids."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import IO, TYPE_CHECKING, Annotated, Any

import typer

from chasqui_cli.changes import Plan
from chasqui_cli.columns import Column, column
from chasqui_cli.commands.add.lines import Line, Usual, checked, good, opened, read
from chasqui_cli.commands.add.sending import Sender
from chasqui_cli.completing import queue_names
from chasqui_cli.desk import Desk, at_desk
from chasqui_cli.output import Format
from chasqui_cli.shapes import Sometimes
from chasqui_cli.streams import talk
from chasqui_cli.taking import json_value
from chasqui_cli.times import duration_ms

if TYPE_CHECKING:
    from chasqui import ProducerOptions
    from chasqui.adding import Added, Wanted
    from chasqui_cli.columns import Record
    from chasqui_cli.session import Session

app = typer.Typer(add_completion=False, rich_markup_mode=None)

ADDED = {
    "queue": "str",
    "id": "str?",
    "entry_id": "str?",
    "run_at_ms": "int?",
    "duplicate": "bool",
    "outcome": Sometimes("str"),
}
"""`outcome` is told in a dry run: `would add`."""
COLUMNS: list[Column] = [
    column("id"),
    column("entry", "entry_id"),
    column("due", "run_at_ms", kind="moment"),
    column("duplicate"),
]
INTENDED_COLUMNS = [column("id"), column("due", "run_at_ms", kind="moment"), column("outcome")]
MOST_WRITTEN_DOWN = 100_000
BAD_SHOWN = 20
PARTLY = 3
UNFIT = "{}*?[]\\"


class OnFull(StrEnum):
    """What `--on-full` takes."""

    REFUSE = "refuse"
    GROW = "grow"


class Durability(StrEnum):
    """What `--durability` takes."""

    WRITTEN = "written"
    REPLICATED = "replicated"


@app.command()
@at_desk(shape=ADDED, changes=True)
def add(
    desk: Desk,
    queue: Annotated[str, typer.Argument(help="Where to.", autocompletion=queue_names)],
    data: Annotated[
        str | None,
        typer.Argument(
            help='What the job carries, as JSON (tags such as {"$bin": "00ff"} too); `-` reads stdin.'
        ),
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
    attempts: Annotated[
        int | None, typer.Option("--attempts", min=0, help="How often it may run at most.")
    ] = None,
    backoff: Annotated[
        str | None,
        typer.Option(
            "--backoff", metavar="SPEC", help="Wait between attempts: 250, fixed:250, exponential:100:30000."
        ),
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
    from_line: Annotated[
        int, typer.Option("--from-line", min=1, metavar="N", help="Begin a file at this line.")
    ] = 1,
    on_full: Annotated[
        OnFull, typer.Option("--on-full", help="At --cap jobs: add no more, or let it grow.")
    ] = OnFull.REFUSE,
    durability: Annotated[
        Durability,
        typer.Option("--durability", help="When a job counts: on the server, or on a replica too."),
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

    _check_name(queue)
    if file is not None and (data is not None or job_id is not None):
        raise ArgumentError("--file brings its own data and ids", hint="give DATA and --id, or --file")
    usual = Usual(name, job_id, unique, delay, at, attempts, backoff)
    errand = _Errand(desk, queue, usual, _options(on_full, cap, max_delay, durability), rps, not no_journal)
    if file is None:
        errand.add_one(None if data is None else json_value(data, "DATA"))
    else:
        with opened(file) as lines:
            errand.add_all(lines, from_line, skip_bad=skip_bad)


def _check_name(queue: str) -> None:
    """A new queue gets a name that every tool can take; what has other names already is still looked at and mended."""
    from chasqui.errors import ArgumentError

    if not queue or not queue.isprintable() or any(char in UNFIT for char in queue):
        raise ArgumentError(
            f"{queue!r} is no name for a queue",
            hint=f"letters, digits, and signs other than {UNFIT}; no blanks that cannot be seen",
        )


def _options(on_full: OnFull, cap: int | None, max_delay: str, durability: Durability) -> ProducerOptions:
    from chasqui import ProducerOptions

    options = ProducerOptions(
        max_delay_s=max(1, duration_ms(max_delay) // 1000),
        replicas=int(durability is Durability.REPLICATED),
    )
    if on_full is OnFull.GROW:
        return options._replace(cap=None)
    return options if cap is None else options._replace(cap=cap)


@dataclass(frozen=True, slots=True)
class _Errand:
    """Everything one command line asks for."""

    desk: Desk
    queue: str
    usual: Usual
    options: ProducerOptions
    rps: float | None
    journal: bool

    def add_one(self, data: Any) -> None:
        from chasqui import adding

        with self.desk.session() as session:
            # The data's tags are values by now, so it is not described like a line's.
            now_ms = session.now_ms() if self.usual.at or self.desk.change.dry_run else 0
            job = self.usual.job({}, now_ms)._replace(data=data)
            adding.made([job], now_ms, self.options)  # what is wrong with it is told before anybody is asked
            if not self._agreed(1):
                self._intend([job], now_ms, alone=True)
                return
            with self._sender(session, 1) as sender:
                self._emit(map(self._record, sender.send([job])), alone=True)
        _conclude(sender, 1, None)

    def add_all(self, file: IO[bytes], first: int, *, skip_bad: bool) -> None:
        numbers: list[int] = []
        with self.desk.session() as session:
            now_ms = session.now_ms()
            total, bad = self._looked_through(file, first, now_ms, skip_bad=skip_bad)
            if not total:
                self.desk.say("nothing to do: there are no jobs in it")
                return
            lines = good(file, self.usual, now_ms, first=first, bad=bad)
            if not self._agreed(total):
                self._intend((one.job for one in lines), now_ms)
                return
            jobs = _noted(lines, numbers)
            with (
                self._sender(session, total) as sender,
                self.desk.progress(f"adding to {self.queue}", total) as advance,
            ):
                self._emit(self._told(sender, jobs, advance))
        _conclude(sender, total, numbers)
        if bad:
            raise typer.Exit(PARTLY)

    def _looked_through(
        self, file: IO[bytes], first: int, now_ms: int, *, skip_bad: bool
    ) -> tuple[int, set[int]]:
        """How many jobs there are, and bad lines, which are told; they stop it unless they are to be skipped."""
        from chasqui.errors import ArgumentError

        total, bad = 0, set[int]()
        for one in checked(read(file, self.usual, now_ms, first=first), self.options, now_ms):
            if isinstance(one, Line):
                total += 1
                continue
            bad.add(one.line)
            if len(bad) <= BAD_SHOWN:
                talk(f"line {one.line}: {one.why}")
        if len(bad) > BAD_SHOWN:
            talk(f"… and {len(bad) - BAD_SHOWN:,} more bad lines")
        if bad and not skip_bad:
            raise ArgumentError(
                f"{len(bad):,} of {total + len(bad):,} lines are no jobs; nothing was added",
                hint="mend them, or add the others with --skip-bad",
            )
        return total, bad

    def _agreed(self, total: int) -> bool:
        """Adding takes nothing away, so nobody is asked, unless the context wants the name typed."""
        settings = self.desk.settings()
        if settings.protected or settings.read_only or self.desk.change.dry_run:
            return self.desk.agrees(
                Plan("add", self.queue, "job" if total == 1 else "jobs", [{}] * total, link="to")
            )
        return True

    @contextmanager
    def _sender(self, session: Session, total: int) -> Iterator[Sender]:
        """Somebody to send them, and the journal open for the time."""
        from chasqui import Keys

        journal = self.journal and total <= MOST_WRITTEN_DOWN
        if self.journal and not journal:
            self.desk.say(
                f"more than {MOST_WRITTEN_DOWN:,} jobs: they are not written down, and `undo` cannot take them back"
            )
        with self.desk.written_down("add", self.queue) as pen:
            sender = Sender(session, Keys(self.queue), self.options, pen if journal else None, self.rps)
            try:
                yield sender
            finally:
                pen.tell(added=sender.done, repeated=sender.repeated)
                pen.in_vain = sender.error is not None and not sender.done and not sender.unsure

    def _told(
        self, sender: Sender, jobs: Iterable[Wanted], advance: Callable[[int], None]
    ) -> Iterator[Record]:
        for added in sender.send(jobs):
            advance(sender.done)
            yield self._record(added)

    def _emit(self, records: Iterable[Record], *, alone: bool = False) -> None:
        """One id per line for people; a job that is added alone is an object, not a list of one."""
        desk = self.desk if self.desk.output is not Format.TABLE else replace(self.desk, output=Format.NAME)
        if alone and desk.output in (Format.JSON, Format.YAML):
            for record in records:
                desk.emit_one(record, COLUMNS)
        else:
            desk.emit(records, COLUMNS)

    def _record(self, added: Added) -> Record:
        return added_record(self.queue, added.id, added.entry_id, added.run_at_ms, duplicate=added.duplicate)

    def _intend(self, jobs: Iterable[Wanted], now_ms: int, *, alone: bool = False) -> None:
        """What would be added. An id that is made when the job is cannot be told before."""
        desk = self.desk
        records = (
            added_record(self.queue, job.job_id, None, _due_ms(job, now_ms)) | {"outcome": "would add"}
            for job in jobs
        )
        if desk.output is Format.NAME:
            desk.emit((one for one in records if one["id"]), COLUMNS)
        elif alone and desk.output in (Format.JSON, Format.YAML):
            desk.emit_one(next(records))
        else:
            desk.emit(records, INTENDED_COLUMNS, now_ms=now_ms)


def added_record(
    queue: str,
    job_id: str | None,
    entry_id: str | None,
    run_at_ms: int | None = None,
    *,
    duplicate: bool = False,
) -> Record:
    """What is told of a job that was added."""
    return {
        "queue": queue, "id": job_id, "entry_id": entry_id, "run_at_ms": run_at_ms, "duplicate": duplicate,
    }  # fmt: skip


def _due_ms(job: Wanted, now_ms: int) -> int | None:
    due = job.terms.due if job.terms else None
    return due if due is None or isinstance(due, int) else now_ms + due.delay_ms


def _noted(lines: Iterable[Line], numbers: list[int]) -> Iterator[Wanted]:
    """The jobs, with their lines noted down as they leave."""
    for one in lines:
        numbers.append(one.number)
        yield one.job


def _conclude(sender: Sender, total: int, numbers: list[int] | None) -> None:
    """How it ended, for the shell: what was added is added, whatever came after it."""
    from chasqui.errors import QueueFull

    error = sender.error
    if error is None:
        return
    if isinstance(error, QueueFull):
        error.hint = "wait for the workers, raise --cap, or let the queue grow with --on-full grow"
    if not sender.done and not sender.unsure:
        raise error
    talk(f"error: {sender.done:,} of {total:,} jobs were added, then: {error}")
    if sender.unsure:
        talk(f"hint: {sender.unsure:,} jobs may have been added without an answer; `chasqui why ID` tells")
    elif numbers and sender.in_order:
        talk(f"hint: {error.hint or 'try again later'}; go on with --from-line {numbers[sender.done]}")
    else:
        talk(f"hint: {error.hint or 'try again later'}; the ids that were printed are added")
    raise typer.Exit(PARTLY)
