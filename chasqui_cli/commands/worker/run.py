from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from chasqui_cli.context.command_context import CommandContext, command
from chasqui_cli.context.command_spec import Effect
from chasqui_cli.context.completion import complete_queues
from chasqui_cli.output.times import parse_duration_ms

if TYPE_CHECKING:
    from chasqui_cli.commands.worker._handler import LoadedHandler
    from chasqui_cli.commands.worker._process import WorkerOptions


@command("worker run", effect=Effect.RUNS)
def run(
    ctx: CommandContext,
    target: Annotated[
        str, typer.Argument(metavar="MODULE:HANDLER", help="A function, or an object that has one as `.handler`.")
    ],
    queue: Annotated[
        str | None,
        typer.Option("--queue", help="Whose jobs; by itself the handler's `queue`.", autocompletion=complete_queues),
    ] = None,
    concurrency: Annotated[int, typer.Option(min=1, metavar="N", help="So many jobs at a time.")] = 100,
    processes: Annotated[int, typer.Option(min=1, metavar="N", help="So many processes; one uses one core.")] = 1,
    max_attempts: Annotated[
        int, typer.Option(min=0, metavar="N", help="How often a job runs that does not say so itself.")
    ] = 25,
    store_results: Annotated[bool, typer.Option("--store-results", help="Keep what handlers return.")] = False,
    result_ttl: Annotated[
        str | None, typer.Option("--result-ttl", metavar="TIME", help="For how long; 1h by itself.")
    ] = None,
    burst: Annotated[bool, typer.Option("--burst", help="End as soon as the queue is drained.")] = False,
    no_promoter: Annotated[bool, typer.Option("--no-promoter", help="Leave delayed jobs to others.")] = False,
    no_scheduler: Annotated[bool, typer.Option("--no-scheduler", help="Leave schedules to others.")] = False,
    no_events: Annotated[bool, typer.Option("--no-events", help="Tell nobody what happens.")] = False,
    claim_idle: Annotated[
        str | None,
        typer.Option("--claim-idle", metavar="TIME", help="Take over jobs left alone for so long; 30s by itself."),
    ] = None,
    metrics_port: Annotated[
        str | None,
        typer.Option(
            "--metrics-port",
            metavar="[HOST:]PORT",
            help="Serve Prometheus counters, on 127.0.0.1 unless said; each further process on the next port.",
        ),
    ] = None,
    reload: Annotated[bool, typer.Option("--reload", help="Start again when a source file changes.")] = False,
    app_dir: Annotated[
        Path | None, typer.Option("--app-dir", metavar="DIR", help="Where your modules are; here by itself.")
    ] = None,
) -> None:
    """Run a handler for every job of a queue, until SIGTERM or Ctrl-C; a second one leaves at once.

    The first lets running jobs end and hands back those that were not begun.

    chasqui worker run mail.jobs:send --queue emails --processes 4
    """
    from chasqui_cli.commands.worker._handler import load_handler
    from chasqui_cli.commands.worker._process import WorkerOptions

    ctx.require_writable("work")
    place = app_dir or Path.cwd()
    if reload:
        from chasqui_cli.commands.worker._reload import run_with_reload

        raise typer.Exit(run_with_reload(place, [word for word in sys.argv[1:] if word != "--reload"]))
    metrics = _parse_endpoint(metrics_port) if metrics_port else None
    result_ttl_ms = parse_duration_ms(result_ttl) if result_ttl else None
    claim_idle_ms = parse_duration_ms(claim_idle) if claim_idle else None
    found = load_handler(target, place)
    orders = WorkerOptions(
        target=target,
        app_dir=place,
        queue=queue or found.queue or _require_queue(target),
        concurrency=concurrency,
        max_attempts=max_attempts,
        store_results=store_results,
        result_ttl_ms=result_ttl_ms,
        burst=burst,
        promoter=not no_promoter,
        scheduler=not no_scheduler,
        events=not no_events,
        claim_idle_ms=claim_idle_ms,
        metrics=metrics,
    )
    _print_start(ctx, orders, found, processes)
    if processes == 1:
        from chasqui_cli.commands.worker import _process

        _process.run_process(ctx, orders, found)
        return
    from chasqui import run_fleet
    from chasqui_cli.commands.worker._process import run_in_fleet

    raise typer.Exit(run_fleet(processes, run_in_fleet, (ctx, orders)))


def _print_start(ctx: CommandContext, orders: WorkerOptions, found: LoadedHandler, processes: int) -> None:
    """Say what will run where, once the server has answered."""
    with ctx.link() as link:
        features = link.features()
        ctx.info(f"handler {orders.target} from {found.file}")
        ctx.info(f"queue {orders.queue} on {link.address} ({features.kind} {features.version})")
    many = f"{processes} processes with " if processes > 1 else ""
    ctx.info(f"{many}up to {orders.concurrency:,} jobs at a time" + (", until drained" if orders.burst else ""))
    if orders.metrics:
        ctx.info(f"metrics on http://{orders.metrics[0]}:{orders.metrics[1]}/metrics")


def _require_queue(target: str) -> str:
    from chasqui.errors import ArgumentError

    raise ArgumentError(f"{target} does not say whose jobs it is for", hint="add --queue NAME, or give it a `queue`")


def _parse_endpoint(text: str) -> tuple[str, int]:
    from chasqui.errors import ArgumentError

    host, _, port = text.rpartition(":")
    if not port.isdigit() or not 0 < int(port) < 65536:
        raise ArgumentError(f"{text!r} is no port", hint="write 9100, or 0.0.0.0:9100")
    return host or "127.0.0.1", int(port)
