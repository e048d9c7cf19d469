"""A stage: one server, one queue, its ledger, and worker, queue and event processes of either engine over it."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from chasqui.server.commands import Commands
from chasqui.server.link import Link
from tests.support.faults.run_ledger import RunLedger, check_accounts, wait_until_finished
from tests.support.processes.engines import PATIENCE_S, Engine, wait_until
from tests.support.queue_harness import QueueHarness

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from tests.support.processes.engines import EngineProcess, EventReader, RemoteQueue
    from tests.support.servers.server import Server

OURS = Engine.ours()


@dataclass(slots=True)
class FaultScenario:
    """Everything a scenario of jobs needs. `quick`: the default options of every worker."""

    server: Server
    queue_name: str
    directory: Path
    bench: QueueHarness
    ledger: RunLedger
    quick: dict[str, Any] = field(default_factory=dict)

    def worker(
        self, engine: Engine = OURS, *, url: str | None = None, **options: Any
    ) -> AbstractContextManager[EngineProcess]:
        return engine.worker(self.queue_name, url or self.server.url, self.ledger.path, **{**self.quick, **options})

    def start_worker(self, engine: Engine = OURS, *, url: str | None = None, **options: Any) -> EngineProcess:
        """For who ends it himself."""
        return engine.start_worker(
            self.queue_name, url or self.server.url, self.ledger.path, **{**self.quick, **options}
        )

    def queue(
        self, engine: Engine = OURS, *, url: str | None = None, **options: Any
    ) -> AbstractContextManager[RemoteQueue]:
        return engine.queue(self.queue_name, url or self.server.url, self.directory / "queue", **options)

    def events(self, engine: Engine = OURS) -> AbstractContextManager[EventReader]:
        """Every event from the beginning on."""
        return engine.events(
            self.queue_name, self.server.url, self.directory / "events", last_event_id="0", block_ms=100
        )

    def await_consumers(self, count: int) -> None:
        """Wait until that many workers read from the queue."""
        wait_until(lambda: self._consumers() == count, f"{count} consumers are there")

    def _consumers(self) -> int:
        if not self.bench.command("EXISTS", self.bench.keys.stream):
            return 0
        return len(self.bench.command("XINFO", "CONSUMERS", self.bench.keys.stream, "default"))

    def await_end(self, added: Collection[str], seconds: float = PATIENCE_S) -> float:
        """Wait until each job is done or dead and nothing is left; answers how long that took."""
        return wait_until_finished(self.bench, self.ledger, added, seconds)

    def check_accounts(self, added: Collection[str], *, extra_runs: int = 0, dead: Collection[str] = ()) -> None:
        """The account of every job, as `ledger.py` has it."""
        check_accounts(self.bench, self.ledger, added, extra_runs=extra_runs, dead=dead)


@contextmanager
def fault_scenario(server: Server, queue_name: str, directory: Path, **quick: Any) -> Iterator[FaultScenario]:
    """A stage over a running server."""
    with Link.open(server.url) as link:
        bench = QueueHarness(server.kind, link, Commands(link.features()), queue_name)
        yield FaultScenario(server, queue_name, directory, bench, RunLedger(directory / "ledger"), quick)
