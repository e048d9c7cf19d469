"""`chasqui migrate`: moves a queue of another system into one of ours, live; it can be interrupted and run again."""

from __future__ import annotations

import signal
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from chasqui_cli.changes.confirm import ChangePlan
from chasqui_cli.context.command_context import CommandContext, command
from chasqui_cli.exit_codes import ExitCode
from chasqui_cli.output.columns import Column, column
from chasqui_cli.output.times import parse_duration_ms

if TYPE_CHECKING:
    from collections.abc import Callable

    from chasqui import Keys, Link
    from chasqui.foreign import JobListKeys, MigrationReport, RsmqKeys
    from chasqui_cli.output.columns import Record


_COUNTS_SCHEMA = dict.fromkeys(("ready", "delayed", "held", "failed", "parked", "sent", "received"), "int")
MIGRATION_SCHEMA: dict[str, Any] = {
    "kind": "str",
    "source": "str",
    "target": "str",
    "dry_run": "bool",
    "moved": "int",
    "counts": "any",
    "failures": "any",
    "passes": "int",
    "before": _COUNTS_SCHEMA,
    "after": _COUNTS_SCHEMA,
}
COLUMNS: list[Column] = [
    column("source"), column("target"), column("kind"), column("moved", kind="count"), column("counts"),
    column("before"), column("after"), column("failures"), column("passes", kind="count"),
]  # fmt: skip
BodyFormat = Literal["auto", "bytes", "json"]
OverLimitPolicy = Literal["keep", "clamp", "dlq", "reset"]


@command("migrate", schema=MIGRATION_SCHEMA, many=False, changes=True, endless=("follow",), local_paths=("to_url",))
def migrate(
    ctx: CommandContext,
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="rsmq://QUEUE, rsmq://NS/QUEUE or joblist://QUEUE")],
    target: Annotated[str, typer.Argument(metavar="TARGET", help="chasqui://QUEUE")],
    to_url: Annotated[
        str | None, typer.Option("--to-url", metavar="URL", help="The target's server, if it is another one.")
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Go on until Ctrl-C: for what is held, and for live producers.")
    ] = False,
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="The name of the jobs.")] = "",
    body: Annotated[
        BodyFormat | None, typer.Option("--body", help="What bodies become; by itself auto for RSMQ, json for lists.")
    ] = None,
    max_attempts: Annotated[
        int | None, typer.Option("--max-attempts", min=1, metavar="N", help="What the workers there allow.")
    ] = None,
    over_limit: Annotated[
        OverLimitPolicy, typer.Option("--over-limit", help="What becomes of messages tried as often.")
    ] = "keep",
    cap: Annotated[
        int | None,
        typer.Option("--cap", min=1, metavar="N", help="So many jobs in the stream at most; 1,000,000 by itself."),
    ] = None,
    visibility: Annotated[
        str | None,
        typer.Option("--visibility", metavar="TIME", help="Take a list's claims back after this; by itself never."),
    ] = None,
) -> None:
    """Move every message that may be moved; what somebody holds stays until it is visible again.

    Producers and consumers of both may go on. It may be killed at any moment and run again: nothing is lost, nothing
    comes twice. On one server each message goes in one step; to another it is set aside, taken in once, and forgotten.
    It never fills the stream beyond its cap, where producers would trim what nobody has read: it ends there, or with
    --follow waits for the workers. It cannot be undone. Messages that cannot be jobs stay and are told: exit code 3.

    chasqui migrate rsmq://orders chasqui://orders --follow
    """
    from chasqui import Keys
    from chasqui.defaults import StreamCaps
    from chasqui.foreign import ConversionOptions

    source_keys, target_keys = _parse_source(source), Keys(_parse_target(target))
    caps = StreamCaps() if cap is None else StreamCaps(stream=cap)
    conversion = ConversionOptions(name=name, body=body, max_attempts=max_attempts, over_limit=over_limit, caps=caps)
    with ctx.link() as link:
        far = replace(ctx, connection=replace(ctx.connection, redis_url=to_url)).link() if to_url else None
        try:
            report = _run_migration(ctx, link, far, source_keys, target_keys, conversion, visibility, follow=follow)
        finally:
            if far:
                far.close()
    ctx.write_record(_migration_record(source, target, report), COLUMNS)
    if report.failures:
        ctx.info(f"{len(report.failures):,} messages cannot be jobs and stay")
    if report.is_full:
        ctx.info("the target is full: let workers take some jobs, and run it again; --follow does so by itself")
    if report.failures or report.is_full:
        raise typer.Exit(ExitCode.PARTLY)


def _run_migration(
    ctx: CommandContext,
    link: Link,
    far: Link | None,
    source: RsmqKeys | JobListKeys,
    target: Keys,
    conversion: Any,
    visibility: str | None,
    *,
    follow: bool,
) -> MigrationReport:
    from chasqui.foreign import Migration, check_same_slot

    check_same_slot(link, source)
    visibility_ms = parse_duration_ms(visibility) if visibility else None
    migration = Migration(link, source, target, target_link=far, conversion=conversion, visibility_ms=visibility_ms)
    seen = migration.run(dry_run=True)
    if not any(asdict(seen.before).values()):
        ctx.info(f"warning: there is nothing in a queue {source.queue!r} to be moved")
    plan = ChangePlan(
        "migrate",
        source.queue,
        "queue",
        [{"source": source.queue, "target": target.queue, "before": asdict(seen.before)}],
        [column("source"), column("target"), column("before")],
        effects=[
            f"{seen.before.held:,} are somebody's and stay until they are visible again"
            + ("; their claims are taken back when stale" if visibility_ms else ""),
            "order is kept; jobs added to the new queue directly may come before older ones. It cannot be undone",
        ],
    )
    if not ctx.confirm(plan):
        return seen
    total = seen.before.ready + seen.before.delayed + seen.before.failed + seen.before.parked
    with (
        ctx.journal_operation(source.queue) as journal,
        ctx.progress(f"{source.queue} → {target.queue}", total) as advance,
    ):

        def on_progress(report: MigrationReport) -> None:
            advance(report.moved, max(total, report.moved))
            journal.done = report.moved
            journal.set_result(moved=report.moved, counts=dict(report.counts))

        return migration.run(progress=on_progress, should_continue=_until_signal(ctx) if follow else lambda _: False)


def _until_signal(ctx: CommandContext) -> Callable[[MigrationReport], bool]:
    """Continue until SIGTERM or Ctrl-C: the pass then running is finished, and the report written."""
    signals: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: signals.append(number))
    moved = -1

    def should_continue(report: MigrationReport) -> bool:
        nonlocal moved
        if report.moved != moved:
            ctx.info(f"{report.moved:,} moved, {report.after.held:,} held, {report.after.ready:,} ready")
            moved = report.moved
        return not signals

    return should_continue


def _parse_source(text: str) -> RsmqKeys | JobListKeys:
    from chasqui.errors import ArgumentError
    from chasqui.foreign import JobListKeys, RsmqKeys

    kind, _, name = text.partition("://")
    if kind == "rsmq" and name:
        namespace, slash, queue = name.rpartition("/")
        if queue and (namespace or not slash):
            return RsmqKeys(queue, namespace) if slash else RsmqKeys(name)
    if kind == "joblist" and name:
        return JobListKeys(name)
    raise ArgumentError(f"{text!r} is no queue to move from", hint="write rsmq://QUEUE or joblist://QUEUE")


def _parse_target(text: str) -> str:
    from chasqui.errors import ArgumentError

    kind, _, name = text.partition("://")
    if kind != "chasqui" or not name:
        raise ArgumentError(f"{text!r} is no queue to move to", hint="write chasqui://QUEUE")
    return name


def _migration_record(source: str, target: str, report: MigrationReport) -> Record:
    return {
        "kind": report.kind,
        "source": source,
        "target": target,
        "dry_run": report.dry_run,
        "moved": report.moved,
        "counts": dict(report.counts),
        "failures": dict(report.failures),
        "passes": report.passes,
        "before": asdict(report.before),
        "after": asdict(report.after),
    }
