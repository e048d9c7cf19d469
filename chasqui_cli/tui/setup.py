"""What the dashboard is given at its start: where it stands, who reads for it, and a clock."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from chasqui_cli.tui.widgets.drawing import DARK

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from textual.message import Message

    from chasqui_cli.tui.messages import Target


class Reading(Protocol):
    """What the app wants of a feed."""

    interval_s: float

    def begin(self, tell: Callable[[Message], Any]) -> None:
        """From now on messages go there."""

    async def run(self) -> None:
        """Read until cancelled."""

    def look_at(self, target: Target) -> None:
        """Read for this from now on, beginning at once."""

    def again(self) -> None:
        """Read now, and whatever is kept anew."""

    def sleep(self) -> None:
        """Read no more until woken."""

    def wake(self) -> None:
        """Read again."""

    def describe(self, raw: Any) -> list[tuple[str, str]]:
        """All there is to say about one job or letter."""
        ...


class Ticking(Protocol):
    """Seconds that never run backwards."""

    def mono(self) -> float:
        """Now."""
        ...


@dataclass(frozen=True, slots=True)
class Setup:
    """What the dashboard is told at its start. confined: it is served to a browser, perhaps far away. keys: those that
    somebody chose, by the name of what they do.
    """

    address: str = ""
    context: str | None = None
    colour: str | None = None
    read_only: bool = False
    protected: bool = False
    confined: bool = False
    keeps_awake: bool = False
    theme: str = DARK
    queue: str | None = None
    keys: Mapping[str, str] = field(default_factory=dict)
