"""What this consumer holds: the entries that are pending in its name, until when each is leased, and how many are
unfinished.

Reading, renewing and settling are done by other modules. The lease renewal reads this from its own thread.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from itertools import repeat
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection

EntryRow = Sequence[Any]
"""An entry as read. A row has the last two columns only when abandoned entries were asked for too."""
ID, FIELDS, IDLE_MS, STARTS = range(4)
"""The columns of a row. STARTS: deliveries counted before this one."""


def counted_starts(row: EntryRow) -> int:
    """How many deliveries of an entry count so far. Each is a start: the first delivery, because a new entry starts
    without a question to the server, and every start of it as a suspect. 0 for a new entry.
    """
    return row[STARTS] if len(row) > IDLE_MS else 0


class EntryLease:
    """The lease of entries that were read together. Until `valid_until` no other worker can have claimed one of them.

    Counted from when the read, or the last renewal, was sent: this process may have been frozen between that and the
    reply. The thread of the lease renewal writes it.
    """

    __slots__ = ("valid_until",)

    def __init__(self, valid_until: float) -> None:
        self.valid_until = valid_until


BufferedEntry = tuple[EntryRow, EntryLease]


class JobBuffer(deque[BufferedEntry]):
    """Entries that wait for a slot. The slots set `wake`, which is called when there is work."""

    __slots__ = ("wake",)
    wake: Callable[[], None]

    def add(self, rows: Sequence[EntryRow], lease: EntryLease) -> None:
        self.extend(zip(rows, repeat(lease)))
        self.wake()

    def add_first(self, entry: BufferedEntry) -> None:
        self.appendleft(entry)
        self.wake()


class HeldEntries:
    """Leases by entry id. `unfinished`: how many entries wait for a slot or run. `lost`: those another consumer has."""

    __slots__ = ("lease_s", "leases", "lost", "unfinished")

    def __init__(self, lease_s: float) -> None:
        # A claim needs a moment to be noticed, so the last tenth of a lease (a second at most) is not relied on.
        self.lease_s = lease_s - min(1.0, lease_s / 10)
        self.leases: dict[bytes, EntryLease] = {}
        self.lost: set[bytes] = set()
        self.unfinished = 0

    def add(self, rows: Sequence[EntryRow], asked: float) -> EntryLease:
        """Add entries that were asked for at this time."""
        lease = EntryLease(asked + self.lease_s)
        self.leases.update(dict.fromkeys([row[ID] for row in rows], lease))
        self.unfinished += len(rows)
        return lease

    def finish(self, count: int = 1) -> None:
        """Entries have ended or were given back: they make room. They stay leased until they are settled."""
        self.unfinished -= count

    def is_leased(self, entry_id: bytes, lease: EntryLease, now: float) -> bool:
        """Whether the entry is certainly ours."""
        return now < lease.valid_until and (not self.lost or entry_id not in self.lost)

    def remove(self, entry_ids: Collection[bytes]) -> None:
        """Entries are settled, or belong to another consumer: their leases are not renewed any more."""
        for entry_id in entry_ids:
            self.leases.pop(entry_id, None)
        if self.lost:
            self.lost.difference_update(entry_ids)

    def prune_lost(self) -> None:
        """Of the lost, keep only those that still run here."""
        self.lost.intersection_update(self.leases)
