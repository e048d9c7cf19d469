"""The line at the bottom where something is typed: a filter, a command, an id, the name of a file."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import Input


class Prompt(Input):
    """Hidden until something is asked for. `asking`: what that is, in a word; nothing while it is hidden."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "leave", show=False, id="prompt.leave")]

    class Left(Message):
        """Escape: what was asked for is not wanted any more."""

        def __init__(self, asked: str) -> None:
            super().__init__()
            self.asked = asked

    def __init__(self) -> None:
        super().__init__(id="prompt", compact=True)
        self.asking = ""
        self.display = False

    def ask(self, asking: str, hint: str, value: str) -> None:
        """Show it. At once, not after the next refresh: what is typed meanwhile must not be taken for keys."""
        self.asking = asking
        self.placeholder, self.value = hint, value
        self.display = True
        self.screen.set_focus(self)

    def hide(self) -> str:
        """Ask no more; answers what was asked."""
        asked, self.asking = self.asking, ""
        self.display = False
        return asked

    def action_leave(self) -> None:
        self.post_message(self.Left(self.asking))
