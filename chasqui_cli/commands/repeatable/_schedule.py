from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chasqui_cli.context.completion import complete_schedule_keys
from chasqui_cli.output.times import parse_duration_ms

if TYPE_CHECKING:
    from chasqui import RepeatSpec
    from chasqui.schedule.repeatable import ListedSpec
    from chasqui.undo.changed_schedules import RawSpec
    from chasqui_cli.context.session import Session

ScheduleKeyArgument = Annotated[
    str, typer.Argument(help="The schedule's key, as `list` shows it.", autocompletion=complete_schedule_keys)
]


CronOption = Annotated[
    str | None, typer.Option("--cron", metavar="EXPR", help="By the calendar, as in '0 9 * * MON-FRI'.")
]


TimezoneOption = Annotated[str | None, typer.Option("--tz", metavar="ZONE", help="Its zone, as in Europe/Madrid; UTC.")]


EveryOption = Annotated[str | None, typer.Option("--every", metavar="TIME", help="Each time so long has passed: 60s.")]


def parse_pattern(cron: str | None, tz: str | None, every: str | None) -> dict[str, Any]:
    from chasqui.errors import ArgumentError

    if (cron is None) == (every is None):
        raise ArgumentError("say when", hint="either --cron '0 9 * * MON-FRI' or --every 60s")
    if every is not None:
        if tz is not None:
            raise ArgumentError("an interval has no time zone", hint="--tz goes with --cron")
        return {"kind": "every", "interval_ms": parse_duration_ms(every)}
    return {"kind": "cron", "expression": cron, "tz": tz}


def find_schedules(session: Session, queue: str, names: Sequence[str]) -> list[tuple[ListedSpec, RawSpec]]:
    """The schedules with these keys. A key that is not text is found by how `list` shows it."""
    from chasqui import Keys
    from chasqui.errors import NotFound
    from chasqui.schedule import repeatable
    from chasqui.undo import changed_schedules

    found = session.query(changed_schedules.read_raw_specs, Keys(queue), names)
    chosen = [
        (repeatable.decode_raw_spec(name, held), held) for name, held in zip(names, found, strict=True) if held.exists
    ]
    if missing := [name for name, held in zip(names, found, strict=True) if not held.exists]:
        odd = {one.key: one.raw_key for one in session.query(repeatable.list_specs, Keys(queue), 10_000)}
        raw = [odd[name] for name in missing if name in odd]
        if len(raw) < len(missing):
            shown = ", ".join(name for name in missing if name not in odd)
            raise NotFound(f"{queue} has no schedule {shown}", hint=f"chasqui repeatable list {queue}")
        more = session.query(changed_schedules.read_raw_specs, Keys(queue), raw)
        chosen += [(repeatable.decode_raw_spec(name, held), held) for name, held in zip(raw, more, strict=True)]
    return chosen


def require_readable(listed: ListedSpec) -> RepeatSpec:
    from chasqui import Undecodable
    from chasqui.errors import WireError

    if isinstance(listed.spec, Undecodable):
        raise WireError(f"schedule {listed.key} cannot be read: {listed.spec.reason}", listed.spec.raw)
    return listed.spec
