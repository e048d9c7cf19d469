"""Promoters and schedulers at work: in this process for the length of a `with`, or in one of their own to be killed.

python -m tests.support.processes.leaders promoter unix:///tmp/s mail     runs until SIGTERM
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Protocol

from chasqui.schedule.promoter import Promoter
from chasqui.schedule.scheduler import Scheduler
from chasqui.server.commands import Commands
from chasqui.server.link import AsyncLink, Link
from chasqui.supervision.supervisor import LoopState
from chasqui.wire.keys import Keys
from tests.support.queue_harness import QueueHarness
from tests.support.servers.server import Server

ROOT = Path(__file__).parents[3]
ROLES = {"promoter": Promoter, "scheduler": Scheduler}


class Leader(Protocol):
    @property
    def state(self) -> LoopState: ...
    async def run(self, stop: asyncio.Event) -> None: ...


@asynccontextmanager
async def leader_harness(server: Server, queue: str) -> AsyncIterator[tuple[QueueHarness, AsyncLink]]:
    """A bench to set scenes on, and a link for the one who acts in them."""
    with Link.open(server.url) as link:
        async with AsyncLink.open(server.url) as awaiting:
            yield QueueHarness(server.kind, link, Commands(link.features()), queue), awaiting


@asynccontextmanager
async def running_leader(leader: Leader) -> AsyncIterator[None]:
    """Run it meanwhile; afterwards ask it to stop, and it must end well."""
    stop = asyncio.Event()
    task = asyncio.ensure_future(leader.run(stop))
    try:
        yield
    finally:
        stop.set()
        async with asyncio.timeout(10):
            await task
    assert leader.state.role == "stopped"


@contextmanager
def leader_process(role: str, server: Server, queue: str) -> Iterator[subprocess.Popen[bytes]]:
    """One that can be killed, and is at the end."""
    parent = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []
    paths = {"PYTHONPATH": f"{ROOT}:{ROOT / 'engine'}"}
    words = [*parent, sys.executable, "-m", "tests.support.processes.leaders", role, server.url, queue]
    started = subprocess.Popen(words, cwd=ROOT, env={**os.environ, **paths})
    try:
        yield started
    finally:
        started.kill()
        started.wait()


async def _main(role: str, url: str, queue: str) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with AsyncLink.open(url) as link:
        await ROLES[role](link, Keys(queue)).run(stop)


if __name__ == "__main__":
    asyncio.run(_main(*sys.argv[1:]))
