"""A process that uses an engine through its public names only: this one or the released one, named by the first word.

`python -m tests.support.processes.engine_process chasqui|chasquimq worker|queue|events SETUP`. A worker does what its jobs say and notes
each run in a ledger; a queue makes the calls it is sent; a reader of events hands on what it reads. Nothing here
judges: that is for the tests. The script is the same for both engines, as a user's would be.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import logging
import os
import pickle
import signal
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chasqui.clock import SystemClock

CLOCK = SystemClock()


@dataclass(slots=True)
class RunLog:
    """The ledger's writing end: whole lines, appended by any number of processes at once."""

    path: str

    def note(self, word: str, job: Any, **more: Any) -> None:
        about = {"word": word, "id": job.id, "name": job.name, "attempt": job.attempt, "pid": os.getpid()}
        line = json.dumps({**about, "at": CLOCK.monotonic(), **more}) + "\n"
        # one write and no buffer: a killed worker has noted everything it did, and half lines do not exist
        wire = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(wire, line.encode())
        os.close(wire)


class JobActions:
    """What a job may ask of its handler: `{"do": [["sleep", 1.5], ["fail_until", 2], …]}`, in order."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine

    async def do(self, job: Any) -> Any:
        result = None
        for word, *details in job.data.get("do", ()) if isinstance(job.data, dict) else ():
            if word == "sleep":
                await CLOCK.sleep(details[0])
            elif word == "await_file":
                while not Path(details[0]).exists():
                    await CLOCK.sleep(0.01)
            else:
                result = getattr(self, word)(job, *details)
        return result

    def do_sync(self, job: Any) -> Any:
        """The same without an event loop, for handlers that are plain functions."""
        return asyncio.run(self.do(job))

    def block(self, job: Any, seconds: float) -> None:
        CLOCK.sleep_sync(seconds)

    def spin(self, job: Any, seconds: float) -> None:
        end = CLOCK.monotonic() + seconds
        while CLOCK.monotonic() < end:
            pass

    def give(self, job: Any, value: Any) -> Any:
        return value

    def give_what_cannot_be_stored(self, job: Any) -> Any:
        return object()

    def fail_until(self, job: Any, attempt: int) -> None:
        if job.attempt < attempt:
            raise RuntimeError(f"not before attempt {attempt}")

    def fail_if(self, job: Any, path: str) -> None:
        if Path(path).exists():
            raise RuntimeError("not now")

    def fail_unrecoverably_if(self, job: Any, path: str) -> None:
        if Path(path).exists():
            self.fail_unrecoverably(job)

    def fail_unrecoverably(self, job: Any, unless: str = "") -> None:
        if not unless or not Path(unless).exists():
            raise self._engine.UnrecoverableError("there is no hope")

    def die(self, job: Any) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def leave(self, job: Any) -> None:
        sys.exit("the handler wants to leave")

    def cancel_oneself(self, job: Any) -> None:
        raise asyncio.CancelledError

    def recurse(self, job: Any) -> None:
        self.recurse(job)


async def work(engine: Any, setup: dict[str, Any]) -> None:
    """Run a worker until it is asked to stop."""
    notebook, actions = RunLog(setup["ledger"]), JobActions(engine)

    async def handler(job: Any) -> Any:
        notebook.note("start", job, data=repr(job.data), created_at_ms=job.created_at_ms)
        try:
            result = await actions.do(job)
        except BaseException as problem:
            notebook.note("end", job, outcome=type(problem).__name__)
            raise
        notebook.note("end", job, outcome="ok")
        return result

    def plain_handler(job: Any) -> Any:
        notebook.note("start", job)
        result = actions.do_sync(job)
        notebook.note("end", job, outcome="ok")
        return result

    chosen = plain_handler if setup.get("plain") else handler
    worker = engine.Worker(setup["queue"], chosen, redis_url=setup["url"], **_steered(setup["options"]))
    _send("ready")
    serve = getattr(importlib.import_module(f"{engine.__name__}.worker"), "serve", _serve)
    await serve(worker)


async def _serve(worker: Any) -> None:
    """The released engine has no such door: close at the first signal."""
    closing: list[asyncio.Task[None]] = []
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, lambda: closing.append(asyncio.ensure_future(worker.close())))
    await worker.run()


async def call(engine: Any, setup: dict[str, Any]) -> None:
    """Make the calls that arrive, one after another, and answer each."""
    queue = engine.Queue(setup["queue"], redis_url=setup["url"], **_steered(setup["options"]))
    loop = asyncio.get_running_loop()
    _send("ready")
    while request := await loop.run_in_executor(None, _receive):
        method, words, options = request
        if "repeat" in options:
            options["repeat"] = _pattern(engine, **options["repeat"])
        try:
            _send(("done", plain(await getattr(queue, method)(*words, **options))))
        except Exception as problem:  # noqa: BLE001 - whatever it is, the caller receives it
            _send(("refused", f"{type(problem).__name__}: {problem}"))
    await queue.close()


async def read_events(engine: Any, setup: dict[str, Any]) -> None:
    """Hand on every event until killed."""
    events = engine.QueueEvents(setup["queue"], redis_url=setup["url"], **setup["options"])
    _send("ready")
    async for event in events:
        _send((event.name, event.job_id, event.job_name, event.fields))


def _steered(options: dict[str, Any]) -> dict[str, Any]:
    """A rudder among the options is the clock of a part that shall believe in another time."""
    if rudder := options.pop("rudder", None):
        from tests.support.clocks import FileControlledClock  # only our engine takes a clock

        options["clock"] = FileControlledClock(Path(rudder))
    return options


def _pattern(engine: Any, kind: str, **details: Any) -> Any:
    if kind == "every":
        return engine.RepeatPattern.every(details["interval_ms"])
    return engine.RepeatPattern.cron(details["expression"], tz=details.get("tz"))


def plain(value: Any) -> Any:
    """Records as dicts, so that both engines' answers can be compared and sent."""
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if type(value).__name__ == "Job":
        return {name: getattr(value, name) for name in ("id", "name", "data", "attempt", "created_at_ms")}
    if type(value).__name__ == "RepeatableMeta":
        names = ("key", "job_name", "next_fire_ms", "limit", "start_after_ms", "end_before_ms")
        missed = value.missed_fires.to_dict() if value.missed_fires else None
        return {
            **{name: getattr(value, name) for name in names},
            "pattern": value.pattern.to_dict(),
            "missed_fires": missed,
        }
    return value


def _send(value: Any) -> None:
    pickle.dump(value, sys.stdout.buffer)
    sys.stdout.buffer.flush()


def _receive() -> Any:
    try:
        return pickle.load(sys.stdin.buffer)
    except EOFError:
        return None


def _leave_with_parent() -> None:
    """A worker reads nothing from its input but the end of the process that started it."""
    while sys.stdin.buffer.read(1):
        pass
    os._exit(1)


def main() -> None:
    """Play the part, then leave at once: the released engine's threads may abort an interpreter that ends slowly."""
    name, part, setup = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s %(message)s", stream=sys.stderr)
    if part == "worker":
        threading.Thread(target=_leave_with_parent, daemon=True).start()
    parts = {"worker": work, "queue": call, "events": read_events}
    asyncio.run(parts[part](importlib.import_module(name), setup))
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
