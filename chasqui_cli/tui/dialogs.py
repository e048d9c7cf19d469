"""What stands before the dashboard for a while: consent to a change, the output of a command, the keys there are.

A change is shown as the command line it is, previewed by its own dry run, and carried out by running it.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any, ClassVar

from textual.await_complete import AwaitComplete
from textual.binding import Binding
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Button, Input, Label, Static

from chasqui_cli.exit_codes import ExitCode
from chasqui_cli.output.escape_text import safe
from chasqui_cli.tui.command_line import add_options, inspect_line, shell_quote
from chasqui_cli.tui.widgets.styled_text import styled_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.app import ComposeResult
    from textual.binding import BindingType

    from chasqui_cli.tui.command_runner import CommandResult, CommandRunner
    from chasqui_cli.tui.tabs.tab_base import ChangeRequest

MANY = 100
"""For more records than this the queue's name has to be typed, as on the command line."""
MAX_WORDS_SHOWN = 9
KEY_LEGEND = (("lower case", "looks"), ("UPPER CASE", "changes, after a preview and your consent"))
MAX_LINES_SHOWN = 2000


class Dialog(ModalScreen[Any]):
    """A window with a title and lines that can be scrolled."""

    VERTICAL_BREAKPOINTS = [(0, "-low"), (24, "-fair"), (34, "-high")]  # noqa: RUF012 - as Textual declares it
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q", "close", "close", id="dialog.close")]

    def action_close(self) -> None:
        """Back to the dashboard."""
        self.dismiss(None)

    def dismiss(self, result: Any = None) -> AwaitComplete:
        """Leave, once: a second key or click may be on its way. And first stop what still works for this window: its
        widgets go before Textual would stop it.
        """
        if not self.is_active:
            return AwaitComplete()
        self.workers.cancel_node(self)
        return super().dismiss(result)

    def set_lines(self, widget: str, text: str, style: str = "") -> None:
        """Write text of any origin, line by line."""
        lines = text.splitlines()
        parts: list[tuple[object, str]] = []
        for line in lines[:MAX_LINES_SHOWN]:
            parts += [(line, _line_style(line) or style), ("\n", "")]
        if len(lines) > MAX_LINES_SHOWN:
            parts.append((f"… {len(lines) - MAX_LINES_SHOWN:,} more lines", "dim"))
        self.query_one(widget, Static).update(styled_text(parts, theme=self.app.theme))


class ChangeDialog(Dialog):
    """Asks for consent to one command line, and runs it. Dismissed with how it ended, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "confirm", "do it", id="dialog.consent"),
        Binding("n", "close", "leave it", id="dialog.leave"),
        Binding("c", "copy", "copy the line", id="dialog.copy"),
    ]

    def __init__(self, change: ChangeRequest, runner: CommandRunner, *, protected: bool, is_web: bool) -> None:
        super().__init__()
        self._change, self._runner, self._protected, self._is_web = change, runner, protected, is_web
        self._previewed: list[str] | None = None
        self._planned = 0
        self.queue = ""
        self._ended: CommandResult | None = None
        self._live_output = ""

    def compose(self) -> ComposeResult:
        """Title, line, options, preview, consent."""
        with Vertical(classes="window"):
            yield Static(id="title")
            yield Static(id="line")
            yield Input(
                id="options", placeholder=f"more options: {inspect_line(self._change.words).spec.hint}", compact=True
            )
            with VerticalScroll(id="preview"):
                yield Static(id="told")
            yield Input(id="typed", placeholder="the queue's name", compact=True, classes="hidden")
            with Horizontal(id="buttons"):
                yield Button("y  do it", id="do", variant="error", compact=True, disabled=True)
                yield Button("esc  leave it", id="leave", compact=True)
                yield Label("", id="state")

    def on_mount(self) -> None:
        """Say what it is, and try it dry."""
        self.query_one("#title", Static).update(styled_text([(self._change.title, "strong")], theme=self.app.theme))
        if self._change.needs_options:
            self._show_line(list(self._change.words))
            self._set_state("type the options and press enter", "warn")
            self.query_one("#options").focus()
        else:
            self.query_one("#leave").focus()
            self._preview()

    @property
    def words(self) -> list[str]:
        """The line with the options typed."""
        return add_options(self._change.words, *shlex.split(self.query_one("#options", Input).value))

    @property
    def needs_typed_name(self) -> bool:
        """Whether a key is not consent enough."""
        return self._protected or self._planned > MANY

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Options: try again, dry. The queue's name: consent."""
        if event.input.id == "options":
            self._preview()
        else:
            self.action_confirm()

    def on_button_pressed(self, event: Button.Pressed) -> None:
        """The same by mouse."""
        if event.button.id == "do":
            self.action_confirm()
        else:
            self.action_close()

    def action_close(self) -> None:
        """Leave; what ran has an end that the app wants to know."""
        self.dismiss(self._ended)

    def action_copy(self) -> None:
        """The whole line to the terminal's clipboard, however many ids it has."""
        self.app.copy_to_clipboard(safe(self._runner.display_text(self._previewed or list(self._change.words))))
        self.notify("the command line was copied", markup=False)

    def action_confirm(self) -> None:
        """Do what was previewed, and nothing else; nothing at all for a window that was closed meanwhile."""
        if not self.is_active:
            return
        if self._ended is not None:
            self.action_close()
        elif self._previewed is None or self.query_one("#do", Button).disabled:
            self.app.bell()
        elif self.needs_typed_name and self.query_one("#typed", Input).value != self.queue:
            self._set_state("type the queue's name first", "warn")
            self.query_one("#typed").focus()
        elif self._previewed != self.words:
            self._preview()
        else:
            self.set_focus(self.query_one("#preview"))  # else it goes to the next button, and a second enter leaves
            self.query_one("#do", Button).disabled = True
            self._set_state("running …", "warn")
            self.run_worker(self._apply(self._previewed), exclusive=True)

    def _preview(self) -> None:
        if not self.is_active:
            return
        self.query_one("#do", Button).disabled = True
        self._previewed = None
        try:
            words = self.words
            problem = inspect_line(words).refusal(is_web=self._is_web)
        except ValueError as error:
            problem = str(error)
        if problem:
            self._set_state(f"options: {problem}", "crit")
            return
        self._show_line(words)
        self._set_state("trying it dry …", "dim")
        self.run_worker(self._dry_run(words), exclusive=True)

    def _show_line(self, words: list[str]) -> None:
        tail = len(words) - len(self._change.words)
        self.query_one("#line", Static).update(
            styled_text([("$ ", "dim"), (shortened_command(self._runner, words, tail), "accent")], theme=self.app.theme)
        )

    async def _dry_run(self, words: list[str]) -> None:
        ended = await self._runner.run(add_options(words, "--dry-run", "-o", "json"))
        self.set_lines("#told", ended.err or ended.out)
        if ended.code not in (0, ExitCode.PARTLY):
            self._set_state("this cannot be done", "crit")
            return
        self._planned = ended.planned if ended.queue is not None else 1
        self.queue = ended.queue or str(inspect_line(words).values.get("queue") or "")
        if not self._planned:
            self._set_state("nothing to do", "warn")
            return
        self._previewed = words
        self.query_one("#do", Button).disabled = False
        typed = self.query_one("#typed", Input)
        typed.set_class(not self.needs_typed_name, "hidden")
        if self.needs_typed_name:
            self._set_state(f"type {self.queue} to go on", "warn")
            typed.focus()
        else:
            self._set_state("y does it", "")
            self.query_one("#do").focus()

    async def _apply(self, words: list[str]) -> None:
        confirm = ["--confirm", self.queue] if self._protected else []
        self._live_output = ""
        self._ended = await self._runner.run(
            add_options(words, "--yes", *confirm, "-o", "json"), on_output=self._append_output
        )
        self.set_lines("#told", self._ended.err)
        done = {0: ("done", "ok"), ExitCode.PARTLY: ("not all of it was done", "warn")}
        self._set_state(*done.get(self._ended.code, ("failed", "crit")))
        button = self.query_one("#do", Button)
        button.label, button.disabled, button.variant = "esc  close", False, "default"
        self.query_one("#leave").display = False
        self.query_one("#typed").display = False
        button.focus()

    def _append_output(self, text: str) -> None:
        self._live_output += text
        self.set_lines("#told", self._live_output)
        self.query_one("#preview").scroll_end(animate=False)

    def _set_state(self, text: str, style: str) -> None:
        self.query_one("#state", Label).update(styled_text([(text, style)], theme=self.app.theme))


class OutputDialog(Dialog):
    """Runs a command that only reads, and shows its output."""

    def __init__(self, title: str, words: Sequence[str], runner: CommandRunner) -> None:
        super().__init__()
        self._title, self._words, self._runner = title, list(words), runner

    def compose(self) -> ComposeResult:
        with Vertical(classes="window tall"):
            yield Static(id="line")
            with VerticalScroll(id="preview"):
                yield Static(id="told")
            yield Label("", id="state")

    def on_mount(self) -> None:
        self.query_one("#line", Static).update(
            styled_text([("$ ", "dim"), (shortened_command(self._runner, self._words), "accent")], theme=self.app.theme)
        )
        self.query_one("#preview").focus()
        self.query_one("#state", Label).update("running …")
        self.run_worker(self._run(), exclusive=True)

    async def _run(self) -> None:
        ended = await self._runner.run(self._words)
        self.set_lines("#told", "\n".join(part.rstrip("\n") for part in (ended.out, ended.err) if part))
        self.query_one("#state", Label).update(
            "esc closes" if not ended.code else f"exit code {ended.code}; esc closes"
        )


class HelpDialog(Dialog):
    """The keys there are, by where they work."""

    def __init__(self, keys: Sequence[tuple[str, Sequence[tuple[str, str]]]]) -> None:
        super().__init__()
        self._keys = keys

    def compose(self) -> ComposeResult:
        """One part after the other."""
        with Vertical(classes="window tall"), VerticalScroll(id="preview"):
            yield Static(id="told")

    def on_mount(self) -> None:
        parts: list[tuple[object, str]] = []
        for title, keys in [("Keys", KEY_LEGEND), *self._keys]:
            parts += [(title, "strong"), ("\n", "")]
            for key, what in keys:
                parts += [(f"  {key:<14}", "key"), (what, ""), ("\n", "")]
            parts.append(("\n", ""))
        self.query_one("#told", Static).update(styled_text(parts, theme=self.app.theme))
        self.query_one("#preview").focus()


def shortened_command(runner: CommandRunner, words: Sequence[str], tail: int = 0) -> str:
    """The line with a long row of ids cut; its last `tail` words stay. `c` copies it whole."""
    shown = len(words) - tail
    if shown <= MAX_WORDS_SHOWN + 3:
        return runner.display_text(words)
    end = "".join(f" {shell_quote(word)}" for word in words[shown:])
    return f"{runner.display_text(words[:MAX_WORDS_SHOWN])} … {shown - MAX_WORDS_SHOWN} more …{end}"


def _line_style(line: str) -> str:
    return "crit" if line.startswith("error:") else "accent" if line.startswith("hint:") else ""
