"""Finds the queues of a server. They are not registered anywhere, so its keys are scanned, page by page.

Only streams and sorted sets are scanned; results and markers, by far the most keys, are never sent.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from chasqui.server.commands.query_commands import QueryCommands
from chasqui.wire.entry_fields import decode_name_exact

if TYPE_CHECKING:
    from collections.abc import Iterable

    from chasqui.server.flow import Flow
    from chasqui.server.link import AsyncLink, Link

PAGE_SIZE = 5000
"""Keys per page: some three milliseconds of the server's time."""

_KEY_PATTERNS = {
    "stream": re.compile(rb"\{chasqui:(.*)\}:(?:stream|dlq|events)", re.DOTALL),
    "zset": re.compile(rb"\{chasqui:(.*)\}:(?:delayed|repeat)", re.DOTALL),
}

DiscoveryProgress = Callable[["DiscoveredQueues"], None]


@dataclass(frozen=True, slots=True)
class DiscoveredQueues:
    """Queues found among the first `looked` of about `total` keys, in alphabetical order.

    A name that is not UTF-8 keeps its bytes as lone surrogates. complete: every key was scanned.
    """

    queues: tuple[str, ...] = ()
    scanned: int = 0
    total: int = 0
    complete: bool = True

    def merged_with(self, other: DiscoveredQueues) -> DiscoveredQueues:
        """Both together: what two nodes hold."""
        return DiscoveredQueues(
            tuple(sorted({*self.queues, *other.queues})),
            self.scanned + other.scanned,
            self.total + other.total,
            self.complete and other.complete,
        )


def discover_on_node(
    *, most_keys: int | None = None, page: int = PAGE_SIZE, progress: DiscoveryProgress | None = None
) -> Flow[DiscoveredQueues]:
    """The queues one node holds. Two scans, one for each type, in the same round trips.

    Stops once about `most_keys` keys were scanned; `progress` is called after every page.
    """
    commands, found = QueryCommands(), set[str]()
    cursors = dict.fromkeys(_KEY_PATTERNS, b"0")
    [total] = yield [commands.count_keys()]
    looked = 0
    while cursors and (most_keys is None or looked < most_keys):
        replies = yield [commands.scan_keys(cursor, kind, count=page) for kind, cursor in cursors.items()]
        for kind, (cursor, names) in zip(list(cursors), replies, strict=True):
            found |= _queue_names(kind, names)
            cursors[kind] = cursor
        cursors = {kind: cursor for kind, cursor in cursors.items() if cursor != b"0"}
        looked = min(looked + page, total) if cursors else total
        if progress:
            progress(DiscoveredQueues(tuple(sorted(found)), looked, total, not cursors))
    return DiscoveredQueues(tuple(sorted(found)), looked, total, not cursors)


def discover_queues(
    link: Link, *, most_keys: int | None = None, progress: DiscoveryProgress | None = None
) -> DiscoveredQueues:
    """The queues of all nodes."""
    found_so_far = DiscoveredQueues()
    for node in link.nodes():
        found_so_far = found_so_far.merged_with(
            node.run(discover_on_node(most_keys=most_keys, progress=_progress_from(found_so_far, progress)))
        )
    return found_so_far


async def discover_queues_async(
    link: AsyncLink, *, most_keys: int | None = None, progress: DiscoveryProgress | None = None
) -> DiscoveredQueues:
    """The same, awaited."""
    found_so_far = DiscoveredQueues()
    for node in await link.nodes():
        found_so_far = found_so_far.merged_with(
            await node.run(discover_on_node(most_keys=most_keys, progress=_progress_from(found_so_far, progress)))
        )
    return found_so_far


def _progress_from(before: DiscoveredQueues, progress: DiscoveryProgress | None) -> DiscoveryProgress | None:
    return None if progress is None else lambda found: progress(before.merged_with(found))


def _queue_names(kind: str, names: Iterable[bytes]) -> set[str]:
    matches = (_KEY_PATTERNS[kind].fullmatch(name) for name in names)
    return {decode_name_exact(match[1]) for match in matches if match}
