"""Whether the dashboard's memory stays flat: the real program on a terminal, for half an hour, on a busy server.

`python -m benchmarks.dashboard_soak [MINUTES] [QUEUES]`: jobs come, are run and die in 200 queues all the time, and
a user walks through the tabs. Once a minute the size of the process is looked at. It fails when the median of the last
third is more than a twentieth above that of the middle third; in the first third caches fill.
"""

from __future__ import annotations

import os
import pty
import random
import resource
import select
import signal
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from chasqui import Keys, Link, SystemClock
from chasqui.server.flow import Call
from chasqui.wire import dead_letter_entry, envelope, event_entry
from chasqui.wire.payload import from_data
from tests.support.links import command_batch
from tests.support.seeds import dashboard_queues
from tests.support.servers.server import start_server

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
MOST_GROWTH = 1.05
JOBS_PER_S = 40
ROUND_S = 1.0
KEYS = "1j2j3j4jj5j6j7j8t9t"
"""What the user presses, one key every few seconds: every tab, and a few rows down."""
KEY_EVERY = 5


class Load:
    """Jobs that come, are read and settled, with events; one in twenty dies."""

    def __init__(self, link: Link, queues: int) -> None:
        self._link, self._random = link, random.Random(7)
        self._keys = [Keys(f"queue-{nth}") for nth in range(queues)]
        self._nth = 0
        for keys in self._keys:
            dashboard_queues.command(link, "XGROUP", "CREATE", keys.stream, dashboard_queues.GROUP, "0", "MKSTREAM")
        for keys in self._keys[:5]:
            dashboard_queues.add_delayed(link, keys.queue, 5)
            dashboard_queues.add_schedules(link, keys.queue)

    def second(self) -> None:
        """What happens in a second."""
        chosen = self._random.choices(self._keys, k=JOBS_PER_S)
        self._link.run(command_batch(*(call for keys in chosen for call in self._added(keys))))
        for keys in dict.fromkeys(chosen):
            words = (
                "XREADGROUP",
                "GROUP",
                dashboard_queues.GROUP,
                "worker",
                "COUNT",
                9,
                "STREAMS",
                keys.stream,
                ">",
            )
            read = dashboard_queues.command(self._link, *words)
            ids = [entry[0] for entry in read[0][1]] if read else []
            if ids:
                dashboard_queues.command(self._link, "XACK", keys.stream, dashboard_queues.GROUP, *ids)
                dashboard_queues.command(self._link, "XDEL", keys.stream, *ids)

    def _added(self, keys: Keys) -> Iterator[Call]:
        self._nth += 1
        name = ("send-email", "charge", "resize")[self._nth % 3]
        job = envelope.Envelope(f"job-{self._nth}", from_data({"nth": self._nth}), 1_794_000_000_000, 0)
        yield Call(("XADD", keys.stream, "*", "d", envelope.encode(job), "n", name), keys=(keys.stream,))
        event = event_entry.Event("completed", job.id, 1_794_000_000_000, name, 1, duration_us=1200)
        fields = event_entry.encode(event)
        yield Call(("XADD", keys.events, "MAXLEN", "~", 1000, "*", *fields), keys=(keys.events,))
        if not self._nth % 20:
            letter = dead_letter_entry.DeadLetterEntry(
                envelope.encode(job), "1-0", "retries_exhausted", "timeout", name
            )
            fields = dead_letter_entry.encode(letter)
            yield Call(("XADD", keys.dlq, "MAXLEN", "~", 500, "*", *fields), keys=(keys.dlq,))


class Terminal:
    """The program on a terminal of its own, and a thread that reads all of it."""

    def __init__(self, url: str, home: str) -> None:
        self._has_left = False
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            variables = os.environ | {
                "HOME": home, "CHASQUI_REDIS_URL": url, "TERM": "xterm-256color", "COLUMNS": "120", "LINES": "40",
            }  # fmt: skip
            command = [sys.executable, "-m", "chasqui_cli", "top", "--keep-awake", "--interval", "1s"]
            os.execve(sys.executable, command, variables)

    def read(self, clock: SystemClock, seconds: float) -> None:
        """Look at it for a while."""
        end = clock.monotonic() + seconds
        while (left := end - clock.monotonic()) > 0:
            if select.select([self._fd], [], [], left)[0]:
                os.read(self._fd, 1 << 16)

    def press(self, key: str) -> None:
        os.write(self._fd, key.encode())

    def mb(self) -> float:
        """How much memory it has."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * resource.getpagesize() / 1e6

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *problem: object) -> None:
        """Whatever happened, nothing is left behind."""
        if not self._has_left:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)

    def leave(self) -> int:
        """Quit; the exit code."""
        self._has_left = True
        self.press("1")
        self.press("q")
        try:
            while os.read(self._fd, 1 << 16):
                pass
        except OSError:
            pass
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def run(minutes: int, queues: int) -> list[float]:
    """MB, minute by minute."""
    clock, found = SystemClock(), list[float]()
    with (
        start_server("valkey-9.1", tcp=True) as server,
        Link.open(server.url) as link,
        tempfile.TemporaryDirectory() as home,
        ExitStack() as ending,
    ):
        load = Load(link, queues)
        terminal = ending.enter_context(Terminal(server.url, home))
        terminal.read(clock, 5)
        began, seconds = clock.monotonic(), 0
        while len(found) < minutes:
            load.second()
            if not seconds % KEY_EVERY:
                terminal.press(KEYS[seconds // KEY_EVERY % len(KEYS)])
            terminal.read(clock, ROUND_S)
            seconds += 1
            if clock.monotonic() - began >= 60 * (len(found) + 1):
                found.append(terminal.mb())
                print(f"{len(found):>4} min {found[-1]:8.1f} MB", flush=True)
        code = terminal.leave()
        if code:
            sys.exit(f"error: the dashboard ended with {code}")
    return found


def main() -> None:
    """Run, judge, and say so."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    given = [int(word) for word in sys.argv[1:3]]
    minutes, queues = [*given, *(30, 200)[len(given) :]]
    found = run(minutes, queues)
    third = max(1, len(found) // 3)
    middle, last = median(found[third:-third] or found), median(found[-third:])
    print(f"middle third {middle:.1f} MB, last third {last:.1f} MB: {last / middle:.3f} of it (goal ≤ {MOST_GROWTH})")
    if last > middle * MOST_GROWTH:
        sys.exit("error: it grows")


if __name__ == "__main__":
    main()
