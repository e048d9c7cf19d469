"""Which RSMQ and list queues there are: the server's keys are looked through, page by page, as for our own.

RSMQ lists its queues, but not all: those that a crash left unlisted are found by their hashes, those of which only the
name is left by the list. A list queue is found by any of its four lists; one that holds nothing does not exist.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from chasqui.foreign.decoding import to_text
from chasqui.foreign.joblist.keys import JobListKeys
from chasqui.foreign.rsmq import rsmq_calls
from chasqui.foreign.rsmq.keys import RsmqKeys
from chasqui.inspect.discovery import PAGE_SIZE
from chasqui.server.commands.query_commands import QueryCommands

if TYPE_CHECKING:
    from collections.abc import Iterable

    from chasqui.server.flow import Flow
    from chasqui.server.link import AsyncLink, Link

_SCAN_PATTERNS = {"hash": "*:Q", "set": "*:QUEUES", "list": "queue:*"}
_HASH = re.compile(r"(.+):([^:]+):Q", re.DOTALL)
_QUEUES = re.compile(r"(.+):QUEUES", re.DOTALL)
_LIST = re.compile(r"queue:(.*):(?:pending|processing|completed|failed)", re.DOTALL)

ForeignDiscoveryProgress = Callable[["ForeignQueues"], None]


@dataclass(frozen=True, slots=True)
class ForeignQueues:
    """Queues of other systems among the first `looked` of about `total` keys, in alphabetical order."""

    rsmq: tuple[RsmqKeys, ...] = ()
    joblists: tuple[JobListKeys, ...] = ()
    scanned: int = 0
    total: int = 0
    complete: bool = True

    def merge(self, other: ForeignQueues) -> ForeignQueues:
        """Both together: what two nodes hold."""
        return ForeignQueues(
            _sorted({*self.rsmq, *other.rsmq}),
            tuple(sorted({*self.joblists, *other.joblists}, key=lambda keys: keys.queue)),
            self.scanned + other.scanned,
            self.total + other.total,
            self.complete and other.complete,
        )


def discover_on_node(
    *, most_keys: int | None = None, page: int = PAGE_SIZE, progress: ForeignDiscoveryProgress | None = None
) -> Flow[ForeignQueues]:
    """The queues one node holds: three walks, one for each type, side by side in the same round trips."""
    looks, found = QueryCommands(), ForeignQueues()
    cursors = dict.fromkeys(_SCAN_PATTERNS, b"0")
    [total] = yield [looks.count_keys()]
    looked = 0
    while cursors and (most_keys is None or looked < most_keys):
        replies = yield [
            looks.scan_keys(cursor, kind, count=page, match=_SCAN_PATTERNS[kind]) for kind, cursor in cursors.items()
        ]
        named = {kind: [*map(to_text, names)] for kind, (_, names) in zip(cursors, replies, strict=True)}
        cursors = {kind: reply[0] for kind, reply in zip(cursors, replies, strict=True) if reply[0] != b"0"}
        looked = min(looked + page, total) if cursors else total
        rsmq = yield from _rsmq_queues(named.get("hash", ()), named.get("set", ()))
        more = ForeignQueues(tuple(rsmq), tuple(_list_queues(named.get("list", ()))))
        so_far = found.merge(more)
        found = ForeignQueues(so_far.rsmq, so_far.joblists, looked, total, not cursors)
        if progress:
            progress(found)
    return found


def discover(
    link: Link, *, most_keys: int | None = None, progress: ForeignDiscoveryProgress | None = None
) -> ForeignQueues:
    """The queues of all nodes."""
    queues = ForeignQueues()
    for node in link.nodes():
        queues = queues.merge(
            node.run(discover_on_node(most_keys=most_keys, progress=_offset_progress(queues, progress)))
        )
    return queues


async def discover_async(
    link: AsyncLink, *, most_keys: int | None = None, progress: ForeignDiscoveryProgress | None = None
) -> ForeignQueues:
    """The same, awaited."""
    queues = ForeignQueues()
    for node in await link.nodes():
        queues = queues.merge(
            await node.run(discover_on_node(most_keys=most_keys, progress=_offset_progress(queues, progress)))
        )
    return queues


def _rsmq_queues(hashes: Iterable[str], sets: Iterable[str]) -> Flow[set[RsmqKeys]]:
    """What looks like a queue's hash must have something of one; every name on a list counts."""
    likely = [RsmqKeys(match[2], match[1]) for name in hashes if (match := _HASH.fullmatch(name))]
    spaces = [match[1] for name in sets if (match := _QUEUES.fullmatch(name))]
    replies = yield [
        *(rsmq_calls.read_attributes(keys) for keys in likely),
        *(rsmq_calls.queue_names(RsmqKeys("", space).queues) for space in spaces),
    ]
    found = {keys for keys, fields in zip(likely, replies, strict=False) if any(fields)}
    for space, names in zip(spaces, replies[len(likely) :], strict=True):
        found |= {RsmqKeys(to_text(name), space) for name in names}
    return found


def _list_queues(names: Iterable[str]) -> set[JobListKeys]:
    return {JobListKeys(match[1]) for name in names if (match := _LIST.fullmatch(name))}


def _sorted(found: set[RsmqKeys]) -> tuple[RsmqKeys, ...]:
    return tuple(sorted(found, key=lambda keys: (keys.namespace, keys.queue)))


def _offset_progress(
    before: ForeignQueues, progress: ForeignDiscoveryProgress | None
) -> ForeignDiscoveryProgress | None:
    return None if progress is None else lambda queues: progress(before.merge(queues))
