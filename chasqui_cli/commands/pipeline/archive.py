"""`chasqui pipeline archive`: keeps events and dead letters in Parquet."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from chasqui_cli.commands.pipeline._spark import (
    ArchiveOption,
    QueuesArgument,
    SparkOptions,
    data_source_options,
    open_archive,
    parse_length_ms,
    require_writable_archive,
)
from chasqui_cli.context.command_context import CommandContext, command
from chasqui_cli.context.command_spec import Effect
from chasqui_cli.context.shared_options import options_from
from chasqui_cli.exit_codes import ExitCode
from chasqui_cli.output.columns import Column, column

if TYPE_CHECKING:
    from chasqui.spark.archiver import BatchTotals

DAY_MS = 86_400_000
ARCHIVE_SCHEMA = {"archive": "str", "batches": "int", "events": "int", "dlq": "int", "lost": "int"}
COLUMNS: list[Column] = [
    column("day"),
    column("table"),
    column("rows", kind="count"),
    column("repeated", kind="count"),
    column("files before", "files_before", kind="count"),
    column("files after", "files_after", kind="count"),
]


@command("pipeline archive", schema=ARCHIVE_SCHEMA, many=False, effect=Effect.RUNS)
@options_from(SparkOptions)
def archive(
    ctx: CommandContext,
    queues: QueuesArgument = None,
    path: ArchiveOption = None,
    once: Annotated[bool, typer.Option("--once", help="Archive what is there now, and end.")] = False,
    every: Annotated[str, typer.Option("--every", metavar="SPAN", help="How often to look.")] = "1s",
    gather: Annotated[
        str,
        typer.Option(
            "--gather", metavar="SPAN", help="How long a queue's few events may wait for more: fewer, larger files."
        ),
    ] = "10s",
    batch: Annotated[int, typer.Option("--batch", min=1000, help="Events of one batch at most.")] = 500_000,
    warm_up: Annotated[
        str, typer.Option("--warm-up", metavar="SPAN", help="How long Java may warm up first; 0s for not at all.")
    ] = "20s",
    from_now: Annotated[
        bool, typer.Option("--from-now", help="Begin with what comes from now on; only at the very first start.")
    ] = False,
    accept_recreated: Annotated[
        bool, typer.Option("--accept-recreated", help="Go on with a stream that was deleted and made anew.")
    ] = False,
    *,
    spark_options: SparkOptions,
) -> None:
    """Keep the events and dead letters of queues in Parquet, until interrupted.

    Every event is archived or counted as lost: if any were trimmed before they could be read, the exit code is 3.
    It may be killed at any moment and started again.
    """
    from chasqui.spark import archiver as archiver
    from chasqui.spark import spark_session as session

    session.check_installed()
    spark_at = spark_options.select()
    plan = archiver.ArchivePlan(
        open_archive(path, spark_options.remote),
        data_source_options(ctx, spark_at) | {"retryFor": "60"},
        tuple(queues or ()),
        trigger_s=parse_length_ms("--every", every, least=0, most=DAY_MS) / 1000,
        once=once,
        max_rows=batch,
        gather_s=parse_length_ms("--gather", gather, least=0, most=DAY_MS) / 1000,
        warm_up_s=parse_length_ms("--warm-up", warm_up, least=0, most=DAY_MS) / 1000,
        accept_recreated=accept_recreated,
        starting="latest" if from_now else "earliest",
    )
    _require_queues(ctx, queues or [])
    require_writable_archive(plan.archive)
    with (
        session.open_session(spark_at) as spark,
        ctx.progress("archiving", None) as advance,
        _stop_on_signal() as should_stop,
    ):
        done = 0

        def on_batch(batch_totals: BatchTotals) -> None:
            nonlocal done
            done += batch_totals.rows
            advance(done)
            if batch_totals.lost:
                ctx.info(
                    f"warning: {batch_totals.lost:,} events were trimmed before batch {batch_totals.batch} could read them"
                )

        totals = archiver.archive_queues(spark, plan, on_batch=on_batch, log=ctx.info, should_stop=should_stop)
    lost = sum(totals.lost.values())
    ctx.write_record(
        {
            "archive": plan.archive.root,
            "batches": totals.batches,
            "events": totals.rows.get("events", 0),
            "dlq": totals.rows.get("dlq", 0),
            "lost": lost,
        }
    )
    if lost:
        raise typer.Exit(ExitCode.PARTLY)


def _require_queues(ctx: CommandContext, queues: list[str]) -> None:
    """Raise `NotFound` for unknown queues, before Java is started."""
    from chasqui import Keys
    from chasqui.errors import NotFound
    from chasqui.inspect import snapshot

    with ctx.session() as session:
        if not queues:
            session.server_now_ms()
            return
        for one in session.query(snapshot.take_snapshots, [Keys(name) for name in queues]):
            if not one.or_raise().exists:
                raise NotFound(
                    f"there is nothing of a queue named {one.queue!r} on this server",
                    hint="`chasqui queues` lists what is there",
                )


@contextmanager
def _stop_on_signal() -> Iterator[Callable[[], bool]]:
    """The first Ctrl-C stops after the current batch; a second one stops at once."""
    signals: list[int] = []

    def note(number: int, _: object) -> None:
        if signals:
            raise KeyboardInterrupt
        signals.append(number)

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: bool(signals)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
