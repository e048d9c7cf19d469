"""Loads: writing files or archived dead letters into a queue as jobs, each exactly once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chasqui_cli.changes.confirm import ChangePlan
from chasqui_cli.commands.pipeline._spark import data_source_options
from chasqui_cli.context.command_context import CommandContext
from chasqui_cli.context.completion import complete_queues

if TYPE_CHECKING:
    from chasqui.spark.spark_session import SparkTarget
    from chasqui_cli.context.session import Session

WEEK_S = 7 * 86_400
LOAD_SCHEMA = {"queue": "str", "run_id": "str", "rows": "int", "added": "int", "repeated": "int", "outcome": "str"}
TargetQueueArgument = Annotated[str, typer.Argument(help="Where the jobs go.", autocompletion=complete_queues)]


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """Options of a load."""

    run_id: Annotated[
        str | None,
        typer.Option("--run-id", metavar="NAME", help="Name the load; under one name nothing is added twice."),
    ] = None
    max_backlog: Annotated[
        int,
        typer.Option("--max-backlog", min=0, metavar="N", help="Wait while so many jobs are in the queue; 0: never."),
    ] = 800_000
    max_rate: Annotated[
        int, typer.Option("--max-rate", min=0, metavar="N", help="Jobs a second at most; 0: no limit.")
    ] = 0

    def for_data_source(self, ctx: CommandContext, spark: SparkTarget) -> dict[str, str]:
        """Options of the data source for this load."""
        limits = {"maxBacklog": str(self.max_backlog), "maxRate": str(self.max_rate)}
        return data_source_options(ctx, spark) | limits


def load_jobs(
    ctx: CommandContext,
    session: Session,
    plan: ChangePlan,
    run_id: str,
    make: Callable[[], Any],
    options: dict[str, str],
) -> None:
    """Confirm, write, and report the outcome."""
    from chasqui.spark import bulk_jobs

    verb, queue, rows = plan.verb, plan.queue, len(plan.records)
    before = session.run(_loaded_count, queue, run_id)
    known = f"{before:,} are there already from an earlier try, and stay as they are"
    plan = replace(plan, effects=[f"as load {run_id}", *([known] if before else [])])
    record = {"queue": queue, "run_id": run_id, "rows": rows}
    if not ctx.confirm(plan):
        word = f"would {verb}" if ctx.change_options.dry_run and rows else "nothing to do"
        ctx.write_record(record | {"added": 0, "repeated": 0, "outcome": word})
        return
    with ctx.journal_operation(queue) as journal:
        jobs = make()
        with ctx.progress(f"writing to {queue}", rows) as advance, _track_progress(session, queue, run_id, advance):
            bulk_jobs.write_jobs(jobs, queue, run_id, options)
        added = session.run(_loaded_count, queue, run_id) - before
        journal.done = added
        journal.set_result(added=added, run_id=run_id)
    ctx.write_record(
        record | {"added": added, "repeated": max(0, rows - added), "outcome": f"{verb}d".replace("yd", "yed")}
    )


class SampledRecords(Sequence[Any]):
    """A sequence of which only the first records are here: the others are rows that stay in Spark."""

    def __init__(self, first: list[dict[str, Any]], count: int) -> None:
        self._first, self._count = first, count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, at: Any) -> Any:
        return self._first[at]


@contextmanager
def _track_progress(session: Session, queue: str, run_id: str, advance: Callable[[int], None]) -> Iterator[None]:
    """Update the progress bar from the load's ledger, in a thread: Spark writes from this one."""
    stop = threading.Event()

    def poll() -> None:
        from chasqui.errors import ChasquiError

        while not stop.wait(0.5):
            try:
                advance(session.run(_loaded_count, queue, run_id))
            except ChasquiError:
                continue  # the bar stands still for a moment

    watcher = threading.Thread(target=poll, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        stop.set()
        watcher.join()


def _loaded_count(commands: Any, queue: str, run_id: str) -> Any:
    from chasqui import Keys
    from chasqui.produce import bulk_load

    return bulk_load.count_written(commands, Keys(queue), run_id)
