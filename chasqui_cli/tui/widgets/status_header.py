"""The first line: which context, which server, may we write, how many queues are ill, what a tick costs, what time it is.

What does not fit is left out from the right of its importance; the state of the connection never is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from rich.cells import cell_len
from rich.text import Text
from textual.reactive import reactive
from textual.widget import Widget

from chasqui_cli.output.escape_text import safe
from chasqui_cli.output.times import format_duration, format_iso
from chasqui_cli.tui.widgets.styled_text import style_of

if TYPE_CHECKING:
    from chasqui_cli.tui.feed_messages import ReadCost

NAMED_COLOURS = {"red", "green", "yellow", "blue", "magenta", "cyan", "white"}


@dataclass(frozen=True, slots=True)
class HeaderState:
    """All the frame knows."""

    context: str | None = None
    colour: str | None = None
    address: str = ""
    server: str = ""
    read_only: bool = False
    about: str = ""
    critical: int = 0
    warning: int = 0
    interval_s: float = 2.0
    slowed: bool = False
    paused: str = ""
    cost: ReadCost | None = None
    now_ms: int | None = None
    age_s: float = 0.0
    lost: str = ""


class StatusHeader(Widget):
    """Draws a `Standing` in one line."""

    DEFAULT_CSS: ClassVar[str] = "StatusHeader { height: 1; width: 1fr; dock: top; }"
    standing: reactive[HeaderState] = reactive(HeaderState())

    def update_state(self, **news: Any) -> None:
        self.standing = replace(self.standing, **news)

    def render(self) -> Text:
        """The line, as wide as there is room."""
        parts = self._parts(self.standing)
        chosen = dict(parts)
        order = ["server", "address", "cost", "about", "context"]
        while sum(cell_len(text.plain) + 3 for text in chosen.values()) > self.size.width and order:
            part = order.pop(0)
            brief = self._short_part(part, self.standing)
            if part in chosen and brief is not None and len(brief.plain) < len(chosen[part].plain):
                chosen[part] = brief
                order.insert(0, part)
            else:
                chosen.pop(part, None)
        line = Text(" ", end="", no_wrap=True, overflow="ellipsis")
        for place, text in enumerate(chosen.values()):
            if place:
                line.append(" ▌ ", style=style_of(self.app.theme, "dim"))
            line.append_text(text)
        return line

    def _parts(self, now: HeaderState) -> list[tuple[str, Text]]:
        parts: list[tuple[str, Text]] = []
        if now.context:
            parts.append(("context", Text(safe(now.context, 24), style=self._colour(now.colour))))
        if now.read_only:
            parts.append(("rights", Text("READ-ONLY", style="reverse bold")))
        parts.append(("address", self._text(now.address.removeprefix("redis://"), "strong")))
        if now.server:
            parts.append(("server", self._text(now.server, "dim")))
        if now.about:
            parts.append(("about", self._about(now)))
        if now.cost:
            parts.append(("cost", self._cost(now.cost)))
        parts.append(("state", self._state(now)))
        return parts

    def _about(self, now: HeaderState) -> Text:
        text = self._text(now.about, "accent")
        if now.critical:
            text.append(f"  ▲ {now.critical} crit", style=style_of(self.app.theme, "crit"))
        if now.warning:
            text.append(f"  ◆ {now.warning} warn", style=style_of(self.app.theme, "warn"))
        return text

    def _cost(self, cost: ReadCost) -> Text:
        text = f"{cost.round_trips} RTT · {cost.commands} cmd · {_bytes(cost.bytes_moved)} · {cost.ms:.0f} ms"
        return self._text(text, "dim")

    def _short_part(self, part: str, now: HeaderState) -> Text | None:
        """A part in fewer words, where there are any."""
        if part == "cost" and now.cost:
            return self._text(f"{now.cost.round_trips} RTT {now.cost.ms:.0f} ms", "dim")
        if part == "about" and (now.critical or now.warning):
            return self._text(f"▲{now.critical} ◆{now.warning}", "crit" if now.critical else "warn")
        return None

    def _state(self, now: HeaderState) -> Text:
        if now.lost:
            known = now.now_ms is not None
            old = f", data {format_duration(int(now.age_s) * 1000)} old" if known else ""
            return self._text(f"✖ {now.lost}{old}", "crit")
        pace = f"↻{now.interval_s:g}s{' (slowed)' if now.slowed else ''}"
        if now.paused:
            return self._text(f"⏸ {now.paused}, data {format_duration(int(now.age_s) * 1000)} old", "warn")
        if now.now_ms is None:
            return self._text("connecting …", "dim")
        return self._text(f"{pace} {format_iso(now.now_ms + int(now.age_s * 1000))[11:19]}Z", "dim")

    def _text(self, text: str, style: str) -> Text:
        return Text(safe(text, 60), style=style_of(self.app.theme, style))

    def _colour(self, name: str | None) -> str:
        """A context has a colour of its own, as a block, so that production looks like nothing else."""
        if name in NAMED_COLOURS:
            return f"bold {'black' if name in ('yellow', 'cyan', 'green', 'white') else 'white'} on {name}"
        return "bold reverse"


def _bytes(count: int) -> str:
    return f"{count / 1000:.1f} kB" if count < 1_000_000 else f"{count / 1_000_000:.1f} MB"
