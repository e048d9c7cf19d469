"""One contender doing one thing in a process of its own; prints one line of JSON. Started by `table.py`.

Runs under the released engine's interpreter as well, so it imports a contender only when it is the one asked for.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

from benchmarks.meter import Meter, burn

LATENCY_WARM_UP = 30


def main() -> None:
    words = _parser().parse_args()
    {"produce": produce, "drain": drain, "latency": latency, "trickle": trickle}[words.verb](words)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("verb", choices=("produce", "drain", "latency", "trickle"))
    parser.add_argument("library", choices=("raw", "chasqui", "chasquimq"))
    parser.add_argument("--url", required=True)
    parser.add_argument("--queue", required=True)
    parser.add_argument("--server-pid", type=int, required=True)
    parser.add_argument("--jobs", type=int, default=0)
    parser.add_argument("--every", type=int, default=1000)
    parser.add_argument("--concurrency", type=int, default=100)
    parser.add_argument("--burn-ms", type=float, default=0)
    parser.add_argument("--no-events", dest="events", action="store_false")
    parser.add_argument("--plain", action="store_true", help="a plain def as handler")
    return parser


def produce(words: argparse.Namespace) -> None:
    """Add jobs, and print what it cost."""
    meter = Meter(words.server_pid)
    if words.library == "raw":
        from benchmarks.contenders import raw

        raw.produce(words.url, words.queue, words.jobs, meter)
    else:
        from benchmarks.contenders import engine

        asyncio.run(engine.produce(words.library, words.url, words.queue, words.jobs, meter))
    _leave(meter.report())


def drain(words: argparse.Namespace) -> None:
    """Work until asked to end, and print what it cost."""
    meter = Meter(words.server_pid, words.every)

    def handle(data: Any) -> None:
        meter.count()
        if words.burn_ms:
            burn(words.burn_ms / 1000)

    signal.signal(signal.SIGTERM, lambda *_: _leave(meter.report()))
    _consume(words, handle)


def latency(words: argparse.Namespace) -> None:
    """Work until asked to end, and print how long after its adding each job began."""
    waits: list[float] = []

    def handle(data: Any) -> None:
        waits.append(time.monotonic() - data["t"])

    signal.signal(signal.SIGTERM, lambda *_: _leave({"waits_ms": [1000 * wait for wait in waits[LATENCY_WARM_UP:]]}))
    _consume(words, handle)


def trickle(words: argparse.Namespace) -> None:
    """Add jobs one by one, with time between them for everybody to fall idle."""
    pauses = random.Random(7)
    if words.library == "raw":
        from benchmarks.contenders import raw

        add_one = raw.add(words.url, words.queue)
        for _ in range(words.jobs + LATENCY_WARM_UP):
            time.sleep(pauses.uniform(0.003, 0.007))
            add_one({"t": time.monotonic()})
    else:
        asyncio.run(_trickle(words, pauses))
    _leave({})


async def _trickle(words: argparse.Namespace, pauses: random.Random) -> None:
    from benchmarks.contenders import engine

    add_one = await engine.add(words.library, words.url, words.queue)
    for _ in range(words.jobs + LATENCY_WARM_UP):
        await asyncio.sleep(pauses.uniform(0.003, 0.007))
        await add_one({"t": time.monotonic()})


def _consume(words: argparse.Namespace, handle: Callable[[Any], None]) -> None:
    if words.library == "raw":
        from benchmarks.contenders import raw

        raw.consume(words.url, words.queue, handle, events=words.events)
    else:
        from benchmarks.contenders import engine

        options = {"events": words.events, "plain": words.plain, "concurrency": words.concurrency}
        asyncio.run(engine.consume(words.library, words.url, words.queue, handle, **options))


def _leave(report: dict[str, Any]) -> None:
    """At once: what an engine does when it ends is not measured here."""
    print(json.dumps(report), flush=True)
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
