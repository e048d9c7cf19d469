"""Flows for repeatable jobs: store one, list them, remove one, run one out of turn. Firing them when they are due is the
scheduler's business.

When a pattern fires is reckoned in `fires.py`, from the server's time; the bytes of a spec are `wire/repeat_spec.py`'s.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from chasqui import cron, fires
from chasqui.errors import ServerError, Unreachable, WireError, WrongType
from chasqui.server.commands import Spec, time_ms
from chasqui.server.commands.values import whole_ms
from chasqui.wire import envelope, ids, repeat_spec, stream_entry
from chasqui.wire.packed import Undecodable
from chasqui.wire.repeat_spec import Cron
from chasqui.withdrawal import Mark

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chasqui.server.call import Call, Flow, Reply
    from chasqui.server.commands import Commands
    from chasqui.wire.keys import Keys
    from chasqui.wire.repeat_spec import RepeatSpec
    from chasqui.withdrawal import Item

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
    raw_key: bytes = field(default=b"", compare=False)


class Held(NamedTuple):
    """What stands under a key: its bytes, when it fires next, its counter. All None for nothing."""

    data: bytes | None = None
    next_ms: int | None = None
    fired: bytes | None = None

    @property
    def is_there(self) -> bool:
        """Whether there is anything."""
        return self != Held()

    def item(self, key: bytes, left: bytes) -> Item:
        """What to write down before it is changed, for `put_back`. left: the bytes that will stand there instead."""
        return {
            "kind": "spec",
            "key": key.hex(),
            "left": left.hex(),
            "spec": None if self.data is None else self.data.hex(),
            "next_ms": self.next_ms,
            "fired": None if self.fired is None else self.fired.hex(),
        }


def check(spec: RepeatSpec) -> RepeatSpec:
    """The spec, if a scheduler could make sense of it; errors of calendar texts are found here."""
    if isinstance(spec.pattern, Cron):
        cron.parse(spec.pattern.expression, spec.pattern.tz)
    return repeat_spec.check(spec)


def upsert(commands: Commands, keys: Keys, spec: RepeatSpec) -> Flow[Stored]:
    """Store a spec, or replace the one under its key; without a key it gets one made of its name and pattern.

    How often it fired is kept when it is replaced. Two round trips: the first asks the server for the time.
    """
    named, data = prepared(spec)
    [clock] = yield [commands.server_time()]
    next_ms = fires.first_fire(spec.pattern, time_ms(clock), spec.start_after_ms, spec.end_before_ms)
    [created] = yield [commands.upsert_repeat(keys, named.key, data, next_ms=next_ms)]
    return Stored(named.key, next_ms, bool(created))


def prepared(spec: RepeatSpec) -> tuple[RepeatSpec, bytes]:
    """The spec with its key, found fit to be stored, and its bytes."""
    named = check(replace(spec, key=spec.key or repeat_spec.derived_key(spec.job_name, spec.pattern)))
    return named, repeat_spec.encode(named)


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


def held(commands: Commands, keys: Keys, names: Sequence[str | bytes]) -> Flow[list[Held]]:
    """What stands under these keys, in one round trip."""
    replies = yield [call for name in names for call in commands.stored_repeat(keys, name)]
    return [_held(*replies[at : at + 2]) for at in range(0, len(replies), 2)]


def _held(score: Reply, found: Reply) -> Held:
    data, fired = (None, None) if isinstance(found, WrongType) else _unless_error(found)
    return Held(data, None if score is None else whole_ms(score), fired)


def _unless_error(found: Reply) -> Reply:
    if isinstance(found, ServerError):
        raise found
    return found


def listed(key: str | bytes, found: Held) -> Listed:
    """What stands under a key, read if it can be."""
    raw = key.encode("utf-8", "surrogateescape") if isinstance(key, str) else key
    return _listed(Spec(raw, found.next_ms or 0, found.data, found.fired))


def run_once(commands: Commands, keys: Keys, spec: RepeatSpec, job: Mark) -> Flow[str]:
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


def new_job(now_ms: int) -> Mark:
    """The id and date of a job that is made now."""
    return Mark(ids.mint(now_ms), now_ms)


def put_back(commands: Commands, keys: Keys, op: str, items: Sequence[Item]) -> Flow[list[str]]:
    """Undo `spec`: answers for each schedule "restored", "already", or "changed" when it is not as it was left."""
    told: list[str] = []
    for start in range(0, len(items), PAGE):
        answers = yield [_restored(commands, keys, op, item) for item in items[start : start + PAGE]]
        told += [answer.decode() for answer in answers]
    return told


def _restored(commands: Commands, keys: Keys, op: str, item: Item) -> Call:
    return commands.restore_repeat(
        keys,
        op,
        bytes.fromhex(item["key"]),
        left=bytes.fromhex(item["left"]),
        data=bytes.fromhex(item["spec"] or ""),
        next_ms=item["next_ms"],
        fired=bytes.fromhex(item["fired"] or ""),
    )


def remove(commands: Commands, keys: Keys, key: str | bytes) -> Flow[bool]:
    """Remove a spec and its counter; false when there was none."""
    [removed] = yield [commands.remove_repeat(keys, key)]
    return bool(removed)


def _listed(found: Spec) -> Listed:
    fired = int(found.fired) if found.fired and found.fired.isdigit() else 0
    key = found.key.decode(errors="backslashreplace")
    return Listed(key, found.next_ms, fired, _spec(found), found.key)


def _spec(found: Spec) -> RepeatSpec | Undecodable:
    if found.data is None:
        return Undecodable(b"", found.fault or "only its place in the schedule is left")
    try:
        return repeat_spec.decode(found.data, len(found.data))
    except WireError as error:
        return Undecodable(found.data, str(error))
