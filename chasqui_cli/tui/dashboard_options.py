"""What the dashboard is given at its start: where it stands, who reads for it, and a clock."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from chasqui_cli.tui.widgets.styled_text import DARK

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from textual.message import Message

    from chasqui_cli.tui.feed_messages import ReadTarget


class FeedProtocol(Protocol):
    """What the app wants of a feed."""

    interval_s: float

    def set_listener(self, listener: Callable[[Message], Any]) -> None:
        """From now on messages go there."""

    async def run(self) -> None:
        """Read until cancelled."""

    def set_target(self, target: ReadTarget) -> None:
        """Read for this from now on, beginning at once."""

    def refresh(self) -> None:
        """Read now, and what is cached again."""

    def pause(self) -> None:
        """Read no more until woken."""

    def resume(self) -> None:
        """Read again."""

    def job_details(self, raw: Any) -> list[tuple[str, str]]:
        """The details of one job or dead letter."""
        ...


class MonotonicClock(Protocol):
    """Seconds that never run backwards."""

    def monotonic(self) -> float: ...


@dataclass(frozen=True, slots=True)
class DashboardOptions:
    """Options of the dashboard. is_web: it is served to a browser, perhaps on another machine. keys: the configured ones,
    by the name of what they do.
    """

    address: str = ""
    context: str | None = None
    colour: str | None = None
    read_only: bool = False
    protected: bool = False
    is_web: bool = False
    keeps_awake: bool = False
    theme: str = DARK
    queue: str | None = None
    keys: Mapping[str, str] = field(default_factory=dict)
