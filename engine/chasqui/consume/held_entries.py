"""What this consumer holds: which entries are pending in its name, how surely, and how many are not done yet.

Only kept here; who reads, renews or settles them lies beside. The heartbeat looks at it from its own thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

EntryRow = Sequence[Any]
"""An entry as read: id, fields and, when abandoned ones were asked for too, idle ms and deliveries before this."""


class EntryLease:
    """Entries that arrived together. Until `sure_until` nobody else can have claimed one of them.

    Counted from when they were asked for, or when their lease was last renewed: from sending, not from the answer,
    because this process may have been frozen in between. The heartbeat's thread writes it.
    """

    __slots__ = ("valid_until",)

    def __init__(self, sure_until: float) -> None:
        self.valid_until = sure_until


class HeldEntries:
    """Entries by id. `load`: those that wait for a slot or run. `lost`: those another consumer has by now."""

    __slots__ = ("lease_s", "leases", "lost", "unfinished")

    def __init__(self, lease_s: float) -> None:
        # A claim needs a moment to be noticed, so the last tenth of a lease (a second at most) is not relied on.
        self.lease_s = lease_s - min(1.0, lease_s / 10)
        self.leases: dict[bytes, EntryLease] = {}
        self.lost: set[bytes] = set()
        self.unfinished = 0

    def add(self, rows: Sequence[EntryRow], asked: float) -> EntryLease:
        """Entries have arrived that were asked for at this time."""
        batch = EntryLease(asked + self.lease_s)
        self.leases.update(dict.fromkeys([row[0] for row in rows], batch))
        self.unfinished += len(rows)
        return batch

    def is_leased(self, entry_id: bytes, batch: EntryLease, now: float) -> bool:
        """Whether the entry is ours beyond doubt."""
        return now < batch.valid_until and (not self.lost or entry_id not in self.lost)

    def remove(self, entry_ids: Iterable[bytes]) -> None:
        """Entries are settled, or somebody else's: renew them no more."""
        for entry_id in entry_ids:
            self.leases.pop(entry_id, None)
        if self.lost:
            self.lost.difference_update(entry_ids)

    def prune_lost(self) -> None:
        """Of the lost, keep only those somebody here still works on."""
        self.lost.intersection_update(self.leases)
