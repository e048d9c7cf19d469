"""`chasqui worker run`: your handler, imported with care, run until it is asked to end, and shown in one status line."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from chasqui import Link, SyncQueue
from tests.support.cli.in_process import InProcessCli
from tests.support.cli.subprocess_cli import SubprocessCli, assert_error
from tests.support.seeds.hostile_text import is_harmless
from tests.support.seeds.queue_contents import QueueContents
from tests.support.servers.server import Server

MODULE = """
import asyncio, pathlib, threading

async def send(job):
    if job.name == "bad":
        raise ValueError("no such address")
    return {"to": job.data}

def plain(job):
    return 1

async def slow(job):
    pathlib.Path(job.data).write_text("begun")
    await asyncio.sleep(1)
    pathlib.Path(job.data).write_text("ended")

class Box:
    queue = "QUEUE"
    def handler(self, job):
        return 2

box = Box()
number = 5
def two(a, b): ...
"""


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    """What is imported in this process is not there for the next test."""
    path, modules = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        if name.partition(".")[0] in ("mail", "broken", "missing"):
            del sys.modules[name]


@pytest.fixture
def app_dir(tmp_path: Path, queue: str) -> Path:
    place = tmp_path / "app"
    (place / "mail").mkdir(parents=True)
    (place / "mail" / "__init__.py").write_text("")
    (place / "mail" / "jobs.py").write_text(MODULE.replace("QUEUE", queue))
    (place / "broken.py").write_text("def f():\n    raise KeyError('\\x1b[2J')\n\nf()\n")
    (place / "missing.py").write_text("import no_such_package_at_all\n")
    return place


def drained(contents: QueueContents) -> bool:
    return bool(contents.command("XLEN", contents.keys.stream) == 0)


@pytest.mark.parametrize("target", ["mail.jobs:send", "mail.jobs:plain", "mail.jobs:box"])
def test_a_burst_ends_when_the_queue_is_drained(
    server: Server, contents: QueueContents, cli_process: SubprocessCli, app_dir: Path, target: str
) -> None:
    SyncQueue(contents.queue, link=contents.link).add_bulk([{"name": "n", "data": nth} for nth in range(50)])
    words = [] if target.endswith("box") else ["--queue", contents.queue]
    result = cli_process("worker", "run", target, "--burst", "--app-dir", app_dir, "-u", server.url, *words)
    assert result.code == 0, result.err
    assert f"handler {target} from {app_dir / 'mail' / 'jobs.py'}" in result.err
    assert f"queue {contents.queue} on " in result.err
    assert "50 done, 0 failed" in result.err
    assert drained(contents)


def test_several_processes_share_the_work(
    any_server: Server, queue: str, cli_process: SubprocessCli, app_dir: Path
) -> None:
    contents = QueueContents(Link.open(any_server.url), queue)
    SyncQueue(queue, link=contents.link).add_bulk([{"name": "n", "data": nth} for nth in range(50)])
    words = ("--burst", "--processes", "2", "--app-dir", app_dir, "-u", any_server.url, "--store-results")
    result = cli_process("worker", "run", "mail.jobs:box", *words)
    assert result.code == 0, result.err
    done = re.findall(r"(\d+) done", result.err)
    assert drained(contents)
    assert "2 processes with up to 100 jobs" in result.err
    assert len(done) >= 2
    assert len(contents.command("KEYS", contents.keys.result("") + "*")) == 50


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("mail.jobs", "names no handler"),
        ("nowhere:x", "there is no module 'nowhere'"),
        ("mail.nowhere:x", "there is no module 'mail.nowhere'"),
        ("mail.jobs:sent", "did you mean 'send'?"),
        ("mail.jobs:number", "of type int, not a handler"),
        ("mail.jobs:Box", "is a class, not a handler"),
        ("mail.jobs:two", "does not take one argument"),
        ("mail.jobs:send", "does not say whose jobs"),
    ],
)
def test_an_invalid_handler_is_an_error_in_two_lines(
    any_server: Server, cli: InProcessCli, app_dir: Path, target: str, message: str
) -> None:
    cli.url = any_server.url
    assert_error(cli("worker", "run", target, "--app-dir", app_dir), 2, message)


@pytest.mark.parametrize(("module", "error"), [("broken", "KeyError"), ("missing", "ModuleNotFoundError")])
def test_a_users_own_mistake_is_shown_with_its_own_trace(
    any_server: Server, cli: InProcessCli, app_dir: Path, module: str, error: str
) -> None:
    cli.url = any_server.url
    result = cli("worker", "run", f"{module}:x", "--app-dir", app_dir)
    assert result.code == 2
    frames = [line for line in result.err.splitlines() if line.startswith("  File ")]
    assert frames
    assert all(f"{module}.py" in line for line in frames), "their frames only"
    assert f"error: {module} cannot be imported: {error}" in result.err
    assert is_harmless(result.err)


def test_what_everybody_may_write_is_not_imported(any_server: Server, cli: InProcessCli, app_dir: Path) -> None:
    cli.url = any_server.url
    words = ("worker", "run", "mail.jobs:send", "--queue", "q", "--app-dir", app_dir)
    for path in (app_dir / "mail" / "jobs.py", app_dir / "mail", app_dir):
        before = path.stat().st_mode
        path.chmod(before | 0o002)
        assert_error(cli(*words), 2, f"everybody may write to {path}", "chmod o-w")
        path.chmod(before)
    assert "mail.jobs" not in sys.modules


def test_options_are_looked_at_first(any_server: Server, cli: InProcessCli, app_dir: Path) -> None:
    cli.url = any_server.url
    words = ("worker", "run", "mail.jobs:send", "--queue", "q", "--app-dir", app_dir)
    assert_error(cli(*words, "--read-only"), 5, "read-only")
    assert_error(cli(*words, "--metrics-port", "x"), 2, "no port")
    assert_error(cli(*words, "--claim-idle", "5"), 2, "no duration")
    assert_error(cli("worker", "run", "a:b", "--app-dir", app_dir / "none"), 2, "no directory")
    cli.url = "redis://127.0.0.1:1"
    assert cli(*words).code == 1


class OnTerminal:
    """A worker whose stderr is a terminal."""

    def __init__(self, shell: SubprocessCli, *words: object) -> None:
        self.ours, theirs = pty.openpty()
        self.child = subprocess.Popen(
            [sys.executable, "-m", "chasqui_cli", "worker", "run", *map(str, words)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=theirs,
            env=shell.environment() | {"COLUMNS": "200"},
        )
        os.close(theirs)
        self.seen = ""

    def until(self, text: str, seconds: float = 30) -> str:
        """Read until the text was seen; what was seen before it, too."""
        while not re.search(text, self.seen):
            ready, _, _ = select.select([self.ours], [], [], seconds)
            assert ready, f"no {text!r} in {self.seen!r}"
            try:
                read = os.read(self.ours, 65536)
            except OSError:
                read = b""
            assert read, f"it ended without {text!r}: {self.seen!r}"
            self.seen += read.decode()
        return self.seen


@contextmanager
def on_terminal(shell: SubprocessCli, *words: object) -> Iterator[OnTerminal]:
    worker = OnTerminal(shell, *words)
    try:
        yield worker
    finally:
        if worker.child.poll() is None:
            worker.child.kill()
        worker.child.wait()
        os.close(worker.ours)


def test_a_terminal_shows_one_line_that_is_overwritten(
    any_server: Server, queue: str, cli_process: SubprocessCli, app_dir: Path
) -> None:
    contents = QueueContents(Link.open(any_server.url), queue)
    producer = SyncQueue(queue, link=contents.link)
    words = ("mail.jobs:send", "--queue", queue, "--app-dir", app_dir, "-u", any_server.url)
    with on_terminal(cli_process, *words, "--max-attempts", "1") as worker:
        worker.until(r"promoter leader")
        producer.add("n", 1)
        producer.add("bad", 2)
        screen = worker.until(r"1 done · 1 failed · 0 in flight")
        line = screen.rpartition("\r")[2]
        assert line.startswith(f"{queue}: working · ")
        assert line.endswith("\x1b[K")
        assert "scheduler leader" in line
        os.kill(worker.child.pid, signal.SIGTERM)
        screen = worker.until(r"1 done, 1 failed in \d+s")
        assert worker.child.wait(20) == 0
    for ours in ("\x1b[K", "\r"):
        screen = screen.replace(ours, "")
    assert is_harmless(screen)


def test_the_first_signal_drains_and_the_second_leaves_at_once(
    any_server: Server, queue: str, cli_process: SubprocessCli, app_dir: Path, tmp_path: Path
) -> None:
    contents = QueueContents(Link.open(any_server.url), queue)
    producer = SyncQueue(queue, link=contents.link)
    words = ("mail.jobs:slow", "--queue", queue, "--app-dir", app_dir, "-u", any_server.url)
    first, second = tmp_path / "first", tmp_path / "second"
    with on_terminal(cli_process, *words) as worker:
        producer.add("n", str(first))
        worker.until("1 in flight")
        os.kill(worker.child.pid, signal.SIGTERM)
        assert worker.child.wait(20) == 0
    assert first.read_text() == "ended"
    with on_terminal(cli_process, *words) as worker:
        producer.add("n", str(second))
        worker.until("1 in flight")
        os.kill(worker.child.pid, signal.SIGTERM)
        worker.until("once more to leave at once")
        os.kill(worker.child.pid, signal.SIGTERM)
        assert worker.child.wait(20) == -signal.SIGTERM
    assert second.read_text() == "begun"


def test_metrics_are_served(any_server: Server, queue: str, cli_process: SubprocessCli, app_dir: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    producer = SyncQueue(queue, link=Link.open(any_server.url))
    words = ("mail.jobs:send", "--queue", queue, "--app-dir", app_dir, "-u", any_server.url)
    with on_terminal(cli_process, *words, "--metrics-port", port, "--max-attempts", "1") as worker:
        producer.add("mail", 1)
        producer.add("bad", 2)
        worker.until(r"1 done · 1 failed")
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            metrics = answer.read().decode()
    assert f'chasqui_jobs_done_total{{name="mail",queue="{queue}"}} 1.0' in metrics
    assert f'chasqui_jobs_failed_total{{name="bad",queue="{queue}"}} 1.0' in metrics
    assert f'chasqui_job_seconds_count{{name="mail",queue="{queue}"}} 1.0' in metrics
    assert f'chasqui_in_flight{{queue="{queue}"}} 0.0' in metrics


def test_a_change_of_source_starts_it_again(
    any_server: Server, queue: str, cli_process: SubprocessCli, app_dir: Path
) -> None:
    source = app_dir / "live.py"
    source.write_text("def work(job):\n    return 1\n")
    words = ("live:work", "--queue", queue, "--app-dir", app_dir, "-u", any_server.url, "--store-results")
    producer = SyncQueue(queue, link=Link.open(any_server.url))
    with on_terminal(cli_process, *words, "--reload") as worker:
        worker.until("working")
        assert producer.add("n", 1).wait_for_result(timeout=20) == 1
        source.write_text("def work(job):\n    return 22\n")
        worker.until("live.py has changed")
        worker.until("working(?s:.*)has changed(?s:.*)working")
        assert producer.add("n", 1).wait_for_result(timeout=20) == 22
        os.kill(worker.child.pid, signal.SIGTERM)
        assert worker.child.wait(30) == 128 + signal.SIGTERM


def test_a_server_that_goes_away_is_reported_and_waited_for(
    server: Server, queue: str, cli_process: SubprocessCli, app_dir: Path
) -> None:
    from tests.support.servers.server import start_server

    with start_server(server.kind) as lonely:
        words = ("mail.jobs:send", "--queue", queue, "--app-dir", app_dir, "-u", lonely.url)
        with on_terminal(cli_process, *words) as worker:
            worker.until("working")
            lonely.kill()
            worker.until(r"failing since \S+: ")
            lonely.start()
            SyncQueue(queue, link=Link.open(lonely.url)).add("n", 1)
            worker.until(r": working · 1 done")
