"""Reading queues as tables, on a real Spark and real servers: every row, every loss, no password."""

from __future__ import annotations

import gc
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from chasqui.clock import SystemClock
from chasqui.errors import ArgumentError, ChasquiError, ConfigError, NotFound, ServerError
from chasqui.server.link import Link
from chasqui.spark import error_decoding
from chasqui.spark.spark_session import SparkTarget
from chasqui.sync_queue import SyncQueue
from chasqui.wire.keys import Keys
from pyspark_chasqui import tables
from pyspark_chasqui.batch_reader import BatchReader
from pyspark_chasqui.source_options import ReadOptions
from tests.support.seeds.event_history import made_up_events, numbered_events, run_flow, write_events
from tests.support.servers.clusters import cluster_servers, sentinel_servers
from tests.support.servers.server import Server, start_server

CLOCK = SystemClock()


def read(spark: Any, reach: dict[str, str], queue: str, **options: Any) -> Any:
    named = {name: str(value) for name, value in options.items()}
    return spark.read.format("chasqui").options(**reach).option("subscribe", queue).options(**named).load()


def refusal(spark: Any, reach: dict[str, str], **options: Any) -> ChasquiError:
    with pytest.raises(ChasquiError) as refused, error_decoding.decoded_errors():
        spark.read.format("chasqui").options(**reach).options(**options).load().count()
    assert refused.value.hint
    return refused.value


def test_events_come_with_every_field_and_the_time_in_the_id(
    spark: Any, link: Link, data_source_options: dict[str, str], queue: str
) -> None:
    happenings = made_up_events(300)
    write_events(link, queue, happenings)
    rows = read(spark, data_source_options, queue).orderBy("ms", "seq").collect()
    assert len(rows) == len(happenings)
    for row, one in zip(rows, happenings, strict=True):
        event = one.event
        assert (row.queue, row.stream_id, row.ms, row.seq) == (queue, one.id, one.ms, one.seq)
        assert (row.event, row.job_id, row.ts, row.name or "") == (
            event.kind,
            event.job_id,
            event.ts,
            event.name,
        )
        assert (row.attempt, row.reason, row.duration_us, row.backoff_ms) == (
            event.attempt, event.reason, event.duration_us, event.backoff_ms,
        )  # fmt: skip
        assert BASE_MS <= row.created_ms <= row.ms


BASE_MS = 1_794_700_800_000


def test_many_slices_give_every_row_once(
    spark: Any, link: Link, data_source_options: dict[str, str], queue: str
) -> None:
    numbered_events(link, queue, 30_000)
    for options in ({"maxRecordsPerPartition": 2000}, {"fetchCount": 1000}, {}):
        rows = read(spark, data_source_options, queue, **options)
        assert rows.selectExpr("count(*)", "count(distinct job_id)", "sum(duration_us)").first() == (
            30_000, 30_000, 30_000 * 29_999 // 2,
        )  # fmt: skip


def test_bytes_that_are_no_text_and_numbers_that_are_none_are_shown_or_null(
    spark: Any, link: Link, data_source_options: dict[str, str], queue: str
) -> None:
    key = Keys(queue).events
    run_flow(
        link,
        "XADD",
        key,
        "*",
        "e",
        b"fa\xffiled",
        "id",
        b"\x1b[31m",
        "ts",
        "soon",
        "attempt",
        "99999999999",
        "x",
        "y",
    )
    run_flow(link, "XADD", key, "*", "e", "active", "e", "second", "id", "a" * 26, "attempt", "1")
    run_flow(link, "XADD", key, "*", "nothing", "known")
    first, second, third = read(spark, data_source_options, queue).orderBy("ms", "seq").collect()
    assert (first.event, first.job_id, first.ts, first.attempt) == ("fa\\xffiled", "\x1b[31m", None, None)
    assert (second.event, second.created_ms, second.attempt) == ("active", None, 1)
    assert (third.event, third.job_id) == (None, None)


def test_jobs_and_dead_letters_are_tables_too(
    spark: Any, link: Link, data_source_options: dict[str, str], queue: str
) -> None:
    with SyncQueue(queue, link=link) as jobs:
        added = [jobs.add("mail", {"n": n}) for n in range(3)]
    [(_, fields), *_] = run_flow(link, "XRANGE", Keys(queue).stream, "-", "+")
    run_flow(
        link,
        "XADD",
        Keys(queue).dlq,
        "*",
        *fields,
        "source_id",
        "7-0",
        "reason",
        "unrecoverable",
        "detail",
        "no",
    )
    run_flow(link, "XADD", Keys(queue).dlq, "*", "d", b"\xc1junk", "source_id", "8-0", "reason", "decode_failed")
    rows = read(spark, data_source_options, queue, table="stream").orderBy("ms", "seq").collect()
    assert [(row.job_id, row.name, row.created_at_ms, row.attempt) for row in rows] == [
        (job.id, "mail", job.created_at_ms, 0) for job in added
    ]
    assert bytes(rows[0].payload) == b"\x81\xa1n\x00"
    letter, junk = read(spark, data_source_options, queue, table="dlq").orderBy("ms", "seq").collect()
    assert (letter.source_id, letter.reason, letter.detail, letter.job_id) == (
        "7-0",
        "unrecoverable",
        "no",
        added[0].id,
    )
    assert (junk.reason, junk.job_id, bytes(junk.body)) == ("decode_failed", None, b"\xc1junk")


def test_a_part_can_be_read_by_columns_by_time_by_ids_and_by_filters(
    spark: Any, link: Link, data_source_options: dict[str, str], queue: str
) -> None:
    happenings = made_up_events(200)
    write_events(link, queue, happenings)
    middle = happenings[len(happenings) // 2]
    later = sum(one.ms >= middle.ms for one in happenings)
    few = (
        spark.read.format("chasqui")
        .options(**data_source_options)
        .option("subscribe", queue)
        .schema("ms BIGINT, event STRING")
    )
    assert few.load().columns == ["ms", "event"]
    assert few.load().count() == len(happenings)
    assert read(spark, data_source_options, queue, startingTimestamp=middle.ms).count() == later
    assert read(spark, data_source_options, queue, endingTimestamp=middle.ms).count() == len(happenings) - later
    after = sum((one.ms, one.seq) > (middle.ms, middle.seq) for one in happenings)
    assert read(spark, data_source_options, queue, startingOffsets=json.dumps({queue: middle.id})).count() == after
    pushed = read(spark, data_source_options, f"{queue},{queue}-other", pushdown="true").where(
        f"ms >= {middle.ms} AND queue = '{queue}'"
    )
    assert pushed.count() == later
    above_the_scan = pushed._jdf.queryExecution().executedPlan().toString().partition("BatchScan")[0]
    assert str(middle.ms) not in above_the_scan


def follow(spark: Any, reach: dict[str, str], queue: str, place: Path, **options: Any) -> list[Any]:
    """Everything there is, once, through a checkpoint; answers all rows so far."""
    named = {name: str(value) for name, value in options.items()}
    rows = spark.readStream.format("chasqui").options(**reach).option("subscribe", queue).options(**named).load()
    writer = rows.writeStream.format("parquet").option("checkpointLocation", str(place / "c"))
    with error_decoding.decoded_errors():
        query = writer.option("path", str(place / "d")).trigger(availableNow=True).start()
        query.awaitTermination()
    sizes = [one["numInputRows"] for one in query.recentProgress if one["numInputRows"]]
    return [sizes, spark.read.parquet(str(place / "d"))]


def test_a_stream_is_followed_in_batches_of_the_size_asked_for_and_goes_on_after_a_restart(
    spark: Any, link: Link, data_source_options: dict[str, str], queue: str, tmp_path: Path
) -> None:
    numbered_events(link, queue, 5000)
    sizes, rows = follow(
        spark, data_source_options, queue, tmp_path, maxOffsetsPerTrigger=2000, maxRecordsPerPartition=700
    )
    assert (sizes, rows.count()) == ([2000, 2000, 1000], 5000)
    numbered_events(link, queue, 300, first=5000)
    sizes, rows = follow(spark, data_source_options, queue, tmp_path)
    assert (sizes, rows.select("job_id").distinct().count()) == ([300], 5300)


def test_what_is_trimmed_between_two_reads_stops_a_query_or_is_counted_exactly(
    spark: Any, link: Link, data_source_options: dict[str, str], queue: str, tmp_path: Path
) -> None:
    numbered_events(link, queue, 1000)
    follow(spark, data_source_options, queue, tmp_path)
    numbered_events(link, queue, 2000, first=1000)
    run_flow(link, "XTRIM", Keys(queue).events, "MAXLEN", 500)
    with pytest.raises(ServerError, match=r"1500 events between .* \(#1000\) and .* were trimmed"):
        follow(spark, data_source_options, queue, tmp_path)
    _, rows = follow(spark, data_source_options, queue, tmp_path, failOnDataLoss="false")
    [gap] = rows.where("event = 'chasqui.gap'").collect()
    assert (gap.lost, gap.reason, gap.queue) == (1500, "trimmed", queue)
    assert rows.where("event != 'chasqui.gap'").count() == 1500


def test_a_recreated_stream_is_refused_with_both_positions_and_followed_if_accepted(
    spark: Any, link: Link, data_source_options: dict[str, str], queue: str, tmp_path: Path
) -> None:
    numbered_events(link, queue, 100)
    follow(spark, data_source_options, queue, tmp_path)
    run_flow(link, "DEL", Keys(queue).events)
    numbered_events(link, queue, 120, first=1000)
    with pytest.raises(
        ServerError, match=r"made anew: it was read up to \d+-\d+ \(#100\), and now it ends at .* \(#120\)"
    ):
        follow(spark, data_source_options, queue, tmp_path)
    _, rows = follow(spark, data_source_options, queue, tmp_path, allowRecreated="true", failOnDataLoss="false")
    assert rows.where("event != 'chasqui.gap'").count() == 220
    [gap] = rows.where("event = 'chasqui.gap'").collect()
    assert (gap.reason, gap.lost) == ("recreated", None)


def test_a_server_that_forgot_its_last_moments_is_read_on_without_doubling_anything(
    spark: Any, link: Link, data_source_options: dict[str, str], queue: str, tmp_path: Path
) -> None:
    numbered_events(link, queue, 1000)
    follow(spark, data_source_options, queue, tmp_path)
    forget(link, queue, 50)
    numbered_events(link, queue, 100, first=2000)
    with pytest.raises(ServerError, match=r"forgot its newest .* up to \d+-\d+ \(#1000\).* ends at .* \(#1050\)"):
        follow(spark, data_source_options, queue, tmp_path)
    for more in (0, 70):
        numbered_events(link, queue, more, first=2100)
        _, rows = follow(spark, data_source_options, queue, tmp_path, failOnDataLoss="false")
        assert rows.where("event = 'completed'").selectExpr("count(*)", "count(distinct job_id)").first() == (
            1100 + more, 1100 + more,
        )  # fmt: skip
    [gap] = rows.where("event = 'chasqui.gap'").collect()
    assert (gap.reason, gap.lost) == ("rolled back", None)


def forget(link: Link, queue: str, count: int) -> None:
    """What a crash does to entries that were not on the disk yet: they were never there, nor counted."""
    key = Keys(queue).events
    rows = run_flow(link, "XRANGE", key, "-", "+")[:-count]
    run_flow(link, "DEL", key)
    for entry_id, fields in rows:
        run_flow(link, "XADD", key, entry_id, *fields)


def follower(reach: dict[str, str], queue: str, **options: str) -> Any:
    """What Spark keeps on its driver, without Spark around it."""
    from pyspark.sql.types import StructType

    from pyspark_chasqui import tables
    from pyspark_chasqui.source_options import ReadOptions
    from pyspark_chasqui.stream_reader import StreamReader

    named = {} if "subscribePattern" in options else {"subscribe": queue}
    return StreamReader(ReadOptions.parse(reach | named | options), StructType.fromDDL(tables.ddl("events")))


def sums(reader: Any, slices: Any) -> tuple[int, int, set[str]]:
    """Events, and the losses in gap rows with their reasons."""
    found = [row for piece in slices for batch in reader.read(piece) for row in batch.to_pylist()]
    gaps = [row for row in found if row["event"] == "chasqui.gap"]
    return len(found) - len(gaps), sum(row["lost"] or 0 for row in gaps), {row["reason"] for row in gaps}


@pytest.mark.usefixtures("spark")  # columns in words are read by Java
def test_what_was_planned_and_then_forgotten_deleted_or_trimmed_is_counted_to_the_last(
    link: Link, data_source_options: dict[str, str], queue: str
) -> None:
    """Between the plan of a batch and its reading anything may happen; the batch is in Spark's log and must be read."""

    def planned(name: str) -> Any:
        numbered_events(link, name, 50)
        reader = follower(data_source_options, name, failOnDataLoss="false", startingOffsets="latest", fetchCount="20")
        start = reader.initialOffset()
        numbered_events(link, name, 100, first=50)
        return reader, reader.partitions(start, reader.latestOffset(start, None))

    reader, slices = planned(f"{queue}-forgotten")
    forget(link, f"{queue}-forgotten", 30)
    numbered_events(link, f"{queue}-forgotten", 200, first=500)
    assert sums(reader, slices) == (70, 30, {"missing"})

    name = f"{queue}-deleted"
    reader, slices = planned(name)
    numbered_events(link, name, 100, first=150)
    ids = [row[0] for row in run_flow(link, "XRANGE", Keys(name).events, "-", "+")]
    run_flow(link, "XDEL", Keys(name).events, *ids[180:190])
    run_flow(link, "XTRIM", Keys(name).events, "MAXLEN", 160)
    assert sums(reader, slices) == (70, 30, {"trimmed"})


@pytest.mark.usefixtures("spark")  # columns in words are read by Java
def test_few_events_wait_for_more_but_not_for_long_and_not_when_they_may_be_trimmed(
    link: Link, data_source_options: dict[str, str], queue: str
) -> None:
    reader = follower(data_source_options, queue, minOffsetsPerTrigger="50", maxTriggerDelay="3600")
    at = reader.initialOffset()

    def onwards(events: int) -> int:
        """The end of the next batch after this many events were added."""
        nonlocal at
        numbered_events(link, queue, events)
        at = reader.latestOffset(at, None)
        n: int = at[queue]["n"]
        return n

    assert onwards(1000) == 1000
    assert onwards(10) == 1000, "ten may wait"
    reported = reader.reportLatestOffset()
    assert reported is not None
    assert reported[queue]["n"] == 1010, "the lag is told all the same"
    assert onwards(40) == 1050, "fifty are enough"
    assert onwards(10) == 1050
    run_flow(link, "XTRIM", Keys(queue).events, "MAXLEN", 80)
    assert onwards(0) == 1060, "of eighty that are left ten may be trimmed soon"
    assert onwards(5) == 1060
    reader.prepareForTriggerAvailableNow()
    assert onwards(0) == 1065, "whoever wants what is there now wants all of it"

    reader = follower(data_source_options, queue, minOffsetsPerTrigger="50", maxTriggerDelay="1")
    numbered_events(link, queue, 200)
    assert onwards(0) == 1265, "the first after a start wait for nothing"
    deadline = CLOCK.monotonic() + 60
    while onwards(1) == 1265:
        assert CLOCK.monotonic() < deadline
        CLOCK.sleep_sync(0.05)


@pytest.mark.usefixtures("spark")
def test_the_first_batch_is_what_was_planned_though_spark_asks_for_its_beginning_again(
    link: Link, data_source_options: dict[str, str], queue: str
) -> None:
    """It does so for every first batch, a moment later, and once more whenever it was killed in it."""
    numbered_events(link, queue, 100)
    reader = follower(data_source_options, queue, failOnDataLoss="false")
    end = reader.latestOffset(reader.initialOffset(), None)
    run_flow(link, "XTRIM", Keys(queue).events, "MAXLEN", 30)
    assert sums(reader, reader.partitions(reader.initialOffset(), end)) == (30, 70, {"trimmed"})

    reader = follower(data_source_options, queue, failOnDataLoss="false", startingOffsets="latest")
    start = reader.initialOffset()
    numbered_events(link, queue, 10, first=100)
    end = reader.latestOffset(start, None)
    numbered_events(link, queue, 5, first=110)
    assert sums(reader, reader.partitions(reader.initialOffset(), end)) == (10, 0, set())


@pytest.mark.usefixtures("spark")
def test_what_is_there_now_comes_to_an_end_whatever_becomes_of_the_queues_meanwhile(
    link: Link, data_source_options: dict[str, str], queue: str
) -> None:
    pattern = {"subscribePattern": f"{queue}.*", "allowRecreated": "true", "failOnDataLoss": "false"}
    numbered_events(link, queue, 200)
    reader = follower(data_source_options, queue, **pattern)
    reader.prepareForTriggerAvailableNow()
    few = SimpleNamespace(max_rows=50)
    at = reader.latestOffset(reader.initialOffset(), few)
    assert at[queue]["n"] == 50
    run_flow(link, "DEL", Keys(queue).events)
    numbered_events(link, queue, 5, first=200)
    numbered_events(link, f"{queue}-late", 10)
    reader._look_at = 0
    found: list[tuple[int, int, set[str]]] = []
    while (onwards := reader.latestOffset(at, few)) != at:
        found.append(sums(reader, reader.partitions(at, onwards)))
        at = onwards
    assert found == [(5, 0, {"recreated"})]
    assert f"{queue}-late" not in at, "it was not there yet; the next archive takes it"


@pytest.mark.usefixtures("spark")
def test_what_the_limit_left_over_does_not_wait_for_more(
    link: Link, data_source_options: dict[str, str], queue: str
) -> None:
    numbered_events(link, queue, 1000)
    reader = follower(data_source_options, queue, minOffsetsPerTrigger="50", maxTriggerDelay="3600")
    at = reader.latestOffset(reader.initialOffset(), None)
    numbered_events(link, queue, 80, first=1000)
    few, reached = SimpleNamespace(max_rows=30), []
    for _ in range(3):
        at = reader.latestOffset(at, few)
        reached.append(at[queue]["n"])
    assert reached == [1030, 1060, 1080]


def test_a_queue_that_joins_a_checkpoint_begins_at_the_configured_position(
    spark: Any, link: Link, data_source_options: dict[str, str], queue: str, tmp_path: Path
) -> None:
    numbered_events(link, queue, 10)
    follow(spark, data_source_options, queue, tmp_path)
    late, later = f"{queue}, the late one", f"{queue}-later"
    for name in (late, later):
        numbered_events(link, name, 100)
        run_flow(link, "XTRIM", Keys(name).events, "MAXLEN", 40)
    _, rows = follow(spark, data_source_options, json.dumps([queue, late]), tmp_path)
    assert rows.where(rows.queue == late).count() == 40
    follow(spark, data_source_options, json.dumps([queue, late, later]), tmp_path, startingOffsets="latest")
    numbered_events(link, later, 5, first=100)
    _, rows = follow(spark, data_source_options, json.dumps([queue, late, later]), tmp_path)
    assert rows.where(rows.queue == later).count() == 5
    assert rows.where("event = 'chasqui.gap'").count() == 0


def test_ids_no_clock_would_give_and_forged_gaps_are_rows_like_others(
    spark: Any, link: Link, data_source_options: dict[str, str], queue: str
) -> None:
    from pyspark_chasqui import tables

    schema = tables.arrow_schema(read(spark, data_source_options, "any").schema)
    [row] = tables.gap_row("q\udcff", "5-18446744073709551615", None, "trimmed", schema).to_pylist()
    assert (row["queue"], row["ms"], row["seq"]) == ("q\\xff", 5, 2**63 - 1)
    run_flow(link, "XADD", Keys(queue).events, "7-18446744073709551615", "e", "chasqui.gap", "lost", "1000000")
    [row] = read(spark, data_source_options, queue).collect()
    assert (row.event, row.lost) == ("chasqui.gap (by name only)", None)
    assert (row.stream_id, row.ms, row.seq) == ("7-18446744073709551615", 7, 2**63 - 1)


def test_a_checkpoint_of_another_queue_is_refused(
    spark: Any, link: Link, data_source_options: dict[str, str], queue: str, tmp_path: Path
) -> None:
    numbered_events(link, queue, 10)
    numbered_events(link, f"{queue}-b", 10)
    follow(spark, data_source_options, queue, tmp_path)
    with pytest.raises(ConfigError, match="the checkpoint is of"):
        follow(spark, data_source_options, f"{queue}-b", tmp_path)


def test_queues_are_found_by_a_pattern(spark: Any, link: Link, data_source_options: dict[str, str], queue: str) -> None:
    for number in range(3):
        numbered_events(link, f"{queue}-{number}", 10)
    rows = (
        spark.read.format("chasqui").options(**data_source_options).option("subscribePattern", f"{queue}-[01]").load()
    )
    assert {row.queue: row["count"] for row in rows.groupBy("queue").count().collect()} == {
        f"{queue}-0": 10,
        f"{queue}-1": 10,
    }


@pytest.mark.parametrize(
    ("options", "kind", "expected"),
    [
        ({}, ArgumentError, "either subscribe or subscribePattern"),
        ({"subscribe": "no-such-queue"}, NotFound, "no events stream of a queue named 'no-such-queue'"),
        ({"subscribe": "a", "tabel": "dlq"}, ArgumentError, "no option 'tabel'"),
        ({"subscribe": "a", "table": "jobs"}, ArgumentError, "option table is 'jobs'"),
        ({"subscribe": "a", "fetchCount": "many"}, ArgumentError, "option fetchCount is 'many'"),
        ({"subscribe": "a", "failOnDataLoss": "maybe"}, ArgumentError, "option failOnDataLoss is 'maybe'"),
        ({"subscribe": "a", "startingOffsets": "{"}, ArgumentError, "option startingOffsets"),
        ({"subscribePattern": "("}, ArgumentError, "no regular expression"),
        ({"subscribe": "a", "redis.url": "redis://u:hunter2@h:1"}, ConfigError, "redis.url holds a user or password"),
        ({"subscribe": "a", "redis.url": "redis://127.0.0.1:1"}, ServerError, "127.0.0.1:1"),
    ],
)  # fmt: skip
def test_invalid_options_raise_errors_of_ours(
    spark: Any,
    data_source_options: dict[str, str],
    options: dict[str, str],
    kind: type[ChasquiError],
    expected: str,
) -> None:
    error = refusal(spark, data_source_options | {"retryFor": "0"}, **options)
    assert isinstance(error, kind)
    assert expected in str(error)
    assert "hunter2" not in f"{error} {error.hint}"


def test_tls_and_a_password_file_serve_and_the_password_is_nowhere(
    spark: Any, spark_target: SparkTarget, queue: str, tmp_path: Path
) -> None:
    with start_server("redis-8.6", tls=True, password="correct-horse") as server:
        assert server.certificates
        secret = tmp_path / "password"
        secret.write_text("correct-horse\n")
        secret.chmod(0o600)
        url = f"rediss://127.0.0.1:{server.port}"
        reach = {
            "redis.url": url,
            "redis.passwordFile": str(secret),
            "redis.tls.ca": str(server.certificates.ca),
        }
        from chasqui.server.address import Tls, parse_address

        with Link.open(parse_address(url, password="correct-horse", tls=Tls(ca=server.certificates.ca))) as link:
            numbered_events(link, queue, 50)
            rows = read(spark, reach, queue)
            assert rows.count() == 50
            assert "correct-horse" not in rows._jdf.queryExecution().toString()
            wrong = refusal(spark, {"redis.url": url, "redis.tls.ca": str(server.certificates.ca)}, subscribe=queue)
            assert "correct-horse" not in f"{wrong}{wrong.hint}"
            jobs = spark.range(10).selectExpr("concat('j', id) AS job_id", "struct(id) AS data")
            writer = jobs.write.format("chasqui").mode("append").options(**reach).option("queue", queue)
            writer.option("runId", "r").save()
            assert run_flow(link, "XLEN", Keys(queue).stream) == 10
    assert "correct-horse" not in spark_target.log.read_text(errors="replace")
    history = b"".join(file.read_bytes() for file in (spark_target.log.parent / "told").rglob("*") if file.is_file())
    assert b"chasqui" in history, "Spark's web page is made of this, and shows plans"
    assert b"correct-horse" not in history


def test_a_cluster_is_read_and_written(spark: Any, queue: str) -> None:
    with cluster_servers("redis-8.6") as nodes:
        with Link.open(nodes.url) as link:
            for number in range(4):
                numbered_events(link, f"{queue}-{number}", 25)
            reach = {"redis.url": nodes.url}
            rows = spark.read.format("chasqui").options(**reach).option("subscribePattern", f"{queue}.*").load()
            assert rows.groupBy("queue").count().where("count = 25").count() == 4
            jobs = spark.range(100).selectExpr("concat('j', id) AS job_id", "struct(id) AS data")
            writer = jobs.write.format("chasqui").mode("append").options(**reach)
            writer.option("queue", f"{queue}-0").option("runId", "r").save()
            assert run_flow(link, "XLEN", Keys(f"{queue}-0").stream) == 100


def test_behind_a_sentinel_reading_and_writing_go_on_when_the_master_died(
    spark: Any, queue: str, tmp_path: Path
) -> None:
    with sentinel_servers("redis-8.6") as guards:
        reach = {"redis.url": guards.url, "retryFor": "60"}
        with Link.open(guards.url) as link:
            numbered_events(link, queue, 100)
            _, rows = follow(spark, reach, queue, tmp_path)
            assert rows.count() == 100
            run_flow(link, "WAIT", 1, 5000)
        guards.master.kill()
        jobs = spark.range(10).selectExpr("concat('j', id) AS job_id", "struct(id) AS data")
        writer = jobs.write.format("chasqui").mode("append").options(**reach)
        writer.option("queue", queue).option("runId", "r").save()
        with Link.open(guards.url) as link:
            numbered_events(link, queue, 60, first=100)
        _, rows = follow(spark, reach, queue, tmp_path)
        assert rows.selectExpr("count(*)", "count(distinct job_id)").first() == (160, 160)
        assert read(spark, reach, queue, table="stream").count() == 10


def test_the_server_kinds_agree(spark: Any, server: Server, queue: str) -> None:
    with Link.open(server.url) as link:
        numbered_events(link, queue, 100)
        assert read(spark, {"redis.url": server.url}, queue).count() == 100
        jobs = spark.range(10).selectExpr("concat('j', id) AS job_id", "struct(id) AS data")
        for _ in range(2):
            writer = jobs.write.format("chasqui").mode("append").option("redis.url", server.url)
            writer.option("queue", queue).option("runId", "r").save()
        assert run_flow(link, "XLEN", Keys(queue).stream) == 10


def test_a_reader_leaves_the_garbage_collector_as_it_was(
    spark: Any, link: Link, data_source_options: dict[str, str], queue: str
) -> None:
    write_events(link, queue, made_up_events(30))
    from pyspark.sql.types import StructType

    options = ReadOptions.parse(data_source_options | {"subscribe": queue, "fetchCount": "10"})
    assert spark.version  # parsing a schema takes a session
    reader = BatchReader(options, StructType.fromDDL(tables.ddl("events")))
    try:
        for enabled in (True, False):
            (gc.enable if enabled else gc.disable)()
            batches = [gc.isenabled() for piece in reader.partitions() for _ in reader.read(piece)]
            assert {*batches, gc.isenabled()} == {enabled}
            assert batches
    finally:
        gc.enable()
