"""Flows for repeatable jobs: store one, list them, remove one. Firing them is the scheduler's business.

When a pattern fires is reckoned in `fires.py`, from the server's time; the bytes of a spec are `wire/repeat_spec.py`'s.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from chasqui import cron, fires
from chasqui.errors import WireError
from chasqui.server.commands import time_ms
from chasqui.wire import repeat_spec
from chasqui.wire.packed import Undecodable
from chasqui.wire.repeat_spec import Cron

if TYPE_CHECKING:
    from chasqui.server.call import Flow
    from chasqui.server.commands import Commands, Spec
    from chasqui.wire.keys import Keys
    from chasqui.wire.repeat_spec import RepeatSpec

PAGE = 500


@dataclass(frozen=True, slots=True)
class Stored:
    """A spec as it was stored: under this key, to fire next at `next_ms`; `created` is false if it replaced one."""

    key: str
    next_ms: int
    created: bool


@dataclass(frozen=True, slots=True)
class Listed:
    """A spec as found: when it fires next, how often it fired, and what it says or why that cannot be read."""

    key: str
    next_ms: int
    fired: int
    spec: RepeatSpec | Undecodable


def check(spec: RepeatSpec) -> RepeatSpec:
    """The spec, if a scheduler could make sense of it; errors of calendar texts are found here."""
    if isinstance(spec.pattern, Cron):
        cron.parse(spec.pattern.expression, spec.pattern.tz)
    return repeat_spec.check(spec)


def upsert(commands: Commands, keys: Keys, spec: RepeatSpec) -> Flow[Stored]:
    """Store a spec, or replace the one under its key; without a key it gets one made of its name and pattern.

    How often it fired is kept when it is replaced. Two round trips: the first asks the server for the time.
    """
    named = replace(spec, key=spec.key or repeat_spec.derived_key(spec.job_name, spec.pattern))
    data = repeat_spec.encode(check(named))
    [clock] = yield [commands.server_time()]
    next_ms = fires.first_fire(spec.pattern, time_ms(clock), spec.start_after_ms, spec.end_before_ms)
    [created] = yield [commands.upsert_repeat(keys, named.key, data, next_ms=next_ms)]
    return Stored(named.key, next_ms, bool(created))


def listing(commands: Commands, keys: Keys, limit: int) -> Flow[list[Listed]]:
    """The specs in the order they fire next; also those that cannot be read."""
    found: list[Listed] = []
    while len(found) < limit:
        count = min(PAGE, limit - len(found))
        page = yield from commands.specs_page(keys, len(found), count)
        found += [_listed(one) for one in page]
        if len(page) < count:
            break
    return found


def remove(commands: Commands, keys: Keys, key: str) -> Flow[bool]:
    """Remove a spec and its counter; false when there was none."""
    [removed] = yield [commands.remove_repeat(keys, key)]
    return bool(removed)


def _listed(found: Spec) -> Listed:
    fired = int(found.fired) if found.fired and found.fired.isdigit() else 0
    return Listed(found.key.decode(errors="backslashreplace"), found.next_ms, fired, _spec(found))


def _spec(found: Spec) -> RepeatSpec | Undecodable:
    if found.data is None:
        return Undecodable(b"", found.fault or "only its place in the schedule is left")
    try:
        return repeat_spec.decode(found.data, len(found.data))
    except WireError as error:
        return Undecodable(found.data, str(error))
