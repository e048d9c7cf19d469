"""The oracle of the fault tests must see what it is there for: each kind of mistake, made on purpose."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from chasqui import SyncQueue
from chasqui.server.commands import Commands
from chasqui.server.link import Link
from tests.support.faults.run_ledger import RunLedger, check_accounts
from tests.support.queue_harness import QueueHarness

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.servers.server import Server


@pytest.fixture
def bench(any_server: Server, queue: str) -> Iterator[QueueHarness]:
    with Link.open(any_server.url) as link:
        yield QueueHarness(any_server.kind, link, Commands(link.features()), queue)


def _ledger(path: Path, *runs: tuple[str, str | None]) -> RunLedger:
    """A ledger as handlers would have written it: who ran, and how that ended, if it did."""
    lines = []
    for job_id, outcome in runs:
        about = {"id": job_id, "name": "", "attempt": 0, "pid": 1, "at": 0.0}
        lines.append({"word": "start", **about})
        if outcome:
            lines.append({"word": "end", **about, "outcome": outcome})
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return RunLedger(path)


def test_an_account_in_which_every_job_was_done_is_settled(bench: QueueHarness, tmp_path: Path) -> None:
    ledger = _ledger(tmp_path / "ledger", ("a", "ok"), ("b", "ValueError"), ("b", "ok"), ("c", None), ("c", "ok"))
    check_accounts(bench, ledger, ["a", "b", "c"])
    assert ledger.starts() == {"a": 1, "b": 2, "c": 2}


@pytest.mark.parametrize(
    ("runs", "found"),
    [
        ([("a", "ok")], "lost"),
        ([("a", "ok"), ("b", None)], "lost"),
        ([("a", "ok"), ("b", "ValueError")], "lost"),
        ([("a", "ok"), ("b", "ok"), ("c", "ok")], "never added"),
        ([("a", "ok"), ("b", "ok"), ("b", "ok")], "too many runs"),
    ],
)
def test_jobs_lost_unknown_or_run_too_often_are_found(
    bench: QueueHarness, tmp_path: Path, runs: list[tuple[str, str | None]], found: str
) -> None:
    with pytest.raises(AssertionError, match=found):
        check_accounts(bench, _ledger(tmp_path / "ledger", *runs), ["a", "b"])


def test_a_dead_letter_that_should_not_be_is_found(
    bench: QueueHarness, tmp_path: Path, any_server: Server, queue: str
) -> None:
    with SyncQueue(queue, redis_url=any_server.url) as producer:
        producer.add("", {}, job_id="a")
    [[entry_id, fields]] = bench.command("XRANGE", bench.keys.stream, "-", "+")
    bench.command("XADD", bench.keys.dlq, "*", *fields, "source_id", entry_id, "reason", "crashed")
    bench.command("XDEL", bench.keys.stream, entry_id)
    with pytest.raises(AssertionError, match="wrong jobs are dead"):
        check_accounts(bench, _ledger(tmp_path / "ledger"), ["a"])
    check_accounts(bench, _ledger(tmp_path / "ledger"), ["a"], dead=["a"])


@pytest.mark.parametrize("words", [("ZADD", "delayed", "1", "x"), ("XADD", "stream", "*", "d", "x")])
def test_what_is_left_behind_is_found(bench: QueueHarness, tmp_path: Path, words: tuple[str, ...]) -> None:
    command, key, *rest = words
    bench.command(command, getattr(bench.keys, key), *rest)
    with pytest.raises(AssertionError):
        check_accounts(bench, _ledger(tmp_path / "ledger", ("a", "ok")), ["a"])


def test_half_a_line_is_read_when_it_is_whole(tmp_path: Path) -> None:
    ledger = _ledger(tmp_path / "ledger", ("a", "ok"))
    whole = (tmp_path / "ledger").read_bytes()
    (tmp_path / "ledger").write_bytes(whole[:-5])
    assert ledger.completions() == {}
    (tmp_path / "ledger").write_bytes(whole)
    assert ledger.completions() == {"a": 1}
