"""A list queue's worker in a process of its own, to be killed: `python -m tests.support.processes.joblist_worker_process URL QUEUE LEDGER`.

It notes in the ledger what it starts and what it has done, a line each.
"""

from __future__ import annotations

import asyncio
import os
import sys

from chasqui.clock import SystemClock
from chasqui.foreign.joblist import JobClaim, JobListKeys, JobListOptions, JobListWorker
from chasqui.server.link import AsyncLink

OPTIONS = JobListOptions(visibility_ms=800, ttl_s=3600, history=10_000, max_attempts=9)
CONCURRENCY = 4
JOB_S = 0.03


async def main(url: str, queue: str, ledger: str) -> None:
    wire = os.open(ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    async def handler(claim: JobClaim) -> None:
        os.write(wire, f"start {claim.id}\n".encode())
        await SystemClock().sleep(JOB_S)
        os.write(wire, f"done {claim.id}\n".encode())

    async with AsyncLink.open(url) as link:
        worker = JobListWorker(
            link, JobListKeys(queue), handler, options=OPTIONS, concurrency=CONCURRENCY, block_ms=200
        )
        await worker.run(asyncio.Event())


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
