"""The keys and texts of the list job queue that Redis' guide describes. Nothing here connects.

Nine languages share the layout and differ in how they write JSON; `docs/foreign.md` has it in full.
"""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass
from typing import Literal, TypeAlias

ListName: TypeAlias = Literal["pending", "processing", "completed", "failed"]
KEY_TYPES = ("list",) * 5
"""The types of `JobListKeys.all_lists`."""
LISTS = ("pending", "processing", "completed", "failed")


@dataclass(frozen=True, slots=True)
class JobListKeys:
    """The keys of one queue. On a cluster they share a slot only under a name with a hash tag, such as `{jobs}`."""

    queue: str = "jobs"

    def _key(self, suffix: str) -> str:
        return f"queue:{self.queue}:{suffix}"

    @property
    def pending(self) -> str:
        """List: ids that wait; new ones at the head, the next to be claimed at the tail."""
        return self._key("pending")

    @property
    def processing(self) -> str:
        """List: ids that were claimed, the newest claim at the head."""
        return self._key("processing")

    @property
    def completed(self) -> str:
        """List: ids of the last successes, newest first."""
        return self._key("completed")

    @property
    def failed(self) -> str:
        """List: ids of the last jobs that failed for good, newest first."""
        return self._key("failed")

    @property
    def lists(self) -> tuple[str, ...]:
        """The four of them."""
        return (self.pending, self.processing, self.completed, self.failed)

    @property
    def all_lists(self) -> tuple[str, ...]:
        """The four of them, and ours."""
        return (*self.lists, self.in_migration)

    def list_key(self, name: ListName) -> str:
        """The key of one of the four."""
        return self._key(name)

    @property
    def split_hint(self) -> str:
        """What to do where a cluster has the keys in several slots."""
        return "nothing was changed; a tagged name, as {jobs}, holds them together"

    def one_slot_keys(self, *, listed: bool) -> list[str]:
        """The keys that a change needs in one slot; no queue is listed."""
        return [*self.lists, self.prefix, self.in_migration]

    @property
    def prefix(self) -> str:
        """What the keys of all jobs begin with."""
        return self._key("job:")

    @property
    def events(self) -> str:
        """Channel: what became of a job, after it was completed or failed."""
        return self._key("events")

    @property
    def in_migration(self) -> str:
        """List of ours: ids on their way to another server."""
        return self._key("mig")

    @property
    def counters(self) -> tuple[str, ...]:
        """Hashes in which the Ruby and PHP versions count what the others count in the process."""
        return (self._key("stats"), f"demo:queue_stats:{self.queue}")

    def undo_marker(self, op: str) -> str:
        """Hash of ours, for a month: jobs that an undo of this operation has brought back."""
        return self._key(f"undo:{op}")

    def job(self, job_id: str) -> str:
        """Hash: everything about one job."""
        return f"{self.prefix}{job_id}"


def new_id() -> str:
    """A new job id or claim token: eight random bytes in hex."""
    return secrets.token_hex(8)


def compact_json(value: object) -> str:
    """JSON as most of the nine languages write it: no spaces, and text as it is."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
