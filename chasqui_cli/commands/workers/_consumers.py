from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from chasqui_cli.context.command_context import CommandContext
from chasqui_cli.output.times import parse_duration_ms

if TYPE_CHECKING:
    from chasqui.operate.consumers import ConsumerList, ConsumerStatus
    from chasqui_cli.context.session import Session
    from chasqui_cli.output.columns import Record

CONSUMER_SCHEMA = {
    "queue": "str",
    "consumer": "str",
    "group": "str",
    "in_flight": "int",
    "idle_ms": "int",
    "inactive_ms": "int?",
    "oldest_ms": "int",
    "delivered_again": "int",
    "verdict": "str",
}


ConsumerNames = Annotated[
    list[str] | None, typer.Argument(metavar="[CONSUMER]...", help="Which; none means all that are gone.")
]


GoneAfterOption = Annotated[
    str, typer.Option("--gone-after", metavar="TIME", help="Who has not asked for so long is gone.")
]


def read_consumers(ctx: CommandContext, session: Session, queue: str, gone_after: str) -> ConsumerList:
    from chasqui import Keys
    from chasqui.operate import consumers

    seen = session.query(consumers.list_consumers, Keys(queue), gone_after_ms=parse_duration_ms(gone_after))
    if not seen.complete:
        ctx.info(f"looked at {seen.scanned:,} entries in flight; more are, so ages are at least what is shown")
    return seen


def select_consumers(seen: ConsumerList, queue: str, names: list[str] | None) -> list[ConsumerStatus]:
    """The named consumers, or those that are gone. Entries that were handed back have no consumer to free."""
    from chasqui.errors import NotFound

    if not names:
        return [one for one in seen.consumers if one.is_gone]
    found = [one for one in seen.consumers if one.name in names]
    if missing := set(names) - {one.name for one in found}:
        raise NotFound(f"{queue} has no consumer {', '.join(sorted(missing))}", hint=f"chasqui workers list {queue}")
    return found


def selection_text(names: list[str] | None) -> str:
    return "by name" if names else "gone"


def consumer_record(queue: str, one: ConsumerStatus) -> Record:
    return {
        "queue": queue,
        "consumer": one.name,
        "group": one.group,
        "in_flight": one.in_flight,
        "idle_ms": one.idle_ms,
        "inactive_ms": one.inactive_ms,
        "oldest_ms": one.longest_idle_ms,
        "delivered_again": one.redelivered,
        "verdict": one.state,
    }
