"""Every verb that changes an RSMQ queue, run while the real clients send, receive and delete on it: no message is lost,
none is received by two, and what they hold stays theirs.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from chasqui.foreign import RsmqKeys, rsmq
from chasqui.server.link import Link
from tests.support.cli.subprocess_cli import SubprocessCli
from tests.support.processes.rsmq_clients import Client, NoClientError, open_client
from tests.support.servers.pool import do_without
from tests.support.servers.server import Server

ROUNDS = [
    "purge {q} --state delayed", "move {q} --to {q}-side --state ready --limit 20", "hold {q} --for 1s --state ready --limit 20",
    "sweep {q} --to {q}-side --max-rc 3", "expire {q} --older-than 1ms --limit 5", "release {q} --state delayed",
    "doctor {q} --repair", "move {q}-side --to {q} --all", "purge {q} --grep never-there",
]  # fmt: skip
"""In turn; nothing of them takes what a consumer holds."""


@dataclass(slots=True)
class Account:
    """What the clients did, written down by their threads."""

    sent: list[str] = field(default_factory=list)
    received: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)


@pytest.fixture
def clients(redis: Server) -> Iterator[list[Client]]:
    """Two of each: one sends, one receives."""
    with ExitStack() as stack:
        try:
            yield [
                stack.enter_context(open_client(name, redis.port or 0)) for name in ("npm", "PyRSMQ", "npm", "PyRSMQ")
            ]
        except NoClientError as missing:
            do_without(str(missing))


@pytest.mark.timeout(300)
def test_live_clients_and_every_changing_verb(clients: list[Client], redis: Server, queue: str, tmp_path: Path) -> None:
    keys, side = RsmqKeys(queue), RsmqKeys(f"{queue}-side")
    account, over = Account(), threading.Event()
    *senders, taker, other_taker = clients
    with Link.open(redis.url) as link:
        link.run(rsmq.create_queue(keys, vt_s=60))
        link.run(rsmq.create_queue(side))

        def send(client: Client) -> None:
            while not over.is_set():
                account.sent += client.call("send", queue=queue, bodies=["x"] * 5)
                account.sent += client.call("send", queue=queue, bodies=["later"], delay=3600)

        def take(client: Client) -> None:
            while not over.is_set():
                ids = [message["id"] for message in client.call("receive", queue=queue, count=5)]
                account.received += ids
                gone = client.call("delete", queue=queue, ids=ids) if ids else []
                account.deleted += [one for one, done in zip(ids, gone, strict=True) if done]
                account.refused += [one for one, done in zip(ids, gone, strict=True) if not done]

        threads = [threading.Thread(target=send, args=(client,)) for client in senders]
        threads += [threading.Thread(target=take, args=(client,)) for client in (taker, other_taker)]
        for thread in threads:
            thread.start()
        removed = [one for _ in range(2) for words in ROUNDS for one in _changed(redis, tmp_path, words, queue)]
        over.set()
        for thread in threads:
            thread.join()
        left = [one.id for place in (keys, side) for one in link.run(rsmq.peek(place, 1_000_000))]
        assert link.run(rsmq.examine(keys)) == []
    print(
        f"{len(account.sent)} sent, {len(account.deleted)} deleted by clients, {len(removed)} purged, {len(left)} left"
    )
    assert len(removed) > 10, "the verbs did something"
    assert len(account.deleted) > 100, "and so did the clients"
    assert Counter(account.sent) == Counter([*account.deleted, *removed, *left]), "each is in one place"
    assert not account.refused, "nobody took from a consumer what it held"
    assert max(Counter(account.received).values()) == 1


def _changed(redis: Server, home: Path, words: str, queue: str) -> list[str]:
    """Run a verb; answers the ids it deleted."""
    line = words.format(q=queue).split()
    done = subprocess.run(
        [sys.executable, "-m", "chasqui_cli", "rsmq", *line, "--yes", "-o", "json", "-u", redis.url],
        env=SubprocessCli(home).environment(),
        capture_output=True,
        timeout=60,
    )
    assert done.returncode in (0, 3), (words, done.stderr.decode())
    return [row["id"] for row in json.loads(done.stdout) if row["outcome"] in ("purged", "expired")]
