"""Two lines that can be clicked on: the tabs above, the keys below. Each is one widget, not one for each word in it."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.reactive import reactive
from textual.strip import Strip
from textual.widget import Widget

from chasqui_cli.tui.widgets.row_list import AbstractMeta

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual import events
    from textual.binding import Binding
    from textual.screen import Screen

NARROW_BELOW = 78
"""Columns below which the tabs are numbers only, but for the one in front."""
WIDE_FROM = 110
"""Columns from which on optional parts are shown."""
NO_ACTION = "app.bell"


class BarItem(NamedTuple):
    """Words with the names of their styles, and what a click on them does."""

    words: tuple[tuple[str, str], ...]
    action: str

    @property
    def width(self) -> int:
        return sum(cell_len(text) for text, _ in self.words)


class ClickableBar(Widget, metaclass=AbstractMeta):
    """Parts in a row; the last may stand at the right end."""

    ALLOW_SELECT = False
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "bar--plain", "bar--chosen", "bar--key", "bar--greyed", "bar--edge", "bar--hover"
    }  # fmt: skip
    hovered: reactive[str] = reactive("")

    @abstractmethod
    def items(self) -> list[BarItem]:
        """What there is to see, from the left."""

    def right_item(self) -> BarItem | None:
        """What stands at the right end."""
        return None

    def _layout(self) -> list[tuple[int, BarItem]]:
        """The parts, each with the column it begins at."""
        placed, column = [], 0
        for part in self.items():
            placed.append((column, part))
            column += part.width + 1
        last = self.right_item()
        if last is not None:
            start = self.size.width - last.width
            placed = [(column, part) for column, part in placed if column + part.width < start]
            placed.append((start, last))
        return placed

    def render_line(self, y: int) -> Strip:
        """The parts, and nothing between them."""
        segments: list[Segment] = []
        at, style = 0, self.rich_style
        hover = Style.from_color(bgcolor=self.get_component_rich_style("bar--hover").bgcolor)
        for column, part in self._layout():
            segments.append(Segment(" " * (column - at), style))
            over = hover if part.action == self.hovered else Style.null()
            segments += [
                Segment(text, self.get_component_rich_style(f"bar--{name}") + over) for text, name in part.words
            ]
            at = column + part.width
        return Strip(segments).crop_extend(0, self.size.width, style).simplify()

    def _action_at(self, x: int) -> str:
        return next((part.action for column, part in self._layout() if 0 <= x - column < part.width), "")

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Show what a click would do."""
        self.hovered = self._action_at(event.x)

    def on_leave(self) -> None:
        """The mouse is elsewhere."""
        self.hovered = ""

    async def on_click(self, event: events.Click) -> None:
        action = self._action_at(event.x)
        if action:
            event.stop()
            await self.run_action(action)


class TabBar(ClickableBar):
    """The tabs, with their numbers."""

    DEFAULT_CSS: ClassVar[str] = "TabBar { height: 1; }"
    active: reactive[str] = reactive("")

    def __init__(self, tabs: Sequence[tuple[str, str]]) -> None:
        """Tabs by name and title; the first is in front."""
        super().__init__()
        self._tabs = tabs
        self.set_reactive(TabBar.active, tabs[0][0])

    def items(self) -> list[BarItem]:
        """Where there is little room, names for the one in front only."""
        narrow = self.size.width < NARROW_BELOW
        return [
            BarItem(
                (
                    (
                        f"{number}" if narrow and name != self.active else f"{number} {title}",
                        "chosen" if name == self.active else "plain",
                    ),
                ),
                f"app.open_tab('{name}')",
            )
            for number, (name, title) in enumerate(self._tabs, 1)
        ]


class KeyBar(ClickableBar):
    """The keys that work just now."""

    DEFAULT_CSS: ClassVar[str] = "KeyBar { height: 1; dock: bottom; }"

    def on_mount(self) -> None:
        """Other keys work when something else has the focus."""
        self.screen.bindings_updated_signal.subscribe(self, self._refresh_keys)

    def on_unmount(self) -> None:
        self.screen.bindings_updated_signal.unsubscribe(self)

    def _refresh_keys(self, screen: Screen[None]) -> None:
        self.refresh()

    def items(self) -> list[BarItem]:
        """One for each thing that can be done, by its first key."""
        shown: dict[str, BarItem] = {}
        for _, binding, enabled, _ in self.screen.active_bindings.values():
            if binding.show and binding.action not in shown:
                shown[binding.action] = self._part(binding, enabled=enabled)
        return list(shown.values())

    def right_item(self) -> BarItem | None:
        """The palette, where there is much room."""
        found = self.screen.active_bindings.get(self.app.COMMAND_PALETTE_BINDING)
        if found is None or self.size.width < WIDE_FROM:
            return None
        part = self._part(found.binding, enabled=found.enabled)
        return BarItem((("▏", "edge"), *part.words, (" ", "plain")), part.action)

    def _part(self, binding: Binding, *, enabled: bool) -> BarItem:
        key, text = self.app.get_key_display(binding), f" {binding.description}"
        if not enabled:
            return BarItem(((key + text, "greyed"),), NO_ACTION)
        return BarItem(((key, "key"), (text, "plain")), f"app.simulate_key({binding.key!r})")
