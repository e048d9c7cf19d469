"""`chasqui add`: ids out, nothing twice, nothing half looked at, everything that waits taken back."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from chasqui import Link
from chasqui.undo import added_jobs
from chasqui.wire import envelope
from chasqui_cli.commands.add import ADD_SCHEMA
from chasqui_cli.input.values import parse_backoff
from tests.support.cli.in_process import InProcessCli
from tests.support.cli.subprocess_cli import SubprocessCli, assert_error
from tests.support.faults.proxy import proxy_to
from tests.support.seeds.queue_contents import QueueContents
from tests.support.servers.server import Server


def jobs(contents: QueueContents) -> list[tuple[str, object]]:
    """Id and data of every job in the stream, in order."""
    rows = contents.command("XRANGE", contents.keys.stream, "-", "+")
    found = [envelope.decode(fields[1]) for _, fields in rows]
    return [(job.id, job.payload.data()) for job in found]


def test_a_job_is_added_and_its_id_printed(contents: QueueContents, cli: InProcessCli) -> None:
    result = cli("add", contents.queue, '{"to": "x", "raw": {"$bin": "00ff"}}', "--name", "mail")
    assert result.code == 0
    assert jobs(contents) == [(result.out.strip(), {"to": "x", "raw": b"\x00\xff"})]
    [(_, fields)] = contents.command("XRANGE", contents.keys.stream, "-", "+")
    assert fields[2:] == [b"n", b"mail"]


def test_the_json_is_exactly_what_scripts_rely_on(contents: QueueContents, cli: InProcessCli) -> None:
    now = cli("add", contents.queue, "1", "-o", "json").json
    [(entry_id, _)] = contents.command("XRANGE", contents.keys.stream, "-", "+")
    assert now == {
        "queue": contents.queue,
        "id": jobs(contents)[0][0],
        "entry_id": entry_id.decode(),
        "run_at_ms": None,
        "duplicate": False,
    }
    before = contents.now_ms()
    later = cli("add", contents.queue, "-", "--delay", "1h", "--id", "mine", "-o", "json", stdin="[1]").json
    names = [name for name in ADD_SCHEMA if name != "outcome"]
    assert list(later) == names
    assert (later["id"], later["entry_id"]) == ("mine", None)
    assert 0 <= later["run_at_ms"] - before - 3_600_000 < 5000
    [line] = cli("add", contents.queue, "--at", "2031-05-06T07:08:09Z", "--max-delay", "5000d", "-o", "jsonl").lines
    assert line["run_at_ms"] == 1_935_817_689_000
    assert cli("add", contents.queue, "--schema").json["items"]["required"] == list(names)


def test_the_same_id_is_reported_as_a_duplicate(contents: QueueContents, cli: InProcessCli) -> None:
    words = ("add", contents.queue, "1", "--id", "once", "--unique", "-o", "json")
    assert [cli(*words).json["duplicate"] for _ in range(2)] == [False, True]
    assert len(jobs(contents)) == 1


def test_attempts_and_backoff_travel_with_the_job(any_contents: QueueContents, cli: InProcessCli) -> None:
    cli("add", any_contents.queue, "1", "--attempts", "3", "--backoff", "exponential:100:30000:3:5")
    [(_, fields)] = any_contents.command("XRANGE", any_contents.keys.stream, "-", "+")
    retry = envelope.decode(fields[1]).retry
    assert retry is not None
    assert retry.backoff is not None
    assert (retry.max_attempts, retry.backoff.kind) == (3, "exponential")
    assert (retry.backoff.delay_ms, retry.backoff.max_delay_ms) == (100, 30_000)
    assert (retry.backoff.multiplier, retry.backoff.jitter_ms) == (3.0, 5)


def test_backoffs_as_people_write_them() -> None:
    assert parse_backoff("250").to_dict() == {"kind": "fixed", "delay_ms": 250}
    assert parse_backoff("fixed:250").to_dict() == {"kind": "fixed", "delay_ms": 250}
    assert parse_backoff("exponential:100").to_dict() == {
        "kind": "exponential",
        "delay_ms": 100,
        "multiplier": 2.0,
    }
    for wrong in ("", "x", "fixed:", "fixed:1:2:3", "linear:5", "exponential:1:x"):
        with pytest.raises(ValueError, match="no backoff"):
            parse_backoff(wrong)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("{}}",), "no JSON"),
        (("hello",), "quoted twice"),
        (("NaN",), "$float"),
        (("1", "--unique"), "needs an id"),
        (("1", "--delay", "5"), "no duration"),
        (("1", "--delay", "60d"), "exceeds"),
        (("1", "--at", "2099-01-01"), "exceeds"),
        (("1", "--delay", "1s", "--at", "2031-01-01"), "same thing"),
        (("1", "--backoff", "x"), "no backoff"),
        (("1", "--id", " "), "non-empty"),
        (("1", "--file", "x"), "--file brings its own"),
        (("1", "--name", "n" * 300), "name"),
    ],
)
def test_what_cannot_be_right_is_refused(
    any_contents: QueueContents, cli: InProcessCli, words: tuple[str, ...], message: str
) -> None:
    assert_error(cli("add", any_contents.queue, *words), 2, message)
    assert not any_contents.command("EXISTS", any_contents.keys.stream)


def test_a_new_queue_gets_no_name_that_others_cannot_take(any_contents: QueueContents, cli: InProcessCli) -> None:
    for name in ("a{b", "a*", "a\x1b[2J", ""):
        assert_error(cli("add", name, "1"), 2, "no name for a queue")


def test_read_only_and_dry_run_write_nothing_anywhere(any_contents: QueueContents, cli: InProcessCli) -> None:
    assert_error(cli("add", any_contents.queue, "1", "--read-only"), 5, "read-only")
    dry = cli("add", any_contents.queue, "1", "--id", "mine", "--dry-run", "--read-only", "-o", "json")
    assert (dry.code, dry.json["id"], dry.json["entry_id"]) == (0, "mine", None)
    later = cli("add", any_contents.queue, "1", "--delay", "1h", "--dry-run", "-o", "json").json
    assert (later["id"], later["outcome"]) == (None, "would add"), "an id is made when a job is"
    assert later["run_at_ms"] > any_contents.now_ms() + 3_000_000
    assert cli("add", any_contents.queue, "1", "--dry-run", "-o", "name").out == ""
    assert "would add" in cli("add", any_contents.queue, "1", "--dry-run").out
    assert_error(cli("add", any_contents.queue, "1", "--delay", "90d", "--dry-run", "-q"), 2, "delay")
    assert not any_contents.command("EXISTS", any_contents.keys.stream)
    assert cli.operations() == []


def test_a_protected_context_wants_the_name_typed(any_contents: QueueContents, cli: InProcessCli) -> None:
    place = cli.home / ".config" / "chasqui"
    place.mkdir(parents=True)
    (place / "config.toml").write_text(f'[contexts.prod]\nurl = "{cli.url}"\nprotected = true\n')
    (place / "config.toml").chmod(0o600)
    cli.url = ""
    refused = cli("add", any_contents.queue, "1", "--context", "prod", "--yes")
    assert refused.code == 5
    assert "--confirm" in refused.err
    agreed = cli("add", any_contents.queue, "1", "--context", "prod", "--confirm", any_contents.queue)
    assert agreed.code == 0


# Files


def lines(count: int) -> str:
    return "".join(f'{{"name": "n", "data": {number}}}\n' for number in range(count))


@pytest.mark.parametrize("how", ["table", "json", "jsonl", "name"])
def test_a_file_is_added_in_order_and_every_id_is_printed(
    contents: QueueContents, cli: InProcessCli, tmp_path: Path, how: str
) -> None:
    (tmp_path / "jobs").write_text(lines(1500))
    result = cli("add", contents.queue, "--file", tmp_path / "jobs", "-o", how)
    assert result.code == 0, result.err
    found = jobs(contents)
    assert [data for _, data in found] == list(range(1500))
    records = result.json if how == "json" else result.lines if how == "jsonl" else []
    ids = [record["id"] for record in records] or result.out.split()
    assert ids == [job_id for job_id, _ in found]
    if how == "jsonl":
        entries = [entry_id.decode() for entry_id, _ in contents.command("XRANGE", contents.keys.stream, "-", "+")]
        assert [record["entry_id"] for record in result.lines] == entries


def test_lines_may_set_every_field_of_a_job(contents: QueueContents, cli: InProcessCli) -> None:
    described = [
        {"name": "a", "data": {"$bin": "00"}, "id": "one", "attempts": 2, "backoff": "fixed:5"},
        {"data": [1], "delay_ms": 60_000},
        {"data": 2, "at": "2031-01-01T00:00:00Z", "id": "three"},
        {"data": 3, "at": 1_924_905_600_000, "backoff": {"kind": "fixed", "delay_ms": 7}},
        {"data": None, "at": "2001-01-01"},
    ]
    stdin = "\n\n".join(map(json.dumps, described))
    result = cli(
        "add", contents.queue, "-f", "-", "-o", "jsonl", "--name", "usual", "--max-delay", "5000d", stdin=stdin
    )
    assert result.code == 0, result.err
    first, second, third, fourth, fifth = result.lines
    assert first["id"] == "one"
    assert third["run_at_ms"] == 1_924_992_000_000
    assert fourth["run_at_ms"] == 1_924_905_600_000
    assert second["run_at_ms"] < third["run_at_ms"]
    assert (fifth["run_at_ms"], fifth["entry_id"] is not None) == (None, True)
    assert contents.command("ZCARD", contents.keys.delayed) == 3
    names = [fields[3] for _, fields in contents.command("XRANGE", contents.keys.stream, "-", "+")]
    assert names == [b"a", b"usual"]


BAD = [
    ('{"nam": 1}', "there is no 'nam' in a job"),
    ("[]", "no object"),
    ("{", "Expecting property name"),
    ('{"data": NaN}', "$float"),
    ('{"data": {"$ext": 1}}', "$ext"),
    ('{"data": 1, "delay_ms": -1}', "no number of milliseconds"),
    ('{"data": 1, "delay_ms": true}', "no number of milliseconds"),
    ('{"data": 1, "at": "soon"}', "is no time"),
    ('{"data": 1, "at": "2099-01-01"}', "exceeds"),
    ('{"data": 1, "attempts": -1}', "max_attempts"),
    ('{"data": 1, "id": 5}', "id is no text"),
    ('{"data": 1, "id": ""}', "non-empty"),
    ('{"data": 1, "name": 5}', "name is no text"),
    ('{"data": 118059162071741130342400}', "does not fit 64 bits"),
    (f'{{"name": "{"n" * 300}"}}', "name"),
    ("[" * 100_000, ""),
]


def test_bad_lines_are_listed_by_number_before_anything_is_added(
    any_contents: QueueContents, cli: InProcessCli
) -> None:
    stdin = "".join(f'{{"data": {nth}}}\n{bad}\n' for nth, (bad, _) in enumerate(BAD))
    result = cli("add", any_contents.queue, "-f", "-", stdin=stdin)
    assert result.code == 2, result.err
    assert f"{len(BAD)} of {2 * len(BAD)} lines" in result.err
    assert not any_contents.command("EXISTS", any_contents.keys.stream)
    assert cli.operations() == []
    shown = [line for line in result.err.splitlines() if line.startswith("line ")]
    for nth, (_, why) in enumerate(BAD):
        assert shown[nth].startswith(f"line {2 * nth + 2}: "), result.err
        assert why in shown[nth]
    skipped = cli("add", any_contents.queue, "-f", "-", "--skip-bad", stdin=stdin)
    assert skipped.code == 3
    assert [data for _, data in jobs(any_contents)] == list(range(len(BAD)))


def test_a_full_queue_takes_nothing_more_and_reports_where_to_continue(
    any_contents: QueueContents, cli: InProcessCli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chasqui_cli.commands.add._job_sender.MAX_BATCH", 100)
    result = cli("add", any_contents.queue, "-f", "-", "--cap", "250", stdin=lines(300))
    assert result.code == 3
    assert "200 of 300 jobs were added" in result.err
    assert "--from-line 201" in result.err
    assert len(result.out.split()) == 200
    rest = cli("add", any_contents.queue, "-f", "-", "--from-line", "201", "--on-full", "grow", stdin=lines(300))
    assert rest.code == 0
    assert [data for _, data in jobs(any_contents)] == list(range(300))
    assert_error(cli("add", any_contents.queue, "1", "-q", "--cap", "300"), 1, "is full", "--on-full grow")


def test_many_jobs_are_paced(any_contents: QueueContents, cli: InProcessCli) -> None:
    result = cli("add", any_contents.queue, "-f", "-", "--rps", "100", "-o", "jsonl", stdin=lines(50))
    assert result.code == 0
    first, *_, last = [int(record["entry_id"].split("-")[0]) for record in result.lines]
    assert last - first >= 200, "fifty at a hundred per second, in pieces of 25, take a quarter of a second at least"


def test_round_trips_do_not_grow_with_jobs(any_server: Server, cli: InProcessCli, queue: str) -> None:
    with proxy_to(any_server.socket) as proxy:
        cli.url = proxy.url
        cli("add", queue, "1")
        proxy.turns = 0
        cli("add", queue, "1")
        alone, proxy.turns = proxy.turns, 0
        assert cli("add", queue, "-f", "-", stdin=lines(5000)).code == 0
        assert proxy.turns <= alone + 20


def test_a_lost_reply_doubles_nothing(server: Server, cli: InProcessCli, queue: str) -> None:
    with proxy_to(server.socket) as proxy:
        cli.url = proxy.url
        chances = iter(range(100_000))
        proxy.mischief = lambda: next(chances) in (2, 5, 9, 20, 33)
        result = cli("add", queue, "-f", "-", "-o", "jsonl", stdin=lines(30_000))
        assert result.code == 0, result.err
        assert next(chances) > 33, "no reply was lost, so this proves nothing"
    found = jobs(QueueContents(Link.open(server.url), queue))
    assert [data for _, data in found] == list(range(30_000))
    assert [record["id"] for record in result.lines] == [job_id for job_id, _ in found]


# Taking back


def test_what_was_added_can_be_taken_back_by_what_was_written_down(contents: QueueContents, cli: InProcessCli) -> None:
    assert cli("add", contents.queue, "-f", "-", "--delay", "1h", stdin=lines(3)).code == 0
    assert cli("add", contents.queue, "-f", "-", stdin=lines(700)).code == 0
    items = cli.journal()
    assert len(items) == 700
    assert {item["kind"] for item in items} == {"added"}
    outcomes = contents.run(added_jobs.revert(contents.commands, contents.keys, "op", items))
    assert outcomes == ["restored"] * 700
    assert contents.command("XLEN", contents.keys.stream) == 0
    assert contents.command("ZCARD", contents.keys.delayed) == 3


def test_huge_loads_are_not_journaled_and_that_is_printed(
    any_contents: QueueContents, cli: InProcessCli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chasqui_cli.commands.add.MAX_JOURNALED", 10)
    result = cli("add", any_contents.queue, "-f", "-", stdin=lines(11))
    assert "not written down" in result.err
    assert cli.journal() == []
    cli("add", any_contents.queue, "1", "--no-journal")
    assert cli.journal() == []


def test_jobs_printed_before_a_kill_are_there_once_and_can_be_undone(
    server: Server, cli_process: SubprocessCli, queue: str, tmp_path: Path
) -> None:
    (tmp_path / "jobs").write_text(lines(30_000))
    words = ["add", queue, "-f", str(tmp_path / "jobs"), "-o", "jsonl", "-u", server.url]
    with subprocess.Popen(
        [sys.executable, "-m", "chasqui_cli", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=cli_process.environment(),
    ) as child:
        assert child.stdout is not None
        output = [child.stdout.readline()]
        os.kill(child.pid, signal.SIGKILL)
        output += child.stdout.readlines()
    printed = [json.loads(line)["id"] for line in output if line.endswith(b"\n")]
    contents = QueueContents(Link.open(server.url), queue)
    found = jobs(contents)
    assert 0 < len(found) < 30_000
    assert [data for _, data in found] == list(range(len(found))), "in order, none twice"
    assert printed == [job_id for job_id, _ in found][: len(printed)]
    [file] = (cli_process.home / ".local/state/chasqui/journal").glob("*.jsonl")
    records = [json.loads(line) for line in file.read_text().splitlines() if line.endswith("}")]
    items = [line["item"] for line in records if "item" in line]
    outcomes = contents.run(added_jobs.revert(contents.commands, contents.keys, "op", items))
    assert outcomes.count("restored") == len(found)
    assert contents.command("XLEN", contents.keys.stream) == 0
