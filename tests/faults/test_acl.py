"""Users who lack one right each: what is missing is named, whatever else there is goes on, and a right that is granted
later heals everything without a restart.

All of them work at the same time, each on a queue of its own, in this process: the log lines of each are found by the
task that logs it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from chasqui import RepeatPattern, SyncQueue, UnrecoverableError, Worker
from chasqui.errors import AuthRefused, Unconfirmed
from chasqui.server.commands import Commands
from chasqui.server.link import Link
from tests.faults.conftest import QUICK, everywhere
from tests.support.clocks import eventually
from tests.support.faults.run_ledger import EMPTY, dead_job_ids, remaining_jobs
from tests.support.queue_harness import GROUP, QueueHarness
from tests.support.servers.server import NATIVE_WORDS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from tests.support.servers.binaries import Kind
    from tests.support.servers.server import Server

WORKER = [
    "command|docs",
    "evalsha",
    "script|load",
    "time",
    "get",
    "set",
    "del",
    "pttl",
    "xadd",
    "xack",
    "xdel",
    "xpending",
    "xclaim",
    "xreadgroup",
    "xlen",
    "xgroup|create",
    "xgroup|delconsumer",
    "xinfo|consumers",
    "zadd",
    "zrem",
    "zcard",
    "zscore",
    "zrange",
    "zrangebyscore",
    "hget",
    "hmget",
    "hincrby",
]
NATIVE, STAND_INS = ["xackdel"], ["xrange", "xgroup|createconsumer"]
PRODUCER = [
    "xadd",
    "xlen",
    "zadd",
    "zrem",
    "get",
    "set",
    "exists",
    "del",
    "time",
    "eval",
    "evalsha",
    "script|load",
    "hset",
    "zscore",
]
SOON = {"kind": "fixed", "delay_ms": 50, "jitter_ms": 0}

who: ContextVar[str] = ContextVar("who", default="")


@dataclass(frozen=True, slots=True)
class Lack:
    """A user: what it may do, what it lacks, and the words of the message about it."""

    name: str
    rules: tuple[str, ...]
    remedy: str
    named: str


def workers_rights(kind: Kind) -> list[str]:
    return [*WORKER, *(NATIVE if NATIVE_WORDS[kind] else STAND_INS)]


def lacking_a_command(keys: str, rights: list[str]) -> list[Lack]:
    return [
        Lack(
            missing,
            (f"~{keys}", "~{chasqui:}:nowhere", "-@all", *(f"+{one}" for one in rights if one != missing)),
            f"+{missing}",
            f"the user needs +{missing}",
        )
        for missing in rights
    ]


@dataclass(slots=True)
class Scene:
    """One queue with a job of every sort in it, and the worker of a user who lacks a right."""

    lack: Lack
    bench: QueueHarness
    log_lines: list[str]
    completions: Counter[str] = field(default_factory=Counter)
    fresh: list[str] = field(default_factory=list)
    added: list[str] = field(default_factory=list)
    hopeless: list[str] = field(default_factory=list)

    def set(self, queue_client: SyncQueue) -> None:
        """An abandoned job, fresh ones, delayed ones, failing ones, hopeless ones, and a schedule."""
        keys = self.bench.keys
        self.bench.run(self.bench.commands.ensure_group(keys, GROUP))
        abandoned = self._add(queue_client)
        self.bench.command("XREADGROUP", "GROUP", GROUP, "dead", "COUNT", 1, "STREAMS", keys.stream, ">")
        self.fresh = self._add(queue_client, count=3)
        self.hopeless = self._add(queue_client, "be hopeless")
        self.added = [*abandoned, *self.fresh, *self.hopeless, *self._add(queue_client, delay_ms=100)]
        self.added += self._add(queue_client, "fail once", attempts=3, backoff=SOON)
        queue_client.upsert_repeatable_job("tick", {}, repeat=RepeatPattern.every(200), limit=3)

    @staticmethod
    def _add(queue_client: SyncQueue, data: str = "", count: int = 1, **options: Any) -> list[str]:
        return [job.id for job in queue_client.add_bulk([{"name": "job", "data": data, **options}] * count)]

    async def handle(self, job: Any) -> None:
        if job.data == "be hopeless":
            raise UnrecoverableError("there is no hope")
        if job.data == "fail once" and job.attempt == 0:
            raise RuntimeError("not yet")
        self.completions[job.name if job.name == "tick" else job.id] += 1

    @property
    def names_it(self) -> bool:
        return any(self.lack.named in line for line in self.log_lines)

    @property
    def works(self) -> bool:
        return set(self.fresh) <= set(self.completions)

    @property
    def is_over(self) -> bool:
        done = set(self.completions) | set(dead_job_ids(self.bench))
        return {*self.added, "tick"} <= done and self.completions["tick"] == 3 and remaining_jobs(self.bench) == EMPTY

    def settle(self) -> None:
        ok = Counter({job_id: 1 for job_id in self.added if job_id not in self.hopeless})
        assert self.completions == ok | Counter(tick=3), f"without {self.lack.name}"
        assert dead_job_ids(self.bench) == Counter(self.hopeless), f"without {self.lack.name}"


@contextmanager
def log_lines_by_task() -> Iterator[dict[str, list[str]]]:
    """The log lines of each task, by its name."""
    log_lines: dict[str, list[str]] = {}

    class Ear(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            log_lines.setdefault(who.get(), []).append(record.getMessage())

    ear, log = Ear(), logging.getLogger("chasqui")
    level, log.level = log.level, logging.INFO
    log.addHandler(ear)
    try:
        yield log_lines
    finally:
        log.removeHandler(ear)
        log.level = level


@asynccontextmanager
async def all_at_work(server: Server, queue: str, lacks: list[Lack], **options: Any) -> AsyncIterator[list[Scene]]:
    """A scene for each of them, with a worker in it; the workers have left cleanly at the end."""
    with Link.open(server.url) as link, log_lines_by_task() as log_lines:
        scenes, workers, running = [], [], []
        for number, lack in enumerate(lacks):
            name = f"{queue}-{number}"
            bench = QueueHarness(server.kind, link, Commands(link.features()), name)
            scene = Scene(lack, bench, log_lines.setdefault(lack.name, []))
            rules = [rule.replace("QUEUE", name) for rule in lack.rules]
            bench.command("ACL", "SETUSER", f"user-{number}", "on", ">pw", *rules)
            with SyncQueue(name, redis_url=server.url) as queue_client:
                scene.set(queue_client)
            bench.command("SCRIPT", "FLUSH")  # no scenario uses a script that another has loaded
            url = f"unix://user-{number}:pw@{server.socket}"
            who.set(lack.name)
            worker = Worker(name, scene.handle, redis_url=url, **{**QUICK, **options})
            running.append(asyncio.create_task(worker.run()))
            scenes.append(scene)
            workers.append(worker)
        try:
            yield scenes
        finally:
            for worker in workers:
                await worker.close()
            await asyncio.gather(*running)


async def _all(scenes: list[Scene], holds: Callable[[Scene], bool], what: str) -> float:
    """Wait until it holds for all; else say for whom it does not."""
    try:
        return await eventually(lambda: all(map(holds, scenes)), 20)
    except AssertionError:
        missing = {scene.lack.name: scene.log_lines[-3:] for scene in scenes if not holds(scene)}
        raise AssertionError(f"not {what}: {missing}") from None


def _grant(scenes: list[Scene]) -> None:
    for number, scene in enumerate(scenes):
        rule = scene.lack.remedy.replace("QUEUE", scene.bench.queue)
        scene.bench.command("ACL", "SETUSER", f"user-{number}", rule)


@everywhere
async def test_fault_39_a_worker_without_a_command_names_it_does_the_rest_and_heals(
    own_server: Server, kind: Kind, queue: str, report_recovery: Callable[[float], None]
) -> None:
    lacks = lacking_a_command("{chasqui:QUEUE}:*", workers_rights(kind))
    lacks = [lack for lack in lacks if lack.name != "script|load"]  # any other user may do that for it
    async with all_at_work(own_server, queue, lacks) as scenes:
        unmissed = {"command|docs", "xgroup|delconsumer"}  # without any other right; when it leaves
        missed = [scene for scene in scenes if scene.lack.name not in unmissed]
        await _all(missed, lambda scene: scene.names_it, "named")
        able = [scene for scene in scenes if scene.lack.name != "xreadgroup"]
        await _all(able, lambda scene: scene.works, "at work")
        for scene in scenes:
            assert not set(dead_job_ids(scene.bench)) - set(scene.hopeless), f"buried for want of {scene.lack.name}"
        _grant(scenes)
        took = await _all(scenes, lambda scene: scene.is_over, "over")
        for scene in scenes:
            scene.settle()
    assert took <= 10
    report_recovery(took)


@everywhere
async def test_fault_39_a_worker_that_may_not_load_scripts_reads_what_is_new_all_the_same(
    own_server: Server, kind: Kind, queue: str, report_recovery: Callable[[float], None]
) -> None:
    lacks = lacking_a_command("{chasqui:QUEUE}:*", workers_rights(kind))
    lacks = [lack for lack in lacks if lack.name == "script|load"]
    async with all_at_work(own_server, queue, lacks) as [scene]:
        await _all([scene], lambda scene: scene.names_it and scene.works, "named, and at work")
        _grant([scene])
        took = await _all([scene], lambda scene: scene.is_over, "over")
        scene.settle()
    assert took <= 10
    report_recovery(took)


@everywhere
async def test_fault_39_the_rights_that_are_written_down_are_enough(own_server: Server, kind: Kind, queue: str) -> None:
    enough = tuple(f"+{one}" for one in workers_rights(kind))
    lack = Lack("nothing", ("~{chasqui:QUEUE}:*", "~{chasqui:}:nowhere", "-@all", *enough), "+ping", "")
    async with all_at_work(own_server, queue, [lack], store_results=True) as [scene]:
        await _all([scene], lambda scene: scene.is_over, "over")
        scene.settle()
    assert not [line for line in scene.log_lines if "permission" in line]


KEYS = {
    "stream": "stream",
    "delayed": "delayed",
    "dlq": "dlq",
    "events": "events",
    "promoter": "promoter:lock",
    "scheduler": "scheduler:lock",
    "repeat": "repeat",
    "spec": "repeat:spec:*",
    "result": "result:*",
    "index": "didx:*",
}


@everywhere
@pytest.mark.slow
async def test_fault_39_a_worker_without_a_key_names_it_does_the_rest_and_heals(
    own_server: Server, queue: str, report_recovery: Callable[[float], None]
) -> None:
    def key(suffix: str) -> str:
        return f"~{{chasqui:QUEUE}}:{suffix}"

    lacks = [
        Lack(
            name,
            ("+@all", "~{chasqui:}:nowhere", *(key(one) for one in KEYS.values() if one != suffix)),
            key(suffix),
            f"}}:{suffix.removesuffix('*')}",
        )
        for name, suffix in KEYS.items()
    ]
    async with all_at_work(own_server, queue, lacks, store_results=True) as scenes:
        await _all(scenes, lambda scene: scene.names_it, "named")
        able = [scene for scene in scenes if scene.lack.name not in ("stream", "result")]
        await _all(able, lambda scene: scene.works, "at work")
        _grant(scenes)
        took = await _all(scenes, lambda scene: scene.is_over, "over")
        for scene in scenes:
            scene.settle()
    assert took <= 10
    report_recovery(took)


@everywhere
def test_fault_39_a_producer_without_a_command_learns_which_and_nothing_is_half_written(
    own_server: Server, queue: str
) -> None:
    actions: dict[str, Callable[[SyncQueue], object]] = {
        "add": lambda queue_client: queue_client.add("job", {}),
        "add_unique": lambda queue_client: queue_client.add_unique("job", {}, job_id="unique"),
        "add_bulk": lambda queue_client: queue_client.add_bulk([{"name": "job", "data": {}}] * 3),
        "long add_bulk": lambda queue_client: queue_client.add_bulk([{"name": "job", "data": {}}] * 1500),
        "delayed": lambda queue_client: queue_client.add("job", {}, delay_ms=60_000),
        "delayed with id": lambda queue_client: queue_client.add("job", {}, delay_ms=60_000, job_id="later"),
        "cancel": lambda queue_client: queue_client.cancel_delayed("later"),
        "schedule": lambda queue_client: queue_client.upsert_repeatable_job(
            "job", {}, repeat=RepeatPattern.every(60_000)
        ),
    }
    with Link.open(own_server.url) as link:
        for number, lack in enumerate(lacking_a_command("{chasqui:QUEUE}:*", PRODUCER)):
            name = f"{queue}-{number}"
            bench = QueueHarness(own_server.kind, link, Commands(link.features()), name)
            bench.command("SCRIPT", "FLUSH")
            rules = [rule.replace("QUEUE", name) for rule in lack.rules]
            bench.command("ACL", "SETUSER", f"user-{number}", "on", ">pw", *rules)
            url = f"unix://user-{number}:pw@{own_server.socket}"
            messages = {action: _refusal(name, url, bench, do) for action, do in actions.items()}
            refused = {action: why for action, why in messages.items() if why}
            assert set(refused.values()) <= {lack.named}, f"without {lack.name}"
            assert refused or lack.name == "xlen", f"nobody misses {lack.name}"
            assert len(refused) < len(actions) or lack.name in {"evalsha", "script|load"}, f"{lack.name}: no rest"


def _refusal(name: str, url: str, bench: QueueHarness, do: Callable[[SyncQueue], object]) -> str | None:
    """The message about a missing command, if any: then nothing has changed but what the error lists as written."""
    before, written = _held(bench), 0
    problem: BaseException | None = None
    with SyncQueue(name, redis_url=url) as queue_client:
        try:
            do(queue_client)
        except AuthRefused as error:
            problem = error
        except Unconfirmed as lost:
            problem, written = lost.__cause__, lost.written.count(True)
    if problem is None:
        return None
    assert _held(bench) == (before[0] + written, *before[1:]), "half of it was written"
    assert isinstance(problem, AuthRefused)
    return problem.hint


def _held(bench: QueueHarness) -> tuple[int, ...]:
    keys = bench.keys
    words = (("XLEN", keys.stream), ("ZCARD", keys.delayed), ("ZCARD", keys.repeat))
    return tuple(bench.command(*one) for one in words)
