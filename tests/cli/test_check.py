"""`check`, on every kind of server: its exit codes, and the line that Nagios reads."""

from __future__ import annotations

import json

import pytest

from chasqui_cli.commands import check
from tests.support.cli.in_process import assert_matches_schema
from tests.support.cli.seeded_queue import SeededQueue

NAGIOS = {"WARNING": 1, "CRITICAL": 2, "OK": 0}


@pytest.mark.parametrize(
    ("words", "status"),
    [
        ((), "WARNING"),
        (("--dlq-warn", "0"), "OK"),
        (("--dlq-crit", "1"), "CRITICAL"),
        (("--dlq-warn", "0", "--waiting-warn", "2"), "WARNING"),
        (("--dlq-warn", "0", "--waiting-crit", "2"), "CRITICAL"),
        (("--dlq-warn", "0", "--age-crit", "1ms"), "CRITICAL"),
        (("--dlq-warn", "0", "--idle-warn", "1ms"), "WARNING"),
    ],
)
def test_check_speaks_nagios(seeded: SeededQueue, words: tuple[str, ...], status: str) -> None:
    ended = seeded("check", seeded.queue, *words)
    assert ended.code == NAGIOS[status]
    [line] = ended.out.splitlines()
    text, _, data = line.partition(" | ")
    assert text.startswith(f"CHASQUI {status} - {seeded.queue}: ")
    numbers = dict(one.split("=") for one in data.split())
    assert numbers["waiting"].split(";")[0] == "2"
    assert all(len(value.split(";")) == 4 for value in numbers.values())
    record = seeded("check", seeded.queue, *words, "--format", "json").json
    assert_matches_schema(record, check.CHECK_SCHEMA)
    assert (record["status"], record["code"]) == (status, NAGIOS[status])
    result = seeded("check", seeded.queue, *words, "--format", "prometheus")
    assert f'chasqui_check_status{{queue="{seeded.queue}"}} {NAGIOS[status]}.0' in result.out
    assert result.code == NAGIOS[status]


def test_check_looks_for_workers_leaders_and_late_work(seeded: SeededQueue) -> None:
    fine = ("check", seeded.queue, "--dlq-warn", "0")
    seeded.seed.delay(-20_000)
    assert seeded(*fine).code == 0
    seeded.seed.command("DEL", seeded.seed.keys.promoter_lock)
    assert (seeded(*fine).code, seeded(*fine, "--ignore-leaders").code) == (2, 0)
    assert seeded(*fine, "--ignore-leaders", "--delayed-lag-warn", "10s").code == 1
    seeded.seed.command("XGROUP", "DESTROY", seeded.seed.keys.stream, "default")
    assert seeded(*fine, "--ignore-leaders").code == 2
    assert seeded(*fine, "--ignore-leaders", "--ignore-no-workers").code == 0


def test_check_does_not_know_what_is_not_there(seeded: SeededQueue) -> None:
    for words in ((f"{seeded.queue}-not",), (seeded.queue, "--age-warn", "5")):
        ended = seeded("check", *words)
        assert (ended.code, ended.err) == (3, "")
        assert ended.out.startswith("CHASQUI UNKNOWN - ")
    assert seeded("check", seeded.queue, "--nonsense").code == 3
    away = seeded("check", seeded.queue, url="unix:///nowhere/at/all")
    assert (away.code, away.out.split(" - ")[0]) == (3, "CHASQUI UNKNOWN")
    assert json.loads(seeded("check", f"{seeded.queue}-not", "--format", "json").out)["code"] == 3
