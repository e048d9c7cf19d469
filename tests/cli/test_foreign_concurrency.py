"""Other systems' verbs under attack: several movers at once, a target without room, workers that are killed next
to live ones with long jobs, and invalid arguments.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chasqui.foreign import joblist, rsmq
from chasqui.server.link import Link
from chasqui.wire import envelope, stream_entry
from chasqui.wire.keys import Keys
from tests.support.cli.in_process import InProcessCli
from tests.support.cli.live_command import start_command
from tests.support.cli.subprocess_cli import SubprocessCli
from tests.support.processes.engines import wait_until
from tests.support.seeds.foreign_queues import READY, ForeignQueues, seed_list, seed_rsmq
from tests.support.servers.server import Server, start_server

MESSAGES = 400
KINDS = ["rsmq", "joblist"]


@pytest.fixture
def foreign_queues(any_server: Server, cli: InProcessCli, queue: str) -> Iterator[ForeignQueues]:
    cli.url = any_server.url
    with Link.open(any_server.url) as link:
        yield ForeignQueues(link, queue)


@pytest.fixture(scope="module")
def other() -> Iterator[Server]:
    """Another server, of these tests alone."""
    with start_server("redis-7.0") as ready:
        yield ready


def fill(scene: ForeignQueues, kind: str, many: int = MESSAGES) -> set[str]:
    if kind == "rsmq":
        scene.run(rsmq.create_queue(scene.orders))
        return set(scene.run(rsmq.send_many(scene.orders, [rsmq.Draft("x" * 50)] * many)))
    jobs = [(f"{number:016x}", {"n": "x" * 50}) for number in range(many)]
    return set(scene.run(joblist.enqueue_many(scene.jobs, jobs, now_ms=scene.now_ms())))


def source(scene: ForeignQueues, kind: str) -> str:
    return f"rsmq://{scene.name}/orders" if kind == "rsmq" else f"joblist://{scene.name}"


def left(scene: ForeignQueues, kind: str) -> int:
    """What the source still holds where its own consumers find it."""
    if kind == "rsmq":
        return int(scene.command("ZCARD", scene.orders.messages))
    return int(scene.command("LLEN", scene.jobs.pending))


def arrived(link: Link, queue: str) -> Counter[str]:
    rows = ForeignQueues(link, queue).command("XRANGE", Keys(queue).stream, "-", "+")
    return Counter(envelope.decode(stream_entry.decode(fields).d or b"").id for _, fields in rows)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("far", [False, True], ids=["near", "far"])
def test_three_movers_at_once_move_everything_once(
    cli_process: SubprocessCli, foreign_queues: ForeignQueues, other: Server, kind: str, far: bool
) -> None:
    sent = fill(foreign_queues, kind)
    url = str(foreign_queues.link.address)
    words = [
        "migrate",
        source(foreign_queues, kind),
        f"chasqui://{foreign_queues.name}",
        "--yes",
        "-u",
        url,
        "-o",
        "json",
    ]
    words += ["--to-url", other.url] if far else []
    movers = [
        subprocess.Popen(
            [sys.executable, "-m", "chasqui_cli", *words],
            env=cli_process.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for _ in range(3)
    ]
    outputs = [mover.communicate(timeout=60) for mover in movers]
    assert [mover.returncode for mover in movers] == [0, 0, 0], outputs
    with Link.open(other.url if far else url) as link:
        assert arrived(link, foreign_queues.name) == Counter(sent)
    moved = sum(json.loads(out)["moved"] for out, _ in outputs)
    assert moved == MESSAGES, "each is counted by the mover that moved it"
    assert left(foreign_queues, kind) == 0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("far", [False, True], ids=["near", "far"])
def test_a_full_target_takes_no_more_and_the_rest_stays(
    cli: InProcessCli, foreign_queues: ForeignQueues, other: Server, kind: str, far: bool
) -> None:
    sent = fill(foreign_queues, kind, 250)
    at = ["--to-url", other.url] if far else []
    words = [
        "migrate",
        source(foreign_queues, kind),
        f"chasqui://{foreign_queues.name}",
        *at,
        "--cap",
        "100",
        "--yes",
        "-o",
        "json",
    ]
    with Link.open(other.url if far else cli.url) as link:
        first = cli(*words)
        assert first.code == 3, first
        assert "full" in first.err
        assert sum(arrived(link, foreign_queues.name).values()) == 100
        assert left(foreign_queues, kind) == 150, "what finds no room is where its own consumers find it"
        assert json.loads(first.out)["after"]["parked"] == 0
        again = cli(*words)
        assert (again.code, json.loads(again.out)["moved"]) == (3, 0)
        seen = arrived(link, foreign_queues.name)
        ForeignQueues(link, foreign_queues.name).command("XTRIM", Keys(foreign_queues.name).stream, "MAXLEN", 10)
        cli(*words)
        copied = arrived(link, foreign_queues.name)
        assert sum(copied.values()) == 100, "what workers took makes room"
        ForeignQueues(link, foreign_queues.name).command("DEL", Keys(foreign_queues.name).stream)
        last = cli(*words)
        assert last.code == 0, last
        assert seen.keys() | copied.keys() | arrived(link, foreign_queues.name).keys() == sent


@pytest.mark.parametrize("kind", KINDS)
def test_a_target_out_of_memory_loses_nothing(
    cli: InProcessCli, foreign_queues: ForeignQueues, other: Server, kind: str
) -> None:
    sent = fill(foreign_queues, kind)
    words = [
        "migrate",
        source(foreign_queues, kind),
        f"chasqui://{foreign_queues.name}",
        "--to-url",
        other.url,
        "--yes",
    ]
    with Link.open(other.url) as link:
        there = ForeignQueues(link, foreign_queues.name)
        there.command("CONFIG", "SET", "maxmemory-policy", "noeviction")
        there.command("CONFIG", "SET", "maxmemory", "1")
        ended = cli(*words)
        assert ended.code == 1, ended
        assert "Traceback" not in ended.err
        there.command("CONFIG", "SET", "maxmemory", "0")
        assert cli(*words).code == 0
        assert arrived(link, foreign_queues.name) == Counter(sent)


HANDLER = """
import time
def handle(claim):
    with open({notes!r}, "a") as file:
        file.write(f"{{claim.id}} {{claim.attempts}}\\n")
    time.sleep(claim.payload["s"])
    return "ran"
"""


def _noted(notes: Path) -> list[str]:
    return notes.read_text().split("\n")[:-1] if notes.exists() else []


def test_live_workers_keep_long_jobs_and_a_killed_ones_are_run_again(
    cli_process: SubprocessCli, foreign_queues: ForeignQueues, any_server: Server, tmp_path: Path
) -> None:
    """Jobs that run four times as long as a claim is good for, with reclaimers that look every tenth of a second."""
    notes = tmp_path / "notes"
    (tmp_path / "slow.py").write_text(HANDLER.format(notes=str(notes)))
    jobs = [(f"long{number}", {"s": 2.0}) for number in range(3)]
    foreign_queues.run(joblist.enqueue_many(foreign_queues.jobs, jobs, now_ms=foreign_queues.now_ms() - 3_600_000))
    work = ["joblist", "work", "slow:handle", "--queue", foreign_queues.name, "--app-dir", str(tmp_path)]
    work += ["--visibility", "500ms", "-u", any_server.url]
    with (
        start_command(cli_process, *work) as first,
        start_command(cli_process, *work),
        start_command(cli_process, *work),
    ):
        wait_until(lambda: len(_noted(notes)) == 3, "all three run")
        holder = _held_by(foreign_queues)
        first.close()
        wait_until(
            lambda: len(foreign_queues.command("LRANGE", foreign_queues.jobs.completed, 0, -1)) == 3,
            "all are completed",
        )
    ran = Counter(line.split()[0] for line in _noted(notes))
    assert sorted(ran.values()) == [1, 1, 2], "only the killed worker's job ran again"
    assert set(ran) == holder
    assert {foreign_queues.run(joblist.read_job(foreign_queues.jobs, one)).text("result") for one in ran} == {'"ran"'}
    assert foreign_queues.run(joblist.examine(foreign_queues.jobs)) == []


def _held_by(scene: ForeignQueues) -> set[str]:
    return {name.decode() for name in scene.command("LRANGE", scene.jobs.processing, 0, -1)}


BAD: list[tuple[int, str]] = [
    (2, "rsmq peek orders --state odd"), (2, "rsmq peek orders --limit 0"), (2, "rsmq peek orders --older-than soon"),
    (2, "rsmq peek orders --grep ("), (2, "rsmq peek orders --where ((("), (2, "rsmq peek orders --min-rc -1"),
    (4, "rsmq peek nothing"), (4, "rsmq show orders nothing"), (4, "rsmq counts nothing"), (4, "rsmq export nothing"),
    (2, "rsmq export orders -o table"), (2, "rsmq purge orders --yes"), (4, "rsmq purge nothing --all --yes"),
    (2, "rsmq purge orders --all --limit x"), (2, "rsmq move orders --all --to orders --yes"),
    (4, "rsmq move orders --all --to nothing --yes"), (2, "rsmq move orders --all"), (2, "rsmq sweep orders --to other"),
    (2, "rsmq sweep orders --to other --max-rc 0"), (2, "rsmq expire orders --older-than never --yes"),
    (2, "rsmq hold orders --all --for yesterday --yes"), (2, "rsmq hold orders --all"), (4, "rsmq import orders /nowhere"),
    (2, "rsmq doctor orders --only everything"), (2, "rsmq queue create -n orders -t -1"),
    (2, "rsmq queue create -n new -m 5"), (2, "rsmq queue create -n a:b"), (2, "rsmq queue create"),
    (2, "rsmq queue set -n orders"), (1, "rsmq queue set -n nothing -t 5"), (1, "rsmq queue delete -n nothing"),
    (2, "rsmq message send -n orders -m x -d soon"), (2, "rsmq message send -n orders -m x -d 99999999"),
    (1, "rsmq message send -n nothing -m x"), (2, "rsmq message receive -n orders -t -5"),
    (1, "rsmq message delete -n orders -i nothing"), (1, "rsmq message visibility -n orders -i nothing -t 5"),
    (2, "rsmq message visibility -n orders -i {id} -t x"), (2, "rsmq nothing"),
    (4, "joblist overview nothing"), (2, "joblist overview {q} --visibility never"), (4, "joblist list nothing"),
    (2, "joblist list {q} --list odd"), (4, "joblist show {q} nothing"), (2, "joblist enqueue {q} {{"),
    (2, "joblist retry {q} --yes"), (2, "joblist retry {q} --all --from pending"), (3, "joblist retry {q} nothing --yes"),
    (2, "joblist cancel {q} --yes"), (3, "joblist cancel {q} nothing --yes"), (4, "joblist cancel nothing --all --yes"),
    (2, "joblist move {q} --all --to {q}"), (2, "joblist move {q} --all --to x --list processing"),
    (2, "joblist purge {q}"), (2, "joblist purge {q} --list processing --yes"), (2, "joblist reclaim {q} --visibility x"),
    (2, "joblist reclaim {q} --max-attempts 0"), (4, "joblist reclaim nothing"), (2, "joblist doctor {q} --only odd"),
    (2, "joblist work nothing"), (2, "joblist work nothing:nothing"), (2, "joblist work json:dumps --visibility x"),
    (2, "migrate orders chasqui://x"), (2, "migrate rsmq:// chasqui://x"), (2, "migrate rsmq://x chasqui://"),
    (2, "migrate rsmq://x redis://y"), (2, "migrate rsmq://x chasqui://x --body odd"),
    (2, "migrate rsmq://x chasqui://x --max-attempts 0"), (2, "migrate joblist://x chasqui://x --visibility soon"),
    (2, "migrate rsmq://x chasqui://x --cap 0"), (2, "migrate rsmq://x chasqui://x --to-url nonsense --yes"),
    (2, "migrate rsmq://x/ chasqui://x --yes"), (0, "migrate rsmq://nothing chasqui://x --yes"),
    (0, "migrate joblist://nothing chasqui://x --yes"), (1, "migrate rsmq://{q}/orders chasqui://x --to-url unix:///nowhere --yes"),
]  # fmt: skip


def test_words_that_make_no_sense_are_refused_in_two_lines(cli: InProcessCli, foreign_queues: ForeignQueues) -> None:
    seed_rsmq(foreign_queues)
    seed_list(foreign_queues)
    keys = [
        foreign_queues.orders.messages,
        foreign_queues.orders.hash,
        foreign_queues.orders.queues,
        *foreign_queues.jobs.lists,
    ]
    before = [foreign_queues.command("DUMP", key) for key in keys]
    wrong: list[Any] = []
    for code, line in BAD:
        words = line.format(q=foreign_queues.name, id=READY).split()
        place = ["--ns", foreign_queues.name] if words[0] == "rsmq" and len(words) > 2 else []
        ended = cli(*words, *place)
        if ended.code != code or "Traceback" in ended.err or not (ended.err or ended.out):
            wrong.append((line, code, ended))
    assert not wrong, "\n".join(map(str, wrong))
    assert [foreign_queues.command("DUMP", key) for key in keys] == before
