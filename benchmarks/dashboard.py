"""What the dashboard costs its own machine: CPU time to the first picture of a fleet, CPU time a tick, and whether memory
grows with the ticks. `python -m benchmarks.dashboard [QUEUES] [TICKS]`

The goals: the first picture of 200 queues within a second of CPU; memory flat over as many ticks as half an hour has.
"""

from __future__ import annotations

import asyncio
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

WARM_UP = 100
"""Ticks after which memory is looked at first: caches are full by then."""


async def watched(url: str, queues: int, ticks: int) -> dict[str, float]:
    """Run the dashboard and look at ourselves."""
    from chasqui_cli.commands.top import dashboard_of
    from chasqui_cli.desk import Desk
    from chasqui_cli.settings import Given
    from chasqui_cli.tui.messages import Arrived
    from chasqui_cli.tui.widgets.records import RecordTable

    app = dashboard_of(Desk(given=Given(redis_url=url)), None, 0.05, light=False, keep_awake=True)
    told: dict[str, float] = {}
    seen = 0

    def hear(message: object) -> None:
        nonlocal seen
        seen += isinstance(message, Arrived)
        if seen == WARM_UP and "warm_mb" not in told:
            told["warm_mb"] = _rss_mb()

    async with app.run_test(size=(120, 40), message_hook=hear) as pilot:
        while app.home.query_one("#fleet", RecordTable).row_count < queues:
            await pilot.pause()
        told["first_picture_cpu_s"] = time.process_time()
        before, began = seen, time.process_time()
        while seen < ticks:
            await asyncio.sleep(0.02)
        told["tick_cpu_ms"] = (time.process_time() - began) * 1000 / max(1, seen - before)
        told["ticks"] = seen
        told["end_mb"] = _rss_mb()
    return told


def _rss_mb() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 1e6


def main() -> None:
    """Seed a server of our own, and measure in a fresh process."""
    queues, ticks = (int(word) for word in [*sys.argv[1:3], *("200", "900")[len(sys.argv) - 1 :]])
    if url := os.environ.get("DASHBOARD_URL"):
        told = asyncio.run(watched(url, queues, ticks))
        print("  ".join(f"{name} {value:.2f}" for name, value in told.items()))
        return
    from chasqui import Keys, Link
    from chasqui.server.call import Call
    from tests.servers import spawn
    from tests.tui import seed

    with spawn("valkey-9.1", tcp=True) as server:
        with Link.open(server.url) as link:
            names = [Keys(f"queue-{nth}") for nth in range(queues)]
            seed.do(
                link, *(Call(("XADD", keys.stream, "*", "d", b"\x90"), keys=(keys.stream,)) for keys in names)
            )
        subprocess.run([sys.executable, "-m", "benchmarks.dashboard", str(queues), str(ticks)],
                       env=os.environ | {"DASHBOARD_URL": server.url}, check=True)  # fmt: skip


if __name__ == "__main__":
    main()
