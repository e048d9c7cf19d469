"""`chasqui pipeline demo`: a worker's short life on a private server, archived and reported on."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from chasqui_cli.commands._temporary_server import temporary_server
from chasqui_cli.commands.pipeline._spark import SparkOptions
from chasqui_cli.context.command_context import CommandContext, command
from chasqui_cli.context.command_spec import Effect
from chasqui_cli.context.shared_options import options_from

if TYPE_CHECKING:
    from chasqui import Job

QUEUE = "emails"
JOBS = 600
TIMEOUT_S = 60
STEP_MS = 100
"""The tour's jobs are done within a second or two."""
DEMO_SCHEMA = {"events": "int", "archive": "str", "page": "str"}


@command("pipeline demo", server=False, schema=DEMO_SCHEMA, many=False, effect=Effect.LOCAL)
@options_from(SparkOptions, without=("remote",))
def demo(
    ctx: CommandContext,
    place: Annotated[Path, typer.Argument(metavar="[DIRECTORY]", help="Where the archive and the page go.")] = Path(
        "chasqui-tour"
    ),
    *,
    spark_options: SparkOptions,
) -> None:
    """Run some hundred jobs on a private server, archive what happened, and write a page about it."""
    from chasqui.spark import archiver as archiver
    from chasqui.spark import reports, spark_session
    from chasqui.spark.layout import Archive
    from chasqui_cli.commands.pipeline._page import render_page
    from chasqui_cli.commands.pipeline.report import resolve_diff_window

    spark_session.check_installed()
    archive, target = Archive(str((place / "archive").absolute())), place / "report.html"
    _require_unused(place, "archive", "report.html")
    place.mkdir(parents=True, exist_ok=True)
    with temporary_server() as socket:
        url = f"unix://{socket}"
        ctx.info(f"running {JOBS} jobs on a private server: most succeed, some fail, a few die")
        asyncio.run(_run_jobs(url))
        ctx.info("starting Spark, and archiving what happened")
        with spark_session.open_session(spark_options.select()) as spark:
            plan = archiver.ArchivePlan(archive, {"redis.url": url}, (QUEUE,), once=True, accept_recreated=True)
            totals = archiver.archive_queues(spark, plan)
            asked = resolve_diff_window(spark, archive, reports.ReportQuery(bucket_ms=STEP_MS))
            found = {name: reports.run_report(spark, archive, name, asked) for name in reports.REPORTS}
    target.write_text(render_page(found, asked, archive.root), "utf-8")
    ctx.write_record({"events": totals.rows.get("events", 0), "archive": archive.root, "page": str(target.absolute())})


def _require_unused(place: Path, *names: str) -> None:
    """Raise `ConfigError` if these files exist: two tours in one archive would add up, and files are never overwritten."""
    from chasqui.errors import ConfigError

    for name in names:
        if (place / name).exists():
            raise ConfigError(
                f"{place / name} is there already, perhaps of an earlier tour",
                hint="remove it, or name another directory: chasqui pipeline demo DIRECTORY",
            )


async def _run_jobs(url: str) -> None:
    """Add jobs and run them, until every one has come to an end."""
    from chasqui import BackoffSpec, Queue, QueueEvents, Worker

    async with Queue(QUEUE, redis_url=url) as queue, QueueEvents(QUEUE, redis_url=url, last_event_id="0") as events:
        again = BackoffSpec.fixed(20)
        names = ("welcome", "newsletter", "invoice")
        for n in range(JOBS):
            await queue.add(names[n % 3], {"n": n}, attempts=3, backoff=again)
        worker = Worker(QUEUE, _handle_mail, redis_url=url, concurrency=2)
        running = asyncio.create_task(worker.run())
        try:
            async with asyncio.timeout(TIMEOUT_S):
                ended = 0
                async for event in events:
                    ended += event.name in ("completed", "dlq")
                    if ended == JOBS:
                        break
        finally:
            await worker.close()
            await running


async def _handle_mail(job: Job) -> None:
    from chasqui import SystemClock

    await SystemClock().sleep(0.001 * (1 + job.data["n"] % 7))
    if job.name == "invoice" and job.data["n"] % 20 == 2:
        raise LookupError(f"no account 'u{job.data['n']}'")
    if job.data["n"] % 9 == 0 and job.attempt == 0:
        raise TimeoutError(f"the mail server took {job.data['n']} ms")
