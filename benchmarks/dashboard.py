"""What the dashboard costs its own machine: CPU time to the first picture of a fleet, CPU time a tick, and whether memory
grows with the ticks. `python -m benchmarks.dashboard [QUEUES] [TICKS]`

The floor is `import textual` and an App with nothing in it, in a process of its own; rounds take turns, and figures are
medians. A round before the first compiles all modules, as an installer does. The goals: the first picture of 200 queues
within a second of CPU; memory flat over as many ticks as half an hour has.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

ROUNDS = 5
ROLE, URL = "DASHBOARD_ROLE", "DASHBOARD_URL"
WARM_UP = 100
"""Ticks after which memory is looked at first: caches are full by then."""


async def watched(url: str, queues: int, ticks: int) -> dict[str, float]:
    """Run the dashboard and look at ourselves."""
    from chasqui_cli.commands.top import build_dashboard
    from chasqui_cli.context.command_context import CommandContext
    from chasqui_cli.context.settings import ConnectionOptions
    from chasqui_cli.tui.feed_messages import ViewReady
    from chasqui_cli.tui.widgets.record_table import RecordTable

    interval_s = 0.05 if ticks else 2.0
    app = build_dashboard(
        CommandContext(connection=ConnectionOptions(redis_url=url)),
        None,
        interval_s,
        light=False,
        keep_awake=True,
    )
    figures: dict[str, float] = {}
    seen = 0

    def count_messages(message: object) -> None:
        nonlocal seen
        seen += isinstance(message, ViewReady)
        if seen == WARM_UP and "warm_mb" not in figures:
            figures["warm_mb"] = _rss_mb()

    async with app.run_test(size=(120, 40), message_hook=count_messages) as pilot:
        while app.main_screen.query_one("#fleet", RecordTable).row_count < queues:
            await asyncio.sleep(0.005)
        await pilot.pause()
        figures["first_picture_cpu_s"] = time.process_time()
        before, began = seen, time.process_time()
        while seen < ticks:
            await asyncio.sleep(0.02)
        figures["tick_cpu_ms"] = (time.process_time() - began) * 1000 / max(1, seen - before)
        figures["ticks"] = seen
        figures["end_mb"] = _rss_mb()
    return figures


def _rss_mb() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 1e6


async def empty() -> None:
    """What Textual costs before anything is shown."""
    from textual.app import App

    app: App[None] = App()
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()


def _child(word: str, queues: int, ticks: int, places: dict[str, str]) -> dict[str, float]:
    """A round in a fresh process."""
    command = [sys.executable, "-m", "benchmarks.dashboard", str(queues), str(ticks)]
    environment = os.environ | places | {ROLE: word}
    done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


def main() -> None:
    """Seed a server of our own, and measure in fresh processes."""
    queues, ticks = (int(word) for word in [*sys.argv[1:3], *("200", "900")[len(sys.argv) - 1 :]])
    role = os.environ.get(ROLE)
    if role == "empty":
        asyncio.run(empty())
        print(json.dumps({"floor_cpu_s": time.process_time()}))
    elif role == "dashboard":
        print(json.dumps(asyncio.run(watched(os.environ[URL], queues, ticks))))
    else:
        _compare(queues, ticks)


def _compare(queues: int, ticks: int) -> None:
    from chasqui import Keys, Link
    from chasqui.server.flow import Call
    from tests.support.links import command_batch
    from tests.support.servers.server import start_server

    rounds: list[dict[str, float]] = []
    with start_server("valkey-9.1", tcp=True) as server, TemporaryDirectory() as compiled:
        places = {URL: server.url, "PYTHONPYCACHEPREFIX": compiled, "PYTHONDONTWRITEBYTECODE": ""}
        with Link.open(server.url) as link:
            names = [Keys(f"queue-{nth}") for nth in range(queues)]
            link.run(
                command_batch(*(Call(("XADD", keys.stream, "*", "d", b"\x90"), keys=(keys.stream,)) for keys in names))
            )
        for _ in range(1 + ROUNDS):
            floor = _child("empty", queues, ticks, places)
            rounds.append(floor | _child("dashboard", queues, 0, places))
        figures = _child("dashboard", queues, ticks, places)
    figures |= {name: median(one[name] for one in rounds[1:]) for name in ("floor_cpu_s", "first_picture_cpu_s")}
    figures["first_picture_floors"] = figures["first_picture_cpu_s"] / figures["floor_cpu_s"]
    print("  ".join(f"{name} {value:.2f}" for name, value in figures.items()))


if __name__ == "__main__":
    main()
