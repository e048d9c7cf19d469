"""The builder for jobs that come from another server: taken in once, however often they are sent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from chasqui.defaults import StreamCaps
from chasqui.server.commands.delayed_commands import MARKER_EXTRA_S
from chasqui.server.scripts import script_call

if TYPE_CHECKING:
    from chasqui.server.flow import Call
    from chasqui.wire.keys import Keys

DEFAULT_CAPS = StreamCaps()
IMPORT_MEMORY_S = 7 * 86_400
"""How long a job that arrived is known to have: a mover that was killed must be started again before that."""

Destination = Literal["stream", "delayed", "dlq"]


@dataclass(frozen=True, slots=True)
class ImportedJob:
    """A job as it shall be written: its envelope and name, when it is due, or the fields of the dead letter it is."""

    job_id: str
    envelope: bytes
    name: bytes = b""
    due_ms: int | None = None
    dead: tuple[bytes, ...] = ()

    def destination(self, now_ms: int) -> Destination:
        """Where it belongs at this time."""
        if self.dead:
            return "dlq"
        return "delayed" if self.due_ms is not None and self.due_ms > now_ms else "stream"

    def marker_ttl_s(self, now_ms: int) -> int:
        """How long the marks of a delayed job stay."""
        return max(1, ((self.due_ms or now_ms) - now_ms) // 1000) + MARKER_EXTRA_S


def import_job(target: Keys, imported: ImportedJob, *, now_ms: int, caps: StreamCaps = DEFAULT_CAPS) -> Call:
    """Take a job in; answers 1, 0 when it had arrived before, or -1 when the queue is full."""
    return script_call(
        "import_job",
        arrived=target.migrated_marker(imported.job_id),
        stream=target.stream,
        delayed=target.delayed,
        dlq=target.dlq,
        marker=target.delayed_marker(imported.job_id),
        index=target.delayed_index(imported.job_id),
        keep_s=IMPORT_MEMORY_S,
        where=imported.destination(now_ms),
        due_ms=imported.due_ms or 0,
        ttl_s=imported.marker_ttl_s(now_ms),
        cap=caps.stream,
        dead_cap=caps.dlq,
        envelope=imported.envelope,
        name=imported.name,
        rest=imported.dead,
    )
