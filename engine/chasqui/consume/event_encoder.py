"""Events as they leave: packed bytes, those of every job from templates, the rare ones word by word.

When an event is told is decided by whoever makes it happen; its fields are `wire/event_entry.py`'s.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chasqui.server.command_templates import PLACEHOLDER, command_template, pack_bulk_string
from chasqui.server.request import pack_commands
from chasqui.wire import event_entry

if TYPE_CHECKING:
    from chasqui.clock import Clock
    from chasqui.server.commands import Commands
    from chasqui.wire.event_entry import Event
    from chasqui.wire.keys import Keys

_CACHED_NUMBERS = 64
_NUMBERS = [pack_bulk_string(number) for number in range(_CACHED_NUMBERS)]
_ID_HOLE = b"\0 an id \0"


class EventEncoder:
    """Packs the events of one queue. Moments are given in the clock's `mono` seconds and told in wall-clock ms.

    Events let the server drop what is beyond the cap, or lie beside one that does.
    """

    def __init__(self, commands: Commands, keys: Keys, cap: int | None, clock: Clock) -> None:
        self._commands = commands
        self._keys = keys
        self._cap = cap
        self._clock = clock
        self._active = self._templates("active", cap)
        self._completed = self._templates("completed", cap)
        self._bare_active = self._templates("active", None)
        self._bare_completed = self._templates("completed", None)
        self._ts = 0
        self._alike: dict[tuple[str, int, int], tuple[bytes, bytes, bytes]] = {}
        self._ahead_ms = 0.0
        self.sync_clock()

    def sync_clock(self) -> None:
        """Look how far the wall clock is ahead of the other one; often enough to follow when it is put right."""
        self._ahead_ms = self._clock.now_ms() - self._clock.monotonic() * 1000

    def active(self, job: Any, started: float) -> bytes:
        """A run has begun."""
        return self._active[bool(job.name)] % (*self._common_values(job, started),)

    def completed(self, job: Any, started: float, ended: float) -> bytes:
        """A run ended well."""
        took = _bulk_number(int((ended - started) * 1_000_000))
        return self._completed[bool(job.name)] % (*self._common_values(job, ended), took)

    def started_and_completed(self, parts: list[bytes], job: Any, started: float, ended: float) -> None:
        """A run began and ended well: two events, to be sent with those of others.

        Most jobs pass here. Those of one moment differ in their ids and in how long they took, so nothing else is
        packed anew; and it is enough that the first of them asks the server to drop what is beyond the cap.
        """
        took = int((ended - started) * 1_000_000)
        if took >= _CACHED_NUMBERS or not parts:
            parts += (self.active(job, started), self.completed(job, started, ended))
            return
        ts = int(ended * 1000 + self._ahead_ms)
        if ts != self._ts:
            self._ts = ts
            self._alike.clear()
        job_id = job.id.encode()
        kind = (job.name, job.attempt, len(job_id))
        first, second, last = self._alike.get(kind) or self._fixed_parts(*kind)
        parts += (first, job_id, second, job_id, last, _NUMBERS[took])

    def any_event(self, event: Event) -> bytes:
        """Anything else."""
        return pack_commands([self._commands.emit_event(self._keys, event_entry.encode(event), cap=self._cap).args])

    def _templates(self, kind: str, cap: int | None) -> tuple[bytes, bytes]:
        """For a job without a name, and for one with."""
        extras = (
            ("attempt", PLACEHOLDER, "duration_us", PLACEHOLDER) if kind == "completed" else ("attempt", PLACEHOLDER)
        )
        common = ("e", kind, "id", PLACEHOLDER, "ts", PLACEHOLDER)
        return (
            command_template(self._commands.emit_event(self._keys, (*common, *extras), cap=cap).args),
            command_template(self._commands.emit_event(self._keys, (*common, "n", PLACEHOLDER, *extras), cap=cap).args),
        )

    def _common_values(self, job: Any, moment: float) -> list[bytes]:
        """What fills a template's first holes."""
        ts = pack_bulk_string(int(moment * 1000 + self._ahead_ms))
        name = [pack_bulk_string(job.name)] if job.name else []
        return [pack_bulk_string(job.id), ts, *name, _bulk_number(job.attempt + 1)]

    def _fixed_parts(self, name: str, attempt: int, id_length: int) -> tuple[bytes, bytes, bytes]:
        """What stands before, between and after the ids in both events of such a job at this moment."""
        job_id = b"$%d\r\n%b\r\n" % (id_length, _ID_HOLE)
        common = [
            job_id,
            pack_bulk_string(self._ts),
            *([pack_bulk_string(name)] if name else []),
            _bulk_number(attempt + 1),
        ]
        first, between = (self._bare_active[bool(name)] % (*common,)).split(_ID_HOLE, 1)
        again, last = (self._bare_completed[bool(name)] % (*common, b"")).split(_ID_HOLE, 1)
        self._alike[name, attempt, id_length] = found = (first, between + again, last)
        return found


def _bulk_number(number: int) -> bytes:
    return _NUMBERS[number] if number < _CACHED_NUMBERS else pack_bulk_string(number)
