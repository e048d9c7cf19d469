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
from chasqui.stretch import ORIGIN, Chunk, Mark, Standing, read
from pyspark_chasqui import tables
from pyspark_chasqui.options import insist, open_link

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa

    from chasqui.server.call import Flow
    from chasqui.server.commands import Commands
    from chasqui.server.link import Link
    from pyspark_chasqui.options import ReadOptions

T = TypeVar("T")
P = ParamSpec("P")

LOSS_HINT = "archive more often or raise the cap of the stream; failOnDataLoss=false goes on and counts them"
ANOTHER_HINT = (
    "check that it is the right server; allowRecreated=true (pipeline archive --accept-recreated) goes on with the "
    "new stream from its start"
)
ROLLED_BACK_HINT = "a server that crashed or failed over may forget its last moments; failOnDataLoss=false goes on after what was read"


@dataclass
class Slice(InputPartition):
    """From after one mark up to another. exact: the marks know their ordinals, so loss can be counted.

    floor: how many were gone already when the slice was planned. anew: the stream became another before it.
    """

    queue: str
    start: Mark
    end: Mark
    exact: bool = True
    floor: int = 0
    anew: bool = False


class DataLoss(ServerError):
    """Events were trimmed before they were read."""


class Recreated(ServerError):
    """The stream is not the one that was read before."""


class Source:
    """What all readers share: the queues, the asks, and the reading of a slice. It travels to every task."""

    def __init__(self, options: ReadOptions, schema: Any) -> None:
        self.options = options
        self.schema = schema

    def ask(self, ask: Callable[Concatenate[Commands, P], Flow[T]], *words: P.args, **named: P.kwargs) -> T:
        """Ask the server, patiently."""
        from chasqui.server.commands import Commands
        from chasqui.server.features import plain

        commands, link = Commands(plain()), self.link()
        return insist(self.options.place, lambda: link.run(ask(commands, *words, **named)))

    def link(self) -> Link:
        """The link of this process. It only reads, but in transactions, which a read-only link does not let pass."""
        return open_link(self.options.place)

    def queues(self) -> list[str]:
        """The queues to read: those named, or those found that match."""
        if not self.options.pattern:
            return list(self.options.queues)
        from chasqui.discovery import discover

        wanted = re.compile(self.options.pattern)
        found = insist(self.options.place, lambda: discover(self.link()))
        return [name for name in found.queues if wanted.fullmatch(name)]

    def key(self, queue: str) -> str:
        """The stream of a queue that is read."""
        return tables.key_of(self.options.table, queue)

    def rows_of(self, piece: Slice) -> Iterator[pa.RecordBatch]:
        """The slice as batches, with a row for every gap in it."""
        schema = tables.arrow_schema(self.schema)
        with uncollected():
            for found in self._chunks(piece):
                if isinstance(found, Chunk):
                    yield tables.batch(self.options.table, piece.queue, found.rows, schema)
                elif self._counts:
                    after, lost, why = found
                    yield tables.gap(piece.queue, after, lost, why, schema)

    def _chunks(self, piece: Slice) -> Iterator[Chunk | tuple[str, int | None, str]]:
        """What the server still has of a slice; then what is missing in it, by the ordinals of its marks: whether that
        was trimmed, deleted, or forgotten by a server that crashed.
        """
        key, count = self.key(piece.queue), self.options.fetch_count
        at, overtaken, rows = piece.start, None, 0
        if piece.anew:
            why = Standing.RECREATED if at.id == ORIGIN else Standing.ROLLED_BACK
            yield _place(at, piece), None, why.value
        while True:
            chunk = self.ask(read, key, at, last=piece.end.id, count=count)
            if piece.exact and chunk.is_another and chunk.is_past:
                if not self.options.allow_recreated:
                    raise recreated(piece.queue, at, chunk)
                break
            if piece.exact and chunk.lost:
                overtaken = overtaken or at
            elif not piece.exact and chunk.is_past and chunk.floor > piece.floor:
                yield self._lost(piece, at, None)
                piece.floor = chunk.floor
            if chunk.rows:
                yield chunk
                rows += len(chunk.rows)
                at = Mark(chunk.rows[-1][0].decode(), piece.start.n + rows, at.epoch)
            if len(chunk.rows) < count:
                break
        lost = piece.end.n - piece.start.n - rows
        if piece.exact and self._counts and lost:
            yield self._lost(piece, overtaken or at, lost, "trimmed" if overtaken else "missing")

    @property
    def _counts(self) -> bool:
        """Whether entries must be accounted for: dead letters and jobs are deleted by right."""
        return self.options.table == "events"

    def _lost(
        self, piece: Slice, at: Mark, lost: int | None, why: str = "trimmed"
    ) -> tuple[str, int | None, str]:
        """A gap; that there should be too much instead is a contradiction, and told as one."""
        if lost is not None and lost < 0:
            raise ServerError(
                f"{piece.queue}: {-lost} more events than there can be up to {piece.end.id}",
                hint="was the stream restored or written by hand? begin again with a new checkpoint",
            )
        if self.options.fail_on_loss and self._counts:
            raise data_loss(piece.queue, at, piece.end, lost)
        return _place(at, piece), lost, why


def _place(at: Mark, piece: Slice) -> str:
    """The id a gap is told under: of the last entry before it, if there ever was one."""
    return at.id if at.id != ORIGIN else piece.end.id


@contextmanager
def uncollected() -> Iterator[None]:
    """A million small objects: the collector would look at all of them again and again and find nothing."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def data_loss(queue: str, at: Mark, end: Mark, lost: int | None) -> DataLoss:
    """The error for events that were trimmed before they were read."""
    many = "an unknown number of" if lost is None else f"{lost}"
    return DataLoss(
        f"{queue}: {many} events between {at.id} (#{at.n}) and {end.id} (#{end.n}) were trimmed before they were read",
        hint=LOSS_HINT,
    )


def recreated(queue: str, at: Mark, chunk: Chunk) -> Recreated:
    """The error for a stream that is not the one that was read before."""
    now = chunk.reach
    return Recreated(
        f"{queue}: the stream was deleted and made anew: it was read up to {at.id} (#{at.n}), "
        f"and now it ends at {now.last_id} (#{now.added})",
        hint=ANOTHER_HINT,
    )


def rolled_back(queue: str, at: Mark, chunk: Chunk) -> DataLoss:
    """The error for a stream that forgot entries which were read."""
    now = chunk.reach
    return DataLoss(
        f"{queue}: the server forgot its newest entries: it was read up to {at.id} (#{at.n}), which is not there any "
        f"more, and now it ends at {now.last_id} (#{now.added})",
        hint=ROLLED_BACK_HINT,
    )


def missing(queue: str, table: str) -> NotFound:
    """The error for a queue that has nothing to read."""
    return NotFound(
        f"there is no {table} stream of a queue named {queue!r} on this server",
        hint="`chasqui queues` lists what is there; has a worker of it ever run?",
    )


def check_order(start: Mark, end: Mark, queue: str) -> None:
    """Refuse to read backwards."""
    from chasqui.stretch import order

    if order(start.id) > order(end.id):
        raise ArgumentError(
            f"{queue}: reading would start at {start.id}, after its end {end.id}",
            hint="mend startingOffsets, endingOffsets or the timestamps",
        )
