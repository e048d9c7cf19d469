"""Bulk work: files become jobs, and archived dead letters become jobs again, each exactly once.

Rows of every format go through one JSON line each, so that a worker gets what the file contains. Writing to the
queue is the sink's business (`pyspark_chasqui.sink`).
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from chasqui.errors import ArgumentError, NotFound
from chasqui.produce import bulk_load
from chasqui.spark import input_files
from chasqui.spark.layout import Archive, filter_rows, read_table
from chasqui.wire.job_id import ULID_ALPHABET

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from chasqui.wire.msgpack_codec import PackFunction

FORMATS = ("jsonl", "csv", "parquet")
JOB_DDL = "job_id STRING, payload BINARY, name STRING, run_at_ms BIGINT, created_at_ms BIGINT"
DEAD_LETTER_DDL = "job_id STRING, body BINARY, name STRING"
JSON_OPTIONS = {
    "ignoreNullFields": "false",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
"""By default Spark cuts times to the millisecond, and leaves out fields that are null."""
CONDITION_SQL_STATES = ("22", "42", "P0")
"""How the SQL states begin of what a condition does with values that it should not: divide by zero, cast, overflow."""


@dataclass(frozen=True, slots=True)
class RowMapping:
    """Which fields of a row say what; without `data` the whole row is what the job carries."""

    name: str = ""
    id_field: str | None = None
    name_field: str | None = None
    data_field: str | None = None
    run_at_field: str | None = None


@dataclass(frozen=True, slots=True)
class FileCheck:
    """What a file holds: rows that are jobs, and rows that are none, with one of those and why."""

    rows: int
    bad: int
    sample: str | None = None


def read_json_lines(spark: Any, paths: Sequence[str], kind: str) -> Any:
    """Every row as a JSON line."""
    from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

    elsewhere = [path for path in paths if not input_files.is_local_path(path)]
    if kind == "jsonl":
        texts = spark.read.text([input_files.spark_path(path) for path in paths])
        return texts.where(F.trim("value") != "").select(F.col("value").alias("line"))
    if kind == "csv":
        if not elsewhere:
            return input_files.csv_lines(spark, paths)
        rows = _read_remote_csv(spark, elsewhere)
    else:
        reader = spark.read.option("mergeSchema", str(bool(elsewhere)).lower())
        rows = reader.parquet(*map(input_files.spark_path, paths))
    lines = rows.select(F.to_json(F.struct("*"), JSON_OPTIONS).alias("line"))
    if kind == "csv" and len(elsewhere) < len(paths):
        return lines.union(input_files.csv_lines(spark, paths))
    return lines


def _read_remote_csv(spark: Any, urls: Sequence[str]) -> Any:
    """CSV that only Spark can open, refused where it would guess: with too few or too many fields, or files whose
    columns differ. A file is read in one piece, for a quoted field may hold the end of a line; what is made of its rows
    is shared out again.
    """
    given = {"header": "true", "escape": '"', "multiLine": "true", "mode": "FAILFAST", "enforceSchema": "false"}
    pieces = int(spark.conf.get("spark.sql.shuffle.partitions"))
    return spark.read.options(**given).csv(list(urls)).repartition(pieces)


def sample_jobs(lines: Any, shape: RowMapping, most: int) -> list[tuple[str | None, str, Any]]:
    """Id, name and data of some rows, for people to look at."""
    return [_parse_row(shape, row.line)[:3] for row in lines.limit(most).collect()]


def check_rows(lines: Any, shape: RowMapping, now_ms: int) -> FileCheck:
    """Look at every row before the first is written: whatever would be refused while writing is refused here."""
    from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

    looked = lines.mapInArrow(partial(_check_batches, shape, now_ms), "bad BIGINT, rows BIGINT, why STRING")
    [(rows, bad, why)] = looked.agg(F.sum("rows"), F.sum("bad"), F.min("why")).collect()
    return FileCheck(rows or 0, bad or 0, why)


def jobs_from_lines(lines: Any, shape: RowMapping, run_id: str, since_ms: int) -> Any:
    """Jobs for the sink. Rows without an id get one from their content, the same on every try: equal rows differ
    by their number.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

    if shape.id_field is None:
        digest = F.sha2("line", 256)
        nth = F.row_number().over(Window.partitionBy("digest").orderBy("digest"))
        lines = lines.withColumn("digest", digest).withColumn("nth", nth).select("line", "digest", "nth")
    else:
        lines = lines.select("line", F.lit("").alias("digest"), F.lit(0).alias("nth"))
    return lines.mapInArrow(partial(_job_batches, shape, run_id, since_ms), JOB_DDL)


def write_jobs(jobs: Any, queue: str, run_id: str, options: dict[str, str]) -> None:
    """Add the jobs to the queue, from any thread: Spark finds data sources only in a thread with an active session."""
    _set_active_session(jobs.sparkSession)
    writer = jobs.write.format("chasqui").mode("append").options(**options)
    writer.option("queue", queue).option("runId", run_id).save()


def archived_dead_letters(
    spark: Any,
    archive: Archive,
    queue: str,
    *,
    name: str | None = None,
    reason: str | None = None,
    since_ms: int | None = None,
    until_ms: int | None = None,
    where: str | None = None,
) -> Any:
    """Archived dead letters of a queue: chosen by name (with * and ?), reason, time, and any SQL condition."""
    from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

    if not archive.has_rows("dlq"):
        raise NotFound(
            f"there are no dead letters archived at {archive.root}",
            hint="`chasqui pipeline archive` keeps them; --archive names another place",
        )
    rows = filter_rows(read_table(spark, archive, "dlq"), [queue], since_ms=since_ms, until_ms=until_ms)
    if name is not None:
        rows = rows.where(F.col("name").rlike(_glob_to_regex(name)))
    if reason is not None:
        rows = rows.where(F.col("reason") == reason)
    if where is not None:
        rows = _filter_by_condition(rows, where)
    return rows.dropDuplicates(["queue", "ms", "seq"])


def _filter_by_condition(rows: Any, condition: str) -> Any:
    """The rows a condition holds for; one that Spark does not understand is the user's mistake."""
    from pyspark.errors import AnalysisException, ParseException

    try:
        found = rows.where(condition)
        found.schema  # noqa: B018 - through Spark Connect it is looked at only now
    except (AnalysisException, ParseException) as fault:
        raise _invalid_condition(condition, _first_line(fault), rows.columns) from None
    return found


def cache_and_count(letters: Any, condition: str | None) -> tuple[Any, int]:
    """The dead letters, searched once only, and their number; a condition that fails, on one of them or on none, is the
    user's mistake.
    """
    try:
        found = letters.cache()
        return found, int(found.count())
    except Exception as fault:
        why = _condition_error(fault)
        if condition is None or why is None:
            raise
        raise _invalid_condition(condition, why, letters.columns) from None


def _condition_error(fault: Exception) -> str | None:
    """What a condition did that it should not, if that is what Spark complains of."""
    from pyspark.errors import PySparkException

    if pattern := re.search(r"PatternSyntaxException: (.+)", str(fault)):
        return pattern[1]
    state = fault.getSqlState() if isinstance(fault, PySparkException) else None
    return _first_line(fault) if (state or "").startswith(CONDITION_SQL_STATES) else None


def _first_line(fault: Exception) -> str:
    return next((line.strip() for line in str(fault).splitlines() if line.strip()), "no reason")


def _invalid_condition(condition: str, why: str, columns: Sequence[str]) -> ArgumentError:
    return ArgumentError(f"not a condition: {condition}: {why}", hint=f"columns are {', '.join(columns)}")


def jobs_from_dead_letters(letters: Any) -> Any:
    """Dead letters as jobs that never ran, for the sink. One that holds no job that could run is left out.

    The ledger knows a dead letter by its own id, since one job can have several of them.
    """
    return letters.select("stream_id", "body", "name").mapInArrow(_revive_batches, DEAD_LETTER_DDL)


def load_run_id(queue: str, paths: Sequence[str], shape: RowMapping) -> str:
    """A name for a load that is the same whenever the same files are loaded into the same queue."""
    from pathlib import Path

    parts: list[Any] = [queue, [str(getattr(shape, one)) for one in RowMapping.__slots__]]
    for path in paths:
        file = Path(path)
        state = file.stat() if file.exists() else None
        place = path if "://" in path else str(file.resolve())
        parts.append([place, state.st_size if state else 0, state.st_mtime_ns if state else 0])
        if file.is_dir():
            stats = [(found.path, found.path.stat()) for found in input_files.local_files([path])]
            parts.append([[str(at.relative_to(file)), stat.st_size, stat.st_mtime_ns] for at, stat in stats])
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


def _set_active_session(spark: Any) -> None:
    java = getattr(spark, "_jvm", None)
    if java is not None:
        java.org.apache.spark.sql.classic.SparkSession.setActiveSession(spark._jsparkSession)


def _check_batches(shape: RowMapping, now_ms: int, batches: Iterator[Any]) -> Iterator[Any]:
    import pyarrow as pa

    from chasqui.wire import msgpack_codec

    pack = msgpack_codec.packer()
    for batch in batches:
        lines = batch.column(0).cast(pa.binary()).to_pylist()  # Spark lets bytes pass that are not text
        faults = [why for line in lines if (why := _row_error(shape, now_ms, pack, line))]
        columns = [[len(faults)], [batch.num_rows], [min(faults, default=None)]]
        arrays = [pa.array(one, kind) for one, kind in zip(columns, (pa.int64(), pa.int64(), pa.string()), strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, names=["bad", "rows", "why"])


def _row_error(shape: RowMapping, now_ms: int, pack: PackFunction, line: bytes) -> str | None:
    try:
        job_id, name, data, due = _parse_row(shape, line.decode())
        pack((job_id, data))
        bulk_load.check_name(name)
        if due is not None:
            bulk_load.check_due(due, now_ms)
    except (ValueError, RecursionError) as fault:
        return f"{fault}: {line[:120].decode(errors='replace')}"
    return None


def _parse_row(shape: RowMapping, line: str) -> tuple[str | None, str, Any, int | None]:
    """Id, name, data and due time in a row."""
    row = json.loads(line)
    asked = (shape.id_field, shape.name_field, shape.data_field, shape.run_at_field)
    if not any(asked):
        return None, shape.name, row, None
    if not isinstance(row, dict):
        raise ValueError("not an object")
    for field in asked:
        if field is not None and field not in row:
            raise ValueError(f"no field {field!r}")
    job_id, name, data, due = (None if field is None else row[field] for field in asked)
    for field, value in ((shape.id_field, job_id), (shape.name_field, name)):
        if isinstance(value, bool | list | dict):
            raise ValueError(f"field {field!r} is neither text nor a number")
    if shape.id_field and (job_id is None or not str(job_id).strip()):
        raise ValueError(f"field {shape.id_field!r} is empty")
    if due is not None and not (isinstance(due, int | str) and str(due).isdecimal()):
        raise ValueError(f"field {shape.run_at_field!r} is no time in ms")
    return (
        None if job_id is None else str(job_id),
        shape.name if name is None else str(name),
        row if shape.data_field is None else data,
        None if due is None else int(due),
    )


def _job_batches(shape: RowMapping, run_id: str, since_ms: int, batches: Iterator[Any]) -> Iterator[Any]:
    import pyarrow as pa

    from chasqui.wire import msgpack_codec

    for batch in batches:
        lines, digests, numbers = (batch.column(n).to_pylist() for n in range(3))
        found = [_parse_row(shape, line) for line in lines]
        ids = [
            job_id or _content_id(run_id, since_ms, digest, nth)
            for (job_id, *_), digest, nth in zip(found, digests, numbers, strict=True)
        ]
        arrays = [
            pa.array(ids, pa.string()),
            pa.array(msgpack_codec.pack_each(data for _, _, data, _ in found), pa.binary()),
            pa.array([name for _, name, _, _ in found], pa.string()),
            pa.array([due for *_, due in found], pa.int64()),
            pa.repeat(pa.scalar(since_ms, pa.int64()), len(found)),
        ]
        names = ["job_id", "payload", "name", "run_at_ms", "created_at_ms"]
        yield pa.RecordBatch.from_arrays(arrays, names=names)


def _content_id(run_id: str, since_ms: int, digest: str, nth: int) -> str:
    """A ULID of the load's own beginning, its random part made of what the job is."""
    number = int.from_bytes(hashlib.sha256(f"{run_id}\0{digest}\0{nth}".encode()).digest()[:10], "big")
    whole = since_ms << 80 | number
    return "".join(ULID_ALPHABET[whole >> shift & 31] for shift in range(125, -1, -5))


def _revive_batches(batches: Iterator[Any]) -> Iterator[Any]:
    import pyarrow as pa

    from chasqui.errors import WireError
    from chasqui.wire import envelope

    for batch in batches:
        ids, bodies, names = (batch.column(n).to_pylist() for n in range(3))
        saved: list[tuple[str, bytes, str]] = []
        for letter_id, body, name in zip(ids, bodies, names, strict=True):
            try:
                job = envelope.decode(body or b"", len(body or b""))
            except WireError:
                continue
            saved.append((letter_id, envelope.encode(job.with_attempt(0), exact_payload=True), name))
        columns: Any = zip(*saved, strict=True) if saved else ((), (), ())
        kinds = (pa.string(), pa.binary(), pa.string())
        arrays = [pa.array(list(one), kind) for one, kind in zip(columns, kinds, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, names=["job_id", "body", "name"])


def _glob_to_regex(text: str) -> str:
    """A pattern of * and ? as a regular expression that Java reads."""
    parts = (".*" if part == "*" else "." if part == "?" else re.escape(part) for part in re.split(r"([*?])", text))
    return rf"(?s)^{''.join(parts)}\z"


def resolve_format(kind: str | None, paths: Sequence[str]) -> str:
    """The format asked for, or what the files' names end in."""
    if kind is None:
        endings = {path.rsplit(".", 1)[-1].lower() for path in (p.removesuffix(".gz") for p in paths)}
        known = {"jsonl": "jsonl", "ndjson": "jsonl", "json": "jsonl", "csv": "csv", "parquet": "parquet"}
        kinds = {known.get(ending) for ending in endings}
        kind = kinds.pop() if len(kinds) == 1 else None
        if kind is None:
            raise ArgumentError("the files' format is not clear from their names", hint=f"--format {'|'.join(FORMATS)}")
    if kind not in FORMATS:
        raise ArgumentError(f"there is no format {kind!r}", hint=f"--format {'|'.join(FORMATS)}")
    return kind
