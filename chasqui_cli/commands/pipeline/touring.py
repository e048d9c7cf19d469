"""`chasqui pipeline demo`: a worker's short life on a private server, archived and reported on."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from chasqui_cli.commands.demo import _throw_away_server
from chasqui_cli.commands.pipeline.place import Heap, Master, where
from chasqui_cli.desk import Desk, offline

if TYPE_CHECKING:
    from chasqui import Job

QUEUE = "emails"
JOBS = 600
PATIENCE_S = 60
STEP_MS = 100
"""The tour's jobs are done within a second or two."""
TOUR = {"events": "int", "archive": "str", "page": "str"}


@offline(shape=TOUR, many=False)
def demo(
    desk: Desk,
    place: Annotated[
        Path, typer.Argument(metavar="[DIRECTORY]", help="Where the archive and the page go.")
    ] = Path("chasqui-tour"),
    master: Master = None,
    heap: Heap = "1g",
) -> None:
    """Run some hundred jobs on a private server, archive what happened, and write a page about it."""
    from chasqui.spark import archive as archiver
    from chasqui.spark import reports, session
    from chasqui.spark.layout import Archive
    from chasqui_cli.commands.pipeline.page import page
    from chasqui_cli.commands.pipeline.reporting import with_windows

    session.check_installed()
    archive, target = Archive(str((place / "archive").absolute())), place / "report.html"
    _check_unused(place, "archive", "report.html")
    place.mkdir(parents=True, exist_ok=True)
    with _throw_away_server() as socket:
        url = f"unix://{socket}"
        desk.say(f"running {JOBS} jobs on a private server: most succeed, some fail, a few die")
        asyncio.run(_work(url))
        desk.say("starting Spark, and archiving what happened")
        with session.opened(where(master, None, heap)) as spark:
            plan = archiver.Plan(archive, {"redis.url": url}, (QUEUE,), once=True, recreated=True)
            totals = archiver.run(spark, plan)
            asked = with_windows(spark, archive, reports.Question(bucket_ms=STEP_MS))
            found = {name: reports.report(spark, archive, name, asked) for name in reports.REPORTS}
    target.write_text(page(found, asked, archive.root), "utf-8")
    desk.emit_one(
        {"events": totals.rows.get("events", 0), "archive": archive.root, "page": str(target.absolute())}
    )


def _check_unused(place: Path, *names: str) -> None:
    """Two tours in one archive would add up; and whose files these are, nobody knows: they are left alone."""
    from chasqui.errors import ConfigError

    for name in names:
        if (place / name).exists():
            raise ConfigError(
                f"{place / name} is there already, perhaps of an earlier tour",
                hint="remove it, or name another directory: chasqui pipeline demo DIRECTORY",
            )


async def _work(url: str) -> None:
    """Add jobs and run them, until every one has come to an end."""
    from chasqui import BackoffSpec, Queue, QueueEvents, Worker

    async with (
        Queue(QUEUE, redis_url=url) as queue,
        QueueEvents(QUEUE, redis_url=url, last_event_id="0") as events,
    ):
        again = BackoffSpec.fixed(20)
        names = ("welcome", "newsletter", "invoice")
        for n in range(JOBS):
            await queue.add(names[n % 3], {"n": n}, attempts=3, backoff=again)
        worker = Worker(QUEUE, _send, redis_url=url, concurrency=2)
        running = asyncio.create_task(worker.run())
        try:
            async with asyncio.timeout(PATIENCE_S):
                ended = 0
                async for event in events:
                    ended += event.name in ("completed", "dlq")
                    if ended == JOBS:
                        break
        finally:
            await worker.close()
            await running


async def _send(job: Job) -> None:
    from chasqui import SystemClock

    await SystemClock().sleep(0.001 * (1 + job.data["n"] % 7))
    if job.name == "invoice" and job.data["n"] % 20 == 2:
        raise LookupError(f"no account 'u{job.data['n']}'")
    if job.data["n"] % 9 == 0 and job.attempt == 0:
        raise TimeoutError(f"the mail server took {job.data['n']} ms")
