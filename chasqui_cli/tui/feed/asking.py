"""What every tab's reader is, where it asks, and how one about a queue asks: its snapshot, with whatever rides along."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from chasqui import Keys, SystemClock, snapshot
from chasqui.errors import ServerError
from chasqui.together import together
from chasqui_cli.places import own_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from chasqui import AsyncLink, Commands, Flow
    from chasqui_cli.names import NameCache
    from chasqui_cli.tui.feed.rows import Memory
    from chasqui_cli.tui.messages import QueueRow, Target
    from chasqui_cli.tui.views import View


@dataclass(frozen=True, slots=True)
class Place:
    """Where readers ask, what they remember, and whom they tell that there is news before the next tick."""

    link: AsyncLink
    commands: Commands
    memory: Memory
    names: NameCache | None
    nudge: Callable[[], None]

    def clock_ms(self) -> int:
        """Now, for what is kept on this machine."""
        return SystemClock().now_ms()


class Reader(Protocol):
    """Reads for one tab. least_s: it is not worth asking more often."""

    least_s: float

    async def read(self, target: Target) -> tuple[View, int]:
        """The view, and the server's time."""
        ...

    def forget(self) -> None:
        """What was kept may be wrong now."""

    def close(self) -> None:
        """The end."""


def keys_of(queue: str) -> Keys:
    """The keys of a queue of ours, by the name it has on the screen."""
    return Keys(own_name(queue))


class QueueAsker:
    """A reader of one queue: its snapshot, and what rides along with it."""

    least_s = 0.0

    def __init__(self, place: Place) -> None:
        self.place = place

    def forget(self) -> None:
        """Nothing is kept."""

    def close(self) -> None:
        """Nothing is open."""

    async def ask(self, queue: str, *flows: Flow[Any]) -> tuple[QueueRow, int, list[Any]]:
        """The queue, the server's time, and what else was asked; what was refused is raised."""
        seen, *others = await self.place.link.run(
            together(snapshot.one(self.place.commands, keys_of(queue)), *flows)
        )
        for answer in (seen, *others):
            if isinstance(answer, ServerError):
                raise answer
        return self.place.memory.row(queue, seen), seen.server_time_ms, others
