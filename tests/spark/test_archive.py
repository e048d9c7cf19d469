"""An archive of made-up days: whole, accounted for, compacted, rolled up, and every report equal to a plain loop."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from chasqui.errors import (
    AuthRefused,
    ChasquiError,
    ConfigError,
    Conflict,
    NotFound,
    ServerError,
    Unreachable,
)
from chasqui.produce import bulk_load
from chasqui.server.link import Link
from chasqui.spark import archiver as archiver
from chasqui.spark import bulk_jobs, error_decoding, layout, maintenance, percentiles, reports
from chasqui.spark.archiver import ArchivePlan, RunTotals
from chasqui.spark.layout import Archive
from chasqui.spark.reports import ReportQuery
from chasqui.sync_queue import SyncQueue
from chasqui.wire import envelope
from chasqui.wire.keys import Keys
from pyspark_chasqui import error_marks
from tests.spark import plain_reports
from tests.support.seeds.event_history import (
    PastEvent,
    made_up_events,
    numbered_events,
    run_flow,
    write_events,
)
from tests.support.servers.server import start_server

QUEUE = "archived"
JOBS = 1500


def once(spark: Any, place: Path, reach: dict[str, str], *queues: str, **more: Any) -> RunTotals:
    plan = ArchivePlan(Archive(str(place)), reach, queues, once=True, **more)
    return archiver.archive_queues(spark, plan)


def undo(place: Path, table: str) -> int:
    """As if the archive had been killed right before Spark took note of its newest batch."""
    commits = place / "_checkpoints" / table / "commits"
    newest = max(int(one.name) for one in commits.iterdir() if one.name.isdigit())
    (commits / f"{newest}").unlink()
    (commits / f".{newest}.crc").unlink(missing_ok=True)
    return newest


@pytest.fixture(scope="module")
def happenings() -> list[PastEvent]:
    return made_up_events(JOBS)


@pytest.fixture(scope="module")
def full_archive(
    spark: Any, link: Link, redis: Any, happenings: list[PastEvent], tmp_path_factory: pytest.TempPathFactory
) -> Archive:
    """Three days of one queue in several batches, and its dead letters."""
    place = tmp_path_factory.mktemp("archive")
    write_events(link, QUEUE, happenings)
    with SyncQueue(QUEUE, link=link) as queue:
        for n in range(4):
            queue.add("mail", {"n": n})
    for number, (_, fields) in enumerate(run_flow(link, "XRANGE", Keys(QUEUE).stream, "-", "+")):
        detail = f"no account 'u{number}'" if number < 3 else "timeout"
        run_flow(
            link,
            "XADD",
            Keys(QUEUE).dlq,
            "*",
            *fields,
            "source_id",
            "1-0",
            "reason",
            "unrecoverable",
            "detail",
            detail,
        )
    run_flow(link, "XADD", Keys(QUEUE).dlq, "*", "d", b"\xc1", "source_id", "1-0", "reason", "decode_failed")
    for one in [one for one in happenings if one.event.kind == "dlq"][:8]:
        [d] = bulk_load.make_envelopes([one.event.job_id or ""], [b"\x80"], one.ms)
        words = ("d", d, "n", one.event.name, "source_id", "1-0", "reason", "retries_exhausted")
        run_flow(link, "XADD", Keys(QUEUE).dlq, "*", *words)
    totals = once(spark, place, {"redis.url": redis.url}, QUEUE, max_rows=2000)
    assert totals.rows == {"events": len(happenings), "dlq": 13}
    assert totals.lost == {"events": 0, "dlq": 0}
    return Archive(str(place))


def plain_rows(place: Path, table: str = "events") -> list[dict[str, Any]]:
    """The archive's rows, read without Spark."""
    import pyarrow.dataset as ds

    rows: list[dict[str, Any]] = ds.dataset(place / table, partitioning="hive").to_table().to_pylist()
    return rows


def test_the_archive_is_whole_for_spark_and_for_everybody_else(
    spark: Any, full_archive: Archive, happenings: list[PastEvent]
) -> None:
    assert full_archive.local_root
    expected = sorted(one.id for one in happenings)
    assert sorted(row["stream_id"] for row in plain_rows(full_archive.local_root)) == expected
    assert layout.read_table(spark, full_archive, "events").select("stream_id").distinct().count() == len(expected)
    newest = archiver.newest_totals(full_archive, "events")
    assert newest
    assert archiver.totals_up_to(full_archive, "events", newest.batch)["rows"] == len(expected)


def test_compacting_keeps_every_row_once_in_few_files(
    spark: Any, full_archive: Archive, happenings: list[PastEvent]
) -> None:
    assert full_archive.local_root
    day = min((full_archive.local_root / "events" / f"queue={QUEUE}").glob("dt=*"))
    batch = min(day.glob("batch=*"))
    for file in list(batch.glob("*.parquet")):
        (batch / f"twin-{file.name}").write_bytes(file.read_bytes())
    done = maintenance.compact_days(spark, full_archive, ("events",), before="2100-01-01")
    assert sum(one.rows for one in done) == len(happenings)
    assert sum(one.repeated for one in done) > 0
    assert sorted(row["stream_id"] for row in plain_rows(full_archive.local_root)) == sorted(
        one.id for one in happenings
    )
    assert len(list((full_archive.local_root / "events").glob("**/*.parquet"))) == len(done)
    assert maintenance.compact_days(spark, full_archive, ("events",), before="2100-01-01") == []


def test_a_swap_that_was_killed_is_finished_by_the_next_run(tmp_path: Path) -> None:
    old = tmp_path / "_replaced" / "events" / "queue=q" / "dt=2026-01-01"
    staged = tmp_path / "_compacting" / "events" / "queue=q" / "dt=2026-01-01"
    day = tmp_path / "events" / "queue=q" / "dt=2026-01-01"
    for place in (old / "batch=1", old / "batch=2", staged / "batch=-1", day.parent):
        place.mkdir(parents=True)
    (staged / "_known").write_text("batch=1")
    maintenance.recover_swaps(Archive(str(tmp_path)))
    assert sorted(one.name for one in day.iterdir()) == ["batch=-1", "batch=2"]
    assert not old.exists()


EXACT = {
    "throughput": lambda events: plain_reports.throughput(events, QUEUE, 60_000),
    "latency": lambda events: plain_reports.latency(events, QUEUE),
    "retries": lambda events: plain_reports.retries(events, QUEUE),
    "failures": lambda events: plain_reports.failures(events, QUEUE, 20),
    "sla": lambda events: plain_reports.sla(events, QUEUE, 20_000),
    "slowest": lambda events: plain_reports.slowest(events, QUEUE, 20),
    "heatmap": lambda events: plain_reports.heatmap(events, QUEUE),
}


@pytest.mark.parametrize("name", EXACT)
def test_a_report_equals_a_plain_loop_to_the_digit(
    spark: Any, full_archive: Archive, happenings: list[PastEvent], name: str
) -> None:
    found = reports.run_report(spark, full_archive, name, ReportQuery(sla_ms=20_000))
    assert found == EXACT[name](happenings)
    assert found


def test_a_timeline_and_a_diff_equal_plain_loops(
    spark: Any, full_archive: Archive, happenings: list[PastEvent]
) -> None:
    job_id = next(one.event.job_id for one in happenings if one.event.kind == "dlq")
    assert job_id
    found = reports.run_report(spark, full_archive, "timeline", ReportQuery(job_id=job_id))
    assert found == plain_reports.timeline(happenings, QUEUE, job_id)
    hardest = max(happenings, key=lambda one: (one.event.attempt or 0, one.ms, one.seq)).event.job_id
    assert hardest
    assert reports.run_report(spark, full_archive, "timeline", ReportQuery()) == plain_reports.timeline(
        happenings, QUEUE, hardest
    )
    at_ms, span_ms = happenings[len(happenings) // 3].ms, 36_000_000
    found = reports.run_report(spark, full_archive, "diff", ReportQuery(at_ms=at_ms, span_ms=span_ms))
    assert found == plain_reports.diff(happenings, QUEUE, at_ms, span_ms)


def test_a_part_of_the_time_is_reported_alone(spark: Any, full_archive: Archive, happenings: list[PastEvent]) -> None:
    since, until = happenings[400].ms, happenings[2000].ms
    part = [one for one in happenings if since <= one.ms < until]
    found = reports.run_report(spark, full_archive, "retries", ReportQuery(since_ms=since, until_ms=until))
    assert found == plain_reports.retries(part, QUEUE)


def test_dead_letters_gather_by_what_killed_them(
    spark: Any, link: Link, full_archive: Archive, happenings: list[PastEvent]
) -> None:
    """By their detail, or by the last failure of their job; and those that hold no job at all."""
    letters = run_flow(link, "XRANGE", Keys(QUEUE).dlq, "-", "+")
    found = reports.run_report(spark, full_archive, "dead", ReportQuery())
    assert found == plain_reports.dead(letters, happenings, QUEUE, 20)
    assert found[0] | {"first_ms": 0, "last_ms": 0, "sample_job_id": ""} == {
        "queue": QUEUE, "reason": "unrecoverable", "name": "mail", "error": "no account <text>", "letters": 3,
        "first_ms": 0, "last_ms": 0, "sample_job_id": "",
    }  # fmt: skip
    assert sum(row["letters"] for row in found) == len(letters) == 13


def test_rollups_answer_within_one_per_cent_and_count_exactly(
    spark: Any, full_archive: Archive, happenings: list[PastEvent]
) -> None:
    maintenance.roll_up(spark, full_archive)
    assert maintenance.roll_up(spark, full_archive) > 0
    hourly = ReportQuery(from_rollup=True, bucket_ms=3_600_000)
    assert reports.run_report(spark, full_archive, "throughput", hourly) == plain_reports.throughput(
        happenings, QUEUE, 3_600_000
    )
    exact = {row["name"]: row for row in plain_reports.latency(happenings, QUEUE)}
    for row in reports.run_report(spark, full_archive, "latency", ReportQuery(from_rollup=True)):
        assert row == pytest.approx(exact[row["name"]]), "a few thousand values are all in the sketch"


def test_of_rollups_only_minutes_that_are_wholly_asked_about_count(
    spark: Any, full_archive: Archive, happenings: list[PastEvent]
) -> None:
    maintenance.roll_up(spark, full_archive)
    since, until = happenings[400].ms, happenings[2000].ms
    assert since % 60_000
    assert until % 60_000
    first, last = since - since % 60_000 + 60_000, until - until % 60_000
    part = [one for one in happenings if first <= one.ms < last]
    expected = plain_reports.throughput(part, QUEUE, 60_000)
    for end in (until, last):
        asked = ReportQuery(from_rollup=True, since_ms=since, until_ms=end)
        assert reports.run_report(spark, full_archive, "throughput", asked) == expected


def test_archived_and_lost_is_what_was_added_under_trimming(
    spark: Any, link: Link, data_source_options: dict[str, str], queue: str, tmp_path: Path
) -> None:
    added = 0
    totals = RunTotals()
    for size, left in ((1000, 700), (3000, 500), (200, 200), (900, 0)):
        numbered_events(link, queue, size, first=added)
        added += size
        run_flow(link, "XTRIM", Keys(queue).events, "MAXLEN", left)
        part = once(spark, tmp_path, data_source_options, queue, tables=("events",), max_rows=600)
        for label in ("rows", "lost"):
            sums = getattr(totals, label)
            sums["events"] = sums.get("events", 0) + getattr(part, label).get("events", 0)
    first_trim = 300  # gone before the archive began, and so not counted as lost
    assert totals.rows["events"] + totals.lost["events"] + first_trim == added
    gaps = reports.run_report(spark, Archive(str(tmp_path)), "gaps", ReportQuery())
    assert sum(row["lost"] for row in gaps) == totals.lost["events"] == added - first_trim - totals.rows["events"]


def test_jobs_without_a_creation_time_have_no_age(
    spark: Any, link: Link, data_source_options: dict[str, str], queue: str, tmp_path: Path
) -> None:
    """Without a time, only a ULID dates a job; an unknown age is null, not zero."""
    numbered_events(link, queue, 10)
    for event in ("active", "completed"):
        words = ("e", event, "id", "job-x", "ts", 5, "n", "mail", "attempt", 1, "duration_us", 5)
        run_flow(link, "XADD", Keys(queue).events, "*", *words)
    once(spark, tmp_path, data_source_options, queue, tables=("events",))
    archive = Archive(str(tmp_path))
    maintenance.roll_up(spark, archive)
    for from_rollup in (False, True):
        [row] = reports.run_report(spark, archive, "latency", ReportQuery(from_rollup=from_rollup))
        assert (row["completed"], row["run_us_p50"]) == (11, 5)
        assert {row[f"{measure}_p{n}"] for measure in ("wait_ms", "e2e_ms") for n in (50, 95, 99)} == {None}
    assert reports.run_report(spark, archive, "sla", ReportQuery(sla_ms=0)) == []


def test_an_archive_may_be_at_a_path_of_any_letters(
    spark: Any, link: Link, data_source_options: dict[str, str], queue: str, tmp_path: Path
) -> None:
    place = tmp_path / "jobs[1] {a,b}*?\\ %20"
    numbered_events(link, queue, 30)
    once(spark, place, data_source_options, queue, tables=("events",))
    numbered_events(link, queue, 20, first=30)
    once(spark, place, data_source_options, queue, tables=("events",))
    archive = Archive(str(place))
    [day] = maintenance.compact_days(spark, archive, ("events",), before="2100-01-01")
    assert (day.rows, day.files_after) == (50, 1)
    maintenance.roll_up(spark, archive)
    for from_rollup in (False, True):
        rows = reports.run_report(spark, archive, "throughput", ReportQuery(from_rollup=from_rollup))
        assert sum(row["completed"] for row in rows) == 50


@pytest.mark.parametrize("far", [9_223_372_036_854_775_807, -9_223_372_036_854_775_807])
def test_no_report_fails_for_made_up_numbers(
    spark: Any, link: Link, data_source_options: dict[str, str], queue: str, tmp_path: Path, far: int
) -> None:
    key = Keys(queue).events
    for number, event in enumerate(("active", "completed", "failed", "dlq") * 3):
        words = (
            "e",
            event,
            "id",
            "01M7FEK0ZGBZK5R25VVNHVQ28Q",
            "ts",
            far if number % 2 else -far,
            "n",
            "mail",
        )
        run_flow(
            link, "XADD", key, f"{9_300_000_000_000_000 + number}-0", *words, "attempt", 1,
            "duration_us", far if event == "completed" else -far,
        )  # fmt: skip
    once(spark, tmp_path, data_source_options, queue, tables=("events",))
    archive = Archive(str(tmp_path))
    assert maintenance.roll_up(spark, archive) == 1
    for name in reports.REPORTS:
        for from_rollup in (False, True):
            found = reports.run_report(spark, archive, name, ReportQuery(from_rollup=from_rollup))
            assert found or name in ("gaps", "dead", "sla"), name


def test_gaps_are_reported_exactly(
    spark: Any, link: Link, data_source_options: dict[str, str], queue: str, tmp_path: Path
) -> None:
    key = Keys(queue).events
    written: list[str] = []
    expected, archived = [], 0
    for size, left in ((300, 300), (400, 150), (50, 50), (200, 0), (70, 69)):
        numbered_events(link, queue, size, first=len(written))
        written += [entry_id.decode() for entry_id, _ in run_flow(link, "XRANGE", key, "-", "+")][-size:]
        run_flow(link, "XTRIM", key, "MAXLEN", left)
        lost = len(written) - left - archived
        if lost > 0:
            last = written[archived - 1]
            row = {"stream_id": last, "ms": int(last.split("-")[0]), "reason": "trimmed", "lost": lost}
            expected.append({"queue": queue} | row)
        totals = once(spark, tmp_path, data_source_options, queue, tables=("events",))
        assert totals.lost["events"] == max(0, lost)
        archived = len(written)
    assert len(expected) == 3
    assert reports.run_report(spark, Archive(str(tmp_path)), "gaps", ReportQuery()) == expected


@pytest.mark.parametrize("few", [0, 10_000_000])
def test_percentiles_are_the_same_whether_rows_are_few_or_many(
    spark: Any, full_archive: Archive, happenings: list[PastEvent], monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    monkeypatch.setattr(percentiles, "MAX_SORTED_ROWS", few)
    assert reports.run_report(spark, full_archive, "latency", ReportQuery()) == plain_reports.latency(happenings, QUEUE)
    at_ms, span_ms = happenings[len(happenings) // 2].ms, 7_200_000
    found = reports.run_report(spark, full_archive, "diff", ReportQuery(at_ms=at_ms, span_ms=span_ms))
    assert found == plain_reports.diff(happenings, QUEUE, at_ms, span_ms)


def test_an_archive_that_runs_on_warms_up_waits_out_a_restart_and_ends_when_asked(
    spark: Any, queue: str, tmp_path: Path
) -> None:
    logged: list[str] = []
    with start_server("redis-7.0", args=("--appendonly", "yes")) as server:
        with Link.open(server.url) as link:
            numbered_events(link, queue, 200)
        place = Archive(str(tmp_path))
        reach = {"redis.url": server.url, "retryFor": "30"}
        plan = ArchivePlan(place, reach, (queue,), ("events",), trigger_s=0.2, warm_up_s=0.1)
        seen: list[int] = []

        def add_more(account: archiver.BatchTotals) -> None:
            seen.append(account.rows)
            if sum(seen) == 200:
                server.restart()
                with Link.open(server.url) as again:
                    numbered_events(again, queue, 50, first=200)

        totals = archiver.archive_queues(
            spark, plan, on_batch=add_more, log=logged.append, should_stop=lambda: sum(seen) >= 250
        )
    assert totals.rows["events"] == 250
    assert totals.lost["events"] == 0
    assert "warming up" in logged


def test_a_stream_that_may_soon_overtake_the_archive_is_warned_of_once(
    spark: Any,
    link: Link,
    data_source_options: dict[str, str],
    queue: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(archiver, "EVENTS_CAP", 5)
    logged: list[str] = []
    batches: list[archiver.BatchTotals] = []

    def add_more(account: archiver.BatchTotals) -> None:
        batches.append(account)
        numbered_events(link, queue, 50)

    numbered_events(link, queue, 50)
    plan = ArchivePlan(
        Archive(str(tmp_path)),
        data_source_options,
        (queue,),
        ("events",),
        trigger_s=0.1,
        gather_s=0,
        warm_up_s=0,
    )
    archiver.archive_queues(spark, plan, on_batch=add_more, log=logged.append, should_stop=lambda: len(batches) >= 6)
    nothing = SimpleNamespace(sources=[SimpleNamespace(latestOffset=None)], timestamp="2026-11-18T00:00:00.000Z")
    assert archiver.queues_too_fast(nothing, nothing) == {}
    [warning] = logged
    assert re.fullmatch(
        rf"warning: {queue} tells [\d,]+ events a second, and a batch takes [\d.]+ s: where workers trim at 5, "
        r"their default, events may soon be lost unread; raise events_cap",
        warning,
    )


def test_sums_that_do_not_come_out_stop_the_archive() -> None:
    account = archiver.BatchTotals("events", 7, 10, 1, 12)
    with pytest.raises(ServerError, match="batch 7 of events does not add up: 10 archived and 1 lost, but 12 planned"):
        archiver.check_totals(account)
    archiver.check_totals(replace(account, planned=11))


def test_events_of_no_known_kind_are_archived_and_counted_as_any_other(
    spark: Any, link: Link, data_source_options: dict[str, str], queue: str, tmp_path: Path
) -> None:
    """Other programs can write into a stream; their entries are not gaps, and do not stop the archive."""
    numbered_events(link, queue, 10)
    once(spark, tmp_path, data_source_options, queue, tables=("events",))
    odd = (
        ("id", "odd", "ts", 5),
        ("e", "chasqui.gap", "id", "odd", "ts", 6),
        ("e", "chasqui.gap", "id", "odd", "ts", 7, "reason", "trimmed", "lost", 9),
    )
    for words in odd:
        run_flow(link, "XADD", Keys(queue).events, "*", *words)
    totals = once(spark, tmp_path, data_source_options, queue, tables=("events",))
    assert (totals.rows["events"], totals.lost["events"]) == (3, 0)
    archive = Archive(str(tmp_path))
    assert reports.run_report(spark, archive, "gaps", ReportQuery()) == []
    found = reports.run_report(spark, archive, "timeline", ReportQuery(job_id="odd"))
    assert [row["since_ms"] for row in found] == [None, 1, 1]
    assert found[0]["event"] is None


def test_a_server_that_cannot_answer_yet_is_waited_for_as_one_that_is_away(
    spark: Any, queue: str, tmp_path: Path
) -> None:
    """A replica without its master, for longer than the data source itself waits."""
    logged: list[str] = []
    with start_server("redis-7.0", args=("--replica-serve-stale-data", "no")) as server:
        with Link.open(server.url) as link:
            numbered_events(link, queue, 20)
        server.run_command("REPLICAOF", "127.0.0.1", "1")

        def on_log(line: str) -> None:
            logged.append(line)
            server.run_command("REPLICAOF", "NO", "ONE")

        reach = {"redis.url": server.url, "retryFor": "0"}
        plan = ArchivePlan(Archive(str(tmp_path)), reach, (queue,), ("events",), once=True)
        totals = archiver.archive_queues(spark, plan, log=on_log)
    assert totals.rows["events"] == 20
    assert "MASTERDOWN" in logged[0]
    assert logged[0].endswith("; trying again (the replica has lost its master; try again)")


@pytest.mark.parametrize(
    ("error", "is_transient"),
    [
        (ServerError("loading", transient=True, code="LOADING"), True),
        (ServerError("aborted", hint="one was refused", code="EXECABORT"), True),
        (ServerError("moved", code="MOVED"), True),
        (Unreachable("away"), True),
        (AuthRefused("no", hint="ask", code="NOPERM"), False),
        (ServerError("no", code="ERR"), False),
        (NotFound("nothing there"), False),
    ],
)
def test_an_error_that_may_pass_is_still_one_behind_spark(error: ChasquiError, is_transient: bool) -> None:
    with pytest.raises(error_marks.MarkedError) as raised, error_marks.marked_errors():
        raise error
    found = error_decoding.decode_error(f"Traceback\n  at java\n{raised.value}\n  at java")
    assert (type(found), str(found), found.hint) == (type(error), str(error), error.hint)
    assert getattr(found, "transient", False) is is_transient


def test_sums_that_do_not_add_up_raise_an_error_of_ours(
    spark: Any,
    link: Link,
    data_source_options: dict[str, str],
    queue: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    numbered_events(link, queue, 10)
    monkeypatch.setattr(archiver, "expected_entries", lambda begins, ends: 11)
    with pytest.raises(
        ServerError, match=r"^batch 0 of events does not add up: 10 archived and 0 lost, but 11 planned$"
    ) as raised:
        once(spark, tmp_path, data_source_options, queue, tables=("events",))
    assert raised.value.hint == "stop, keep the archive as it is, and report this: it should be impossible"


def test_the_sums_of_a_batch_that_is_written_again_are_reported_again(
    spark: Any, link: Link, data_source_options: dict[str, str], queue: str, tmp_path: Path
) -> None:
    """It was killed before Spark knew of its end, and what it had read is trimmed since."""
    for _ in range(2):
        numbered_events(link, queue, 10)
        assert once(spark, tmp_path, data_source_options, queue, tables=("events",)).rows["events"] == 10
    undo(tmp_path, "events")
    run_flow(link, "XTRIM", Keys(queue).events, "MAXLEN", 4)
    totals = once(spark, tmp_path, data_source_options, queue, tables=("events",))
    assert (totals.rows["events"], totals.lost["events"]) == (4, 6)
    archive = Archive(str(tmp_path))
    assert sum(row["lost"] for row in reports.run_report(spark, archive, "gaps", ReportQuery())) == 6
    assert archiver.totals_up_to(archive, "events", 1) == {"batch": 1, "rows": 14, "lost": 6}


def test_an_archive_without_its_checkpoint_is_not_written_over(
    spark: Any, link: Link, data_source_options: dict[str, str], queue: str, tmp_path: Path
) -> None:
    numbered_events(link, queue, 10)
    once(spark, tmp_path, data_source_options, queue, tables=("events",))
    shutil.rmtree(tmp_path / "_checkpoints")
    with pytest.raises(ConfigError, match="holds events, but not how far they were archived") as refused:
        once(spark, tmp_path, data_source_options, queue, tables=("events",))
    assert refused.value.hint == ("archive to another directory: here, the first batches would replace old ones")
    assert len(plain_rows(tmp_path)) == 10


def test_queues_that_no_directory_can_be_named_after_are_stored_under_a_hash(spark: Any, tmp_path: Path) -> None:
    names = ["", "x" * 249, "x" * 250, "é" * 130, "{" * 90, "a\0b", "__HIVE_DEFAULT_PARTITION__", "plain"]
    with start_server("redis-8.6") as server:
        with Link.open(server.url) as link:
            for count, name in enumerate(names, 1):
                numbered_events(link, name, count)
        totals = once(spark, tmp_path, {"redis.url": server.url}, tables=("events",))
    assert totals.rows["events"] == 36
    archive = Archive(str(tmp_path))
    directories = [layout.directory_name(name) for name in names]
    assert [name for name, directory in zip(names, directories, strict=True) if name == directory] == [
        "x" * 249,
        "plain",
    ]
    assert directories[0] == "~e3b0c44298fc1c14"
    assert directories[5].startswith("a_b~")
    rows = layout.read_table(spark, archive, "events")
    assert dict(rows.groupBy("queue").count().collect()) == dict(zip(directories, range(1, 9), strict=True))
    for count, name in enumerate(names, 1):
        assert layout.filter_rows(rows, [name]).count() == count


def test_queues_with_odd_names_can_be_named(
    spark: Any, link: Link, data_source_options: dict[str, str], queue: str, tmp_path: Path
) -> None:
    names = [f"{queue},b", f" {queue} "]
    for name in names:
        numbered_events(link, name, 10)
    assert once(spark, tmp_path, data_source_options, *names, tables=("events",)).rows["events"] == 20
    found = layout.read_table(spark, Archive(str(tmp_path)), "events").select("queue").distinct().collect()
    assert sorted(row.queue for row in found) == sorted(names)


def test_events_of_no_known_day_are_stored_at_the_end_of_days(
    spark: Any, link: Link, data_source_options: dict[str, str], queue: str, tmp_path: Path
) -> None:
    for number, ms in enumerate((5, 253_402_300_799_999, 253_402_300_800_000, 2**63, 2**64 - 1)):
        run_flow(link, "XADD", Keys(queue).events, f"{ms}-7", "e", "completed", "id", f"job-{number}", "ts", ms)
    totals = once(spark, tmp_path, data_source_options, queue, tables=("events",))
    assert totals.rows["events"] == 5
    days = [day.name for day in Archive(str(tmp_path)).day_dirs("events")]
    assert days == ["dt=1970-01-01", "dt=9999-12-31"]


def test_batches_in_which_a_stream_became_another_or_joined_add_up(
    spark: Any, link: Link, data_source_options: dict[str, str], queue: str, tmp_path: Path
) -> None:
    """Rolled back by a crash, recreated, trimmed before the first read: the plan begins where the stream does."""
    key, later = Keys(queue).events, f"{queue}-later"

    def archived(*queues: str) -> tuple[int | None, int]:
        totals = once(spark, tmp_path, data_source_options, *queues, tables=("events",), accept_recreated=True)
        newest = archiver.newest_totals(Archive(str(tmp_path)), "events")
        assert newest
        assert totals.lost["events"] == 0
        return newest.planned, newest.rows

    numbered_events(link, queue, 30)
    run_flow(link, "XTRIM", key, "MAXLEN", 20)
    assert archived(queue) == (20, 20)
    rows = run_flow(link, "XRANGE", key, "-", "+")[:-5]
    run_flow(link, "DEL", key)
    for entry_id, fields in rows:
        run_flow(link, "XADD", key, entry_id, *fields)
    numbered_events(link, queue, 7)
    assert archived(queue) == (7, 7)
    run_flow(link, "DEL", key)
    numbered_events(link, queue, 9)
    assert archived(queue) == (9, 9)
    numbered_events(link, later, 40)
    run_flow(link, "XTRIM", Keys(later).events, "MAXLEN", 11)
    assert archived(queue, later) == (11, 11)


def test_one_archive_has_one_writer_and_a_place_that_can_be_written(
    spark: Any, data_source_options: dict[str, str], queue: str, tmp_path: Path
) -> None:
    import fcntl

    with (tmp_path / "_lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(Conflict, match="somebody else archives to"):
            once(spark, tmp_path, data_source_options, queue)
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot write to"):
        once(spark, tmp_path / "file" / "below", data_source_options, queue)


def test_archived_letters_are_replayed_once_as_jobs_that_never_ran(
    spark: Any, link: Link, data_source_options: dict[str, str], full_archive: Archive, queue: str
) -> None:
    letters = bulk_jobs.archived_dead_letters(spark, full_archive, QUEUE, name="ma*", where="detail LIKE 'no account%'")
    for _ in range(2):
        bulk_jobs.write_jobs(bulk_jobs.jobs_from_dead_letters(letters), queue, "replay", data_source_options)
    rows = run_flow(link, "XRANGE", Keys(queue).stream, "-", "+")
    found = [envelope.decode(fields[1]) for _, fields in rows]
    assert sorted(job.payload.data()["n"] for job in found) == [0, 1, 2]
    assert {job.attempt for job in found} == {0}


def test_files_become_jobs_with_the_data_of_their_rows(
    spark: Any, link: Link, data_source_options: dict[str, str], queue: str, tmp_path: Path
) -> None:
    rows = [{"to": "ada", "n": 1}, {"to": "ada", "n": 1}, {"deep": {"list": [1, 2.5, None]}}, "just text"]
    file = tmp_path / "jobs.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows) + "\n")
    lines = bulk_jobs.read_json_lines(spark, [str(file)], "jsonl")
    shape = bulk_jobs.RowMapping("mail")
    assert bulk_jobs.check_rows(lines, shape, 0) == bulk_jobs.FileCheck(4, 0)
    for _ in range(2):
        bulk_jobs.write_jobs(
            bulk_jobs.jobs_from_lines(lines, shape, "r", 1_794_741_208_048), queue, "r", data_source_options
        )
    entries = run_flow(link, "XRANGE", Keys(queue).stream, "-", "+")
    found = [envelope.decode(fields[1]) for _, fields in entries]
    assert sorted(json.dumps(job.payload.data()) for job in found) == sorted(json.dumps(row) for row in rows)
    assert {job.created_at_ms for job in found} == {1_794_741_208_048}


def test_rows_that_are_no_jobs_are_found_before_anything_is_written(spark: Any, tmp_path: Path) -> None:
    file = tmp_path / "jobs.csv"
    file.write_text("id,to,at\n1,ada,5\n,bob,6\n3,cyd,soon\n")
    lines = bulk_jobs.read_json_lines(spark, [str(file)], "csv")
    found = bulk_jobs.check_rows(lines, bulk_jobs.RowMapping(id_field="id", run_at_field="at"), 0)
    assert (found.rows, found.bad) == (3, 2)
    assert "field 'at' is no time in ms" in (found.sample or "")


def test_an_archive_elsewhere_reports_its_rows_and_losses(
    spark: Any, link: Link, data_source_options: dict[str, str], queue: str, tmp_path: Path
) -> None:
    """Behind a URL no accounts can be kept: the sums are counted in what was written."""
    plan = ArchivePlan(Archive(tmp_path.as_uri()), data_source_options, (queue,), once=True)
    assert plan.archive.local_root is None
    numbered_events(link, queue, 100)
    first = archiver.archive_queues(spark, plan)
    assert (first.rows, first.lost) == ({"events": 100, "dlq": 0}, {"events": 0, "dlq": 0})
    numbered_events(link, queue, 50, first=100)
    run_flow(link, "XTRIM", Keys(queue).events, "MAXLEN", 20)
    second = archiver.archive_queues(spark, plan)
    assert (second.rows["events"], second.lost["events"], second.batches) == (20, 30, 1)


def test_sums_of_old_batches_go_and_the_sum_of_all_stays(
    spark: Any,
    link: Link,
    data_source_options: dict[str, str],
    queue: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(archiver, "MAX_TOTALS_FILES", 2)
    for _ in range(4):
        numbered_events(link, queue, 10)
        once(spark, tmp_path, data_source_options, queue, tables=("events",))
    archive = Archive(str(tmp_path))
    assert sorted(one.name for one in (tmp_path / "_accounts" / "events").iterdir()) == ["2.json", "3.json"]
    assert archiver.totals_up_to(archive, "events", 3) == {"batch": 3, "rows": 40, "lost": 0}
