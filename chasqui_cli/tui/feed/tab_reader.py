"""What every tab's reader is, where it asks, and how one about a queue asks: its snapshot, with whatever rides along."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from chasqui import Keys, SystemClock, run_together
from chasqui.errors import ServerError
from chasqui.inspect import snapshot
from chasqui_cli.queues.queue_names import strip_native_prefix

if TYPE_CHECKING:
    from collections.abc import Callable

    from chasqui import AsyncLink, Commands, Flow
    from chasqui_cli.queues.name_cache import NameCache
    from chasqui_cli.tui.feed.queue_rows import TrendMemory
    from chasqui_cli.tui.feed_messages import QueueRow, ReadTarget
    from chasqui_cli.tui.views import View


@dataclass(frozen=True, slots=True)
class FeedContext:
    """What readers share: link, memory, cache. request_read: read again before the next tick."""

    link: AsyncLink
    commands: Commands
    memory: TrendMemory
    name_cache: NameCache | None
    request_read: Callable[[], None]

    def clock_ms(self) -> int:
        """Now, for what is kept on this machine."""
        return SystemClock().now_ms()


class TabReader(Protocol):
    """Reads for one tab. least_s: it is not worth asking more often."""

    least_s: float

    async def read(self, target: ReadTarget) -> tuple[View, int]:
        """The view, and the server's time."""
        ...

    def forget(self) -> None:
        """What was kept may be wrong now."""

    def close(self) -> None:
        """The end."""


def queue_keys(queue: str) -> Keys:
    """The keys of a queue of ours, by the name it has on the screen."""
    return Keys(strip_native_prefix(queue))


class QueueTabReader:
    """A reader of one queue: its snapshot, and what rides along with it."""

    least_s = 0.0

    def __init__(self, place: FeedContext) -> None:
        self.place = place

    def forget(self) -> None:
        """Nothing is kept."""

    def close(self) -> None:
        """Nothing is open."""

    async def query(self, queue: str, *flows: Flow[Any]) -> tuple[QueueRow, int, list[Any]]:
        """The queue, the server's time, and what else was asked; what was refused is raised."""
        seen, *others = await self.place.link.run(
            run_together(snapshot.take_snapshot(self.place.commands, queue_keys(queue)), *flows)
        )
        for answer in (seen, *others):
            if isinstance(answer, ServerError):
                raise answer
        return self.place.memory.queue_row(queue, seen), seen.server_time_ms, others
