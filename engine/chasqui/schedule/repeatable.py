"""Flows for repeatable jobs: store one, list them, remove one, run one out of turn. Firing them when they are due is the
scheduler's business.

`fire_times.py` computes when a pattern fires, from the server's time; `wire/repeat_spec.py` has the bytes of a spec.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from chasqui import cron
from chasqui.errors import Unreachable
from chasqui.inspect.snapshot import server_time_ms
from chasqui.schedule import fire_times
from chasqui.server.commands import StoredSpec
from chasqui.wire import envelope, repeat_spec, stream_entry
from chasqui.wire.entry_fields import printable_name
from chasqui.wire.envelope import JobStamp
from chasqui.wire.job_id import new_job_id
from chasqui.wire.msgpack_codec import Undecodable
from chasqui.wire.repeat_spec import Cron

if TYPE_CHECKING:
    from chasqui.server.commands import Commands
    from chasqui.server.flow import Flow
    from chasqui.undo.changed_schedules import RawSpec
    from chasqui.wire.keys import Keys
    from chasqui.wire.repeat_spec import RepeatSpec

PAGE_SIZE = 500


@dataclass(frozen=True, slots=True)
class UpsertedSpec:
    """A spec that was stored: its key, when it fires next; `created` is false if it replaced one."""

    key: str
    next_ms: int
    created: bool


@dataclass(frozen=True, slots=True)
class ListedSpec:
    """A stored spec: when it fires next, how often it fired, and its content or why that cannot be read."""

    key: str
    next_ms: int
    fired: int
    spec: RepeatSpec | Undecodable
    raw_key: bytes = field(default=b"", compare=False)


def check_spec(spec: RepeatSpec) -> RepeatSpec:
    """The spec, if a scheduler could make sense of it; errors of calendar texts are found here."""
    if isinstance(spec.pattern, Cron):
        cron.parse_cron(spec.pattern.expression, spec.pattern.tz)
    return repeat_spec.check(spec)


def upsert_spec(commands: Commands, keys: Keys, spec: RepeatSpec) -> Flow[UpsertedSpec]:
    """Store a spec, or replace the one under its key; without a key it gets one made of its name and pattern.

    How often it fired is kept when it is replaced. Two round trips: the first asks the server for the time.
    """
    named, data = prepare_spec(spec)
    now_ms = yield from server_time_ms(commands)
    next_ms = fire_times.first_fire(spec.pattern, now_ms, spec.start_after_ms, spec.end_before_ms)
    [created] = yield [commands.upsert_repeat(keys, named.key, data, next_ms=next_ms)]
    return UpsertedSpec(named.key, next_ms, bool(created))


def prepare_spec(spec: RepeatSpec) -> tuple[RepeatSpec, bytes]:
    """The spec with its key, found fit to be stored, and its bytes."""
    named = check_spec(replace(spec, key=spec.key or repeat_spec.default_key(spec.job_name, spec.pattern)))
    return named, repeat_spec.encode(named)


def list_specs(commands: Commands, keys: Keys, limit: int) -> Flow[list[ListedSpec]]:
    """The specs in the order they fire next; also those that cannot be read."""
    found: list[ListedSpec] = []
    while len(found) < limit:
        count = min(PAGE_SIZE, limit - len(found))
        page = yield from commands.specs_page(keys, len(found), count)
        found += [_listed_spec(one) for one in page]
        if len(page) < count:
            break
    return found


def decode_raw_spec(key: str | bytes, found: RawSpec) -> ListedSpec:
    """What stands under a key, read if it can be."""
    raw = key.encode("utf-8", "surrogateescape") if isinstance(key, str) else key
    return _listed_spec(StoredSpec(raw, found.next_ms or 0, found.data, found.fired))


def run_spec_once(commands: Commands, keys: Keys, spec: RepeatSpec, job: JobStamp) -> Flow[str]:
    """Make one job of a spec now, outside its schedule, which is not touched; answers its entry.

    A lost reply is asked for once more: the server knows the job by its id, so it is added once.
    """
    made = envelope.Envelope(job.job_id, spec.payload, job.created_at_ms, retry=spec.retry)
    fields = stream_entry.encode(
        envelope.encode(made, exact_payload=True), spec.job_name.encode("utf-8", "surrogateescape")
    )
    call = commands.add_entry(keys, f"run-{job.job_id}", job.job_id, fields)
    try:
        [entry_id] = yield [call]
    except Unreachable as problem:
        if not problem.sent:
            raise
        [entry_id] = yield [call]
    return str(entry_id.decode())


def new_job_stamp(now_ms: int) -> JobStamp:
    """The id and date of a job that is made now."""
    return JobStamp(new_job_id(now_ms), now_ms)


def remove_spec(commands: Commands, keys: Keys, key: str | bytes) -> Flow[bool]:
    """Remove a spec and its counter; false when there was none."""
    [removed] = yield [commands.remove_repeat(keys, key)]
    return bool(removed)


def _listed_spec(found: StoredSpec) -> ListedSpec:
    fired = int(found.fired) if found.fired and found.fired.isdigit() else 0
    key = printable_name(found.key)
    return ListedSpec(key, found.next_ms, fired, _decode_spec(found), found.key)


def _decode_spec(found: StoredSpec) -> RepeatSpec | Undecodable:
    if found.data is None:
        return Undecodable(b"", found.read_error or "only its place in the schedule is left")
    return repeat_spec.decode_or_undecodable(found.data)
