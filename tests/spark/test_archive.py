"""An archive of made-up days: whole, accounted for, compacted, rolled up, and every report equal to a plain loop."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from chasqui import loading
from chasqui.errors import ConfigError, Conflict, ServerError
from chasqui.server.link import Link
from chasqui.spark import archive as archiver
from chasqui.spark import bulk, exactly, layout, reports, upkeep
from chasqui.spark.archive import Plan, Totals
from chasqui.spark.layout import Archive
from chasqui.spark.reports import Question
from chasqui.sync_queue import SyncQueue
from chasqui.wire import envelope
from chasqui.wire.keys import Keys
from tests.servers import spawn
from tests.spark import brute
from tests.spark.scenes import Happening, ask, past, some_events, tell

QUEUE = "archived"
JOBS = 1500


def once(spark: Any, place: Path, reach: dict[str, str], *queues: str, **more: Any) -> Totals:
    plan = Plan(Archive(str(place)), reach, queues, once=True, **more)
    return archiver.run(spark, plan)


@pytest.fixture(scope="module")
def happenings() -> list[Happening]:
    return past(JOBS)


@pytest.fixture(scope="module")
def kept(
    spark: Any, link: Link, redis: Any, happenings: list[Happening], tmp_path_factory: pytest.TempPathFactory
) -> Archive:
    """Three days of one queue in several batches, and its dead letters."""
    place = tmp_path_factory.mktemp("archive")
    tell(link, QUEUE, happenings)
    with SyncQueue(QUEUE, link=link) as queue:
        for n in range(4):
            queue.add("mail", {"n": n})
    for number, (_, fields) in enumerate(ask(link, "XRANGE", Keys(QUEUE).stream, "-", "+")):
        detail = f"no account 'u{number}'" if number < 3 else "timeout"
        ask(
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
    ask(link, "XADD", Keys(QUEUE).dlq, "*", "d", b"\xc1", "source_id", "1-0", "reason", "decode_failed")
    for one in [one for one in happenings if one.event.kind == "dlq"][:8]:
        [d] = loading.make_envelopes([one.event.job_id or ""], [b"\x80"], one.ms)
        words = ("d", d, "n", one.event.name, "source_id", "1-0", "reason", "retries_exhausted")
        ask(link, "XADD", Keys(QUEUE).dlq, "*", *words)
    totals = once(spark, place, {"redis.url": redis.url}, QUEUE, most=2000)
    assert totals.rows == {"events": len(happenings), "dlq": 13}
    assert totals.lost == {"events": 0, "dlq": 0}
    return Archive(str(place))


def plain_rows(place: Path, table: str = "events") -> list[dict[str, Any]]:
    """The archive as somebody without Spark sees it."""
    import pyarrow.dataset as ds

    rows: list[dict[str, Any]] = ds.dataset(place / table, partitioning="hive").to_table().to_pylist()
    return rows


def test_the_archive_is_whole_for_spark_and_for_everybody_else(
    spark: Any, kept: Archive, happenings: list[Happening]
) -> None:
    assert kept.local
    expected = sorted(one.id for one in happenings)
    assert sorted(row["stream_id"] for row in plain_rows(kept.local)) == expected
    assert layout.read(spark, kept, "events").select("stream_id").distinct().count() == len(expected)
    newest = archiver.latest(kept, "events")
    assert newest
    assert archiver.sums(kept, "events", newest.batch)["rows"] == len(expected)


def test_compacting_keeps_every_row_once_in_few_files(
    spark: Any, kept: Archive, happenings: list[Happening]
) -> None:
    assert kept.local
    day = min((kept.local / "events" / f"queue={QUEUE}").glob("dt=*"))
    batch = min(day.glob("batch=*"))
    twin = day / "batch=999"
    twin.mkdir()
    for file in batch.glob("*.parquet"):
        (twin / file.name).write_bytes(file.read_bytes())
    done = upkeep.compact(spark, kept, ("events",), before="2100-01-01")
    assert sum(one.rows for one in done) == len(happenings)
    assert sum(one.repeated for one in done) > 0
    assert sorted(row["stream_id"] for row in plain_rows(kept.local)) == sorted(one.id for one in happenings)
    assert len(list((kept.local / "events").glob("**/*.parquet"))) == len(done)
    assert upkeep.compact(spark, kept, ("events",), before="2100-01-01") == []


def test_a_swap_that_was_killed_is_finished_by_the_next_run(tmp_path: Path) -> None:
    old = tmp_path / "_replaced" / "events" / "queue=q" / "dt=2026-01-01"
    staged = tmp_path / "_compacting" / "events" / "queue=q" / "dt=2026-01-01"
    day = tmp_path / "events" / "queue=q" / "dt=2026-01-01"
    for place in (old / "batch=1", old / "batch=2", staged / "batch=-1", day.parent):
        place.mkdir(parents=True)
    (staged / "_known").write_text("batch=1")
    upkeep.recover(Archive(str(tmp_path)))
    assert sorted(one.name for one in day.iterdir()) == ["batch=-1", "batch=2"]
    assert not old.exists()


EXACT = {
    "throughput": lambda events: brute.throughput(events, QUEUE, 60_000),
    "latency": lambda events: brute.latency(events, QUEUE),
    "retries": lambda events: brute.retries(events, QUEUE),
    "failures": lambda events: brute.failures(events, QUEUE, 20),
    "sla": lambda events: brute.sla(events, QUEUE, 20_000),
    "slowest": lambda events: brute.slowest(events, QUEUE, 20),
    "heatmap": lambda events: brute.heatmap(events, QUEUE),
}


@pytest.mark.parametrize("name", EXACT)
def test_a_report_equals_a_plain_loop_to_the_digit(
    spark: Any, kept: Archive, happenings: list[Happening], name: str
) -> None:
    found = reports.report(spark, kept, name, Question(sla_ms=20_000))
    assert found == EXACT[name](happenings)
    assert found


def test_a_timeline_and_a_diff_equal_plain_loops(
    spark: Any, kept: Archive, happenings: list[Happening]
) -> None:
    job_id = next(one.event.job_id for one in happenings if one.event.kind == "dlq")
    assert job_id
    found = reports.report(spark, kept, "timeline", Question(job_id=job_id))
    assert found == brute.timeline(happenings, QUEUE, job_id)
    hardest = max(happenings, key=lambda one: (one.event.attempt or 0, one.ms, one.seq)).event.job_id
    assert hardest
    assert reports.report(spark, kept, "timeline", Question()) == brute.timeline(happenings, QUEUE, hardest)
    at_ms, span_ms = happenings[len(happenings) // 3].ms, 36_000_000
    found = reports.report(spark, kept, "diff", Question(at_ms=at_ms, span_ms=span_ms))
    assert found == brute.diff(happenings, QUEUE, at_ms, span_ms)


def test_a_part_of_the_time_is_reported_alone(spark: Any, kept: Archive, happenings: list[Happening]) -> None:
    since, until = happenings[400].ms, happenings[2000].ms
    part = [one for one in happenings if since <= one.ms < until]
    found = reports.report(spark, kept, "retries", Question(since_ms=since, until_ms=until))
    assert found == brute.retries(part, QUEUE)


def test_dead_letters_gather_by_what_killed_them(
    spark: Any, link: Link, kept: Archive, happenings: list[Happening]
) -> None:
    """By their detail, or by the last failure of their job; and those that hold no job at all."""
    letters = ask(link, "XRANGE", Keys(QUEUE).dlq, "-", "+")
    found = reports.report(spark, kept, "dead", Question())
    assert found == brute.dead(letters, happenings, QUEUE, 20)
    assert found[0] | {"first_ms": 0, "last_ms": 0, "sample_job_id": ""} == {
        "queue": QUEUE, "reason": "unrecoverable", "name": "mail", "error": "no account <text>", "letters": 3,
        "first_ms": 0, "last_ms": 0, "sample_job_id": "",
    }  # fmt: skip
    assert sum(row["letters"] for row in found) == len(letters) == 13


def test_rollups_answer_within_one_per_cent_and_count_exactly(
    spark: Any, kept: Archive, happenings: list[Happening]
) -> None:
    upkeep.rollup(spark, kept)
    assert upkeep.rollup(spark, kept) > 0
    hourly = Question(from_rollup=True, bucket_ms=3_600_000)
    assert reports.report(spark, kept, "throughput", hourly) == brute.throughput(happenings, QUEUE, 3_600_000)
    exact = {row["name"]: row for row in brute.latency(happenings, QUEUE)}
    for row in reports.report(spark, kept, "latency", Question(from_rollup=True)):
        for measure in ("run_us", "wait_ms", "e2e_ms"):
            values = sorted(_values(happenings, row["name"], measure))
            for n, share in ((50, 0.5), (95, 0.95), (99, 0.99)):
                rank = sum(value <= row[f"{measure}_p{n}"] for value in values) / len(values)
                assert abs(rank - share) <= 0.01 + 1 / len(values), (row["name"], measure, n)
        assert row["completed"] == exact[row["name"]]["completed"]


def _values(happenings: list[Happening], name: str, measure: str) -> list[int]:
    mine = [one for one in happenings if one.event.name == name]
    if measure == "run_us":
        return [one.event.duration_us or 0 for one in mine if one.event.kind in ("completed", "failed")]
    if measure == "wait_ms":
        return [brute.age(one) or 0 for one in mine if one.event.kind == "active" and one.event.attempt == 1]
    return [brute.age(one) or 0 for one in mine if one.event.kind == "completed"]


def test_archived_and_lost_is_what_was_added_under_trimming(
    spark: Any, link: Link, reach: dict[str, str], queue: str, tmp_path: Path
) -> None:
    added = 0
    totals = Totals()
    for size, left in ((1000, 700), (3000, 500), (200, 200), (900, 0)):
        some_events(link, queue, size, first=added)
        added += size
        ask(link, "XTRIM", Keys(queue).events, "MAXLEN", left)
        part = once(spark, tmp_path, reach, queue, tables=("events",), most=600)
        for label in ("rows", "lost"):
            sums = getattr(totals, label)
            sums["events"] = sums.get("events", 0) + getattr(part, label).get("events", 0)
    first_trim = 300  # gone before the archive began, and so nobody's loss
    assert totals.rows["events"] + totals.lost["events"] + first_trim == added
    gaps = reports.report(spark, Archive(str(tmp_path)), "gaps", Question())
    assert (
        sum(row["lost"] for row in gaps)
        == totals.lost["events"]
        == added - first_trim - totals.rows["events"]
    )


def test_gaps_are_told_to_the_digit(
    spark: Any, link: Link, reach: dict[str, str], queue: str, tmp_path: Path
) -> None:
    key = Keys(queue).events
    told: list[str] = []
    expected, archived = [], 0
    for size, left in ((300, 300), (400, 150), (50, 50), (200, 0), (70, 69)):
        some_events(link, queue, size, first=len(told))
        told += [entry_id.decode() for entry_id, _ in ask(link, "XRANGE", key, "-", "+")][-size:]
        ask(link, "XTRIM", key, "MAXLEN", left)
        lost = len(told) - left - archived
        if lost > 0:
            last = told[archived - 1]
            row = {"stream_id": last, "ms": int(last.split("-")[0]), "reason": "trimmed", "lost": lost}
            expected.append({"queue": queue} | row)
        totals = once(spark, tmp_path, reach, queue, tables=("events",))
        assert totals.lost["events"] == max(0, lost)
        archived = len(told)
    assert len(expected) == 3
    assert reports.report(spark, Archive(str(tmp_path)), "gaps", Question()) == expected


@pytest.mark.parametrize("few", [0, 10_000_000])
def test_percentiles_are_the_same_whether_rows_are_few_or_many(
    spark: Any, kept: Archive, happenings: list[Happening], monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    monkeypatch.setattr(exactly, "FEW", few)
    assert reports.report(spark, kept, "latency", Question()) == brute.latency(happenings, QUEUE)
    at_ms, span_ms = happenings[len(happenings) // 2].ms, 7_200_000
    found = reports.report(spark, kept, "diff", Question(at_ms=at_ms, span_ms=span_ms))
    assert found == brute.diff(happenings, QUEUE, at_ms, span_ms)


def test_an_archive_that_runs_on_warms_up_waits_out_a_restart_and_ends_when_asked(
    spark: Any, queue: str, tmp_path: Path
) -> None:
    said: list[str] = []
    with spawn("redis-7.0", args=("--appendonly", "yes")) as server:
        with Link.open(server.url) as link:
            some_events(link, queue, 200)
        place = Archive(str(tmp_path))
        reach = {"redis.url": server.url, "retryFor": "30"}
        plan = Plan(place, reach, (queue,), ("events",), trigger_s=0.2, warm_up_s=0.1)
        seen: list[int] = []

        def told(account: archiver.Account) -> None:
            seen.append(account.rows)
            if sum(seen) == 200:
                server.restart()
                with Link.open(server.url) as again:
                    some_events(again, queue, 50, first=200)

        totals = archiver.run(spark, plan, tell=told, say=said.append, ended=lambda: sum(seen) >= 250)
    assert totals.rows["events"] == 250
    assert totals.lost["events"] == 0
    assert "warming up" in said


def test_sums_that_do_not_come_out_stop_the_archive() -> None:
    account = archiver.Account("events", 7, 10, 1, 12)
    with pytest.raises(
        ServerError, match="batch 7 of events does not add up: 10 archived and 1 lost, but 12 planned"
    ):
        archiver.check(account)
    archiver.check(replace(account, planned=11))


def test_one_archive_has_one_writer_and_a_place_that_can_be_written(
    spark: Any, reach: dict[str, str], queue: str, tmp_path: Path
) -> None:
    import fcntl

    with (tmp_path / "_lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(Conflict, match="somebody else archives to"):
            once(spark, tmp_path, reach, queue)
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot write the archive"):
        once(spark, tmp_path / "file" / "below", reach, queue)


def test_archived_letters_are_replayed_once_as_jobs_that_never_ran(
    spark: Any, link: Link, reach: dict[str, str], kept: Archive, queue: str
) -> None:
    letters = bulk.letters_of(spark, kept, QUEUE, name="ma*", where="detail LIKE 'no account%'")
    for _ in range(2):
        bulk.write(bulk.revived(letters), queue, "replay", reach)
    rows = ask(link, "XRANGE", Keys(queue).stream, "-", "+")
    found = [envelope.decode(fields[1]) for _, fields in rows]
    assert sorted(job.payload.data()["n"] for job in found) == [0, 1, 2]
    assert {job.attempt for job in found} == {0}


def test_files_become_jobs_that_carry_what_the_rows_say(
    spark: Any, link: Link, reach: dict[str, str], queue: str, tmp_path: Path
) -> None:
    rows = [{"to": "ada", "n": 1}, {"to": "ada", "n": 1}, {"deep": {"list": [1, 2.5, None]}}, "just text"]
    file = tmp_path / "jobs.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows) + "\n")
    lines = bulk.lines_of(spark, [str(file)], "jsonl")
    shape = bulk.Shape("mail")
    assert bulk.check(lines, shape) == bulk.Checked(4, 0)
    for _ in range(2):
        bulk.write(bulk.jobs_of(lines, shape, "r", 1_794_741_208_048), queue, "r", reach)
    entries = ask(link, "XRANGE", Keys(queue).stream, "-", "+")
    found = [envelope.decode(fields[1]) for _, fields in entries]
    assert sorted(json.dumps(job.payload.data()) for job in found) == sorted(json.dumps(row) for row in rows)
    assert {job.created_at_ms for job in found} == {1_794_741_208_048}


def test_rows_that_are_no_jobs_are_found_before_anything_is_written(spark: Any, tmp_path: Path) -> None:
    file = tmp_path / "jobs.csv"
    file.write_text("id,to,at\n1,ada,5\n,bob,6\n3,cyd,soon\n")
    lines = bulk.lines_of(spark, [str(file)], "csv")
    found = bulk.check(lines, bulk.Shape(id_field="id", run_at_field="at"))
    assert (found.rows, found.bad) == (3, 2)
    assert "field 'at' is no time in ms" in (found.sample or "")
