"""Writing jobs from Spark: the producer's bytes, once, whatever happens to tasks, and never above the bound."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chasqui.errors import ArgumentError, ChasquiError, QueueFull
from chasqui.server.commands import parse_server_time
from chasqui.server.link import Link
from chasqui.spark import bulk_jobs, error_decoding
from chasqui.sync_queue import SyncQueue
from chasqui.wire import envelope, msgpack_codec
from chasqui.wire.job_id import created_ms
from chasqui.wire.keys import Keys
from tests.support.seeds.event_history import numbered_events, run_flow
from tests.support.servers.server import Server

SINCE_MS = 1_794_741_208_048


def jobs(spark: Any, count: int, *, parts: int = 2) -> Any:
    return spark.range(0, count, 1, parts).selectExpr(
        "concat('job-', id) AS job_id", "struct(id AS n, 'ada' AS to) AS data", "'mail' AS name"
    )


def write(rows: Any, reach: dict[str, str], queue: str, **options: Any) -> None:
    named = {"runId": "load", **{name: str(value) for name, value in options.items()}}
    with error_decoding.decoded_errors():
        rows.write.format("chasqui").mode("append").options(**reach).option("queue", queue).options(**named).save()


def ids_in(link: Link, queue: str) -> list[str]:
    rows = run_flow(link, "XRANGE", Keys(queue).stream, "-", "+")
    return [envelope.decode(fields[1]).id for _, fields in rows]


def test_jobs_are_the_producers_byte_for_byte_delayed_ones_too(
    spark: Any, link: Link, data_source_options: dict[str, str], queue: str
) -> None:
    with SyncQueue(f"{queue}-own", link=link) as own:
        now, late = (
            own.add("mail", {"n": 1, "to": "ada"}),
            own.add("mail", {"n": 2, "to": "bob"}, delay_ms=600_000),
        )
    keys = Keys(f"{queue}-own")
    [(_, produced)] = run_flow(link, "XRANGE", keys.stream, "-", "+")
    [member, score] = run_flow(link, "ZRANGE", keys.delayed, 0, -1, "WITHSCORES")
    rows = spark.createDataFrame(
        [(now.id, (1, "ada"), "mail", None), (late.id, (2, "bob"), "mail", int(score))],
        "job_id STRING, data STRUCT<n: BIGINT, to: STRING>, name STRING, run_at_ms BIGINT",
    )
    write(rows, data_source_options, queue)
    assert [fields for _, fields in run_flow(link, "XRANGE", Keys(queue).stream, "-", "+")] == [produced]
    assert run_flow(link, "ZRANGE", Keys(queue).delayed, 0, -1, "WITHSCORES") == [member, score]


def test_jobs_take_their_creation_time_from_the_row_or_the_id_or_else_now(
    spark: Any, link: Link, data_source_options: dict[str, str], queue: str
) -> None:
    ulid = "01M7FEK0ZGBZK5R25VVNHVQ28Q"
    rows = [("told", 7, "mail"), (ulid, None, None), ("plain", None, "bill"), ("told", 8, "mail")]
    made = spark.createDataFrame(rows, "job_id STRING, created_at_ms INT, name STRING").coalesce(1)
    write(made.selectExpr("*", "named_struct() AS data"), data_source_options, queue)
    found = [
        (envelope.decode(fields[1]), fields[3:]) for _, fields in run_flow(link, "XRANGE", Keys(queue).stream, "-", "+")
    ]
    given, by_id, by_default = (job.created_at_ms for job, _ in found)
    assert given == 7
    assert by_id == created_ms(ulid)
    assert by_default == int(run_flow(link, "GET", Keys(queue).load_start("load")).split()[0])
    assert [name for _, name in found] == [[b"mail"], [], [b"bill"]]


def test_data_of_any_shape_becomes_what_it_is_maps_and_nothing_too(
    spark: Any, link: Link, data_source_options: dict[str, str], queue: str
) -> None:
    rows = spark.sql("""
        SELECT 'a' AS job_id, struct(map('x', array(map(7, 'y'))) AS m, NULL AS none) AS data, NULL AS name,
            NULL AS run_at_ms, CAST(3 AS TINYINT) AS created_at_ms
        UNION ALL SELECT 'b', NULL, NULL, NULL, NULL""").coalesce(1)
    write(rows, data_source_options, queue)
    found = [envelope.decode(fields[1]) for _, fields in run_flow(link, "XRANGE", Keys(queue).stream, "-", "+")]
    assert [job.payload.data() for job in found] == [
        {"m": {"x": [msgpack_codec.MsgpackMap(((7, "y"),))]}, "none": None},
        None,
    ]


def failing_once(place: str, batches: Iterator[Any]) -> Iterator[Any]:
    """Dies in the middle of its first attempt, after rows of it have left for the queue already."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context
    for number, batch in enumerate(batches):
        yield batch
        if context.attemptNumber() == 0 and number == 1:
            with Path(place).open("a") as log:
                log.write("died\n")
            raise RuntimeError("an injected failure")


@pytest.mark.parametrize("idempotence", ["rows", "chunks"])
def test_a_failing_task_and_a_second_run_add_nothing_twice(
    spark: Any, link: Link, data_source_options: dict[str, str], queue: str, tmp_path: Path, idempotence: str
) -> None:
    deaths = tmp_path / "deaths"

    def failing(batches: Iterator[Any]) -> Iterator[Any]:
        return failing_once(str(deaths), batches)

    rows = jobs(spark, 20_000)
    broken = rows.mapInArrow(failing, rows.schema)
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "3000")
    write(broken, data_source_options, queue, idempotence=idempotence)
    spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    assert deaths.read_text().count("died") == 2
    write(rows, data_source_options, queue, idempotence=idempotence)
    found = ids_in(link, queue)
    assert len(found) == 20_000
    assert set(found) == {f"job-{n}" for n in range(20_000)}


def test_two_attempts_at_once_add_every_job_once(
    spark: Any, link: Link, data_source_options: dict[str, str], queue: str
) -> None:
    rows, faults = jobs(spark, 10_000), []

    def attempt() -> None:
        try:
            bulk_jobs.write_jobs(rows, queue, "load", data_source_options)
        except BaseException as fault:  # noqa: BLE001 - checked in the main thread
            faults.append(fault)

    threads = [threading.Thread(target=attempt) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults
    assert sorted(ids_in(link, queue)) == sorted(f"job-{n}" for n in range(10_000))


def test_the_backlog_stays_below_its_bound_beside_a_live_producer(
    spark: Any, link: Link, data_source_options: dict[str, str], redis: Server, queue: str
) -> None:
    """A worker drains, another producer adds, and the stream is looked at all the time."""
    over, depths, key = threading.Event(), [], Keys(queue).stream

    def drain() -> None:
        with Link.open(redis.url) as own:
            while not over.is_set():
                entries = run_flow(own, "XRANGE", key, "-", "+", "COUNT", 300)
                if entries:
                    run_flow(own, "XDEL", key, *(entry_id for entry_id, _ in entries))

    def produce() -> None:
        with SyncQueue(queue, redis_url=redis.url, max_stream_len=2000) as own:
            while not over.wait(0.01):
                try:
                    own.add("live", {})
                except QueueFull:
                    continue

    def watch() -> None:
        with Link.open(redis.url) as own:
            while not over.is_set():
                depths.append(run_flow(own, "XLEN", key))

    threads = [threading.Thread(target=one) for one in (drain, produce, watch)]
    for thread in threads:
        thread.start()
    try:
        write(jobs(spark, 20_000), data_source_options, queue, maxBacklog=2000)
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert max(depths) <= 2000
    assert run_flow(link, "SCARD", Keys(queue).load_ledger("rows", "load")) == 20_000


@pytest.fixture
def drained(redis: Server, queue: str) -> Iterator[None]:
    """A worker that takes whatever comes, but for the first entry: a job that runs for long stays in the stream."""
    over, key = threading.Event(), Keys(queue).stream

    def drain() -> None:
        with Link.open(redis.url) as own:
            while not over.is_set():
                entries = run_flow(own, "XRANGE", key, "-", "+", "COUNT", 300)[1:]
                if entries:
                    run_flow(own, "XDEL", key, *(entry_id for entry_id, _ in entries))

    thread = threading.Thread(target=drain)
    thread.start()
    yield
    over.set()
    thread.join()


@pytest.mark.parametrize("idempotence", ["rows", "chunks", "idmp", "none"])
def test_a_backlog_limit_smaller_than_a_run_of_rows_holds_and_the_load_ends(
    spark: Any, link: Link, data_source_options: dict[str, str], queue: str, drained: None, idempotence: str
) -> None:
    key = Keys(queue).stream
    run_flow(link, "XADD", key, "*", "d", "a job that runs for long")
    run_flow(link, "XCFGSET", key, "IDMP-DURATION", 86_400, "IDMP-MAXSIZE", 10_000)
    write(jobs(spark, 300), data_source_options, queue, idempotence=idempotence, maxBacklog=20)
    info = run_flow(link, "XINFO", "STREAM", key)
    assert dict(zip(info[::2], info[1::2], strict=True))[b"entries-added"] == 301


def test_a_rate_limit_holds_from_the_first_second_on(
    spark: Any, link: Link, data_source_options: dict[str, str], queue: str
) -> None:
    write(jobs(spark, 50), data_source_options, queue, maxRate=20)
    times = [int(entry_id.split(b"-")[0]) for entry_id, _ in run_flow(link, "XRANGE", Keys(queue).stream, "-", "+")]
    assert len(times) == 50
    assert max(sum(begin <= ms < begin + 1000 for ms in times) for begin in times) <= 22


def test_a_load_in_chunks_is_refused_under_limits_that_would_cut_it_otherwise(
    spark: Any, link: Link, data_source_options: dict[str, str], queue: str
) -> None:
    """Chunk 1 alone was written, as if there had been no room for chunk 0 yet. Other chunks would hold its rows again."""
    rows = jobs(spark, 30, parts=1)
    write(rows, data_source_options, queue, idempotence="chunks", pipelineSize=10)
    run_flow(link, "HDEL", Keys(queue).load_ledger("chunks", "load"), "0:0")
    for limits in ({"pipelineSize": 20}, {"maxRate": 50}, {"maxBacklog": 50}):
        with pytest.raises(
            ArgumentError, match="begun with idempotence=chunks of 10 rows, and is now to be"
        ) as refused:
            write(rows, data_source_options, queue, idempotence="chunks", **({"pipelineSize": 10} | limits))
        assert "with the same pipelineSize, maxBacklog and maxRate" in str(refused.value.hint)
    write(rows, data_source_options, queue, idempotence="chunks", pipelineSize=10, maxBacklog=200, maxRate=1000)
    assert run_flow(link, "XLEN", Keys(queue).stream) == 40


def test_a_load_goes_on_only_with_the_ledger_it_was_begun_with(
    spark: Any, link: Link, data_source_options: dict[str, str], queue: str
) -> None:
    write(jobs(spark, 10), data_source_options, queue)
    for other in ("chunks", "idmp"):
        run_flow(link, "XCFGSET", Keys(queue).stream, "IDMP-DURATION", 86_400, "IDMP-MAXSIZE", 10_000)
        with pytest.raises(ArgumentError, match="load 'load' was begun with idempotence=rows, and is now to be"):
            write(jobs(spark, 10), data_source_options, queue, idempotence=other)
    assert run_flow(link, "XLEN", Keys(queue).stream) == 10


def test_a_load_without_a_ledger_starts_over_each_time(
    spark: Any, link: Link, data_source_options: dict[str, str], queue: str
) -> None:
    rows = spark.range(1).selectExpr("struct(id) AS data")
    write(rows, data_source_options, queue, runId="", idempotence="none")
    between = parse_server_time(run_flow(link, "TIME"))
    write(rows, data_source_options, queue, runId="", idempotence="none")
    first, second = (created_ms(job_id) or 0 for job_id in ids_in(link, queue))
    assert first <= between <= second
    assert not run_flow(link, "KEYS", f"*{queue}*load*")


def test_a_delay_counts_from_now_however_long_ago_the_load_began(
    spark: Any, link: Link, data_source_options: dict[str, str], queue: str
) -> None:
    """A stream of rows is one load for months."""
    keys, now_ms = Keys(queue), parse_server_time(run_flow(link, "TIME"))
    run_flow(link, "SET", keys.load_start("load"), f"{now_ms - 40 * 86_400_000} rows")
    rows = jobs(spark, 1).selectExpr("*", f"{now_ms + 3_600_000} AS run_at_ms")
    write(rows, data_source_options, queue)
    assert run_flow(link, "ZCARD", keys.delayed) == 1
    with pytest.raises(ArgumentError, match="exceeds max_delay_secs") as refused:
        write(
            rows.selectExpr("'b' AS job_id", "data", f"{now_ms + 31 * 86_400_000} AS run_at_ms"),
            data_source_options,
            queue,
        )
    assert "run_at_ms" in str(refused.value.hint)


def test_native_ids_serve_where_the_server_remembers_enough_of_them(
    spark: Any, link: Link, data_source_options: dict[str, str], queue: str
) -> None:
    with pytest.raises(ArgumentError, match="the server forgets ids"):
        write(jobs(spark, 10), data_source_options, queue, idempotence="idmp")
    run_flow(link, "XADD", Keys(queue).stream, "*", "d", "x")
    run_flow(link, "XCFGSET", Keys(queue).stream, "IDMP-DURATION", 86_400, "IDMP-MAXSIZE", 10_000)
    run_flow(link, "XTRIM", Keys(queue).stream, "MAXLEN", 0)
    for _ in range(2):
        write(jobs(spark, 3000), data_source_options, queue, idempotence="idmp")
    assert run_flow(link, "XLEN", Keys(queue).stream) == 3000


def test_a_stream_of_rows_becomes_jobs_once_also_when_its_checkpoint_is_lost(
    spark: Any, link: Link, data_source_options: dict[str, str], queue: str, tmp_path: Path
) -> None:
    numbered_events(link, queue, 500)
    for checkpoint in ("a", "a", "b"):
        source = spark.readStream.format("chasqui").options(**data_source_options).option("subscribe", queue).load()
        rows = source.selectExpr("job_id", "struct(ts) AS data", "'again' AS name")
        writer = rows.writeStream.format("chasqui").options(**data_source_options).option("queue", f"{queue}-out")
        query = writer.option("runId", "copy").option("checkpointLocation", str(tmp_path / checkpoint))
        query.trigger(availableNow=True).start().awaitTermination()
    assert run_flow(link, "XLEN", Keys(f"{queue}-out").stream) == 500


@pytest.mark.parametrize(
    ("columns", "options", "expected"),
    [
        ("id AS job_id| id AS payload| id AS colour", {}, "cannot write a column named 'colour'"),
        ("CAST(id AS STRING) AS job_id", {}, "one column that it is made of"),
        ("struct(id) AS data", {}, "a column job_id is missing"),
        ("CAST(id AS STRING) AS job_id| struct(id) AS data", {"runId": ""}, "option runId is missing"),
        ("CAST(id AS STRING) AS job_id| struct(id) AS data", {"idempotence": "often"}, "option idempotence is 'often'"),
        ("CAST(id AS STRING) AS job_id| struct(id) AS data| rpad('n', 257, 'n') AS name", {}, "job name exceeds 256-byte cap"),
        ("CAST(NULL AS STRING) AS job_id| struct(id) AS data", {}, "a row has no job_id"),
        ("CAST(id AS STRING) AS job_id| 'text' AS payload", {}, "column payload is string, and should be binary"),
        ("CAST(id AS STRING) AS job_id| 'text' AS body", {}, "column body is string, and should be binary"),
        ("id AS job_id| struct(id) AS data", {}, "column job_id is bigint, and should be string"),
        ("CAST(id AS STRING) AS job_id| struct(id) AS data| id AS name", {}, "column name is bigint, and should be string"),
        ("CAST(id AS STRING) AS job_id| struct(id) AS data| now() AS run_at_ms", {}, "column run_at_ms is timestamp, and should be bigint"),
        ("CAST(id AS STRING) AS job_id| struct(id) AS data| 1.5D AS created_at_ms", {}, "column created_at_ms is double, and should be bigint"),
        ("CAST(id AS STRING) AS job_id| struct(id) AS data| -1L AS created_at_ms", {}, "a row was made before 1970"),
        ("CAST(id AS STRING) AS job_id| struct(map(struct(id), id) AS m) AS data", {}, "cannot be stored: unhashable type"),
        ("CAST(X'FF' AS STRING) AS job_id| struct(id) AS data", {}, "cannot be stored: 'utf-8' codec"),
        ("CAST(id AS STRING) AS job_id| struct(id) AS data", {"idempotence": "idmp", "maxRate": 5}, "idempotence=idmp knows no maxRate"),
    ],
)  # fmt: skip
def test_rows_that_cannot_be_jobs_are_refused_in_our_words(
    spark: Any,
    link: Link,
    data_source_options: dict[str, str],
    queue: str,
    columns: str,
    options: dict[str, str],
    expected: str,
) -> None:
    with pytest.raises(ChasquiError) as refused:
        write(spark.range(3).selectExpr(*columns.split("| ")), data_source_options, queue, **options)
    assert expected in str(refused.value)
    assert refused.value.hint
    assert run_flow(link, "XLEN", Keys(queue).stream) == 0
