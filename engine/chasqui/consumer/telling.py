"""Events as they leave: packed bytes, those of every job from templates, the rare ones word by word.

When an event is told is decided by whoever makes it happen; its fields are `wire/event_entry.py`'s.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chasqui.server.parcel import pack
from chasqui.server.templates import HOLE, bulk, template
from chasqui.wire import event_entry

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chasqui.clock import Clock
    from chasqui.server.call import Word
    from chasqui.server.commands import Commands
    from chasqui.wire.event_entry import Event
    from chasqui.wire.keys import Keys

_FEW = 64
_NUMBERS = [bulk(number) for number in range(_FEW)]


class Teller:
    """Packs the events of one queue. Moments are given in the clock's `mono` seconds and told in wall-clock ms."""

    def __init__(self, commands: Commands, keys: Keys, cap: int, clock: Clock) -> None:
        self._commands = commands
        self._keys = keys
        self._cap = cap
        self._clock = clock
        active, completed = ("attempt", HOLE), ("attempt", HOLE, "duration_us", HOLE)
        self._active = self._template("active", active)
        self._active_named = self._template("active", ("n", HOLE, *active))
        self._completed = self._template("completed", completed)
        self._completed_named = self._template("completed", ("n", HOLE, *completed))
        self._both = self._active + self._completed
        self._both_named = self._active_named + self._completed_named
        self._ts, self._packed_ts = 0, b""
        self._ahead_ms = 0.0
        self.set_clock()

    def set_clock(self) -> None:
        """Look how far the wall clock is ahead of the other one; often enough to follow when it is put right."""
        self._ahead_ms = self._clock.now_ms() - self._clock.mono() * 1000

    def active(self, job: Any, started: float) -> bytes:
        """A run has begun."""
        number = _packed(job.attempt + 1)
        if job.name:
            return self._active_named % (bulk(job.id), self._time(started), bulk(job.name), number)
        return self._active % (bulk(job.id), self._time(started), number)

    def completed(self, job: Any, started: float, ended: float) -> bytes:
        """A run ended well."""
        number, took = _packed(job.attempt + 1), _packed(int((ended - started) * 1_000_000))
        if job.name:
            return self._completed_named % (bulk(job.id), self._time(ended), bulk(job.name), number, took)
        return self._completed % (bulk(job.id), self._time(ended), number, took)

    def both(self, job: Any, started: float, ended: float) -> bytes:
        """A run began and ended well: two events. Most jobs pass here, so it is written out."""
        took, run = int((ended - started) * 1_000_000), job.attempt + 1
        ts = int(ended * 1000 + self._ahead_ms)
        if ts != self._ts:
            self._ts, self._packed_ts = ts, bulk(ts)
        then = now = self._packed_ts
        if took >= 1000:
            then = bulk(int(started * 1000 + self._ahead_ms))
        raw = job.id.encode()
        job_id = b"$%d\r\n%b\r\n" % (len(raw), raw)
        number = _NUMBERS[run] if run < _FEW else bulk(run)
        packed_took = _NUMBERS[took] if took < _FEW else bulk(took)
        if job.name:
            name = bulk(job.name)
            return self._both_named % (job_id, then, name, number, job_id, now, name, number, packed_took)
        return self._both % (job_id, then, number, job_id, now, number, packed_took)

    def other(self, event: Event) -> bytes:
        """Anything else."""
        return pack([self._commands.emit_event(self._keys, event_entry.encode(event), cap=self._cap).words])

    def _template(self, kind: str, extras: Sequence[Word]) -> bytes:
        fields = ("e", kind, "id", HOLE, "ts", HOLE, *extras)
        return template(self._commands.emit_event(self._keys, fields, cap=self._cap).words)

    def _time(self, moment: float) -> bytes:
        ts = int(moment * 1000 + self._ahead_ms)
        if ts != self._ts:
            self._ts, self._packed_ts = ts, bulk(ts)
        return self._packed_ts


def _packed(number: int) -> bytes:
    return _NUMBERS[number] if number < _FEW else bulk(number)
