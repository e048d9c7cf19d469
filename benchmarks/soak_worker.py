"""A worker to be killed. Each run of a job is a line in this process's own file, written before and after the work.

Lines go to the kernel one by one, so a killed process has written everything it did.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from importlib import import_module
from pathlib import Path
from typing import Any


def main() -> None:
    library, queue, url, place, concurrency, lease_ms = sys.argv[1:]
    options = {"redis_url": url, "concurrency": int(concurrency), "claim_min_idle_ms": int(lease_ms)}
    asyncio.run(work(import_module(library), queue, Path(place) / f"{os.getpid()}", options))
    os._exit(0)  # the released engine's threads may abort an interpreter that ends slowly


async def work(engine: Any, queue: str, ledger: Path, options: dict[str, Any]) -> None:
    """Run until asked to end."""
    file = os.open(ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    async def handle(job: Any) -> None:
        os.write(file, f"start {job.id} {job.attempt}\n".encode())
        await asyncio.sleep(job.data["ms"] / 1000)
        fate = job.data["fate"]
        if fate == "doomed":
            raise engine.UnrecoverableError("as planned")
        if fate == "flaky" and job.attempt == 0:
            raise RuntimeError("as planned, once")
        os.write(file, f"done {job.id} {job.attempt}\n".encode())

    worker = engine.Worker(queue, handle, **options)
    closing: list[asyncio.Task[None]] = []
    asyncio.get_running_loop().add_signal_handler(
        signal.SIGTERM, lambda: closing.append(asyncio.ensure_future(worker.close()))
    )
    await worker.run()


if __name__ == "__main__":
    main()
