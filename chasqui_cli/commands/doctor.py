"""`chasqui doctor`: the server and its queues examined; each finding with what mends it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from chasqui_cli.columns import Column, column
from chasqui_cli.completing import queue_names
from chasqui_cli.desk import Desk, at_desk
from chasqui_cli.records import FINDING, finding_record

if TYPE_CHECKING:
    from chasqui.health import Finding
    from chasqui_cli.session import Session

app = typer.Typer(add_completion=False, rich_markup_mode=None)

GLYPHS = {"critical": "▲", "warning": "◆", "note": "·"}
COLUMNS: list[Column] = [
    column("code"),
    Column("level", lambda row: f"{GLYPHS[row['level']]} {row['level']}"),
    column("queue"),
    column("finding", "text"),
    column("mend"),
    column("evidence", wide=True),
]


@app.command()
@at_desk(shape=FINDING)
def doctor(
    desk: Desk,
    queue: Annotated[
        str | None,
        typer.Argument(metavar="[QUEUE]", help="Which; none means all.", autocompletion=queue_names),
    ] = None,
    sample: Annotated[
        int, typer.Option("--sample", min=1, metavar="N", help="Read so many jobs of each place.")
    ] = 100,
) -> None:
    """Examine the server and its queues: what may lose jobs, run them twice, or keep them from running.

    Looks at server, leaders, locks, overdue work, caps, consumers, pending jobs without an entry, clocks, and reads a
    bounded sample of jobs, delayed members, dead letters, schedules and events. Every finding comes with the command
    line that mends it. Nothing is changed.
    """
    from chasqui.health import Level
    from chasqui_cli.finding import found_queues

    with desk.session() as session:
        findings = _of_server(session)
        names = [queue] if queue else found_queues(desk, session)
        with desk.progress("examining", len(names)) as advance:
            for number, name in enumerate(names, 1):
                findings += _of_queue(desk, session, name, sample)
                advance(number)
    findings.sort(key=lambda one: (-one.level, one.queue or "", one.code))
    worst = sum(one.level is Level.CRITICAL for one in findings)
    told = f"{len(findings)} findings, {worst} critical" if findings else "nothing found"
    desk.say(f"examined the server and {len(names):,} queues: {told}")
    desk.emit([finding_record(one) for one in findings], COLUMNS)


def _of_server(session: Session) -> list[Finding]:
    from chasqui import SystemClock, health, server_report

    clock = SystemClock()
    before_ms = clock.now_ms()
    report = session.link.run(server_report())
    after_ms = clock.now_ms()
    # Within the time it took to ask, nobody can tell whose clock is ahead.
    skew_ms = min((report.server_time_ms - at for at in (before_ms, after_ms)), key=abs)
    skew_ms = 0 if before_ms <= report.server_time_ms <= after_ms else skew_ms
    return health.of_server(health.ServerFacts(report, session.link.features(), skew_ms))


def _of_queue(desk: Desk, session: Session, queue: str, sample: int) -> list[Finding]:
    """What is wrong with one queue. That we may not look is a finding too."""
    from chasqui import Keys, ServerError, health
    from chasqui.checkup import examine
    from chasqui.errors import NotFound
    from chasqui.options import Checkup

    options = Checkup(sample=sample)
    try:
        seen = session.run(examine, Keys(queue), options=options)
    except ServerError as error:
        if error.transient:
            raise
        text = f"this queue cannot be looked at: {error}"
        mend = "redis-cli ACL SETUSER NAME '~{chasqui:*' +@read +@scripting"
        return [health.Finding(health.Level.CRITICAL, "refused", text, queue, {"error": str(error)}, mend)]
    if not seen.queue.exists:
        raise NotFound(
            f"there is nothing of a queue named {queue!r} on this server", hint="`chasqui queues` lists them"
        )
    for one in seen.samples:
        if one.looked < one.total:
            desk.say(f"{queue}: looked at {one.looked:,} of {one.total:,} in {one.place}")
    return [*health.of_queue(seen.queue), *health.of_examination(seen, options)]
