"""`chasqui pipeline up`: keeps a Spark Connect server running, with all reports rehearsed."""

from __future__ import annotations

import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from chasqui_cli.commands.pipeline._spark import SERVER_SCHEMA, SparkOptions, parse_length_ms, server_record
from chasqui_cli.context.command_context import CommandContext, command
from chasqui_cli.context.command_spec import Effect
from chasqui_cli.context.settings import state_directory
from chasqui_cli.context.shared_options import options_from
from chasqui_cli.output.columns import Column, column

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


COLUMNS: list[Column] = [column("check"), column("ok"), column("detail")]


@command("pipeline up", server=False, schema=SERVER_SCHEMA, many=False, effect=Effect.LOCAL)
@options_from(SparkOptions, without=("remote",))
def up(
    ctx: CommandContext,
    warm_up: Annotated[
        str, typer.Option("--warm-up", metavar="SPAN", help="How long reports may be rehearsed; 0s for not at all.")
    ] = "60s",
    *,
    spark_options: SparkOptions,
) -> None:
    """Keep a Spark running on this machine, so that reports take seconds. It listens on loopback, with a token.

    Every report is rehearsed on made-up events, so that the first real one takes seconds, too.
    """
    from dataclasses import replace

    from chasqui.spark import connect_server, spark_session
    from chasqui.spark.warm_up import warm_up_reports

    spark_session.check_installed()
    warm_up_s = parse_length_ms("--warm-up", warm_up, least=0) / 1000
    at, state = spark_options.select(), state_directory()
    before = connect_server.find_running(state)
    with ctx.progress("starting Spark", None), _reliable_interrupt() as check_interrupt:
        server = connect_server.start_or_find(at, state)
        try:
            check_interrupt()
            with spark_session.open_session(replace(at, remote=server.url)) as spark:
                if at.is_local:
                    warm_up_reports(spark, warm_up_s, on_round=lambda _: check_interrupt())
            check_interrupt()
        except BaseException:
            if before is None:
                connect_server.stop(state)  # after an interrupt no server shall remain
            raise
    ctx.info("reports use it from now on; `chasqui pipeline down` ends it")
    ctx.write_record(server_record(server))


@contextmanager
def _reliable_interrupt() -> Iterator[Callable[[], None]]:
    """Let no Ctrl-C get lost: an exception raised within a callback, as during an import, is only printed by Python.
    The function that this yields raises it again.
    """
    signals: list[int] = []

    def on_signal(number: int, _: object) -> None:
        signals.append(number)
        raise KeyboardInterrupt

    def check_interrupt() -> None:
        if signals:
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, on_signal)
    try:
        yield check_interrupt
    finally:
        signal.signal(signal.SIGINT, before)
