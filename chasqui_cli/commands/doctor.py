"""`chasqui doctor`: examine the server and its queues; each finding with its remedy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from chasqui_cli.context.command_context import CommandContext, command
from chasqui_cli.context.completion import complete_any_queue
from chasqui_cli.output.columns import Column, column
from chasqui_cli.output.records import FINDING_SCHEMA, finding_record
from chasqui_cli.queues.targets import no_such_queue

if TYPE_CHECKING:
    from chasqui import ServerError
    from chasqui.foreign import JobListKeys, RsmqKeys
    from chasqui.health import Finding
    from chasqui_cli.context.session import Session


LEVEL_GLYPHS = {"critical": "▲", "warning": "◆", "note": "·"}
COLUMNS: list[Column] = [
    column("code"),
    Column("level", lambda row: f"{LEVEL_GLYPHS[row['level']]} {row['level']}"),
    column("queue"),
    column("finding", "text"),
    column("mend"),
    column("evidence", wide=True),
]


@command("doctor", schema=FINDING_SCHEMA)
def doctor(
    ctx: CommandContext,
    queue: Annotated[
        str | None, typer.Argument(metavar="[QUEUE]", help="Which; none means all.", autocompletion=complete_any_queue)
    ] = None,
    sample: Annotated[int, typer.Option("--sample", min=1, metavar="N", help="Read so many jobs of each place.")] = 100,
) -> None:
    """Examine the server and its queues: what may lose jobs, run them twice, or keep them from running.

    Looks at server, leaders, locks, overdue work, caps, consumers, pending jobs without an entry, clocks, and reads a
    bounded sample of jobs, delayed members, dead letters, schedules and events; of RSMQ and list queues (rsmq:NAME,
    list:NAME) a sample of messages, fields, ids and keys. Every finding comes with the command line that mends it.
    Nothing is changed.
    """
    from chasqui import Keys
    from chasqui.errors import NotFound
    from chasqui.health import Level
    from chasqui_cli.queues.queue_names import parse_queue_ref
    from chasqui_cli.queues.targets import discover_all_queues

    with ctx.session() as session:
        findings = _server_findings(session)
        places = [parse_queue_ref(queue)] if queue else discover_all_queues(ctx, session)
        with ctx.progress("examining", len(places)) as advance:
            for number, place in enumerate(places, 1):
                try:
                    if isinstance(place, Keys):
                        findings += _native_findings(ctx, session, place.queue, sample)
                    else:
                        findings += _foreign_findings(ctx, session, place, sample)
                except NotFound:
                    if queue:
                        raise  # else it was there when the names were found, and is well gone
                advance(number)
    findings.sort(key=lambda one: (-one.level, one.queue or "", one.code))
    worst = sum(one.level is Level.CRITICAL for one in findings)
    summary = f"{len(findings)} findings, {worst} critical" if findings else "nothing found"
    ctx.info(f"examined the server and {len(places):,} queues: {summary}")
    ctx.write_records([finding_record(one) for one in findings], COLUMNS)


def _server_findings(session: Session) -> list[Finding]:
    from chasqui import SystemClock, health, server_info

    clock = SystemClock()
    before_ms = clock.now_ms()
    report = session.link.run(server_info())
    skew_ms = health.clock_skew_ms(report.server_time_ms, before_ms, clock.now_ms())
    return health.check_server(health.ServerFacts(report, session.link.features(), skew_ms))


def _native_findings(ctx: CommandContext, session: Session, queue: str, sample: int) -> list[Finding]:
    """What is wrong with one queue. That we may not look is a finding too."""
    from chasqui import Keys, ServerError, health
    from chasqui.health.samples import sample_queue
    from chasqui.health.thresholds import SampleLimits

    options = SampleLimits(sample=sample)
    try:
        seen = session.run(sample_queue, Keys(queue), options=options)
    except ServerError as error:
        return [_refused_finding(error, queue, "{chasqui:*")]
    if not seen.snapshot.exists:
        raise no_such_queue(queue)
    for one in seen.samples:
        if one.sampled < one.total:
            ctx.info(f"{queue}: looked at {one.sampled:,} of {one.total:,} in {one.place}")
    return [*health.check_queue(seen.snapshot), *health.check_samples(seen, options)]


def _foreign_findings(
    ctx: CommandContext, session: Session, place: RsmqKeys | JobListKeys, sample: int
) -> list[Finding]:
    """The same for another system's queue: its own doctor's findings, and those of its depths and ages."""
    from chasqui import ServerError
    from chasqui.foreign import RsmqKeys, diagnose
    from chasqui.foreign.joblist import JobListDoctor
    from chasqui.foreign.rsmq import RsmqDoctor
    from chasqui_cli.queues.queue_health import queue_findings
    from chasqui_cli.queues.queue_names import format_queue_ref, with_ref_name

    name = format_queue_ref(place)
    try:
        seen = with_ref_name(session.snapshots([place])[0], place).or_raise()
        if not seen.exists:
            raise no_such_queue(name)
        doctor = RsmqDoctor(place) if isinstance(place, RsmqKeys) else JobListDoctor(place)
        checked = session.link.run(diagnose(doctor, name, most=sample))
    except ServerError as error:
        return [_refused_finding(error, name, "*")]
    for one in checked.places:
        if one.scanned < one.total:
            ctx.info(f"{name}: looked at {one.scanned:,} of {one.total:,} {one.part}")
    known = {one.code for one in checked.findings}
    return [*checked.findings, *(one for one in queue_findings(seen) if one.code not in known)]


def _refused_finding(error: ServerError, queue: str, keys: str) -> Finding:
    """Report a queue that cannot be read. What may change in a moment is not a finding."""
    from chasqui import health

    if error.transient:
        raise error
    text = f"this queue cannot be looked at: {error}"
    remedy = f"redis-cli ACL SETUSER NAME '~{keys}' +@read +@scripting"
    return health.Finding(health.Level.CRITICAL, "refused", text, queue, {"error": str(error)}, remedy)
