"""Files as jobs: what is looked at beforehand, what the ids are made of, and what is the same load."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chasqui.server.link import Link
from chasqui.spark import bulk
from chasqui.spark.bulk import Shape
from chasqui.wire import envelope, packed
from chasqui.wire.keys import Keys
from chasqui_cli.app import run
from tests.servers import Server
from tests.spark.scenes import ask, some_events

NOW_MS = 1_794_741_208_048
FIELDS = Shape("", "id", "name", "data", "at")
Produced = Callable[..., tuple[int, dict[str, Any], str]]


@pytest.fixture
def produced(
    redis: Server,
    queue: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> Produced:
    """Types `chasqui pipeline produce`; answers code, data and remarks."""
    monkeypatch.setenv("HOME", str(tmp_path))

    def type_(*words: str | Path) -> tuple[int, dict[str, Any], str]:
        code = run(
            ["pipeline", "produce", queue, *map(str, words), "--yes", "-u", redis.url, "-o", "json", "-q"]
        )
        told = capsys.readouterr()
        return code, json.loads(told.out or "{}"), told.err

    return type_


def row(**fields: Any) -> str:
    return json.dumps({"id": "a", "name": "mail", "data": 1, "at": None} | fields)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("not json", "Expecting value"),
        ("[1]", "not an object"),
        ('{"id": "a"}', "no field 'name'"),
        (row(id=""), "field 'id' is empty"),
        (row(id=" \t"), "field 'id' is empty"),
        (row(id={"a": 1}), "field 'id' is neither text nor a number"),
        (row(id=True), "field 'id' is neither text nor a number"),
        (row(id="\ud800"), "not valid Unicode"),
        (row(name=["mail"]), "field 'name' is neither text nor a number"),
        (row(name="n" * 300), "job name exceeds 256-byte cap"),
        (row(name="\udfff"), "job name is not valid Unicode"),
        (row(data=10**30), "does not fit 64 bits"),
        (row(data={"deep": ["\ud83d"]}), "not valid Unicode"),
        (row(data="DEEP").replace('"DEEP"', "[" * 1100 + "]" * 1100), "recursion"),
        ("[" * 100_000 + "]" * 100_000, "recursion"),
        (row(at="soon"), "field 'at' is no time in ms"),
        (row(at="\u00b2"), "field 'at' is no time in ms"),
        (row(at=1.5), "field 'at' is no time in ms"),
        (row(at=99_999_999_999_999_999), "exceeds max_delay_secs"),
        (row(at=10**30), "exceeds max_delay_secs"),
        (row(at=str(NOW_MS + 31 * 86_400_000)), "exceeds max_delay_secs"),
    ],
)
def test_a_row_that_could_not_be_written_is_told_before_any_is(spark: Any, line: str, said: str) -> None:
    lines = spark.createDataFrame([(row(),), (line,)], "line STRING").coalesce(1)
    found = bulk.check(lines, FIELDS, NOW_MS)
    assert (found.rows, found.bad) == (2, 1)
    assert said in str(found.sample)


def test_rows_at_the_edge_of_what_can_be_written_are_accepted(spark: Any) -> None:
    edges = [
        row(id=7),
        row(id="\x00"),
        row(name=None),
        row(name="n" * 256),
        row(data=2**64 - 1),
        row(data=-(2**63)),
        row(data=None),
        row(at=NOW_MS + 30 * 86_400_000),
        row(at="0"),
    ]
    found = bulk.check(spark.createDataFrame([(one,) for one in edges], "line STRING"), FIELDS, NOW_MS)
    assert (found.rows, found.bad, found.sample) == (len(edges), 0, None)


def test_nothing_is_written_of_a_file_with_a_row_that_cannot_be(
    produced: Produced, spark: Any, link: Link, queue: str, tmp_path: Path
) -> None:
    file = tmp_path / "jobs.jsonl"
    file.write_bytes(b'{"to": "ada"}\n{"to": "zo\xeb"}\n')
    code, _, err = produced(file)
    assert code == 2
    assert "1 of 2 rows are no jobs" in err
    assert "can't decode byte 0xeb" in err
    assert "nothing was written" in err
    assert not ask(link, "KEYS", f"*{queue}*")


def test_a_load_that_goes_on_after_a_week_adds_only_what_is_missing(
    produced: Produced, spark: Any, link: Link, queue: str, tmp_path: Path
) -> None:
    """The note of when it began is kept as long as the ledger, for the ids are made of it."""
    keys, file = Keys(queue), tmp_path / "jobs.jsonl"
    for count in (20, 30):
        file.write_text("".join(json.dumps({"to": n}) + "\n" for n in range(count)))
        ask(link, "EXPIRE", keys.load_since("week"), 100)
        code, told, err = produced(file, "--run-id", "week")
        assert (code, told["added"]) == (0, 20 if count == 20 else 10), err
        assert (
            ask(link, "TTL", keys.load_since("week"))
            >= ask(link, "TTL", keys.load_ledger("rows", "week"))
            > 100
        )
    assert ask(link, "XLEN", keys.stream) == 30


def test_a_column_may_have_any_name(
    produced: Produced, spark: Any, link: Link, queue: str, tmp_path: Path
) -> None:
    file = tmp_path / "jobs.csv"
    file.write_text("user.name,a `b`\nada,1\n")
    code, told, err = produced(file)
    assert (code, told.get("added")) == (0, 1), err
    [(_, fields)] = ask(link, "XRANGE", Keys(queue).stream, "-", "+")
    assert envelope.decode(fields[1]).payload.data() == {"user.name": "ada", "a `b`": "1"}


def test_a_load_has_the_same_name_wherever_it_is_run_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "jobs.csv").write_text("a\n1\n")
    for paths in (["s3://bucket/jobs.csv"], [str(tmp_path / "jobs.csv")]):
        names = set()
        for place in (tmp_path, Path("/")):
            monkeypatch.chdir(place)
            names.add(bulk.run_id_of("mail", paths, Shape()))
        assert len(names) == 1
    (tmp_path / "jobs.csv").write_text("a\n1\n2\n")
    assert bulk.run_id_of("mail", [str(tmp_path / "jobs.csv")], Shape()) not in names


def test_a_replay_knows_for_a_year_what_it_put_back(
    spark: Any, link: Link, redis: Server, queue: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An archive keeps letters for long; a week after a replay they must not all run again."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    keys, at = Keys(queue), ("--archive", str(tmp_path / "archive"), "-u", redis.url, "-q")
    body = packed.pack(["a", b"\x01", NOW_MS, 3])
    ask(link, "XADD", keys.dlq, "*", "d", body, "source_id", "1-0", "reason", "unrecoverable")
    some_events(link, queue, 1)
    assert run(["pipeline", "archive", queue, "--once", *at]) == 0
    for _ in range(2):
        assert run(["pipeline", "replay", queue, "--yes", *at]) == 0
        assert ask(link, "XLEN", keys.stream) == 1
        for note in (keys.load_ledger("rows", f"replay-of-{queue}"), keys.load_since(f"replay-of-{queue}")):
            assert ask(link, "TTL", note) > 360 * 86_400
            ask(link, "EXPIRE", note, 100)


def test_csv_is_read_as_it_is_written_and_refused_where_one_would_have_to_guess(
    spark: Any, link: Link, queue: str, produced: Produced, tmp_path: Path
) -> None:
    good = tmp_path / "good.csv"
    good.write_text('id,to,note\n1,ada,"say ""hi"", twice"\n2,bob,"two\nlines"\n3,cyd,\n')
    code, told, _ = produced(good, "--id-field", "id")
    assert (code, told["added"]) == (0, 3)
    entries = ask(link, "XRANGE", Keys(queue).stream, "-", "+")
    jobs = [envelope.decode(fields[1], len(fields[1])) for _, fields in entries]
    assert {job.id: packed.unpack(job.payload.raw)["note"] for job in jobs} == {
        "1": 'say "hi", twice', "2": "two\nlines", "3": None,
    }  # fmt: skip
    for name, text in {
        "short": "id,to,note\n4,ada\n",
        "long": "id,to,note\n4,a,b,c\n",
        "other": "to,id,note\na,4,b\n",
    }.items():
        bad = tmp_path / f"{name}.csv"
        bad.write_text(text)
        code, _, said = produced(good, bad, "--id-field", "id", "--run-id", "bad")
        assert (code, f"{name}.csv is no CSV" in said, "hint: nothing was written" in said) == (
            2,
            True,
            True,
        ), said
    assert ask(link, "XLEN", Keys(queue).stream) == 3


def test_what_will_be_done_is_shown_with_samples_and_letters_are_chosen_by_reason(
    spark: Any, link: Link, redis: Server, queue: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setenv("HOME", str(tmp_path))
    keys, place = Keys(queue), ("--archive", str(tmp_path / "archive"), "-u", redis.url)
    for n in range(8):
        body = packed.pack([f"job-{n}", packed.pack({"n": n}), NOW_MS, 3])
        reason = "unrecoverable" if n < 7 else "retries_exhausted"
        ask(
            link,
            "XADD",
            keys.dlq,
            "*",
            "d",
            body,
            "n",
            "mail",
            "source_id",
            f"{n}-0",
            "reason",
            reason,
            "detail",
            "no",
        )
    some_events(link, queue, 1)
    assert run(["pipeline", "archive", queue, "--once", *place]) == 0
    capsys.readouterr()
    words = [
        "pipeline",
        "replay",
        queue,
        "--reason",
        "unrecoverable",
        "--sql",
        "name = 'mail'",
        *place,
        "-o",
        "json",
    ]
    assert run([*words, "--dry-run"]) == 0
    told = capsys.readouterr()
    assert json.loads(told.out)["rows"] == 7
    assert "would replay 7 jobs" in told.err
    assert "chosen by: reason unrecoverable and sql name = 'mail'" in told.err
    assert "job-0" in told.err
    assert "… and 2 more" in told.err
    assert run([*words, "--yes"]) == 0
    assert ask(link, "XLEN", keys.stream) == 7
    capsys.readouterr()
    for condition in ("name =", "nosuch = 1", "name"):
        assert run(["pipeline", "replay", queue, "--sql", condition, "--yes", *place]) == 2
        said = capsys.readouterr().err
        assert f"error: not a condition: {condition}" in said
        assert "hint: columns are queue, stream_id" in said or "hint: columns are stream_id" in said


def test_a_preview_of_jobs_shows_some_with_secrets_covered(
    spark: Any,
    redis: Server,
    queue: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "jobs.jsonl").write_text('{"to": "ada", "password": "hunter2"}\n' * 9)
    assert (
        run(["pipeline", "produce", queue, str(tmp_path / "jobs.jsonl"), "--dry-run", "-u", redis.url]) == 0
    )
    said = capsys.readouterr().err
    assert "would produce 9 jobs" in said
    assert "ada" in said
    assert "hunter2" not in said
    assert "… and 4 more" in said
