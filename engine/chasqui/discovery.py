"""Which queues there are: nobody registers them, so the server's keys are looked through, page by page.

Only streams and sorted sets count, for they hold jobs; results and markers, by far the most keys, are never sent.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from chasqui.server.commands.looks import Looks

if TYPE_CHECKING:
    from collections.abc import Iterable

    from chasqui.server.call import Flow
    from chasqui.server.link import AsyncLink, Link

PAGE = 5000
"""Keys per page: some three milliseconds of the server's time."""

_QUEUE_OF = {
    "stream": re.compile(rb"\{chasqui:(.*)\}:(?:stream|dlq|events)", re.DOTALL),
    "zset": re.compile(rb"\{chasqui:(.*)\}:(?:delayed|repeat)", re.DOTALL),
}

Progress = Callable[["Discovered"], None]


@dataclass(frozen=True, slots=True)
class Discovered:
    """Queues found among the first `looked` of about `total` keys, in alphabetical order.

    A name that is not UTF-8 keeps its bytes as lone surrogates. complete: nothing was left out for want of patience.
    """

    queues: tuple[str, ...] = ()
    looked: int = 0
    total: int = 0
    complete: bool = True

    def with_more(self, other: Discovered) -> Discovered:
        """Both together: what two nodes hold."""
        return Discovered(
            tuple(sorted({*self.queues, *other.queues})),
            self.looked + other.looked,
            self.total + other.total,
            self.complete and other.complete,
        )


def on_node(
    *, most_keys: int | None = None, page: int = PAGE, progress: Progress | None = None
) -> Flow[Discovered]:
    """The queues one node holds. Two walks, one for each type, side by side in the same round trips.

    Stops once about `most_keys` keys were looked at; `progress` hears of every page.
    """
    commands, found = Looks(), set[str]()
    cursors = dict.fromkeys(_QUEUE_OF, b"0")
    [total] = yield [commands.keys_count()]
    looked = 0
    while cursors and (most_keys is None or looked < most_keys):
        replies = yield [commands.keys_page(cursor, kind, count=page) for kind, cursor in cursors.items()]
        for kind, (cursor, names) in zip(list(cursors), replies, strict=True):
            found |= _queues(kind, names)
            cursors[kind] = cursor
        cursors = {kind: cursor for kind, cursor in cursors.items() if cursor != b"0"}
        looked = min(looked + page, total) if cursors else total
        if progress:
            progress(Discovered(tuple(sorted(found)), looked, total, not cursors))
    return Discovered(tuple(sorted(found)), looked, total, not cursors)


def discover(link: Link, *, most_keys: int | None = None, progress: Progress | None = None) -> Discovered:
    """The queues of all nodes."""
    told = Discovered()
    for node in link.nodes():
        told = told.with_more(node.run(on_node(most_keys=most_keys, progress=_after(told, progress))))
    return told


async def discover_async(
    link: AsyncLink, *, most_keys: int | None = None, progress: Progress | None = None
) -> Discovered:
    """The same, awaited."""
    told = Discovered()
    for node in await link.nodes():
        told = told.with_more(await node.run(on_node(most_keys=most_keys, progress=_after(told, progress))))
    return told


def _after(before: Discovered, progress: Progress | None) -> Progress | None:
    return None if progress is None else lambda told: progress(before.with_more(told))


def _queues(kind: str, names: Iterable[bytes]) -> set[str]:
    matches = (_QUEUE_OF[kind].fullmatch(name) for name in names)
    return {match[1].decode("utf-8", "surrogateescape") for match in matches if match}
