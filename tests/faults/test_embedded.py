"""The embedded server under producers that are killed, killed itself, and out of disk: nothing acknowledged is lost."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from chasqui import SyncQueue, Worker
from chasqui.errors import ServerError
from chasqui.server.embedded.embedded_server import EmbeddedServer
from tests.support.processes.engines import ROOT, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chasqui.models import Job

PRODUCE = """
import sys
from pathlib import Path
from chasqui import SyncQueue
from chasqui.errors import ChasquiError
number = 0
while True:
    try:
        with SyncQueue("mail", redis_url="embedded://mine", data_dir=Path(sys.argv[1])) as queue_client:
            while True:
                job_id = f"{sys.argv[2]}-{number}"
                queue_client.add_unique("job", {}, job_id=job_id)
                print(job_id, flush=True)
                number += 1
    except ChasquiError as error:
        print("trouble", error, file=sys.stderr, flush=True)
"""


class Producer:
    """A process that adds jobs as fast as it can and writes down which were acknowledged."""

    def __init__(self, base: Path, name: str) -> None:
        self.log = base / f"{name}.acknowledged"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-c", PRODUCE, str(base), name],
                stdout=log,
                stderr=subprocess.PIPE,
                env={**os.environ, "PYTHONPATH": f"{ROOT / 'engine'}"},
            )

    @property
    def acknowledged(self) -> list[str]:
        whole, _, _ = self.log.read_text().rpartition("\n")
        return whole.split()

    def await_more(self, count: int = 100) -> None:
        wanted = len(self.acknowledged) + count
        wait_until(lambda: len(self.acknowledged) >= wanted, "jobs are acknowledged", 30)

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def base() -> Iterator[Path]:
    """A short path: a socket's may not be long."""
    place = Path(tempfile.mkdtemp(prefix="cq-"))
    yield place
    for directory in place.glob("**/server.log"):
        EmbeddedServer(directory.parent).stop()
    shutil.rmtree(place)


def _server(base: Path) -> EmbeddedServer:
    [log] = base.glob("**/server.log")
    return EmbeddedServer(log.parent)


async def _run_all(base: Path) -> list[str]:
    ran: list[str] = []

    async def handler(job: Job) -> None:
        ran.append(job.id)

    await Worker("mail", handler, redis_url="embedded://mine", data_dir=base, burst=True).run()
    return ran


@pytest.mark.slow
async def test_fault_42_killed_producers_and_killed_servers_lose_no_acknowledged_job(base: Path) -> None:
    starter = Producer(base, "starter")
    starter.await_more()
    pid = _server(base).status().pid
    other = Producer(base, "other")
    other.await_more()
    assert _server(base).status().pid == pid, "one server for both"
    starter.kill()
    other.await_more()
    assert _server(base).status().pid == pid, "it belongs to no process"
    for _ in range(3):
        wait_until(lambda: _server(base).status().pid, "there is a server", 30)
        os.kill(_server(base).status().pid or 0, signal.SIGKILL)
        other.await_more()
    other.kill()
    acknowledged = {*starter.acknowledged, *other.acknowledged}
    ran = await _run_all(base)
    assert acknowledged - set(ran) == set(), "acknowledged jobs are lost"
    assert len(set(ran)) == len(ran), "jobs were added twice"
    assert len(ran) <= len(acknowledged) + 2 + 3, "more than what was on its way at each kill"


@contextmanager
def small_disk(place: Path, megabytes: int) -> Iterator[list[str]]:
    """A disk of its own under this path; yields the words before a command that may mount."""
    root = [] if os.geteuid() == 0 else ["sudo", "--non-interactive"]
    if root and shutil.which("sudo") is None:
        pytest.skip("a small disk cannot be mounted here: it takes root, and there is no sudo")
    options = f"size={megabytes}m,mode=700,uid={os.geteuid()}"
    mount = [*root, "mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)]
    if subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("a small disk cannot be mounted here: it takes root, and a container that lets it mount")
    try:
        yield root
    finally:
        subprocess.run([*root, "umount", "--lazy", str(place)], check=True)


def _fill(queue_client: SyncQueue, acknowledged: list[str]) -> None:
    while len(acknowledged) < 1000:
        acknowledged.append(queue_client.add("job", "x" * 60_000).id)


async def test_fault_42_a_full_disk_is_reported_and_loses_no_acknowledged_job(base: Path) -> None:
    disk = base / "disk"
    disk.mkdir(mode=0o700)
    with small_disk(disk, 12) as root:
        acknowledged: list[str] = []
        with SyncQueue("mail", redis_url="embedded://mine", data_dir=disk) as queue_client:
            with pytest.raises(ServerError):
                _fill(queue_client, acknowledged)
        assert 0 < len(acknowledged) < 1000, "the disk never got full"
        server = _server(disk)
        wait_until(lambda: not server.status().pid, "it has ended rather than lie", 30)
        with pytest.raises(ServerError, match="no space left"):
            with SyncQueue("mail", redis_url="embedded://mine", data_dir=disk) as queue_client:
                queue_client.add("job", {})
        subprocess.run([*root, "mount", "-o", "remount,size=64m", str(disk)], check=True)
        assert set(acknowledged) <= set(await _run_all(disk))
        server.stop()
