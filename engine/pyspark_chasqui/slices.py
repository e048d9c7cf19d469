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
from chasqui.stretch import ORIGIN, Chunk, Mark, read
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


@dataclass
class Slice(InputPartition):
    """From after one mark up to another. exact: the marks know their ordinals, so loss can be counted.

    floor: how many were gone already when the slice was planned. anew: the stream was made anew before it.
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
        counts = self.options.table == "events"
        with uncollected():
            for found in self._chunks(piece):
                if isinstance(found, Chunk):
                    yield tables.batch(self.options.table, piece.queue, found.rows, schema)
                elif counts:
                    after, lost, why = found
                    yield tables.gap(piece.queue, after, lost, why, schema)

    def _chunks(self, piece: Slice) -> Iterator[Chunk | tuple[str, int | None, str]]:
        key, count = self.key(piece.queue), self.options.fetch_count
        counts = self.options.table == "events"
        at, end = piece.start, piece.end
        if piece.anew:
            yield end.id, None, "recreated"
        while True:
            chunk = self.ask(read, key, at, last=end.id, count=count)
            if piece.exact and chunk.is_another and not self.options.allow_recreated:
                raise recreated(piece.queue, at, chunk)
            lost = min(chunk.lost, end.n - at.n) if piece.exact and not chunk.is_another else 0
            if counts and lost:
                yield self._lost(piece, at, lost)
            elif counts and not piece.exact and chunk.is_past and chunk.floor > piece.floor:
                yield self._lost(piece, at, None)
                piece.floor = chunk.floor
            if not chunk.rows or chunk.is_another:
                at = Mark(at.id, at.n + lost, at.epoch)
                break
            yield chunk
            at = Mark(chunk.rows[-1][0].decode(), at.n + lost + len(chunk.rows), at.epoch)
            if len(chunk.rows) < count:
                break
        if piece.exact and counts and at.n != end.n:
            yield self._remainder(piece, at)

    def _remainder(self, piece: Slice, at: Mark) -> tuple[str, int | None, str]:
        """What is missing at the end of a slice; that it should be too much is a contradiction, and told as one."""
        if at.n > piece.end.n:
            raise ServerError(
                f"{piece.queue}: {at.n - piece.end.n} more events than there can be up to {piece.end.id}",
                hint="was the stream restored or written by hand? begin again with a new checkpoint",
            )
        return self._lost(piece, at, piece.end.n - at.n)

    def _lost(self, piece: Slice, at: Mark, lost: int | None) -> tuple[str, int | None, str]:
        if self.options.fail_on_loss:
            raise data_loss(piece.queue, at, piece.end, lost)
        return at.id if at.id != ORIGIN else piece.end.id, lost, "trimmed"


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
