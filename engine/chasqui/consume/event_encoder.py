"""Encodes events as the bytes that are sent: those of every job from templates, the rare ones field by field.

The fields of an event are defined in `wire/event_entry.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chasqui.consume.attempts import run_number
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
_ID_PLACEHOLDER = b"\0 an id \0"


class EventEncoder:
    """Encodes the events of one queue. Times are given in the clock's monotonic seconds, and sent in wall-clock ms.

    Every event makes the server trim the stream to its cap, or is sent together with one that does.
    """

    def __init__(self, commands: Commands, keys: Keys, cap: int | None, clock: Clock) -> None:
        self._commands = commands
        self._keys = keys
        self._cap = cap
        self._clock = clock
        self._active = self._templates("active", cap)
        self._completed = self._templates("completed", cap)
        self._untrimmed_active = self._templates("active", None)
        self._untrimmed_completed = self._templates("completed", None)
        self._ts = 0
        self._fixed: dict[tuple[str, int, int], tuple[bytes, bytes, bytes]] = {}
        self._ahead_ms = 0.0
        self.sync_clock()

    def sync_clock(self) -> None:
        """Measure how far the wall clock is ahead of the monotonic one; called often, in case it is adjusted."""
        self._ahead_ms = self._clock.now_ms() - self._clock.monotonic() * 1000

    def active(self, job: Any, started: float) -> bytes:
        """The `active` event of a run."""
        return self._active[bool(job.name)] % (*self._common_values(job, started),)

    def completed(self, job: Any, started: float, ended: float) -> bytes:
        """A run completed."""
        took = _bulk_number(int((ended - started) * 1_000_000))
        return self._completed[bool(job.name)] % (*self._common_values(job, ended), took)

    def started_and_completed(self, parts: list[bytes], job: Any, started: float, ended: float) -> None:
        """A run began and completed: adds both events to `parts`, which is sent in one write.

        Most jobs pass here. Those of one millisecond differ in their ids and in how long they took, so nothing else
        is encoded again; and it is enough that the first of them makes the server trim the stream.
        """
        took = int((ended - started) * 1_000_000)
        if took >= _CACHED_NUMBERS or not parts:
            parts += (self.active(job, started), self.completed(job, started, ended))
            return
        ts = int(ended * 1000 + self._ahead_ms)
        if ts != self._ts:
            self._ts = ts
            self._fixed.clear()
        job_id = job.id.encode()
        kind = (job.name, job.attempt, len(job_id))
        first, second, last = self._fixed.get(kind) or self._fixed_parts(*kind)
        parts += (first, job_id, second, job_id, last, _NUMBERS[took])

    def any_event(self, event: Event) -> bytes:
        """Any other event."""
        return pack_commands([self._commands.emit_event(self._keys, event_entry.encode(event), cap=self._cap).args])

    def _templates(self, kind: str, cap: int | None) -> tuple[bytes, bytes]:
        """For a job without a name, and for one with a name."""
        extras = (
            ("attempt", PLACEHOLDER, "duration_us", PLACEHOLDER) if kind == "completed" else ("attempt", PLACEHOLDER)
        )
        common = ("e", kind, "id", PLACEHOLDER, "ts", PLACEHOLDER)
        return (
            command_template(self._commands.emit_event(self._keys, (*common, *extras), cap=cap).args),
            command_template(self._commands.emit_event(self._keys, (*common, "n", PLACEHOLDER, *extras), cap=cap).args),
        )

    def _common_values(self, job: Any, at: float) -> list[bytes]:
        """The values for the first placeholders of a template."""
        ts = pack_bulk_string(int(at * 1000 + self._ahead_ms))
        name = [pack_bulk_string(job.name)] if job.name else []
        return [pack_bulk_string(job.id), ts, *name, _bulk_number(run_number(job.attempt))]

    def _fixed_parts(self, name: str, attempt: int, id_length: int) -> tuple[bytes, bytes, bytes]:
        """The bytes before, between and after the ids in both events of such a job in this millisecond."""
        job_id = b"$%d\r\n%b\r\n" % (id_length, _ID_PLACEHOLDER)
        common = [
            job_id,
            pack_bulk_string(self._ts),
            *([pack_bulk_string(name)] if name else []),
            _bulk_number(run_number(attempt)),
        ]
        first, between = (self._untrimmed_active[bool(name)] % (*common,)).split(_ID_PLACEHOLDER, 1)
        second, last = (self._untrimmed_completed[bool(name)] % (*common, b"")).split(_ID_PLACEHOLDER, 1)
        self._fixed[name, attempt, id_length] = parts = (first, between + second, last)
        return parts


def _bulk_number(number: int) -> bytes:
    return _NUMBERS[number] if number < _CACHED_NUMBERS else pack_bulk_string(number)
