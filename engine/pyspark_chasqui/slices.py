"""A slice of a stream, which one task reads, and the reading of it: every entry becomes a row or is counted as lost.

Which slices there are is decided in `reading.py` and `following.py`.
"""

from __future__ import annotations

import gc
import re
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from pyspark.sql.datasource import InputPartition

from chasqui.errors import ArgumentError, NotFound, ServerError
from chasqui.inspect.stream_range import PositionStatus, StreamPage, StreamPosition, read_page
from chasqui.wire.entry_id import ZERO
from pyspark_chasqui import tables
from pyspark_chasqui.source_options import open_link, retry_while_away

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa

    from chasqui.server.commands import Commands
    from chasqui.server.flow import Flow
    from chasqui.server.link import Link
    from pyspark_chasqui.source_options import ReadOptions

T = TypeVar("T")
P = ParamSpec("P")

LOSS_HINT = "archive more often or raise the cap of the stream; failOnDataLoss=false goes on and counts them"
RECREATED_HINT = (
    "check that it is the right server; allowRecreated=true (pipeline archive --accept-recreated) goes on with the "
    "new stream from its start"
)
ROLLED_BACK_HINT = (
    "a server that crashed or failed over may forget its last moments; failOnDataLoss=false goes on after what was read"
)


@dataclass
class StreamSlice(InputPartition):
    """From after one mark up to another. exact: the marks know their ordinals, so loss can be counted.

    gone_before: how many were gone already when the slice was planned. recreated: the stream became another before it.
    """

    queue: str
    start: StreamPosition
    end: StreamPosition
    exact: bool = True
    gone_before: int = 0
    recreated: bool = False

    @classmethod
    def nothing(cls) -> StreamSlice:
        """Spark wants a slice also where there is nothing to read."""
        return cls("", StreamPosition(), StreamPosition())

    @property
    def is_nothing(self) -> bool:
        return self.end == StreamPosition()


class DataLoss(ServerError):
    """Events were trimmed before they were read."""


class StreamRecreated(ServerError):
    """The stream is not the one that was read before."""


class StreamSource:
    """What all readers share: the queues, the asks, and the reading of a slice. It travels to every task."""

    def __init__(self, options: ReadOptions, schema: Any) -> None:
        self.options = options
        self.schema = schema

    def run(self, ask: Callable[Concatenate[Commands, P], Flow[T]], *words: P.args, **named: P.kwargs) -> T:
        """Ask the server, patiently."""
        from chasqui.server.commands import Commands
        from chasqui.server.features import no_features

        commands, link = Commands(no_features()), self.link()
        return retry_while_away(self.options.place, lambda: link.run(ask(commands, *words, **named)))

    def link(self) -> Link:
        """The link of this process. It only reads, but in transactions, which a read-only link does not let pass."""
        return open_link(self.options.place)

    def queues(self) -> list[str]:
        """The queues to read: those named, or those found that match."""
        if not self.options.pattern:
            return list(self.options.queues)
        from chasqui.inspect.discovery import discover_queues

        wanted = re.compile(self.options.pattern)
        found = retry_while_away(self.options.place, lambda: discover_queues(self.link()))
        return [name for name in found.queues if wanted.fullmatch(name)]

    def stream_key(self, queue: str) -> str:
        """The stream of a queue that is read."""
        return tables.stream_key(self.options.table, queue)

    def read_slice(self, piece: StreamSlice) -> Iterator[pa.RecordBatch]:
        """The slice as batches, with a row for every gap in it."""
        batches = self._to_batches(piece)
        while True:
            with gc_paused():  # but not while the caller has the batch
                batch = next(batches, None)
            if batch is None:
                return
            yield batch

    def _to_batches(self, piece: StreamSlice) -> Iterator[pa.RecordBatch]:
        schema = tables.arrow_schema(self.schema)
        for found in self._chunks_and_gaps(piece):
            if isinstance(found, StreamPage):
                yield tables.to_batch(self.options.table, piece.queue, found.rows, schema)
            elif self._must_account:
                after, lost, why = found
                yield tables.gap_row(piece.queue, after, lost, why, schema)

    def _chunks_and_gaps(self, piece: StreamSlice) -> Iterator[StreamPage | tuple[str, int | None, str]]:
        """What the server still has of a slice; then what is missing in it, by the ordinals of its marks: whether that
        was trimmed, deleted, or forgotten by a server that crashed.
        """
        key, count = self.stream_key(piece.queue), self.options.fetch_count
        at, overtaken, rows = piece.start, None, 0
        if piece.recreated:
            why = PositionStatus.RECREATED if at.id == ZERO else PositionStatus.ROLLED_BACK
            yield _gap_id(at, piece), None, why.value
        while True:
            chunk = self.run(read_page, key, at, last=piece.end.id, count=count)
            if piece.exact and chunk.is_other_stream and chunk.starts_after_position:
                if not self.options.allow_recreated:
                    raise recreated_error(piece.queue, at, chunk)
                break
            if piece.exact and chunk.lost:
                overtaken = overtaken or at
            elif not piece.exact and chunk.starts_after_position and chunk.removed_ordinal > piece.gone_before:
                yield self._gap_or_error(piece, at, None)
                piece.gone_before = chunk.removed_ordinal
            if chunk.rows:
                yield chunk
                rows += len(chunk.rows)
                at = StreamPosition(chunk.rows[-1][0].decode(), piece.start.ordinal + rows, at.epoch)
            if len(chunk.rows) < count:
                break
        lost = piece.end.ordinal - piece.start.ordinal - rows
        if piece.exact and self._must_account and lost:
            yield self._gap_or_error(piece, overtaken or at, lost, "trimmed" if overtaken else "missing")

    @property
    def _must_account(self) -> bool:
        """Whether entries must be accounted for: dead letters and jobs are deleted by right."""
        return self.options.table == "events"

    def _gap_or_error(
        self, piece: StreamSlice, at: StreamPosition, lost: int | None, why: str = "trimmed"
    ) -> tuple[str, int | None, str]:
        """A gap; too many events instead are a contradiction, and reported as one."""
        if lost is not None and lost < 0:
            raise ServerError(
                f"{piece.queue}: {-lost} more events than there can be up to {piece.end.id}",
                hint="was the stream restored or written by hand? begin again with a new checkpoint",
            )
        if self.options.fail_on_loss and self._must_account:
            raise data_loss_error(piece.queue, at, piece.end, lost)
        return _gap_id(at, piece), lost, why


def _gap_id(at: StreamPosition, piece: StreamSlice) -> str:
    """The id of a gap's row: that of the last entry before it, if there ever was one."""
    return at.id if at.id != ZERO else piece.end.id


@contextmanager
def gc_paused() -> Iterator[None]:
    """Pause the garbage collector, which would search a million small objects again and again and find nothing."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def data_loss_error(queue: str, at: StreamPosition, end: StreamPosition, lost: int | None) -> DataLoss:
    """The error for events that were trimmed before they were read."""
    many = "an unknown number of" if lost is None else f"{lost}"
    return DataLoss(
        f"{queue}: {many} events between {at.id} (#{at.ordinal}) and {end.id} (#{end.ordinal}) were trimmed before they were read",
        hint=LOSS_HINT,
    )


def recreated_error(queue: str, at: StreamPosition, chunk: StreamPage) -> StreamRecreated:
    """The error for a stream that is not the one that was read before."""
    now = chunk.reach
    return StreamRecreated(
        f"{queue}: the stream was deleted and made anew: it was read up to {at.id} (#{at.ordinal}), "
        f"and now it ends at {now.last_id} (#{now.added})",
        hint=RECREATED_HINT,
    )


def rolled_back_error(queue: str, at: StreamPosition, chunk: StreamPage) -> DataLoss:
    """The error for a stream that forgot entries which were read."""
    now = chunk.reach
    return DataLoss(
        f"{queue}: the server forgot its newest entries: it was read up to {at.id} (#{at.ordinal}), which is not there any "
        f"more, and now it ends at {now.last_id} (#{now.added})",
        hint=ROLLED_BACK_HINT,
    )


def missing_stream_error(queue: str, table: str) -> NotFound:
    """The error for a queue that has nothing to read."""
    return NotFound(
        f"there is no {table} stream of a queue named {queue!r} on this server",
        hint="`chasqui queues` lists what is there; has a worker of it ever run?",
    )


def check_order(start: StreamPosition, end: StreamPosition, queue: str) -> None:
    """Refuse to read backwards."""
    from chasqui.wire.entry_id import sort_key

    if sort_key(start.id) > sort_key(end.id):
        raise ArgumentError(
            f"{queue}: reading would start at {start.id}, after its end {end.id}",
            hint="mend startingOffsets, endingOffsets or the timestamps",
        )
