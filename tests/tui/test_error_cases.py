"""What goes wrong around a dashboard: servers that restart, narrow screens, hostile text, crashes, pipes."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from textual import events
from textual._context import active_app

from chasqui import Keys, Link, SystemClock
from chasqui_cli.tui.command_runner import CommandResult, CommandRunner
from chasqui_cli.tui.tabs.fleet_tab import FleetTab
from tests.support.cli.subprocess_cli import SubprocessCli, assert_error
from tests.support.seeds import dashboard_queues, hostile_text
from tests.support.servers.server import start_server
from tests.support.tui.driver import open_dashboard

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.screen import Screen

    from tests.support.servers.server import Server

ROOT = Path(__file__).parents[2]


async def test_a_server_that_restarts_is_waited_for_and_old_numbers_show_their_age() -> None:
    with start_server("valkey-9.1", tcp=True) as server:
        with Link.open(server.url) as link:
            dashboard_queues.add_waiting(link, "mail", 3)
        async with open_dashboard(server.url) as person:
            await person.wait_for_text("mail")
            server.kill()
            await person.wait_until(lambda: "✖ reconnecting, data" in person.frame, "the frame said so")
            assert "mail" in person.table("#fleet").row_keys, "what was known stays on the screen"
            server.start()
            with Link.open(server.url) as link:
                dashboard_queues.add_waiting(link, "mail", 5)
            await person.wait_until(lambda: "✖" not in person.frame, "it was connected again")
            await person.wait_for_text("mail")


async def test_a_server_that_was_never_there_is_waited_for_too() -> None:
    with start_server("valkey-9.1", tcp=True) as server:
        server.kill()
        async with open_dashboard(server.url) as person:
            await person.wait_until(lambda: "✖ reconnecting" in person.frame, "the frame said so")
            server.start()
            await person.wait_until(lambda: "✖" not in person.frame, "it was connected")


async def test_a_queue_that_cannot_be_read_is_shown_with_its_error_next_to_the_others(
    one_server: Server, link: Link, queue: str
) -> None:
    dashboard_queues.add_waiting(link, queue, 1)
    dashboard_queues.command(link, "SET", Keys(f"{queue}-bad").dlq, "not a stream")
    dashboard_queues.add_waiting(link, f"{queue}-bad", 1)
    async with open_dashboard(one_server.url) as person:
        await person.open("2", f"{queue}-bad")
        await person.wait_for_text("▲ critical", "holds a string")
        await person.press("4")
        await person.wait_until(lambda: "✖" in person.frame, "the refusal stands in the frame")
        await person.press("1")
        await person.wait_until(lambda: "✖" not in person.frame, "the fleet can be read")


def plant(link: Link, text: str) -> str:
    """A hostile text in the names of a queue, a job, a consumer, a schedule and in an error."""
    clean = text.replace("\0", "␀").encode("utf-8", "replace").decode()
    queue = f"h-{clean}"
    # A job's name has at most 256 bytes; all else takes the whole text.
    name = f"n-{clean}".encode()[:256].decode(errors="ignore")
    dashboard_queues.add_in_flight(link, queue, 1, f"c-{clean}", name=name)
    dashboard_queues.add_dead_letters(link, queue, 2, name=name, detail=f"e-{clean}", data={"k": clean, clean: 1})
    dashboard_queues.add_failed_event(link, queue, f"i-{clean}", f"r-{clean}")
    dashboard_queues.add_delayed(link, queue, 1, name=name)
    keys = Keys(queue)
    dashboard_queues.command(link, "ZADD", keys.repeat, 1, f"s-{clean}")
    dashboard_queues.command(link, "HSET", keys.repeat_spec(f"s-{clean}"), "spec", b"\x92\x1b]52;c;ZXZpbA==\x07")
    return queue


@pytest.mark.parametrize("size", [(40, 20), (120, 40)], ids=["narrow", "wide"])
async def test_hostile_text_is_harmless_on_every_tab(size: tuple[int, int]) -> None:
    with start_server("valkey-9.1", tcp=True) as server:
        with Link.open(server.url) as link:
            queues = [plant(link, text) for text in hostile_text.HOSTILE_TEXTS.values()]
        async with open_dashboard(server.url, size=size, interval_s=5, draws=True) as person:
            await person.wait_until(
                lambda: len(person.table("#fleet").row_keys) >= len(set(queues)) - 1, "all queues are there"
            )
            assert hostile_text.is_harmless(person.screen())
            worst = "".join(
                hostile_text.HOSTILE_TEXTS[name] for name in ("clipboard", "markup", "right to left", "one-byte CSI")
            )
            with Link.open(server.url) as link:
                queue = plant(link, worst)
            await person.press("r")
            await person.wait_until(lambda: queue in person.table("#fleet").row_keys, "the worst queue is there")
            person.table("#fleet").select(queue)
            for tab in "23456789":
                await person.open_tab(tab)
                assert hostile_text.is_harmless(person.screen()), tab
            await person.press("4")
            if size[0] > 100:
                await person.press("R")
                await person.wait_for_preview()
                assert hostile_text.is_harmless(person.screen())


def test_nothing_of_it_reaches_a_real_terminal(home: Path) -> None:
    """Each text in the name of a queue of its own; the worst ones in all there is of one queue, on every tab."""
    worst = "".join(
        hostile_text.HOSTILE_TEXTS[name] for name in ("clipboard", "hyperlink", "one-byte CSI", "right to left")
    )
    with start_server("valkey-9.1", tcp=True) as server:
        with Link.open(server.url) as link:
            for text in hostile_text.HOSTILE_TEXTS.values():
                plant(link, text)
            queue = plant(link, worst)
        seen = _on_a_terminal(server.url, home, list("GkgjG"))
        tabs = _on_a_terminal(server.url, home, list("23456789"), queue)
    assert seen.count(b"h-") >= 60, "the names of the queues are seen"
    assert tabs.count(rb"\x1b]52;c;") >= 8, "every tab shows it, in a form that does nothing"
    seen += tabs
    for name, text in hostile_text.HOSTILE_TEXTS.items():
        raw = text.encode("utf-8", "replace")
        if not hostile_text.is_harmless(text) and b"?" not in raw and raw != b"\x1b[2J":
            assert raw not in seen, name
    for mark in (b"\x1b]52;c;ZXZp", b"\x1b]8;;http", b"\xc2\x9b", "\u202e".encode(), b"\x1bP1$r"):
        assert mark not in seen


def _on_a_terminal(url: str, home: Path, keys: list[str], *queue: str) -> bytes:
    """All bytes a terminal gets while a user goes through the tabs."""
    pid, fd = pty.fork()
    if pid == 0:
        variables = {"HOME": str(home), "CHASQUI_REDIS_URL": url, "TERM": "xterm-256color", "COLUMNS": "120", "LINES": "40",
                     "PYTHONPATH": f"{ROOT}:{ROOT / 'engine'}", "PATH": os.environ["PATH"]}  # fmt: skip
        os.execve(
            sys.executable,
            [sys.executable, "-m", "chasqui_cli", "top", "--interval", "500ms", *queue],
            variables,
        )
    seen = _read(fd, 60.0, until=b"cmd")
    for key in keys:
        os.write(fd, key.encode())
        seen += _read(fd, 0.9)
    os.write(fd, b"q")
    try:
        while os.read(fd, 1 << 16):
            pass
    except OSError:
        pass
    os.close(fd)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    return seen


def _read(fd: int, seconds: float, until: bytes | None = None) -> bytes:
    """What comes within this time, or until this has come."""
    clock, seen = SystemClock(), b""
    end = clock.monotonic() + seconds
    while (left := end - clock.monotonic()) > 0 and (until is None or until not in seen):
        if select.select([fd], [], [], left)[0]:
            try:
                seen += os.read(fd, 1 << 16)
            except OSError:
                break
    return seen


async def test_a_crash_prints_neither_urls_nor_payloads(
    one_server: Server,
    link: Link,
    queue: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    dashboard_queues.add_waiting(link, queue, 1)

    def fail(self: FleetTab) -> None:
        payload, url = "s3cret-payload", "redis://:hunter2@prod"
        raise RuntimeError(f"{payload} {url}")

    monkeypatch.setattr(FleetTab, "draw", fail)
    with pytest.raises(RuntimeError):
        async with open_dashboard(one_server.url) as person:
            await person.wait_until(lambda: not person.app.is_running, "it crashed")
    err = capsys.readouterr().err
    assert "error: the dashboard failed: RuntimeError" in err
    assert "hunter2" not in err
    assert "s3cret" not in err


@pytest.mark.parametrize("with_queue", [False, True], ids=["empty server", "a queue"])
async def test_every_key_on_every_tab_does_no_harm(with_queue: bool) -> None:
    """Nothing selected, nothing there, garbage pasted into the prompts, clicks anywhere: it goes on."""
    with start_server("valkey-9.1", tcp=True) as server:
        if with_queue:
            with Link.open(server.url) as link:
                dashboard_queues.add_waiting(link, "q", 1)
        async with open_dashboard(server.url, size=(80, 24), interval_s=5, draws=True) as person:
            await person.wait_until(lambda: person.app.current_tab.view is not None, "the fleet was read")
            for tab in "123456789":
                await (person.open_tab(tab) if with_queue else person.press(tab))
                for key in (*"RCEDXKNMPuhtmnlxvdfwySsaiGgjk", "left_square_bracket", "right_square_bracket"):
                    await person.press(key)
                    await person.press(
                        *["escape"] * (len(person.app.screen_stack) > 1 or bool(person.app.prompt.asking))
                    )
            for prompt in ("slash", "colon"):
                await person.press(prompt)
                person.app.prompt.post_message(events.Paste("\x1b]52;c;x\x07[red]\0 ' \" --\udcff " * 9))
                await person.press("enter")
                await person.press("escape", "escape")
            for x, y in ((0, 0), (5, 1), (30, 1), (10, 5), (79, 23), (40, 12)):
                await person.pilot.click(offset=(x, y))
            assert person.app.is_running
            assert hostile_text.is_harmless(person.screen())


class LateRunner(CommandRunner):
    """Returns the result of a command only after the window that waits for it was closed."""

    closed: ClassVar[list[Screen[Any]]] = []

    async def run(self, words: Sequence[str], **options: Any) -> CommandResult:
        ended = await CommandRunner.run(self, words, **options)
        window = active_app.get().screen
        self.closed.append(window)
        window.dismiss()
        while window.children:
            await SystemClock().sleep(0)
        return ended


@pytest.mark.parametrize("keys", [("w",), ("K",)], ids=["output", "change"])
async def test_a_window_closed_at_the_very_moment_its_command_ends_does_no_harm(
    one_server: Server, link: Link, queue: str, keys: tuple[str, ...]
) -> None:
    dashboard_queues.add_waiting(link, queue, 1)
    async with open_dashboard(one_server.url) as person:
        await person.open("3", queue)
        runner = person.app._runner
        person.app._runner = LateRunner(runner.environment, runner.connection_words)
        LateRunner.closed.clear()
        await person.press(*keys)
        await person.wait_until(lambda: LateRunner.closed, "the window was asked to close")
        await person.wait_until(lambda: len(person.app.screen_stack) == 1, "it closed")
        await person.settle()
        assert person.app.is_running
        assert len(person.app.screen_stack) == 1


def test_a_pipe_is_refused_with_a_better_way(home: Path) -> None:
    assert_error(SubprocessCli(home)("top"), 2, "needs a terminal", "chasqui watch QUEUE -o jsonl")


def test_help_costs_nothing() -> None:
    code = "import sys; from chasqui_cli.app import run\ntry: run(['top', '--help'])\nexcept SystemExit: pass\nprint('|'.join(sys.modules))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT).stdout
    assert {"textual", "rich", "redis", "asyncio"}.isdisjoint(out.rpartition("\n")[0].splitlines()[-1].split("|"))
