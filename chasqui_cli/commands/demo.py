"""`chasqui demo`: a short tour on a private server that is removed afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chasqui_cli.commands._temporary_server import temporary_server
from chasqui_cli.context.command_context import CommandContext, command
from chasqui_cli.context.command_spec import Effect
from chasqui_cli.output.columns import Column, column

if TYPE_CHECKING:
    from chasqui import Commands, Flow, Job, Queue, QueueEvent, QueueEvents, SyncQueue
    from chasqui_cli.output.columns import Record


QUEUE = "emails"
REPEATS = 3
TIMEOUT_S = 30
COLUMNS: list[Column] = [
    column("name"),
    column("id"),
    column("runs", align="right"),
    column("fate"),
    column("why"),
    column("result"),
]


@command("demo", server=False, effect=Effect.RUNS)
def demo(ctx: CommandContext) -> None:
    """Run a queue on a private server: jobs that succeed, fail, retry, wait and repeat; then say what became of each."""
    import asyncio

    from chasqui import Commands, Link, SyncQueue

    with temporary_server() as socket:
        url = f"unix://{socket}"
        with Link.open(url) as link, SyncQueue(QUEUE, link=link) as emails:
            features = link.features()
            ctx.info(f"started a private {features.kind} {features.version}; it is gone when this ends")
            ctx.info(f"adding jobs to {QUEUE}: good, flaky, hopeless, late, repeated, and one that is no job at all")
            _add_jobs(emails)
            link.run(_add_undecodable(Commands(features)))
        ctx.info("running a worker; this is what it tells:")
        fates = asyncio.run(_run_worker(ctx, url))
    ctx.info("what became of each:")
    ctx.write_records(fates, COLUMNS)


def _add_jobs(emails: SyncQueue) -> None:
    from chasqui import BackoffSpec, RepeatPattern

    emails.add("welcome", {"to": "ada@example.com"})
    emails.add("newsletter", {"to": "cyd@example.com"}, backoff=BackoffSpec.fixed(200))
    emails.add("invoice", {"to": "bob@example.com"}, job_id="invoice-7", attempts=3, backoff=BackoffSpec.fixed(100))
    emails.add("sms", {"to": "+51 1 555"})
    emails.add("reminder", {"to": "eve@example.com"}, delay_ms=800)
    emails.upsert_repeatable_job("digest", {"to": "all"}, repeat=RepeatPattern.every(400), limit=REPEATS)


def _add_undecodable(commands: Commands) -> Flow[None]:
    """What an operator meets at 3 a.m.: bytes that are not a job."""
    from chasqui import Keys

    yield [commands.add_unchecked(Keys(QUEUE), ["d", b"\x92\xa4oops", "n", "mystery"])]


async def _handle_mail(job: Job) -> str:
    """The handler: one kind of mail succeeds, one fails once, one always, one for good."""
    from chasqui import UnrecoverableError

    if job.name == "newsletter" and job.attempt == 0:
        raise ConnectionError("the mail server is busy")
    if job.name == "invoice":
        raise LookupError("no account for bob@example.com")
    if job.name == "sms":
        raise UnrecoverableError("this is a telephone number")
    return f"sent to {job.data['to']}"


async def _run_worker(ctx: CommandContext, url: str) -> list[Record]:
    import asyncio

    from chasqui import Queue, QueueEvents, Worker

    worker = Worker(QUEUE, _handle_mail, redis_url=url, store_results=True)
    async with Queue(QUEUE, redis_url=url) as emails, QueueEvents(QUEUE, redis_url=url, last_event_id="0") as events:
        running = asyncio.create_task(worker.run())
        try:
            async with asyncio.timeout(TIMEOUT_S):
                fates = await _print_events(ctx, events)
        finally:
            await worker.close()
            await running
        return await _add_explanations(emails, fates)


async def _print_events(ctx: CommandContext, events: QueueEvents) -> list[Record]:
    """Print events as they come, until every job has ended: five were added, one is garbage, some are repeated."""
    fates: dict[str, Record] = {}
    async for event in events:
        ctx.info(_event_line(event))
        if event.name in ("completed", "dlq"):
            fates[event.job_id or "garbage"] = {
                "name": event.job_name,
                "id": event.job_id,
                "runs": event.fields.get("attempt"),
                "fate": "completed" if event.name == "completed" else "dead",
            }
        if len(fates) == 5 + 1 + REPEATS:
            break
    return list(fates.values())


def _event_line(event: QueueEvent) -> str:
    details = "  ".join(f"{name} {value}" for name, value in event.fields.items() if name != "ts")
    return f"  {event.name:<15} {event.job_name:<10} {event.job_id or '–':<26}  {details}".rstrip()


async def _add_explanations(emails: Queue, fates: list[Record]) -> list[Record]:
    """The end of each job: what the handler returned, or the error in the dead letter."""
    letters = {letter["name"]: letter for letter in await emails.peek_dlq()}
    for fate in fates:
        if fate["fate"] == "completed":
            fate["result"] = await emails.get_job_result(fate["id"])
        elif letter := letters.get(fate["name"]):
            fate["why"] = f"{letter['reason']}: {letter['detail']}"
    return fates
