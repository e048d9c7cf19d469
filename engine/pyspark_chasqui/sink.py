"""Writing: rows become jobs, in runs that a ledger next to the queue knows, so that a retried task adds nothing twice.

A full queue makes the writer wait: ordinary producers of the reference engine trim a stream at its cap, and with it
unread jobs. The last twentieth of `maxBacklog` is left to others for the same reason.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import BinaryType, DataType, IntegralType, LongType, NullType, StringType

from chasqui.clock import SystemClock
from chasqui.errors import ArgumentError
from chasqui.produce import bulk_load
from chasqui.produce.bulk_load import BulkLoad, LoadChunk, LoadChunkResult
from chasqui.wire import job_id, msgpack_codec
from chasqui.wire.keys import Keys
from pyspark_chasqui import error_marks, slices, tables
from pyspark_chasqui.source_options import open_link, retry_while_away

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from chasqui.server.commands import Commands
    from chasqui.server.link import Link
    from pyspark_chasqui.source_options import WriteOptions

CHUNKS_PER_ROUND_TRIP = 10
"""Runs in one round trip."""

JOB_COLUMN_TYPES: dict[str, type[DataType]] = {
    "job_id": StringType, "payload": BinaryType, "data": DataType, "name": StringType, "run_at_ms": IntegralType,
    "created_at_ms": IntegralType, "body": BinaryType,
}  # fmt: skip


@dataclass
class TaskResult(WriterCommitMessage):
    """What one task did: rows it saw, and jobs that are new because of it."""

    rows: int
    added: int


def begin_load(options: WriteOptions, schema: Any, *, overwrite: bool) -> WriteOptions:
    """Check the columns and note down when the load began, the first time it is tried."""
    names = schema.names
    unknown = [name for name in names if name not in JOB_COLUMN_TYPES]
    if unknown:
        raise ArgumentError(
            f"the data source chasqui cannot write a column named {unknown[0]!r}",
            hint=f"columns of a job are {', '.join(JOB_COLUMN_TYPES)}; put the rest into a struct named data",
        )
    for field in schema.fields:
        wanted = JOB_COLUMN_TYPES[field.name]
        if not isinstance(field.dataType, (wanted, NullType)):
            word = (LongType if wanted is IntegralType else wanted)().simpleString()
            raise ArgumentError(
                f"column {field.name} is {field.dataType.simpleString()}, and should be {word}",
                hint="put what a job carries into data, which may be anything; times are whole ms, as of unix_millis()",
            )
    if sum(name in names for name in ("payload", "data", "body")) != 1:
        raise ArgumentError(
            "a job needs one column that it is made of: data, payload (msgpack) or body (a whole envelope)",
            hint="as in df.select('job_id', F.struct('to', 'subject').alias('data'))",
        )
    if "job_id" not in names and options.idempotence != "none":
        raise ArgumentError(
            "a column job_id is missing: only by their ids can jobs be told apart when a task is retried",
            hint="give every row an id that is the same on every try; or say idempotence=none",
        )
    if overwrite:
        raise ArgumentError(
            "a queue cannot be overwritten: its jobs are somebody's work",
            hint='use .mode("append"), or purge the queue first',
        )
    keys, link = Keys(options.queue), open_link(options.place)
    commands = _server_commands(options, link)
    if options.idempotence == "idmp":
        retry_while_away(options.place, lambda: link.run(bulk_load.check_idmp(commands, keys)))
    how = f"chunks of {_chunk_rows(options)} rows" if options.idempotence == "chunks" else options.idempotence
    noted = retry_while_away(
        options.place, lambda: link.run(bulk_load.start_load(commands, keys, options.run_id, how, ttl_s=options.ttl_s))
    )
    return replace(options, since_ms=noted.since_ms, now_ms=noted.now_ms)


def _usable_backlog(options: WriteOptions) -> int:
    return options.max_backlog - options.max_backlog // 20


def _chunk_rows(options: WriteOptions) -> int:
    """Rows that are written together: so few that ten times as many have room at once and are due within a second."""
    limits = (limit for limit in (_usable_backlog(options), options.max_rate) if limit)
    return min([options.pipeline, *(max(1, limit // CHUNKS_PER_ROUND_TRIP) for limit in limits)])


class _JobWriter:
    """Turns batches of one task into runs, and sends them."""

    def __init__(self, options: WriteOptions, schema: Any) -> None:
        self.options = options
        self.schema = schema

    def write_all(self, batches: Iterator[pa.RecordBatch]) -> TaskResult:
        """Every row of this task, once the queue has room for it."""
        from pyspark import TaskContext

        options = self.options
        load = BulkLoad(
            options.run_id,
            options.since_ms,
            options.idempotence,  # type: ignore[arg-type]  # checked when the option was read
            options.ttl_s,
            _usable_backlog(options) or None,
            options.max_rate,
        )
        link = open_link(options.place)
        context = TaskContext.get()
        part = context.partitionId() if context else 0
        sender = _ChunkSender(link, _server_commands(options, link), Keys(options.queue), load, options)
        rows = 0
        with slices.gc_paused(), sender:
            for number, piece in enumerate(_resize_batches(batches, _chunk_rows(options))):
                sender.add(replace(self._make_chunk(piece, load), ledger_name=f"{part}:{number}"))
                rows += piece.num_rows
        return TaskResult(rows, sender.added)

    def _make_chunk(self, batch: pa.RecordBatch, load: BulkLoad) -> LoadChunk:
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        count, given = batch.num_rows, columns.get("job_id")
        job_ids = job_id.new_job_ids(count, load.started_ms) if given is None else _to_python(given)
        if given is not None and given.null_count:
            raise ArgumentError("a row has no job_id", hint="leave such rows out, or give them an id")
        dues = columns.get("run_at_ms")
        run = LoadChunk(
            job_ids,
            [None] * count if dues is None else dues.to_pylist(),
            self._envelopes(columns, job_ids, load),
            _name_bytes(columns.get("name"), count),
        )
        return bulk_load.check_chunk(run, load, self.options.now_ms)

    def _envelopes(self, columns: dict[str, pa.Array], job_ids: list[str], load: BulkLoad) -> list[bytes]:
        """Whole envelopes are taken as they are; then `job_id` is only their name in the ledger."""
        made_of = next(columns[name] for name in ("body", "payload", "data") if name in columns)
        if made_of.null_count and "data" not in columns:
            raise ArgumentError("a row has no payload", hint="msgpack of nothing is b'\\xc0'")
        given = _to_python(made_of)
        if "body" in columns:
            return given
        payloads = msgpack_codec.pack_each(given) if "data" in columns else given
        return bulk_load.make_envelopes(job_ids, payloads, self._created_times(columns, load))

    def _created_times(self, columns: dict[str, pa.Array], load: BulkLoad) -> int | list[int]:
        """When each job was made: as the options say, or its row, or its id if that is a ULID; else now."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if self.options.created_at_ms is not None:
            return self.options.created_at_ms
        times = [columns["created_at_ms"].cast(pa.int64())] if "created_at_ms" in columns else []
        if times and (pc.min(times[0]).as_py() or 0) < 0:
            raise ArgumentError("a row was made before 1970", hint="created_at_ms is a time in ms")
        if "job_id" in columns and not (times and times[0].null_count == 0):
            times.append(tables.ulid_times_ms(columns["job_id"].cast(pa.binary())))
        if all(one.null_count == len(one) for one in times):
            return load.started_ms
        stamps: list[int] = pc.coalesce(*times, pa.scalar(load.started_ms, pa.int64())).to_pylist()
        return stamps


def _name_bytes(given: pa.Array | None, count: int) -> list[bytes]:
    """The names of the jobs as bytes; each different one is looked at once."""
    if given is None:
        return [b""] * count
    octets = {name: bulk_load.check_name(name) for name in _to_python(given.unique())}
    if len(octets) == 1:
        return [*octets.values()] * count
    return [octets[name] for name in given.to_pylist()]


def _to_python(column: pa.Array) -> list[Any]:
    """As values of Python, maps as dicts; only where there are some, for asking costs twenty times the rest."""
    how = {"maps_as_pydicts": "strict"} if _has_map(column.type) else {}
    try:
        found: list[Any] = column.to_pylist(**how)
    except (KeyError, TypeError, ValueError) as fault:
        raise ArgumentError(
            f"what is in a row cannot be stored: {fault}",
            hint="text must be UTF-8; keys of maps must differ, and be text or numbers",
        ) from None
    return found


def _has_map(kind: pa.DataType) -> bool:
    from pyarrow import types

    return bool(types.is_map(kind)) or any(_has_map(kind.field(n).type) for n in range(kind.num_fields))


class BatchWriter(_JobWriter, DataSourceArrowWriter):
    """Adds the rows of one DataFrame."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskResult:
        """One task's rows."""
        with error_marks.marked_errors():
            return self.write_all(iterator)

    def commit(self, messages: list[Any]) -> None:
        """Nothing to do: every run was final when it was written."""

    def abort(self, messages: list[Any]) -> None:
        """Nothing can be taken back, workers may run it already; the same runId finishes the load."""


class StreamWriter(_JobWriter, DataSourceStreamArrowWriter):
    """Adds the rows of each micro-batch; a batch that is tried again adds nothing twice."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskResult:
        """One task's rows."""
        with error_marks.marked_errors():
            return self.write_all(iterator)

    def commit(self, messages: list[Any], batchId: int) -> None:  # noqa: N803 - Spark's word
        """Nothing to do: every run was final when it was written."""

    def abort(self, messages: list[Any], batchId: int) -> None:  # noqa: N803 - Spark's word
        """The batch will be tried again, and finds what is written already."""


class _ChunkSender:
    """Collects runs and sends some at a time, from a thread of its own: while the server works on them the next are
    made. Those that must wait for room are sent again before any later one.
    """

    def __init__(self, link: Link, commands: Commands, keys: Keys, load: BulkLoad, options: WriteOptions) -> None:
        self._link, self._commands, self._keys = link, commands, keys
        self._load, self._options = load, options
        self._waiting: list[LoadChunk] = []
        self._sender = ThreadPoolExecutor(1)
        self._under_way: Future[int] | None = None
        self._given_up = False
        self.added = 0

    def __enter__(self) -> _ChunkSender:
        return self

    def __exit__(self, fault: object, *_: object) -> None:
        """All that was taken is sent; after a fault no more than what is on its way."""
        try:
            if fault is None:
                self._send_waiting()
                self._await_sent()
        finally:
            self._given_up = True
            self._sender.shutdown()

    def add(self, run: LoadChunk) -> None:
        self._waiting.append(run)
        if len(self._waiting) >= CHUNKS_PER_ROUND_TRIP:
            self._send_waiting()

    def _send_waiting(self) -> None:
        self._await_sent()
        runs, self._waiting = self._waiting, []
        self._under_way = self._sender.submit(self._send_until_taken, runs)

    def _await_sent(self) -> None:
        if self._under_way is not None:
            self.added += self._under_way.result()

    def _send_until_taken(self, runs: list[LoadChunk]) -> int:
        """Send them until the server has taken all; answers how many jobs were new."""
        added, clock = 0, SystemClock()
        while runs and not self._given_up:
            replies = self._send(runs)
            added += sum(one.added for one in replies)
            runs = [run for run, one in zip(runs, replies, strict=True) if not one.done]
            if runs:
                clock.sleep_sync(min(1.0, max(one.wait_ms for one in replies) / 1000))
        return added

    def _send(self, runs: list[LoadChunk]) -> list[LoadChunkResult]:
        def flow() -> list[LoadChunkResult]:
            return self._link.run(bulk_load.send_chunks(self._commands, self._keys, self._load, runs))

        return flow() if self._load.idempotence == "none" else retry_while_away(self._options.place, flow)


def _resize_batches(batches: Iterator[pa.RecordBatch], size: int) -> Iterator[pa.RecordBatch]:
    """The rows in pieces of this size, over the bounds of batches: Spark does not promise how it cuts those."""
    import pyarrow as pa

    parts: list[pa.RecordBatch] = []
    missing = size
    for batch in batches:
        at = 0
        while at < batch.num_rows:
            parts.append(batch.slice(at, missing))
            at += parts[-1].num_rows
            missing -= parts[-1].num_rows
            if not missing:
                yield pa.concat_batches(parts)
                parts, missing = [], size
    if parts:
        yield pa.concat_batches(parts)


def _server_commands(options: WriteOptions, link: Link) -> Commands:
    """What the server can do; one that is away is waited for here already."""
    from chasqui.server.commands import Commands

    return Commands(retry_while_away(options.place, link.features))
