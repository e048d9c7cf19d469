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

from chasqui_cli.places import is_ours
from chasqui_cli.safe import safe
from chasqui_cli.tui import crash
from chasqui_cli.tui.lines import changes_something, objection, with_options, words_of
from chasqui_cli.tui.messages import Arrived, FleetView, Introduced, LinkLost, Target
from chasqui_cli.tui.panes import TABS, pane_of
from chasqui_cli.tui.panes.fleet import Fleet
from chasqui_cli.tui.panes.pane import ANY_PANE, Change
from chasqui_cli.tui.widgets.bars import WIDE, KeyBar, TabBar
from chasqui_cli.tui.widgets.drawing import DARK, LIGHT, THEMES, joined
from chasqui_cli.tui.widgets.frame import Frame
from chasqui_cli.tui.widgets.prompt import Prompt
from chasqui_cli.tui.widgets.records import RecordTable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from textual.app import ComposeResult
    from textual.binding import BindingType
    from textual.command import Provider

    from chasqui_cli.tui.lines import Ended, Runner
    from chasqui_cli.tui.panes.pane import Pane
    from chasqui_cli.tui.setup import Reading, Setup, Ticking

ASLEEP = "asleep without focus"
SETTLED_S = 3.0
"""So long after the start all that stays is there, and the search for cycles begins without it."""
EVERY_KIND = {"fleet", "queue", "health"}
"""The tabs that have something to say of other systems' queues, too."""
WIDTHS = [(0, "-narrow"), (64, "-medium"), (WIDE, "-wide")]


class Home(Screen[None]):
    """The dashboard's own screen; its classes say how much room there is."""

    HORIZONTAL_BREAKPOINTS = WIDTHS


def _queues() -> type[Provider]:
    from chasqui_cli.tui.palette import Queues

    return Queues


class ChasquiApp(App[None]):
    """`chasqui top`."""

    TITLE = "chasqui"
    CSS_PATH = Path(__file__).with_name("chasqui.tcss")
    COMMANDS = App.COMMANDS | {_queues}
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
            "plus,equals_sign", "pace(0.5)", "read more often", show=False, key_display="+", id="app.faster"
        ),
        Binding("minus", "pace(2)", "read less often", show=False, key_display="-", id="app.slower"),
        Binding("y", "copy", "copy", show=False, id="app.copy"),
        Binding("w", "why", "why is this job here", show=False, id="app.why"),
        Binding(
            "left_square_bracket", "step(-1)", "tab to the left", show=False, key_display="[", id="app.left"
        ),
        Binding(
            "right_square_bracket", "step(1)", "tab to the right", show=False, key_display="]", id="app.right"
        ),
        Binding("backspace", "last_tab", "the tab before", show=False, id="app.last-tab"),
        Binding("ctrl+t", "theme", "dark or light", show=False, id="app.theme"),
        Binding("escape", "leave", "back", show=False, id="app.back"),
        Binding("q", "quit", "quit", id="app.quit"),
        Binding("ctrl+c", "quit", "quit", show=False, priority=True, id="app.interrupt"),
    ]

    def __init__(self, feed: Reading, runner: Runner, setup: Setup, clock: Ticking) -> None:
        super().__init__()
        self._feed, self._runner, self._setup, self._clock = feed, runner, setup, clock
        self.queue = setup.queue
        self.known: list[str] = []
        self.last_op: str | None = None
        self._is_final = False
        self._arrived_at: float | None = None
        self._tab, self._tab_before = "fleet", "fleet"
        self._paused = ""
        self._line_before_file: list[str] = []
        self._filtered_by: dict[str, str] = {}
        self._begin_in(setup.theme)

    def _begin_in(self, theme: str) -> None:
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
    def confined(self) -> bool:
        """Whether whoever looks may be far away."""
        return self._setup.confined

    @property
    def home(self) -> Screen[Any]:
        """The dashboard itself, also while a dialog stands before it."""
        return self.screen_stack[0]

    @property
    def _is_open(self) -> bool:
        """Whether there is anything to draw on: not before the start, not at the end."""
        return bool(self.screen_stack) and bool(self.home.query(Frame))

    @property
    def _is_in_front(self) -> bool:
        """Whether no window stands before the dashboard."""
        return len(self.screen_stack) == 1

    @property
    def pane(self) -> Pane:
        """The tab in front."""
        return self.home.query_one(f"#pane-{self._tab}", ANY_PANE)

    @property
    def frame(self) -> Frame:
        """The first line."""
        return self.home.query_one(Frame)

    @property
    def prompt(self) -> Prompt:
        """The line where things are typed."""
        return self.home.query_one(Prompt)

    def get_default_screen(self) -> Screen[None]:
        """The one below all dialogs."""
        return Home(id="_default")

    def compose(self) -> ComposeResult:
        """Frame, tabs, the first pane (the others are made when they are opened), the prompt, the keys."""
        yield Frame()
        yield TabBar([(tab.name, tab.title) for tab in TABS])
        with ContentSwitcher(initial="pane-fleet"):
            yield Fleet()
        yield Prompt()
        yield KeyBar()

    def on_mount(self) -> None:
        """Begin to read."""
        setup = self._setup
        if not self.is_headless:
            for number in (signal.SIGTERM, signal.SIGHUP):
                asyncio.get_running_loop().add_signal_handler(number, self.exit, None, 128 + number)
        self.frame.change(
            context=setup.context,
            colour=setup.colour,
            address=setup.address,
            read_only=setup.read_only,
            interval_s=self._feed.interval_s,
        )
        if setup.keys:
            self.set_keymap(dict(setup.keys))
        self._feed.begin(self.post_message)
        self._feed.look_at(Target("fleet"))
        self.run_worker(self._feed.run(), group="feed", name="feed", exit_on_error=True)
        self.set_interval(1.0, self._grow_older)
        self.set_timer(SETTLED_S, _collect_again)
        self.pane.focus_first()
        if self.queue:
            self.open_queue(self.queue)

    def on_unmount(self) -> None:
        """The end, perhaps an early one."""
        _collect_again()

    # What the feed says.

    @on(Arrived)
    def _show(self, message: Arrived) -> None:
        if not self._is_open:
            return  # it came while we were leaving
        self._arrived_at = self._clock.mono()
        self.frame.change(
            cost=message.cost,
            now_ms=message.now_ms,
            age_s=0.0,
            lost="",
            interval_s=message.interval_s,
            slowed=message.interval_s > self._feed.interval_s,
        )
        if message.target.tab != self._tab or (self._tab != "fleet" and message.target.queue != self.queue):
            return  # it is about what was in front before
        self._introduce(message.view)
        self.pane.show(message.view, message.now_ms)

    def _introduce(self, view: Any) -> None:
        """What the frame says about what is in front."""
        if isinstance(view, FleetView):
            self.known = sorted(row.queue for row in view.rows)
            count = len(view.rows)
            self.frame.change(
                about=f"{count:,} queue{'s' * (count != 1)}",
                critical=sum(row.level >= 3 for row in view.rows),
                warning=sum(row.level == 2 for row in view.rows),
            )
        else:
            row = getattr(view, "row", None)
            about = f"{row.glyph} {safe(row.queue, 24)}" if row else self.queue or "server"
            self.frame.change(about=about, critical=0, warning=0)

    @on(Introduced)
    def _know_server(self, message: Introduced) -> None:
        face = message.face
        self._tell_frame(address=face.address, server=f"{face.kind} {face.version}".strip())

    @on(LinkLost)
    def _lose(self, message: LinkLost) -> None:
        told = safe(message.error, 120) if message.lasting else "reconnecting"
        self._tell_frame(lost=told)

    def _grow_older(self) -> None:
        if self._arrived_at is not None:
            self._tell_frame(age_s=self._clock.mono() - self._arrived_at)

    def _tell_frame(self, **news: object) -> None:
        if self._is_open:
            self.frame.change(**news)

    # Tabs.

    def open_queue(self, queue: str, tab: str = "queue") -> None:
        """Look at one queue, unless a window asks about another."""
        if self._is_in_front:
            self._choose(queue)
            self.call_later(self.action_open_tab, tab)

    def _choose(self, queue: str) -> None:
        if queue != self.queue:
            self.queue = queue
            for tab in TABS:
                for pane in self.home.query(f"#pane-{tab.name}").results(ANY_PANE):
                    if tab.needs_queue:
                        pane.forget()

    async def action_open_tab(self, tab: str) -> None:
        """Bring a tab to the front. From the fleet, it is about the queue under the cursor."""
        if not self._is_in_front:
            return
        if self._tab == "fleet" and tab != "fleet":
            chosen = self.home.query_one(Fleet).query_one(RecordTable).current
            if chosen is not None:
                self._choose(chosen)
        if not self.queue and any(one.needs_queue for one in TABS if one.name == tab):
            self.notify("there is no queue to look at yet", severity="warning", markup=False)
            return
        if tab not in EVERY_KIND and not is_ours(self.queue or ""):
            self.notify(
                safe(f"{self.queue} is of another system: all there is to see is on this tab", 120),
                markup=False,
            )
            tab = "queue"
        if not self.home.query(f"#pane-{tab}"):
            await self.home.query_one(ContentSwitcher).add_content(pane_of(tab))
        pane = self.home.query_one(f"#pane-{tab}", ANY_PANE)
        if tab != self._tab:
            self._tab_before = self._tab
        self._tab = tab
        self.home.query_one(TabBar).active = tab
        self.home.query_one(ContentSwitcher).current = f"pane-{tab}"
        self._hide_prompt()
        pane.apply(self._filtered_by.get(tab, ""))
        pane.focus_first()
        self._feed.look_at(Target(tab, self.queue, pane.page))

    def on_resize(self) -> None:
        """Rich asks the terminal for its size at every cell it measures, unless it was told."""
        self.console.size = (self.size.width, self.size.height)

    async def action_step(self, by: int) -> None:
        """The tab beside."""
        names = [tab.name for tab in TABS]
        await self.action_open_tab(names[(names.index(self._tab) + by) % len(names)])

    async def action_last_tab(self) -> None:
        """Where one was before."""
        await self.action_open_tab(self._tab_before)

    async def action_leave(self) -> None:
        """Out of the filter, then out of the queue."""
        if self._filtered_by.pop(self._tab, None):
            self.pane.apply("")
            self._hide_prompt()
        elif self._tab != "fleet":
            await self.action_open_tab("fleet")

    def look_further(self) -> None:
        """The tab in front wants another page of what it shows."""
        self._feed.look_at(Target(self._tab, self.queue, self.pane.page))

    # Reading.

    def action_pause(self) -> None:
        """Stop reading, or go on."""
        self._rest("" if self._paused else "paused")

    def action_refresh(self) -> None:
        """Read now."""
        self._feed.again()

    def action_pace(self, factor: float) -> None:
        """Read more or less often."""
        self._feed.interval_s = min(60.0, max(0.5, self._feed.interval_s * factor))
        self.frame.change(interval_s=self._feed.interval_s)
        self._feed.look_at(Target(self._tab, self.queue, self.pane.page))

    def watch_app_focus(self, focus: bool) -> None:
        """Nobody looks, or somebody looks again; a key counts as looking."""
        if not self.is_running or self._setup.keeps_awake:
            return
        if not focus and not self._paused:
            self._rest(ASLEEP)
        elif focus and self._paused == ASLEEP:
            self._rest("")

    def _rest(self, why: str) -> None:
        self._paused = why
        self._tell_frame(paused=why)
        if why:
            self._feed.sleep()
        else:
            self._feed.wake()

    # The prompt: `/` filters, `:` runs.

    def action_filter(self) -> None:
        """Type what rows must have."""
        self._prompt("filter", "name:send_*  -reason:timeout  text", self._filtered_by.get(self._tab, ""))

    def action_command(self) -> None:
        """Type a command line."""
        self._prompt("command", "a verb of chasqui, such as: dlq replay payments --dry-run", "")

    def ask_id(self) -> None:
        """Type the id of a job."""
        self._prompt("why", "the id of a job", "")

    def ask_file(self, words: list[str]) -> None:
        """Type the name of a new file, and run this line with it."""
        self._line_before_file = words
        self._prompt(
            "file",
            "the name of a new file",
            f"{safe(self.queue or 'queue', 40)}-dead.jsonl".replace("/", "_"),
        )

    def _prompt(self, asking: str, hint: str, value: str) -> None:
        self.prompt.ask(asking, hint, value)

    def _hide_prompt(self) -> str:
        asked = self.prompt.hide()
        if asked or self.focused is None:
            self.pane.focus_first()
        return asked

    @on(Prompt.Changed, "#prompt")
    def _typing(self, event: Prompt.Changed) -> None:
        if self.prompt.asking == "filter":
            self._filtered_by[self._tab] = event.value
            self.pane.apply(event.value)

    @on(Prompt.Submitted, "#prompt")
    def _typed(self, event: Prompt.Submitted) -> None:
        asked, text = self._hide_prompt(), event.value.strip()
        if asked == "command":
            self._run_line(text)
        elif asked == "why" and text:
            self.explain(text)
        elif asked == "file" and text:
            self.look_with("export", with_options(self._line_before_file, "--file", text))

    @on(Prompt.Left)
    def _left(self, event: Prompt.Left) -> None:
        self._hide_prompt()
        if event.asked == "filter":
            self._filtered_by.pop(self._tab, None)
            self.pane.apply("")

    def _run_line(self, text: str) -> None:
        try:
            words = shlex.split(text)
        except ValueError as error:
            self.notify(safe(f"that is no command line: {error}"), severity="error", markup=False)
            return
        words = words[1:] if words[:1] == ["chasqui"] else words
        refusal = objection(words, confined=self._setup.confined)
        if refusal:
            self.notify(safe(refusal), severity="warning", markup=False)
        elif changes_something(words):
            if self.read_only:
                self.notify("this dashboard is read-only", severity="warning", markup=False)
                return
            plain = [word for word in words if not word.startswith("-")]
            queue = next((word for word in plain if word in self.known), self.queue or "")
            self.ask_for(Change(" ".join(plain[:2]), words, queue))
        else:
            self.look_with(" ".join(words[:2]), words)

    # Changes and other commands.

    def ask_for(self, change: Change) -> None:
        """Preview a change, and carry it out with consent; one at a time."""
        from chasqui_cli.tui.dialogs import ChangeDialog

        if not self._is_in_front:
            return
        if change.in_terminal and not self.read_only and not self.confined and not self.is_headless:
            self.call_later(self._hand_over, change)
        elif not self.read_only:
            self.push_screen(
                ChangeDialog(change, self._runner, protected=self._setup.protected), self._after_change
            )

    def _hand_over(self, change: Change) -> None:
        """Let a command line have the terminal: an editor opens, the difference is shown, consent is asked there."""
        with self.suspend():
            sys.stdout.write(f"$ {self._runner.shown(change.words)}\n")
            sys.stdout.flush()
            ended = self._runner.run_here(change.words)
            sys.stdout.write("press Enter to go back to the dashboard ")
            sys.stdout.flush()
            sys.stdin.readline()
        self._after_change(ended)

    def _after_change(self, ended: Ended | None) -> None:
        if ended is None:
            return
        if ended.op or ended.did_something:
            self.last_op, self._is_final = ended.op, not ended.op
        self.pane.after_change()
        self._feed.again()

    def action_undo(self) -> None:
        """Take back the last change made from here."""
        if self.read_only:
            self.notify("this dashboard is read-only", severity="warning", markup=False)
        elif self.last_op is None:
            told = "the last change cannot be taken back, or was"
            self.notify(told if self._is_final else "nothing was changed from here yet", markup=False)
        else:
            self.ask_for(
                Change(f"take back {self.last_op}", words_of("undo", self.last_op), self.queue or "")
            )

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Undo is a change."""
        if action == "undo" and self.read_only:
            return None
        return super().check_action(action, parameters)

    def look_with(self, title: str, words: list[str]) -> None:
        """Show what a command says."""
        from chasqui_cli.tui.dialogs import OutputDialog

        self.push_screen(OutputDialog(title, words, self._runner))

    def describe(self, raw: Any, widget: str, *, skip: Iterable[str] = (), error: str = "") -> None:
        """Open one job or letter in a box."""
        parts: list[tuple[object, str]] = (
            [("error     ", "dim"), (error, "warn"), ("\n", "")] if error else []
        )
        for name, value in self._feed.describe(raw):
            if name in skip:
                continue
            parts += [(f"{name:<9} ", "dim"), ("\n", "")] if "\n" in value else [(f"{name:<9} ", "dim")]
            for line in value.splitlines() or [""]:
                parts += [(line, ""), ("\n", "")]
        self.home.query_one(widget, Static).update(joined(parts, theme=self.theme))

    def explain(self, job_id: str) -> None:
        """Why a job is where it is."""
        self.look_with("why", words_of("why", job_id, queue=self.queue))

    def action_why(self) -> None:
        """Explain the job under the cursor, or one whose id is typed."""
        job_id = self.pane.job_id()
        if job_id:
            self.explain(job_id)
        else:
            self.ask_id()

    def action_copy(self) -> None:
        """Hand the id under the cursor to the terminal's clipboard."""
        text = self.pane.yank()
        if text:
            self.copy_to_clipboard(safe(text))
            self.notify(safe(f"copied {text}", 80), markup=False)

    # Help, themes, the end.

    def action_help(self) -> None:
        """Every key that works here."""
        from chasqui_cli.tui.dialogs import HelpDialog
        from chasqui_cli.tui.keys import told

        places = (("This tab", self.pane), ("Tables", RecordTable), ("Everywhere", self))
        keys = self._setup.keys
        self.push_screen(HelpDialog([(title, told(place.BINDINGS, keys)) for title, place in places]))

    def action_theme(self) -> None:
        """Dark, light, dark."""
        self.theme = LIGHT if self.theme == DARK else DARK

    def watch_theme(self) -> None:
        """Cells have their colours from the theme."""
        if self.is_running and self._is_open:
            self.frame.refresh()
            for pane in self.home.query(ANY_PANE):
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
        self._exit_renderables.append(Segments([Segment(crash.account(error) + "\n")]))
        self._close_messages_no_wait()


def _collect_again() -> None:
    if not gc.isenabled():
        gc.freeze()
        gc.enable()


def _tab_opener(app: ChasquiApp, tab: str) -> Callable[[], object]:
    return lambda: app.call_later(app.action_open_tab, tab)
