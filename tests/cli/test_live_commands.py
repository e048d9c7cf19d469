"""The verbs that run until the user ends them: watch, events --follow, metrics --port."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator

import pytest

from chasqui.server.link import Link
from chasqui_cli.output.records import EVENT_SCHEMA
from tests.support.cli.in_process import assert_matches_schema
from tests.support.cli.live_command import start_command
from tests.support.cli.subprocess_cli import SubprocessCli
from tests.support.faults.proxy import proxy_to
from tests.support.seeds.every_state import QueueSeeder
from tests.support.servers.server import Server

KEYS = 60_000


@pytest.fixture
def seed(any_server: Server, queue: str) -> Iterator[QueueSeeder]:
    with Link.open(any_server.url) as link:
        yield QueueSeeder(link, queue)


def test_watch_survives_a_server_that_goes_and_comes_back(
    any_server: Server, seed: QueueSeeder, cli_process: SubprocessCli
) -> None:
    seed.group()
    seed.add()
    with (
        proxy_to(any_server.socket) as proxy,
        start_command(cli_process, "watch", seed.queue, "-n", "100ms", "-u", proxy.url) as it,
    ):
        it.wait_until(lambda r: len(r.out) >= 2, "two looks")
        proxy.refuse()
        it.wait_until(lambda r: any("reconnecting, data " in line for line in r.err), "it says that it reconnects")
        seen = len(it.out)
        seed.add()
        proxy.listen()
        it.wait_until(lambda r: len(r.out) >= seen + 2, "it goes on")
        assert json.loads(it.out[-1])["waiting"] == 2
        assert it.interrupt() == 130


def test_watch_of_a_server_that_was_never_there_ends(cli_process: SubprocessCli) -> None:
    assert cli_process("watch", "q", "-u", "unix:///nowhere").code == 1


def test_events_are_followed_and_new_queues_join(
    any_server: Server, seed: QueueSeeder, cli_process: SubprocessCli
) -> None:
    seed.add_event("active", "before", attempt=1)
    with start_command(cli_process, "events", "--follow", "-u", any_server.url) as it:
        it.wait_until(lambda r: bool(r.err), "how far back events reach")
        other = QueueSeeder(seed.link, f"{seed.queue}-new")

        def ids() -> list[str]:
            events = [json.loads(line) for line in it.out]
            return [one["id"] for one in events if str(one["queue"]).startswith(seed.queue)]

        it.wait_until(lambda r: bool(ids()), "an event", prod=lambda: seed.add_event("active", "after", attempt=1))
        other.add_event("completed", "joined", attempt=1, duration_us=7)
        it.wait_until(lambda r: "joined" in ids(), "the new queue")
        assert "before" not in ids()
        for line in it.out:
            assert_matches_schema(json.loads(line), EVENT_SCHEMA)
        assert it.interrupt() == 130
        assert it.process.returncode == 130


def test_a_reader_that_has_enough_ends_it_quietly(
    any_server: Server, seed: QueueSeeder, cli_process: SubprocessCli
) -> None:
    for number in range(3000):
        seed.add_event("active", f"job-{number}", attempt=1)
    line = f"{sys.executable} -m chasqui_cli events {seed.queue} -q -u {any_server.url} | head -n 2"
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {line}"],
        capture_output=True,
        text=True,
        env=cli_process.environment(),
    )
    assert (len(done.stdout.splitlines()), done.stderr, done.returncode) == (2, "", 0)


def test_metrics_are_served_while_events_are_counted(
    any_server: Server, seed: QueueSeeder, cli_process: SubprocessCli
) -> None:
    seed.group()
    seed.add()

    def scraped(url: str) -> str:
        with urllib.request.urlopen(url, timeout=10) as reply:
            text: str = reply.read().decode()
        return text

    with start_command(cli_process, "metrics", seed.queue, "--port", "0", "-u", any_server.url) as it:
        it.wait_until(lambda r: any("serving" in line for line in r.err), "where it serves")
        url = next(word for line in it.err for word in line.split() if word.startswith("http")).rstrip(";")
        text = scraped(url)
        assert f'chasqui_waiting{{queue="{seed.queue}"}} 1.0' in text
        assert "chasqui_up 1.0" in text
        wanted = f'chasqui_events_total{{event="completed",name="mail",queue="{seed.queue}"}}'
        for _ in range(200):
            seed.add_event("completed", "x", attempt=1, duration_us=20_000)
            text = scraped(url)
            if wanted in text:
                break
        assert wanted in text
        assert f'chasqui_run_duration_seconds_bucket{{le="0.05",name="mail",queue="{seed.queue}"}}' in text
        assert it.interrupt() == 130


def test_names_among_very_many_keys_are_remembered(
    any_server: Server, seed: QueueSeeder, cli_process: SubprocessCli
) -> None:
    seed.add()
    fill = "for i = 1, tonumber(ARGV[1]) do redis.call('SET', KEYS[1] .. i, '') end"
    filler = f"filler-{seed.queue}-"
    seed.command("EVAL", fill, 1, filler, KEYS)
    try:
        with proxy_to(any_server.socket) as proxy:
            first = cli_process("queues", "-o", "name", "-u", proxy.url)
            assert f"looked through {seed.command('DBSIZE'):,} keys" in first.err
            assert seed.queue in first.out.splitlines()
            before = len(proxy.requests)
            second = cli_process("queues", "-o", "name", "-u", proxy.url)
            assert "--rescan looks again" in second.err
            assert b"SCAN" not in proxy.requests[before:]
            assert seed.queue in second.out.splitlines()
            later = QueueSeeder(seed.link, f"{seed.queue}-later")
            later.add()
            assert later.queue not in cli_process("queues", "-o", "name", "-u", proxy.url).out.splitlines()
            again = cli_process("inspect", "--rescan", "-o", "name", "-u", proxy.url)
            assert later.queue in again.out.splitlines()
    finally:
        empty = "for i = 1, tonumber(ARGV[1]) do redis.call('UNLINK', KEYS[1] .. i) end"
        seed.command("EVAL", empty, 1, filler, KEYS)


def test_term_ends_it_too(any_server: Server, seed: QueueSeeder, cli_process: SubprocessCli) -> None:
    seed.add()
    with start_command(cli_process, "watch", seed.queue, "-n", "100ms", "-u", any_server.url) as it:
        it.wait_until(lambda r: bool(r.out), "a look")
        it.process.send_signal(signal.SIGTERM)
        assert it.process.wait(20) == 143
