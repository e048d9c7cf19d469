"""The dashboard: frame, tabs, keys, and one feed that reads for the tab in front.

Handlers only touch widgets; what is read is the feed's business, and every change is a command line (`lines.py`).
"""

from __future__ import annotations

import asyncio
import gc
import shlex
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from rich.segment import Segment, Segments
from textual import on
from textual.app import App, SystemCommand
from textual.binding import Binding
from textual.screen import Screen
from textual.widgets import ContentSwitcher, Static

from chasqui_cli.output.escape_text import safe
from chasqui_cli.queues.queue_names import is_native
from chasqui_cli.tui import crash
from chasqui_cli.tui.command_line import add_options, command_words, inspect_line
from chasqui_cli.tui.feed_messages import FleetView, ReadFailed, ReadTarget, ServerIdentified, ViewReady
from chasqui_cli.tui.tabs import TABS, create_tab
from chasqui_cli.tui.tabs.fleet_tab import FleetTab
from chasqui_cli.tui.tabs.tab_base import ANY_TAB, ChangeRequest
from chasqui_cli.tui.widgets.bars import WIDE_FROM, KeyBar, TabBar
from chasqui_cli.tui.widgets.prompt import Prompt
from chasqui_cli.tui.widgets.record_table import RecordTable
from chasqui_cli.tui.widgets.status_header import StatusHeader
from chasqui_cli.tui.widgets.styled_text import DARK, LIGHT, THEMES, styled_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from textual.app import ComposeResult
    from textual.binding import BindingType
    from textual.command import Provider

    from chasqui_cli.tui.command_runner import CommandResult, CommandRunner
    from chasqui_cli.tui.dashboard_options import DashboardOptions, FeedProtocol, MonotonicClock
    from chasqui_cli.tui.tabs.tab_base import TabBase

PAUSED_UNFOCUSED = "asleep without focus"
GC_DELAY_S = 3.0
"""So long after the start all that stays is there, and the search for cycles begins without it."""
FOREIGN_QUEUE_TABS = {"fleet", "queue", "health"}
"""The tabs that have something to say of other systems' queues, too."""
WIDTH_CLASSES = [(0, "-narrow"), (64, "-medium"), (WIDE_FROM, "-wide")]


class MainScreen(Screen[None]):
    """The dashboard's own screen; its classes say how much room there is."""

    HORIZONTAL_BREAKPOINTS = WIDTH_CLASSES


def _queue_provider() -> type[Provider]:
    from chasqui_cli.tui.palette import QueueProvider

    return QueueProvider


class DashboardApp(App[None]):
    """`chasqui top`."""

    TITLE = "chasqui"
    CSS_PATH = Path(__file__).with_name("chasqui.tcss")
    COMMANDS = App.COMMANDS | {_queue_provider}
    ENABLE_COMMAND_PALETTE = True
    BINDINGS: ClassVar[list[BindingType]] = [
        *(
            Binding(str(number), f"open_tab('{tab.name}')", tab.name, show=False, id=f"tab.{tab.name}")
            for number, tab in enumerate(TABS, 1)
        ),
        Binding("slash", "filter", "filter", key_display="/", id="app.filter"),
        Binding("colon", "command", "command", key_display=":", id="app.command"),
        Binding("question_mark,f1", "help", "help", key_display="?", id="app.help"),
        Binding("u", "undo", "undo", id="app.undo"),
        Binding("p", "pause", "pause", show=False, id="app.pause"),
        Binding("r", "refresh", "read again", show=False, id="app.refresh"),
        Binding(
            "plus,equals_sign", "change_interval(0.5)", "read more often", show=False, key_display="+", id="app.faster"
        ),
        Binding("minus", "change_interval(2)", "read less often", show=False, key_display="-", id="app.slower"),
        Binding("y", "copy", "copy", show=False, id="app.copy"),
        Binding("w", "why", "why is this job here", show=False, id="app.why"),
        Binding("left_square_bracket", "step(-1)", "tab to the left", show=False, key_display="[", id="app.left"),
        Binding("right_square_bracket", "step(1)", "tab to the right", show=False, key_display="]", id="app.right"),
        Binding("backspace", "last_tab", "the tab before", show=False, id="app.last-tab"),
        Binding("ctrl+t", "theme", "dark or light", show=False, id="app.theme"),
        Binding("escape", "leave", "back", show=False, id="app.back"),
        Binding("q", "quit", "quit", id="app.quit"),
        Binding("ctrl+c", "quit", "quit", show=False, priority=True, id="app.interrupt"),
    ]

    def __init__(
        self, feed: FeedProtocol, runner: CommandRunner, setup: DashboardOptions, clock: MonotonicClock
    ) -> None:
        super().__init__()
        self._feed, self._runner, self._setup, self._clock = feed, runner, setup, clock
        self.queue = setup.queue
        self.known_queues: list[str] = []
        self.last_op: str | None = None
        self._is_final = False
        self._arrived_at: float | None = None
        self._tab, self._tab_before = "fleet", "fleet"
        self._paused = ""
        self._line_before_file: list[str] = []
        self._filtered_by: dict[str, str] = {}
        self._apply_theme_early(setup.theme)

    def _apply_theme_early(self, theme: str) -> None:
        """Have this theme before the stylesheet is read: to change it afterwards is to read all of it twice."""
        for one in THEMES:
            self.register_theme(one)
        self.set_reactive(App.theme, theme)
        self.set_class(self.current_theme.dark, "-dark-mode", update=False)
        self.set_class(not self.current_theme.dark, "-light-mode", update=False)
        self._refresh_truecolor_filter(self.ansi_theme)
        self.stylesheet.set_variables(self.get_css_variables())

    @property
    def read_only(self) -> bool:
        """Whether every change is greyed."""
        return self._setup.read_only

    @property
    def is_web(self) -> bool:
        """Whether the user may be on another machine."""
        return self._setup.is_web

    @property
    def main_screen(self) -> Screen[Any]:
        """The dashboard itself, also while a dialog stands before it."""
        return self.screen_stack[0]

    @property
    def _is_drawn(self) -> bool:
        """Whether there is anything to draw on: not before the start, not at the end."""
        return bool(self.screen_stack) and bool(self.main_screen.query(StatusHeader))

    @property
    def _has_no_dialog(self) -> bool:
        """Whether no window stands before the dashboard."""
        return len(self.screen_stack) == 1

    @property
    def current_tab(self) -> TabBase:
        """The tab in front."""
        return self.main_screen.query_one(f"#pane-{self._tab}", ANY_TAB)

    @property
    def header(self) -> StatusHeader:
        return self.main_screen.query_one(StatusHeader)

    @property
    def prompt(self) -> Prompt:
        """The line where things are typed."""
        return self.main_screen.query_one(Prompt)

    def get_default_screen(self) -> Screen[None]:
        """The one below all dialogs."""
        return MainScreen(id="_default")

    def compose(self) -> ComposeResult:
        """Frame, tabs, the first pane (the others are made when they are opened), the prompt, the keys."""
        yield StatusHeader()
        yield TabBar([(tab.name, tab.title) for tab in TABS])
        with ContentSwitcher(initial="pane-fleet"):
            yield FleetTab()
        yield Prompt()
        yield KeyBar()

    def on_mount(self) -> None:
        setup = self._setup
        if not self.is_headless:
            for number in (signal.SIGTERM, signal.SIGHUP):
                asyncio.get_running_loop().add_signal_handler(number, self.exit, None, 128 + number)
        self.header.update_state(
            context=setup.context,
            colour=setup.colour,
            address=setup.address,
            read_only=setup.read_only,
            interval_s=self._feed.interval_s,
        )
        if setup.keys:
            self.set_keymap(dict(setup.keys))
        self._feed.set_listener(self.post_message)
        self._feed.set_target(ReadTarget("fleet"))
        self.run_worker(self._feed.run(), group="feed", name="feed", exit_on_error=True)
        self.set_interval(1.0, self._update_age)
        self.set_timer(GC_DELAY_S, _enable_gc)
        self.current_tab.focus_first()
        if self.queue:
            self.open_queue(self.queue)

    def on_unmount(self) -> None:
        """The end, perhaps an early one."""
        _enable_gc()

    # Messages of the feed.

    @on(ViewReady)
    def _on_view_ready(self, message: ViewReady) -> None:
        if not self._is_drawn:
            return  # it came while we were leaving
        self._arrived_at = self._clock.monotonic()
        self.header.update_state(
            cost=message.cost,
            now_ms=message.now_ms,
            age_s=0.0,
            lost="",
            interval_s=message.interval_s,
            slowed=message.interval_s > self._feed.interval_s,
        )
        if message.target.tab != self._tab or (self._tab != "fleet" and message.target.queue != self.queue):
            return  # it is about what was in front before
        self._update_header(message.view)
        self.current_tab.show(message.view, message.now_ms)

    def _update_header(self, view: Any) -> None:
        """Describe the view in the header."""
        if isinstance(view, FleetView):
            self.known_queues = sorted(row.queue for row in view.rows)
            count = len(view.rows)
            self.header.update_state(
                about=f"{count:,} queue{'s' * (count != 1)}",
                critical=sum(row.level >= 3 for row in view.rows),
                warning=sum(row.level == 2 for row in view.rows),
            )
        else:
            row = getattr(view, "row", None)
            about = f"{row.glyph} {safe(row.queue, 24)}" if row else self.queue or "server"
            self.header.update_state(about=about, critical=0, warning=0)

    @on(ServerIdentified)
    def _on_server_identified(self, message: ServerIdentified) -> None:
        face = message.face
        self._update_header_state(address=face.address, server=f"{face.kind} {face.version}".strip())

    @on(ReadFailed)
    def _on_read_failed(self, message: ReadFailed) -> None:
        text = safe(message.error, 120) if message.lasting else "reconnecting"
        self._update_header_state(lost=text)

    def _update_age(self) -> None:
        if self._arrived_at is not None:
            self._update_header_state(age_s=self._clock.monotonic() - self._arrived_at)

    def _update_header_state(self, **news: object) -> None:
        if self._is_drawn:
            self.header.update_state(**news)

    # Tabs.

    def open_queue(self, queue: str, tab: str = "queue") -> None:
        """Look at one queue, unless a window asks about another."""
        if self._has_no_dialog:
            self._select_queue(queue)
            self.call_later(self.action_open_tab, tab)

    def _select_queue(self, queue: str) -> None:
        if queue != self.queue:
            self.queue = queue
            for tab in TABS:
                for pane in self.main_screen.query(f"#pane-{tab.name}").results(ANY_TAB):
                    if tab.needs_queue:
                        pane.clear()

    async def action_open_tab(self, tab: str) -> None:
        """Bring a tab to the front. From the fleet, it is about the queue under the cursor."""
        if not self._has_no_dialog:
            return
        if self._tab == "fleet" and tab != "fleet":
            chosen = self.main_screen.query_one(FleetTab).query_one(RecordTable).current
            if chosen is not None:
                self._select_queue(chosen)
        if not self.queue and any(one.needs_queue for one in TABS if one.name == tab):
            self.notify("there is no queue to look at yet", severity="warning", markup=False)
            return
        if tab not in FOREIGN_QUEUE_TABS and not is_native(self.queue or ""):
            self.notify(
                safe(f"{self.queue} is of another system: all there is to see is on this tab", 120), markup=False
            )
            tab = "queue"
        if not self.main_screen.query(f"#pane-{tab}"):
            await self.main_screen.query_one(ContentSwitcher).add_content(create_tab(tab))
        pane = self.main_screen.query_one(f"#pane-{tab}", ANY_TAB)
        if tab != self._tab:
            self._tab_before = self._tab
        self._tab = tab
        self.main_screen.query_one(TabBar).active = tab
        self.main_screen.query_one(ContentSwitcher).current = f"pane-{tab}"
        self._hide_prompt()
        pane.apply_filter(self._filtered_by.get(tab, ""))
        pane.focus_first()
        self._feed.set_target(ReadTarget(tab, self.queue, pane.page))

    def on_resize(self) -> None:
        """Set the size once: else Rich asks the terminal for it at every cell it measures."""
        self.console.size = (self.size.width, self.size.height)

    async def action_step(self, by: int) -> None:
        """The next or the previous tab."""
        names = [tab.name for tab in TABS]
        await self.action_open_tab(names[(names.index(self._tab) + by) % len(names)])

    async def action_last_tab(self) -> None:
        """Where one was before."""
        await self.action_open_tab(self._tab_before)

    async def action_leave(self) -> None:
        """Out of the filter, then out of the queue."""
        if self._filtered_by.pop(self._tab, None):
            self.current_tab.apply_filter("")
            self._hide_prompt()
        elif self._tab != "fleet":
            await self.action_open_tab("fleet")

    def load_page(self) -> None:
        """The tab in front wants another page of what it shows."""
        self._feed.set_target(ReadTarget(self._tab, self.queue, self.current_tab.page))

    # Reading.

    def action_pause(self) -> None:
        """Stop reading, or go on."""
        self._set_paused("" if self._paused else "paused")

    def action_refresh(self) -> None:
        self._feed.refresh()

    def action_change_interval(self, factor: float) -> None:
        """Read more or less often."""
        self._feed.interval_s = min(60.0, max(0.5, self._feed.interval_s * factor))
        self.header.update_state(interval_s=self._feed.interval_s)
        self._feed.set_target(ReadTarget(self._tab, self.queue, self.current_tab.page))

    def watch_app_focus(self, focus: bool) -> None:
        """Pause while the terminal has no focus; a key counts as focus."""
        if not self.is_running or self._setup.keeps_awake:
            return
        if not focus and not self._paused:
            self._set_paused(PAUSED_UNFOCUSED)
        elif focus and self._paused == PAUSED_UNFOCUSED:
            self._set_paused("")

    def _set_paused(self, why: str) -> None:
        self._paused = why
        self._update_header_state(paused=why)
        if why:
            self._feed.pause()
        else:
            self._feed.resume()

    # The prompt: `/` filters, `:` runs.

    def action_filter(self) -> None:
        """Type what rows must have."""
        self._open_prompt("filter", "name:send_*  -reason:timeout  text", self._filtered_by.get(self._tab, ""))

    def action_command(self) -> None:
        """Type a command line."""
        self._open_prompt("command", "a verb of chasqui, such as: dlq replay payments --dry-run", "")

    def ask_id(self) -> None:
        """Type the id of a job."""
        self._open_prompt("why", "the id of a job", "")

    def ask_file(self, words: list[str]) -> None:
        """Type the name of a new file, and run this line with it."""
        self._line_before_file = words
        self._open_prompt(
            "file", "the name of a new file", f"{safe(self.queue or 'queue', 40)}-dead.jsonl".replace("/", "_")
        )

    def _open_prompt(self, asking: str, hint: str, value: str) -> None:
        self.prompt.ask(asking, hint, value)

    def _hide_prompt(self) -> str:
        asked = self.prompt.hide()
        if asked or self.focused is None:
            self.current_tab.focus_first()
        return asked

    @on(Prompt.Changed, "#prompt")
    def _typing(self, event: Prompt.Changed) -> None:
        if self.prompt.asking == "filter":
            self._filtered_by[self._tab] = event.value
            self.current_tab.apply_filter(event.value)

    @on(Prompt.Submitted, "#prompt")
    def _typed(self, event: Prompt.Submitted) -> None:
        asked, text = self._hide_prompt(), event.value.strip()
        if asked == "command":
            self._run_line(text)
        elif asked == "why" and text:
            self.explain_job(text)
        elif asked == "file" and text:
            self.show_output("export", add_options(self._line_before_file, "--file", text))

    @on(Prompt.Left)
    def _left(self, event: Prompt.Left) -> None:
        self._hide_prompt()
        if event.asked == "filter":
            self._filtered_by.pop(self._tab, None)
            self.current_tab.apply_filter("")

    def _run_line(self, text: str) -> None:
        try:
            words = shlex.split(text)
        except ValueError as error:
            self.notify(safe(f"that is no command line: {error}"), severity="error", markup=False)
            return
        words = words[1:] if words[:1] == ["chasqui"] else words
        line = inspect_line(words)
        refusal = line.refusal(is_web=self.is_web)
        if line.is_change and self.read_only:
            refusal = "this dashboard is read-only"
        if refusal:
            self.notify(safe(refusal), severity="warning", markup=False)
        elif line.is_change:
            self.request_change(ChangeRequest(line.spec.path, words))
        else:
            self.show_output(" ".join(words[:2]), words)

    # Changes and other commands.

    def request_change(self, change: ChangeRequest) -> None:
        """Preview a change, and carry it out with consent; one at a time."""
        from chasqui_cli.tui.dialogs import ChangeDialog

        if not self._has_no_dialog:
            return
        if change.in_terminal and not self.read_only and not self.is_web and not self.is_headless:
            self.call_later(self._run_in_terminal, change)
        elif not self.read_only:
            dialog = ChangeDialog(change, self._runner, protected=self._setup.protected, is_web=self.is_web)
            self.push_screen(dialog, self._after_change)

    def _run_in_terminal(self, change: ChangeRequest) -> None:
        """Let a command line have the terminal: an editor opens, the difference is shown, consent is asked there."""
        with self.suspend():
            sys.stdout.write(f"$ {self._runner.display_text(change.words)}\n")
            sys.stdout.flush()
            ended = self._runner.run_in_terminal(change.words)
            sys.stdout.write("press Enter to go back to the dashboard ")
            sys.stdout.flush()
            sys.stdin.readline()
        self._after_change(ended)

    def _after_change(self, ended: CommandResult | None) -> None:
        if ended is None:
            return
        if ended.changed_something:
            self.last_op, self._is_final = ended.op, not ended.op
        self.current_tab.after_change()
        self._feed.refresh()

    def action_undo(self) -> None:
        """Take back the last change made from here."""
        if self.read_only:
            self.notify("this dashboard is read-only", severity="warning", markup=False)
        elif self.last_op is None:
            text = "the last change cannot be taken back, or was"
            self.notify(text if self._is_final else "nothing was changed from here yet", markup=False)
        else:
            self.request_change(ChangeRequest(f"take back {self.last_op}", command_words("undo", self.last_op)))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Undo is a change."""
        if action == "undo" and self.read_only:
            return None
        return super().check_action(action, parameters)

    def show_output(self, title: str, words: list[str]) -> None:
        """Show the output of a command."""
        from chasqui_cli.tui.dialogs import OutputDialog

        self.push_screen(OutputDialog(title, words, self._runner))

    def show_details(self, raw: Any, widget: str, *, skip: Iterable[str] = (), error: str = "") -> None:
        """Show the details of one job or dead letter in a box."""
        parts: list[tuple[object, str]] = [("error     ", "dim"), (error, "warn"), ("\n", "")] if error else []
        for name, value in self._feed.job_details(raw):
            if name in skip:
                continue
            parts += [(f"{name:<9} ", "dim"), ("\n", "")] if "\n" in value else [(f"{name:<9} ", "dim")]
            for line in value.splitlines() or [""]:
                parts += [(line, ""), ("\n", "")]
        self.main_screen.query_one(widget, Static).update(styled_text(parts, theme=self.theme))

    def explain_job(self, job_id: str) -> None:
        """Why a job is where it is."""
        self.show_output("why", command_words("why", job_id, queue=self.queue))

    def action_why(self) -> None:
        """Explain the job under the cursor, or one whose id is typed."""
        job_id = self.current_tab.job_id()
        if job_id:
            self.explain_job(job_id)
        else:
            self.ask_id()

    def action_copy(self) -> None:
        """Hand the id under the cursor to the terminal's clipboard."""
        text = self.current_tab.copy_text()
        if text:
            self.copy_to_clipboard(safe(text))
            self.notify(safe(f"copied {text}", 80), markup=False)

    # Help, themes, the end.

    def action_help(self) -> None:
        """Every key that works here."""
        from chasqui_cli.tui.dialogs import HelpDialog
        from chasqui_cli.tui.key_overrides import describe_bindings

        places = (("This tab", self.current_tab), ("Tables", RecordTable), ("Everywhere", self))
        keys = self._setup.keys
        self.push_screen(HelpDialog([(title, describe_bindings(place.BINDINGS, keys)) for title, place in places]))

    def action_theme(self) -> None:
        self.theme = LIGHT if self.theme == DARK else DARK

    def watch_theme(self) -> None:
        """Cells have their colours from the theme."""
        if self.is_running and self._is_drawn:
            self.header.refresh()
            for pane in self.main_screen.query(ANY_TAB):
                pane.redraw()

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        """What `ctrl+p` offers besides queues."""
        for tab in TABS:
            yield SystemCommand(f"Tab: {tab.title}", "bring it to the front", _tab_opener(self, tab.name))
        yield SystemCommand("Dark or light", "the other theme", self.action_theme)
        yield SystemCommand("Pause", "stop reading, or go on", self.action_pause)
        yield SystemCommand("Help", "every key", self.action_help)
        yield SystemCommand("Quit", "leave the dashboard", self.exit)

    def _fatal_error(self) -> None:
        """Textual's own account of a crash prints local variables: a URL with its password, a payload."""
        error = self._exception or RuntimeError()
        self.bell()
        self._exit_renderables.append(Segments([Segment(crash.crash_report(error) + "\n")]))
        self._close_messages_no_wait()


def binding_ids() -> set[str]:
    """The names of everything a key can do: on the dashboard, on each tab, in tables and in dialogs."""
    from chasqui_cli.tui.dialogs import ChangeDialog, Dialog

    bound = [*DashboardApp.BINDINGS, *RecordTable.BINDINGS, *Dialog.BINDINGS, *ChangeDialog.BINDINGS]
    bound += [one for tab in TABS for one in create_tab(tab.name).BINDINGS]
    return {one.id for one in bound if isinstance(one, Binding) and one.id}


def _enable_gc() -> None:
    if not gc.isenabled():
        gc.freeze()
        gc.enable()


def _tab_opener(app: DashboardApp, tab: str) -> Callable[[], object]:
    return lambda: app.call_later(app.action_open_tab, tab)
