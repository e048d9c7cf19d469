"""Flows for a queue's consumers: which there are, what they hold, whether they are alive; and how dead ones are removed.

A consumer is only a name in a group; whether a worker still uses it can only be inferred from when it last read.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, NamedTuple

from chasqui.consume.lease_renewal import renewal_interval_ms
from chasqui.defaults import WorkerOptions
from chasqui.errors import NoGroup, ServerError
from chasqui.server.commands import RELEASED_CONSUMER, ConsumerInfo, GroupInfo, PendingEntry, parse_server_time
from chasqui.server.flow import batches
from chasqui.wire.entry_fields import printable_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from chasqui.server.commands import Commands
    from chasqui.server.flow import Flow, Reply
    from chasqui.wire.keys import Keys

__all__ = ["GONE_AFTER_MS", "ConsumerList", "ConsumerState", "ConsumerStatus", "GhostEntries", "PendingEntry"]

ConsumerState = Literal["working", "waiting", "not polling", "gone"]

POLLING_WITHIN_MS = 2 * WorkerOptions().read_block_ms + renewal_interval_ms(WorkerOptions().claim_min_idle_ms)
"""A running worker reads, or renews its leases, well within this time."""
GONE_AFTER_MS = WorkerOptions().dead_consumer_ms
"""After this time other consumers claim what it holds anyway."""
PAGE_SIZE = 1000


@dataclass(frozen=True, slots=True)
class ConsumerStatus:
    """A consumer of one group.

    inactive_ms: how long ago it was last given something; None where the server does not report it, or it never was.
    longest_idle_ms: the longest any of its entries has been idle. redelivered: how many of them were delivered more than
    once. Both count the entries that were scanned.
    """

    name: str
    raw_name: bytes
    group: str
    in_flight: int
    idle_ms: int
    inactive_ms: int | None
    longest_idle_ms: int
    redelivered: int
    state: ConsumerState

    @property
    def is_gone(self) -> bool:
        """Whether no worker uses this name any more."""
        return self.state == "gone"


class ConsumerList(NamedTuple):
    """All consumers at one moment. scanned: how many pending entries; complete: whether those were all.

    groups: by name, as stored.
    """

    now_ms: int
    consumers: list[ConsumerStatus]
    scanned: int
    complete: bool
    groups: tuple[bytes, ...] = ()


def list_consumers(
    commands: Commands,
    keys: Keys,
    *,
    gone_after_ms: int = GONE_AFTER_MS,
    max_entries: int = 10_000,
    groups: Sequence[bytes] | None = None,
) -> Flow[ConsumerList]:
    """All consumers, in two round trips and one for each further thousand entries in flight.

    groups: saves a round trip if they are known already; one that is gone has no consumers.
    """
    if groups is None:
        [reply] = yield [commands.groups(keys)]
        groups = [] if _is_no_group(reply) else [group.name for group in GroupInfo.list_from_reply(reply)]
    clock, *replies = yield [
        commands.server_time(),
        *(
            call
            for group in groups
            for call in (
                commands.consumers(keys, group),
                replace(commands.pending_page(keys, group, PAGE_SIZE), tolerant=True),
            )
        ),
    ]
    members: list[ConsumerStatus] = []
    scanned, complete = 0, True
    for group, rows, first in zip(groups, replies[::2], replies[1::2], strict=True):
        pending = [] if _is_no_group(first) else first
        entries = PendingEntry.list_from_reply(pending)
        while len(pending) == PAGE_SIZE and scanned + len(entries) < max_entries:
            [pending] = yield [commands.pending_page(keys, group, PAGE_SIZE, after=entries[-1].entry_id)]
            entries += PendingEntry.list_from_reply(pending)
        scanned, complete = scanned + len(entries), complete and len(pending) < PAGE_SIZE
        consumers = [] if _is_no_group(rows) else ConsumerInfo.list_from_reply(rows)
        held: dict[bytes, list[PendingEntry]] = defaultdict(list)
        for entry in entries:
            held[entry.consumer].append(entry)
        members += [_consumer_status(one, group, held[one.name], gone_after_ms) for one in consumers]
    return ConsumerList(parse_server_time(clock), members, scanned, complete, tuple(groups))


def _consumer_status(one: ConsumerInfo, group: bytes, own: Sequence[PendingEntry], gone_ms: int) -> ConsumerStatus:
    return ConsumerStatus(
        name=printable_name(one.name),
        raw_name=one.name,
        group=printable_name(group),
        in_flight=one.pending,
        idle_ms=one.idle_ms,
        inactive_ms=one.inactive_ms if one.inactive_ms is not None and one.inactive_ms >= 0 else None,
        longest_idle_ms=max((entry.idle_ms for entry in own), default=0),
        redelivered=sum(entry.deliveries > 1 for entry in own),
        state=_consumer_state(one, gone_ms),
    )


def _consumer_state(one: ConsumerInfo, gone_ms: int) -> ConsumerState:
    """By when it last read. No worker ever reads under the name that holds released entries: they wait there."""
    if one.name == RELEASED_CONSUMER.encode():
        return "waiting"
    if one.idle_ms > gone_ms:
        return "gone"
    if one.idle_ms > POLLING_WITHIN_MS:
        return "not polling"
    return "working" if one.pending else "waiting"


def pending_entries(commands: Commands, keys: Keys, member: ConsumerStatus, most: int) -> Flow[list[PendingEntry]]:
    """The entries a consumer holds, oldest first."""
    found: list[PendingEntry] = []
    while len(found) < most:
        count = min(PAGE_SIZE, most - len(found))
        after = found[-1].entry_id if found else None
        [rows] = yield [commands.pending_page(keys, member.group, count, after=after, consumer=member.raw_name)]
        found += PendingEntry.list_from_reply(rows)
        if len(rows) < count:
            break
    return found


class GhostEntries(NamedTuple):
    """Entries in flight that were deleted from the stream, by their group. scanned: how many in flight; complete: whether
    those were all.
    """

    entries: list[tuple[str, PendingEntry]]
    scanned: int
    complete: bool


def find_ghosts(commands: Commands, keys: Keys, groups: Sequence[str], most: int) -> Flow[GhostEntries]:
    """What is in flight and can never finish, a thousand scanned in each round trip."""
    found: list[tuple[str, PendingEntry]] = []
    scanned = 0
    for group in groups:
        after: str | None = None
        while scanned < most:
            [reply] = yield [
                commands.find_dangling_pending(keys, group, after=after, count=min(PAGE_SIZE, most - scanned))
            ]
            if _is_no_group(reply):
                break
            seen, last, rows = reply
            scanned += seen
            found += [(group, row) for row in PendingEntry.list_from_reply(rows)]
            if not last:
                break
            after = last.decode()
        else:
            return GhostEntries(found, scanned, complete=False)
    return GhostEntries(found, scanned, complete=True)


def remove_ghosts(commands: Commands, keys: Keys, found: Sequence[tuple[str, PendingEntry]]) -> Flow[list[bool]]:
    """Remove exactly these ghosts; returns for each whether it was in flight until now."""
    removed: set[tuple[str, bytes]] = set()
    for group, entry_ids in _by_group((group, entry.entry_id) for group, entry in found):
        for some in batches(entry_ids):
            [reply] = yield [commands.drop_dangling_pending(keys, group, some)]
            removed |= {(group, entry_id) for entry_id in reply}
    return [(group, entry.entry_id) in removed for group, entry in found]


def remove_consumers(commands: Commands, keys: Keys, members: Sequence[ConsumerStatus]) -> Flow[list[bool]]:
    """Remove consumers, but none that holds an entry at that moment; returns for each whether it was removed."""
    left: set[tuple[str, bytes]] = set()
    for group, names in _by_group((one.group, one.raw_name) for one in members):
        for some in batches(names):
            [reply] = yield [commands.drop_consumers(keys, group, some)]
            left |= {(group, name) for name in reply}
    return [(one.group, one.raw_name) not in left for one in members]


def release_entries(
    commands: Commands, keys: Keys, member: ConsumerStatus, entries: Sequence[PendingEntry]
) -> Flow[list[bool]]:
    """Let other consumers claim these entries at once, deliveries counted as they are; returns which were released."""
    released: set[bytes] = set()
    for some in batches(entries):
        deliveries = {one.entry_id: one.deliveries for one in some}
        [moved] = yield [commands.release(keys, member.group, member.raw_name, deliveries)]
        released.update(moved)
    return [one.entry_id in released for one in entries]


def _by_group(pairs: Iterable[tuple[str, bytes]]) -> Iterable[tuple[str, list[bytes]]]:
    groups: dict[str, list[bytes]] = defaultdict(list)
    for group, value in pairs:
        groups[group].append(value)
    return groups.items()


def _is_no_group(reply: Reply) -> bool:
    """Whether the stream or the group is missing. Raises any other refusal."""
    if not isinstance(reply, ServerError):
        return False
    if isinstance(reply, NoGroup) or "no such key" in str(reply).lower():
        return True
    raise reply
