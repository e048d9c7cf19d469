"""Events as they leave: packed bytes, those of every job from templates, the rare ones word by word.

When an event is told is decided by whoever makes it happen; its fields are `wire/event_entry.py`'s.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chasqui.server.parcel import pack
from chasqui.server.templates import HOLE, bulk, template
from chasqui.wire import event_entry

if TYPE_CHECKING:
    from chasqui.clock import Clock
    from chasqui.server.commands import Commands
    from chasqui.wire.event_entry import Event
    from chasqui.wire.keys import Keys

_FEW = 64
_NUMBERS = [bulk(number) for number in range(_FEW)]
_ID = b"\0 an id \0"


class Teller:
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
        self.set_clock()

    def set_clock(self) -> None:
        """Look how far the wall clock is ahead of the other one; often enough to follow when it is put right."""
        self._ahead_ms = self._clock.now_ms() - self._clock.mono() * 1000

    def active(self, job: Any, started: float) -> bytes:
        """A run has begun."""
        return self._active[bool(job.name)] % (*self._common(job, started),)

    def completed(self, job: Any, started: float, ended: float) -> bytes:
        """A run ended well."""
        took = _packed(int((ended - started) * 1_000_000))
        return self._completed[bool(job.name)] % (*self._common(job, ended), took)

    def both(self, parts: list[bytes], job: Any, started: float, ended: float) -> None:
        """A run began and ended well: two events, to be sent with those of others.

        Most jobs pass here. Those of one moment differ in their ids and in how long they took, so nothing else is
        packed anew; and it is enough that the first of them asks the server to drop what is beyond the cap.
        """
        took = int((ended - started) * 1_000_000)
        if took >= _FEW or not parts:
            parts += (self.active(job, started), self.completed(job, started, ended))
            return
        ts = int(ended * 1000 + self._ahead_ms)
        if ts != self._ts:
            self._ts = ts
            self._alike.clear()
        job_id = job.id.encode()
        kind = (job.name, job.attempt, len(job_id))
        first, second, last = self._alike.get(kind) or self._around(*kind)
        parts += (first, job_id, second, job_id, last, _NUMBERS[took])

    def other(self, event: Event) -> bytes:
        """Anything else."""
        return pack([self._commands.emit_event(self._keys, event_entry.encode(event), cap=self._cap).words])

    def _templates(self, kind: str, cap: int | None) -> tuple[bytes, bytes]:
        """For a job without a name, and for one with."""
        extras = ("attempt", HOLE, "duration_us", HOLE) if kind == "completed" else ("attempt", HOLE)
        common = ("e", kind, "id", HOLE, "ts", HOLE)
        return (
            template(self._commands.emit_event(self._keys, (*common, *extras), cap=cap).words),
            template(self._commands.emit_event(self._keys, (*common, "n", HOLE, *extras), cap=cap).words),
        )

    def _common(self, job: Any, moment: float) -> list[bytes]:
        """What fills a template's first holes."""
        ts = bulk(int(moment * 1000 + self._ahead_ms))
        name = [bulk(job.name)] if job.name else []
        return [bulk(job.id), ts, *name, _packed(job.attempt + 1)]

    def _around(self, name: str, attempt: int, id_length: int) -> tuple[bytes, bytes, bytes]:
        """What stands before, between and after the ids in both events of such a job at this moment."""
        job_id = b"$%d\r\n%b\r\n" % (id_length, _ID)
        common = [job_id, bulk(self._ts), *([bulk(name)] if name else []), _packed(attempt + 1)]
        first, between = (self._bare_active[bool(name)] % (*common,)).split(_ID, 1)
        again, last = (self._bare_completed[bool(name)] % (*common, b"")).split(_ID, 1)
        self._alike[name, attempt, id_length] = found = (first, between + again, last)
        return found


def _packed(number: int) -> bytes:
    return _NUMBERS[number] if number < _FEW else bulk(number)
