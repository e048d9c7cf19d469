"""The tables a queue is read as: their columns, and how entries become Arrow batches, thousands at a time.

Events are plain text fields and are taken apart in columns, without a Python object per row. Jobs and dead letters hold
msgpack, so their envelopes are decoded one by one. Text that is not UTF-8 is shown with backslashes, never dropped.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any

from chasqui.wire.entry_id import sort_key
from chasqui.wire.job_id import ULID_ALPHABET

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa

    from chasqui.wire.envelope import Envelope

GAP = "chasqui.gap"
MAX_BIGINT = 2**63 - 1
"""Of Spark's whole numbers."""
POSITION_COLUMNS = {"queue": "STRING", "stream_id": "STRING", "ms": "BIGINT", "seq": "BIGINT"}
JOB_COLUMNS = {
    "name": "STRING", "job_id": "STRING", "created_at_ms": "BIGINT", "attempt": "INT", "payload": "BINARY",
    "body": "BINARY",
}  # fmt: skip
TABLE_COLUMNS: dict[str, dict[str, str]] = {
    "events": POSITION_COLUMNS
    | {
        "event": "STRING", "job_id": "STRING", "name": "STRING", "attempt": "INT", "backoff_ms": "BIGINT",
        "delay_ms": "BIGINT", "duration_us": "BIGINT", "reason": "STRING", "ts": "BIGINT", "created_ms": "BIGINT",
        "lost": "BIGINT",
    },
    "dlq": POSITION_COLUMNS | {"source_id": "STRING", "reason": "STRING", "detail": "STRING"} | JOB_COLUMNS,
    "stream": POSITION_COLUMNS | JOB_COLUMNS,
}  # fmt: skip

_TEXT_FIELDS = {"job_id": b"id", "name": b"n", "reason": b"reason"}
_NUMBER_FIELDS = {
    "attempt": b"attempt", "backoff_ms": b"backoff_ms", "delay_ms": b"delay_ms", "duration_us": b"duration_us",
    "ts": b"ts",
}  # fmt: skip


def ddl(table: str) -> str:
    """The table's columns as Spark reads them."""
    return ", ".join(f"{name} {kind}" for name, kind in TABLE_COLUMNS[table].items())


def arrow_schema(schema: Any) -> pa.Schema:
    """The very schema Spark compares batches with."""
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(schema, timezone="UTC")


def stream_key(table: str, queue: str) -> str:
    """The stream behind a table."""
    from chasqui.wire.keys import Keys

    keys = Keys(queue)
    return {"events": keys.events, "dlq": keys.dlq, "stream": keys.stream}[table]


def to_batch(table: str, queue: str, rows: Sequence[Any], schema: pa.Schema) -> pa.RecordBatch:
    """Entries (id, flat fields) as a batch of exactly these columns; one the table does not have is null."""
    import pyarrow as pa

    columns = _EventColumns(queue, rows) if table == "events" else _JobColumns(queue, rows, table)
    arrays = []
    for one in schema:
        found = columns.get(one.name)
        arrays.append(pa.nulls(len(rows), one.type) if found is None else _cast_or_null(found, one.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def gap_row(queue: str, after: str, lost: int | None, why: str, schema: pa.Schema) -> pa.RecordBatch:
    """One row that stands for events that cannot be read any more, right after the last one before them."""
    import pyarrow as pa

    ms, seq = _id_parts(after)
    values = {
        "queue": display_text(queue), "stream_id": after, "ms": ms, "seq": seq, "event": GAP, "reason": why, "lost": lost,
    }  # fmt: skip
    arrays = [pa.array([values.get(one.name)], one.type) for one in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _cast_or_null(found: Any, kind: pa.DataType) -> Any:
    """As Spark wants it; a number that does not fit is null, for it was no honest one."""
    import pyarrow as pa

    if found.type == kind:
        return found
    try:
        return found.cast(kind)
    except pa.ArrowInvalid:
        return pa.array([v if v is not None and -(2**31) <= v < 2**31 else None for v in found.to_pylist()], kind)


@dataclass
class _EntryColumns:
    queue: str
    rows: Sequence[Any]

    @cached_property
    def ids(self) -> Any:
        import pyarrow as pa

        return pa.array([row[0] for row in self.rows], pa.binary()).cast(pa.string())

    @cached_property
    def id_parts(self) -> Any:
        import numpy as np
        import pyarrow as pa
        import pyarrow.compute as pc

        try:
            return pc.split_pattern(self.ids, "-").flatten().cast(pa.int64()).to_numpy().reshape(-1, 2)
        except pa.ArrowInvalid:
            return np.array([_id_parts(one) for one in self.ids.to_pylist()], dtype=np.int64)

    def position_column(self, name: str) -> Any:
        """The columns every table has; None for another."""
        import pyarrow as pa

        if name == "queue":
            return pa.repeat(pa.scalar(display_text(self.queue)), len(self.rows))
        if name == "stream_id":
            return self.ids
        if name in ("ms", "seq"):
            return pa.array(self.id_parts[:, ("ms", "seq").index(name)])
        return None


class _EventColumns(_EntryColumns):
    """Events as columns: all fields in one array, and for each column where in it each row's value is."""

    def get(self, name: str) -> Any:
        if name == "event":
            return _rename_fake_gaps(_decode_text(self._field_values(b"e")))
        if name in _TEXT_FIELDS:
            return _decode_text(self._field_values(_TEXT_FIELDS[name]))
        if name in _NUMBER_FIELDS:
            return _parse_numbers(self._field_values(_NUMBER_FIELDS[name]))
        if name == "created_ms":
            return ulid_times_ms(self._field_values(b"id"))
        return self.position_column(name)

    @cached_property
    def _flat_fields(self) -> tuple[dict[bytes, int], Any, Any, Any]:
        """Codes of field names; and of all fields of all rows: the code, the row, the value."""
        import numpy as np
        import pyarrow as pa

        fields = [row[1] for row in self.rows]
        counts = np.fromiter(map(len, fields), dtype=np.int64, count=len(fields)) // 2
        words = list(chain.from_iterable(fields))
        names = pa.array(words[0::2], pa.binary()).dictionary_encode()
        codes = {name: code for code, name in enumerate(names.dictionary.to_pylist())}
        owners: Any = np.repeat(np.arange(len(fields)), counts)
        return codes, names.indices.to_numpy(), owners, pa.array(words[1::2], pa.binary())

    def _field_values(self, name: bytes) -> Any:
        """The first value under this name in each row."""
        import numpy as np
        import pyarrow as pa

        codes, of, owners, values = self._flat_fields
        if name not in codes:
            return pa.nulls(len(self.rows), pa.binary())
        where: Any = np.full(len(self.rows), -1, dtype=np.int64)
        hits = np.flatnonzero(of == codes[name])[::-1]  # backwards, so that the first of a row wins
        where[owners[hits]] = hits
        return values.take(pa.array(where, mask=where < 0))


class _JobColumns(_EntryColumns):
    """Jobs and dead letters: what cannot be decoded keeps its bytes in `body`, and the rest is null."""

    def __init__(self, queue: str, rows: Sequence[Any], table: str) -> None:
        super().__init__(queue, rows)
        self._table = table

    def get(self, name: str) -> Any:
        import pyarrow as pa

        if name not in _JOB_COLUMN_READERS:
            return self.position_column(name)
        take, kind = _JOB_COLUMN_READERS[name]
        return pa.array([take(entry, job) for entry, job in self._decoded], getattr(pa, kind)())

    @cached_property
    def _decoded(self) -> list[tuple[Any, Envelope | None]]:
        from chasqui.errors import WireError
        from chasqui.wire import dead_letter_entry, envelope, stream_entry

        def job_in(d: bytes | None) -> Envelope | None:
            try:
                return envelope.decode(d or b"", len(d or b""))
            except WireError:
                return None

        decode: Callable[[Sequence[bytes]], Any]
        decode = dead_letter_entry.decode if self._table == "dlq" else stream_entry.decode
        entries = [decode(fields) for _, fields in self.rows]
        return [(entry, job_in(entry.d)) for entry in entries]


def _id_parts(entry_id: str) -> tuple[int, int]:
    """Both numbers of an id; Spark's are a bit shorter than the server's, and none of an honest clock is so large."""
    ms, seq = sort_key(entry_id)
    return min(ms, MAX_BIGINT), min(seq, MAX_BIGINT)


def display_text(text: str | None) -> str | None:
    """Lone surrogates are bytes that were not UTF-8; Arrow has no place for them."""
    return None if text is None else text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


_JOB_COLUMN_READERS: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "source_id": (lambda entry, job: entry.source_id or None, "string"),
    "reason": (lambda entry, job: display_text(entry.reason) or None, "string"),
    "detail": (lambda entry, job: display_text(entry.detail), "string"),
    "name": (lambda entry, job: entry.name_bytes.decode("utf-8", "backslashreplace"), "string"),
    "job_id": (lambda entry, job: display_text(job.id) if job else None, "string"),
    "created_at_ms": (lambda entry, job: job.created_at_ms if job and job.created_at_ms < 2**63 else None, "int64"),
    "attempt": (lambda entry, job: job.attempt if job and job.attempt < 2**31 else None, "int32"),
    "payload": (lambda entry, job: job.payload.raw if job else None, "binary"),
    "body": (lambda entry, job: entry.d, "binary"),
}  # fmt: skip


def _decode_text(values: Any) -> Any:
    import pyarrow as pa

    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:
        shown = [None if v is None else v.decode("utf-8", "backslashreplace") for v in values.to_pylist()]
        return pa.array(shown, pa.string())


def _rename_fake_gaps(kinds: Any) -> Any:
    """An entry that calls itself a gap is an event like any other: only this module makes gaps."""
    import pyarrow.compute as pc

    return pc.if_else(pc.fill_null(pc.equal(kinds, GAP), False), f"{GAP} (by name only)", kinds)


def _parse_numbers(values: Any) -> Any:
    import pyarrow as pa

    try:
        return values.cast(pa.string()).cast(pa.int64())
    except pa.ArrowInvalid:
        return pa.array([_parse_int(v) for v in values.to_pylist()], pa.int64())


def _parse_int(value: bytes | None) -> int | None:
    """Only what a program would have written: digits, and no more than Spark can hold."""
    if value is None or not value.removeprefix(b"-").isdigit() or len(value) > 20:
        return None
    number = int(value)
    return number if -MAX_BIGINT <= number <= MAX_BIGINT else None


def ulid_times_ms(values: Any) -> Any:
    """When each job was made, if its id is a ULID; its first ten characters are milliseconds."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    fits = pc.fill_null(pc.equal(pc.binary_length(values), 26), False)
    where = np.flatnonzero(fits.to_numpy(zero_copy_only=False))
    result: Any = np.zeros(len(values), dtype=np.int64)
    known: Any = np.zeros(len(values), dtype=bool)
    if len(where):
        joined = b"".join(values.take(pa.array(where)).to_pylist())
        table: Any = np.full(256, 255, dtype=np.uint8)
        table[np.frombuffer(ULID_ALPHABET.encode(), dtype=np.uint8)] = np.arange(32, dtype=np.uint8)
        letters = table[np.frombuffer(joined, dtype=np.uint8).reshape(-1, 26)]
        stamps = letters[:, :10].astype(np.int64) @ (32 ** np.arange(9, -1, -1, dtype=np.int64))
        result[where] = stamps
        known[where] = (letters != 255).all(axis=1) & (letters[:, 0] < 8)
    return pa.array(result, mask=~known)
