"""The pipeline in processes of its own, as users start it: without Java on PATH, killed in the middle, kept warm."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from chasqui.clock import SystemClock
from chasqui.server.link import Link
from chasqui.spark.archiver import newest_totals
from chasqui.spark.connect_server import find_running
from chasqui.spark.layout import Archive
from chasqui.wire.keys import Keys
from chasqui_cli.commands.pipeline.up import _reliable_interrupt
from tests.support.seeds.event_history import numbered_events, run_flow
from tests.support.servers.server import Server, start_server

ROOT = Path(__file__).parents[2]
CLOCK = SystemClock()


def start(home: Path, *words: str | Path, **variables: str) -> subprocess.Popen[str]:
    inherited = {name: os.environ[name] for name in ("PATH", "LANG", "JAVA_HOME") if name in os.environ}
    paths = {
        "HOME": str(home),
        "PYTHONPATH": f"{ROOT}:{ROOT / 'engine'}",
        "CHASQUI_SPARK_MASTER": "local[2,4]",
    }
    return subprocess.Popen(
        [sys.executable, "-m", "chasqui_cli", "pipeline", *map(str, words)],
        env=inherited | paths | variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip


def typed(home: Path, *words: str | Path, **variables: str) -> Any:
    process = start(home, *words, "-o", "json", **variables)
    out, err = process.communicate(timeout=280)
    assert process.returncode == 0, err
    return json.loads(out)


def tools_without_java(place: Path) -> str:
    """A PATH with every program there is, but no java."""
    place.mkdir()
    for directory in (Path("/bin"), Path("/usr/bin")):
        for program in directory.iterdir():
            link = place / program.name
            if not program.name.startswith("java") and not link.is_symlink():
                link.symlink_to(program)
    return str(place)


def test_a_machine_without_java_archives_and_reports(link: Link, redis: Server, queue: str, tmp_path: Path) -> None:
    numbered_events(link, queue, 500)
    path = tools_without_java(tmp_path / "bin")
    assert shutil.which("java", path=path) is None
    at = ("--archive", tmp_path / "archive")
    words = ("archive", queue, "--once", *at, "-u", redis.url)
    assert typed(tmp_path, *words, PATH=path, JAVA_HOME="")["events"] == 500
    rows = typed(tmp_path, "report", "throughput", *at, PATH=path, JAVA_HOME="")
    assert sum(row["completed"] for row in rows) == 500


EVERYTHING = """
import sys, json, urllib.request
from pathlib import Path
from chasqui.spark import spark_session
from chasqui.spark.spark_session import SparkTarget
top, queue = Path(sys.argv[1]), sys.argv[2]
conf = {'spark.ui.enabled': 'true', 'spark.ui.port': '0', 'spark.eventLog.enabled': 'true',
        'spark.eventLog.compress': 'false', 'spark.eventLog.dir': (top / 'told').as_uri()}
with spark_session.open_session(SparkTarget(top / 'cache', top / 'log', master='local[2,4]', conf=conf)) as spark:
    rows = spark.read.format('chasqui').option('subscribe', queue).load()
    rows.explain(True)
    assert rows.count() == 50
    stream = spark.readStream.format('chasqui').option('subscribe', queue).load()
    jobs = stream.selectExpr('job_id', 'struct(ts) AS data').writeStream.format('chasqui').option('queue', queue + '-s')
    jobs = jobs.option('runId', 's').option('checkpointLocation', str(top / 'point')).trigger(availableNow=True)
    jobs.start().awaitTermination()
    writer = rows.selectExpr('job_id', 'struct(ts) AS data').write.format('chasqui').mode('append')
    writer.option('queue', queue + '-w').option('runId', 'w').save()
    ui = spark.sparkContext.uiWebUrl.replace(spark.conf.get('spark.driver.host'), '127.0.0.1')
    at = f'{ui}/api/v1/applications/{spark.sparkContext.applicationId}'
    for page in (f'{at}/environment', f'{at}/sql?details=true&planDescription=true', f'{at}/jobs', f'{ui}/environment/',
                 f'{ui}/StreamingQuery/'):
        (top / 'pages').mkdir(exist_ok=True)
        name = page.removeprefix(ui).replace('/', '_')[:60]
        (top / 'pages' / name).write_bytes(urllib.request.urlopen(page).read())
"""


def test_a_password_shows_nowhere_that_spark_shows_anything(queue: str, tmp_path: Path) -> None:
    """Read, stream and write with a password in the server's URL; then look at all that Spark shows."""
    (tmp_path / "told").mkdir()
    password = "correct-horse-battery"
    with start_server("redis-8.6", tcp=True, password=password) as server:
        url = f"redis://:{password}@127.0.0.1:{server.port}"
        with Link.open(url) as link:
            numbered_events(link, queue, 50)
            done = subprocess.run(
                [sys.executable, "-c", EVERYTHING, str(tmp_path), queue],
                env=os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT / 'engine'}", "CHASQUI_REDIS_URL": url},
                capture_output=True, text=True, timeout=280,
            )  # fmt: skip
            assert done.returncode == 0, done.stderr
            for written in ("s", "w"):
                assert run_flow(link, "XLEN", Keys(f"{queue}-{written}").stream) == 50
    surfaces = {"output": done.stdout + done.stderr, "log": (tmp_path / "log").read_text(errors="replace")}
    for place in ("told", "pages", "point"):
        files = [file for file in (tmp_path / place).rglob("*") if file.is_file()]
        surfaces |= {f"{place}/{file.name}": file.read_text(errors="replace") for file in files}
    assert [name for name, text in surfaces.items() if password in text] == []
    with_options = [name for name, text in surfaces.items() if name.startswith("told/") and queue in text]
    assert with_options, "the event log shows options: had the password been one, it would have been found"
    assert "chasqui" in surfaces["output"], "the plan"
    assert any("local[2,4]" in text for name, text in surfaces.items() if name.startswith("pages/")), "the web page"


def test_an_archive_that_is_killed_in_the_middle_is_whole_in_the_end(
    link: Link, redis: Server, queue: str, tmp_path: Path
) -> None:
    import duckdb
    import pyarrow.dataset as ds

    numbered_events(link, queue, 40_000)
    place = tmp_path / "archive"
    words = ("archive", queue, "--once", "--archive", place, "-u", redis.url, "--batch", "2000")
    for _ in range(2):
        process, before = start(tmp_path, *words), _batches(place)
        deadline = CLOCK.monotonic() + 240
        while _batches(place) <= before + 1 and process.poll() is None:
            assert CLOCK.monotonic() < deadline
            CLOCK.sleep_sync(0.02)
        assert process.poll() is None, "it must die while there is work left"
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    typed(tmp_path, *words)
    rows = ds.dataset(place / "events", partitioning="hive").to_table(columns=["job_id"])["job_id"].to_pylist()
    assert len(rows) == 40_000
    assert set(rows) == {f"job-{n}" for n in range(40_000)}
    files = f"read_parquet('{place}/events/**/*.parquet', hive_partitioning=true)"
    [seen] = duckdb.sql(f"SELECT count(*), count(DISTINCT job_id), min(queue) FROM {files}").fetchall()
    assert seen == (40_000, 40_000, queue), "somebody without Spark must see the same"
    assert not list((place / "events").glob(".spark-staging*"))


def _batches(place: Path) -> int:
    newest = newest_totals(Archive(str(place)), "events")
    return -1 if newest is None else newest.batch


def test_who_is_ended_while_java_starts_leaves_none_behind(
    link: Link, redis: Server, queue: str, tmp_path: Path
) -> None:
    numbered_events(link, queue, 10)
    for number in (signal.SIGTERM, signal.SIGINT):
        process = start(tmp_path, "archive", queue, "--archive", tmp_path / "archive", "-u", redis.url)
        _until(lambda: bool(_javas_of(process.pid)))  # noqa: B023 - called before the next round
        process.send_signal(number)
        _, output = process.communicate(timeout=120)
        assert process.returncode == 128 + number, output
        assert "Traceback" not in output
        _until(lambda: not _javas_of(process.pid))  # noqa: B023


def _javas_of(session: int) -> list[str]:
    found = []
    for place in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            name, fields = place.read_text().split("(", 1)[1].rsplit(") ", 1)
            found += [name] if name == "java" and int(fields.split()[3]) == session else []
    return found


def test_an_interrupted_up_leaves_no_spark_behind(tmp_path: Path) -> None:
    process = start(tmp_path, "up")
    pid = _java_of(tmp_path)
    process.send_signal(signal.SIGINT)
    _, output = process.communicate(timeout=120)
    assert process.returncode == 130, output
    assert not Path(f"/proc/{pid}").exists()
    assert typed(tmp_path, "status")["running"] is False


def test_an_interruption_that_python_lost_in_a_callback_ends_up_all_the_same() -> None:
    with _reliable_interrupt() as attend:
        attend()
        with suppress(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
            CLOCK.sleep_sync(5)
        with pytest.raises(KeyboardInterrupt):
            attend()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_spark_whose_up_was_killed_is_found_by_down(tmp_path: Path) -> None:
    process = start(tmp_path, "up")
    pid = _java_of(tmp_path)
    process.kill()
    process.communicate()
    assert Path(f"/proc/{pid}").exists()
    assert typed(tmp_path, "down")["running"] is False
    _until(lambda: not Path(f"/proc/{pid}").exists())


def _java_of(home: Path) -> int:
    """The process of the server that `up` starts, as soon as it is Java."""
    state = home / ".local/state/chasqui"
    _until(
        lambda: (found := find_running(state)) is not None and Path(f"/proc/{found.pid}/exe").resolve().name == "java"
    )
    found = find_running(state)
    assert found is not None
    return found.pid


def _until(holds: Callable[[], bool]) -> None:
    deadline = CLOCK.monotonic() + 120
    while not holds():
        assert CLOCK.monotonic() < deadline
        CLOCK.sleep_sync(0.05)


def test_a_warm_spark_answers_reports_until_it_is_stopped(
    link: Link, redis: Server, queue: str, tmp_path: Path
) -> None:
    numbered_events(link, queue, 300)
    at = ("--archive", tmp_path / "archive")
    both = [start(tmp_path, "up", "--warm-up", "1s", "-o", "json") for _ in range(2)]
    result, same = (json.loads(process.communicate(timeout=280)[0]) for process in both)
    try:
        assert result["running"]
        assert same == result, "who comes second finds the first one's"
        assert result["url"].startswith("sc://localhost:")
        secret = tmp_path / ".local/state/chasqui/spark-connect.json"
        assert secret.stat().st_mode & 0o077 == 0
        assert typed(tmp_path, "archive", queue, "--once", *at, "-u", redis.url)["events"] == 300
        rows = typed(tmp_path, "report", "throughput", *at, CHASQUI_SPARK_MASTER="nowhere")
        assert sum(row["completed"] for row in rows) == 300, "only the warm one can have answered"
        numbered_events(link, queue, 100, first=300)
        assert typed(tmp_path, "archive", queue, "--once", *at, "-u", redis.url)["events"] == 100
        rows = typed(tmp_path, "report", "throughput", *at, CHASQUI_SPARK_MASTER="nowhere")
        assert sum(row["completed"] for row in rows) == 400, "what came since must be seen"
        for _ in range(2):
            assert typed(tmp_path, "rollup", *at, CHASQUI_SPARK_MASTER="nowhere")["minutes"] > 0
            rows = typed(tmp_path, "report", "throughput", "--from-rollup", *at, CHASQUI_SPARK_MASTER="nowhere")
            assert sum(row["completed"] for row in rows) == 400
        [day] = typed(tmp_path, "compact", *at, "--before", "2100-01-01", CHASQUI_SPARK_MASTER="nowhere")
        assert (day["rows"], day["files_after"]) == (400, 1)
        rows = typed(tmp_path, "report", "throughput", *at, CHASQUI_SPARK_MASTER="nowhere")
        assert sum(row["completed"] for row in rows) == 400
        warm = find_running(tmp_path / ".local/state/chasqui")
        assert warm
        parts = typed(tmp_path, "doctor", *at, "--remote", warm.url, "-u", redis.url)
        assert [one["check"] for one in parts] == ["python", "packages", "server", "spark", "archive"]
        assert warm.token not in str(parts)
        stranger = start(tmp_path, "report", "gaps", *at, "--remote", result["url"])
        _, output = stranger.communicate(timeout=120)
        assert stranger.returncode == 1, "without the token nobody may use it"
        assert output.startswith("error: that Spark does not let us in\nhint: "), output
    finally:
        assert typed(tmp_path, "down")["running"] is False
    assert typed(tmp_path, "status", *at)["running"] is False
