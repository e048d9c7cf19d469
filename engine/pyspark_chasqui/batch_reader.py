"""Batch reads: what is there now, cut into slices that tasks read side by side."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader

from chasqui.inspect.stream_range import StreamPosition, position_after, stream_bounds
from chasqui.wire.entry_id import ZERO, sort_key
from pyspark_chasqui import error_marks
from pyspark_chasqui.slices import StreamSlice, StreamSource, check_order, missing_stream_error

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa

    from pyspark_chasqui.source_options import ReadOptions

MAX_SEQ = 2**64 - 1
SLICES_PER_PARTITION = 2
"""Time is cut into more slices than asked for: jobs come in bursts, and many slices even out. A long stream makes many
of itself, and more would only add the cost of a task each."""


class BatchReader(DataSourceReader):
    """Reads each slice of each queue once."""

    def __init__(self, options: ReadOptions, schema: Any) -> None:
        self.source = StreamSource(options, schema)

    def partitions(self) -> Sequence[StreamSlice]:
        """The slices; one of nothing if there is nothing, for Spark wants at least one."""
        with error_marks.marked_errors():
            queues = self.source.queues()
            found = [piece for queue in queues for piece in self._slices(queue, alone=len(queues) == 1)]
            return found or [StreamSlice.nothing()]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """The rows of one slice."""
        with error_marks.marked_errors():
            if partition.queue or not partition.is_nothing:
                yield from self.source.read_slice(partition)

    def _slices(self, queue: str, *, alone: bool) -> list[StreamSlice]:
        source, options = self.source, self.source.options
        start, end, reach = source.run(stream_bounds, source.stream_key(queue))
        if not reach.exists and alone and not options.pattern:
            raise missing_stream_error(queue, options.table)
        if not reach.length:
            return []
        first, last = self._bounds(queue, start, end)
        check_order(first, last, queue)
        whole = first == start and last == end
        if whole and options.table == "events" and reach.length <= options.max_per_partition:
            return self._slices_by_count(queue, start, end)
        return self._slices_by_time(queue, first, last, reach)

    def _bounds(self, queue: str, start: StreamPosition, end: StreamPosition) -> tuple[StreamPosition, StreamPosition]:
        """Where to begin (after) and to end (including), by offsets and by time, whichever is narrower."""
        options = self.source.options
        first, last = start, end
        if options.starting == "latest":
            first = end
        elif isinstance(options.starting, dict) and queue in options.starting:
            first = StreamPosition(options.starting[queue])
        if isinstance(options.ending, dict) and queue in options.ending:
            last = min(last, StreamPosition(options.ending[queue]), key=lambda mark: sort_key(mark.id))
        elif options.ending == "earliest":
            last = start
        if options.starting_ms is not None:
            first = max(first, position_before_ms(options.starting_ms), key=lambda mark: sort_key(mark.id))
        if options.ending_ms is not None:
            last = min(last, position_before_ms(options.ending_ms), key=lambda mark: sort_key(mark.id))
        if sort_key(first.id) > sort_key(end.id):
            first = last = end  # all of it is older than asked for
        return first, last

    def _slices_by_count(self, queue: str, start: StreamPosition, end: StreamPosition) -> list[StreamSlice]:
        """A stream that is short enough to be walked: trimmed ones are, and only those lose anything."""
        source, options = self.source, self.source.options
        size = max(options.fetch_count, -(-(end.ordinal - start.ordinal) // options.min_partitions))
        marks = [start]
        while marks[-1].ordinal + size < end.ordinal:
            at = marks[-1]
            onwards = source.run(position_after, source.stream_key(queue), at, size, last=end.id)
            if onwards.ordinal <= at.ordinal:
                break
            marks.append(onwards)
        marks.append(end)
        return [StreamSlice(queue, a, b, gone_before=start.ordinal) for a, b in pairwise(marks)]

    def _slices_by_time(self, queue: str, first: StreamPosition, last: StreamPosition, reach: Any) -> list[StreamSlice]:
        """Even pieces of time between the first entry and the last."""
        options = self.source.options
        needed = max(SLICES_PER_PARTITION * options.min_partitions, -(-reach.length // options.max_per_partition))
        low = max(sort_key(first.id)[0], sort_key(reach.first_id)[0])
        high = sort_key(last.id)[0]
        pieces = min(needed, max(1, high - low)) if reach.length > options.fetch_count else 1
        cuts = [position_before_ms(low + (high - low) * n // pieces) for n in range(1, pieces)]
        inner = [cut for cut in cuts if sort_key(first.id) < sort_key(cut.id) < sort_key(last.id)]
        marks = [first, *inner, last]
        floor = reach.added - reach.length
        return [
            StreamSlice(queue, StreamPosition(a.id), StreamPosition(b.id), exact=False, gone_before=floor)
            for a, b in pairwise(marks)
        ]


class PushdownReader(BatchReader):
    """The same, with the query's filters: queues and times that it would discard are not even read.

    A class of its own, because Spark refuses any reader that can do this unless the session allows it.
    """

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:  # noqa: N802 - Spark's word
        """Take what can be had by reading less; hand back the rest."""
        return [one for one in filters if not self._pushed_down(one)]

    def _pushed_down(self, one: Any) -> bool:
        kind, column = type(one).__name__, getattr(one, "attribute", ())
        if column == ("ms",) and kind in _TIME_BOUNDS:
            self._narrow_times(*_TIME_BOUNDS[kind](one.value))
            return True
        if column == ("queue",) and kind in ("EqualTo", "In"):
            wanted = set(one.value if kind == "In" else [one.value])
            options = self.source.options
            queues = options.queues or tuple(self.source.queues())
            saved = tuple(queue for queue in queues if queue in wanted)
            if saved:
                self.source.options = replace(options, queues=saved, pattern=None)
                return True
        return False

    def _narrow_times(self, least: int | None, below: int | None) -> None:
        options = self.source.options
        starts = [ms for ms in (options.starting_ms, least) if ms is not None]
        ends_ = [ms for ms in (options.ending_ms, below) if ms is not None]
        self.source.options = replace(
            options, starting_ms=max(starts, default=None), ending_ms=min(ends_, default=None)
        )


_TIME_BOUNDS: dict[str, Any] = {
    "GreaterThan": lambda ms: (ms + 1, None),
    "GreaterThanOrEqual": lambda ms: (ms, None),
    "LessThan": lambda ms: (None, ms),
    "LessThanOrEqual": lambda ms: (None, ms + 1),
    "EqualTo": lambda ms: (ms, ms + 1),
}


def position_before_ms(ms: int) -> StreamPosition:
    """Right before the first entry of a millisecond."""
    return StreamPosition(f"{ms - 1}-{MAX_SEQ}") if ms > 0 else StreamPosition(ZERO)
