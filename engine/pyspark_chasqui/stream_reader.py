"""Streaming reads: offsets are marks (id and ordinal), so Spark's own progress shows the exact lag.

Offsets are chosen here, on the driver; slices are read by tasks, and what was trimmed in between is counted there.
"""

from __future__ import annotations

from itertools import pairwise
from math import inf
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, SupportsTriggerAvailableNow

from chasqui.clock import SystemClock
from chasqui.errors import ConfigError
from chasqui.inspect.stream_range import (
    PositionStatus,
    StreamPosition,
    check_position,
    position_after,
    position_after_rollback,
    stream_bounds,
)
from chasqui.wire.entry_id import ZERO, sort_key
from pyspark_chasqui import error_marks
from pyspark_chasqui.batch_reader import position_before_ms
from pyspark_chasqui.slices import StreamSlice, StreamSource, data_loss_error, recreated_error, rolled_back_error

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from pyspark_chasqui.source_options import ReadOptions

DISCOVERY_INTERVAL_S = 10.0
"""How often a pattern is matched against the queues there are, at the most."""
DISCOVERY_TIME_SHARE = 1 / 50
"""How much of the time may go into that: among millions of keys one look takes the server seconds."""
MAX_DELAYED_SHARE = 1 / 10
"""How much of a stream may wait unread for more to come; whatever its cap is, the rest of it is room."""

SparkOffsets = dict[str, dict[str, Any]]


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Follows the streams of the queues. Spark keeps one of it on the driver for the length of a query."""

    def __init__(self, options: ReadOptions, schema: Any) -> None:
        self.source = StreamSource(options, schema)
        self._known: list[str] = []
        self._look_at = 0.0
        self._cuts: dict[str, list[StreamPosition]] = {}
        self._goal: dict[str, StreamPosition] | None = None
        self._newest: dict[str, StreamPosition] = {}
        self._taken_at: dict[str, float] = {}

    def initialOffset(self) -> SparkOffsets:  # noqa: N802 - Spark's word
        """Where the first batch begins."""
        with error_marks.marked_errors():
            begins = {queue: self._start_position(queue) for queue in self._queues()}
            return offsets_from(begins, begins)

    def latestOffset(self, start: SparkOffsets, limit: Any) -> SparkOffsets:  # noqa: N802 - Spark's word
        """Where the next batch ends: at the newest entries, or as far as the limit goes, shared evenly."""
        with error_marks.marked_errors():
            before, origins = positions_in(start), origins_in(start)
            marks = self._subscribed(before)
            most = getattr(limit, "max_rows", None)
            self._cuts, self._newest = {}, {}
            waiting = {queue: self._unread_range(queue, mark) for queue, mark in marks.items()}
            backlog = sum(newest.ordinal - begin.ordinal for begin, newest in waiting.values()) or 1
            share = 1.0 if most is None else min(1.0, most / backlog)
            found = {queue: self._end_position(queue, *waiting[queue], share) for queue in marks}
            for queue, (begin, newest) in waiting.items():
                self._note_taken(queue, begin, found[queue], newest)
                if queue not in before or before[queue].epoch != begin.epoch:
                    origins[queue] = begin
            return offsets_from(before | found, origins)

    def getDefaultReadLimit(self) -> Any:  # noqa: N802 - Spark's word
        """`maxOffsetsPerTrigger`, if it was given."""
        most = self.source.options.max_per_trigger
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def reportLatestOffset(self) -> SparkOffsets | None:  # noqa: N802 - Spark's word
        """How far the streams reached when they were last looked at, for the lag in Spark's progress."""
        return offsets_from(self._newest, {}) if self._newest else None

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's word
        """What is there now is what will be read, however much comes meanwhile."""
        with error_marks.marked_errors():
            self._goal = {}
            for queue in self._queues():
                _, end, _ = self.source.run(stream_bounds, self.source.stream_key(queue))
                self._goal[queue] = end

    def partitions(self, start: SparkOffsets, end: SparkOffsets) -> Sequence[StreamSlice]:
        """The slices of one batch. The cuts were made with the offset; after a restart they are made again.

        For its very first batch Spark asks for the initial offset once more, and after a restart again: by then it may
        have moved. What counts is where the batch was said to begin when its end was chosen.
        """
        with error_marks.marked_errors():
            begins, begun, origins, found = positions_in(start), origins_in(start), origins_in(end), []
            for queue, last in positions_in(end).items():
                first = begins.get(queue)
                recreated = first is not None and first.epoch != last.epoch
                if first is None or recreated:
                    first = origins.get(queue, StreamPosition(epoch=last.epoch))
                elif first == begun.get(queue):
                    first = origins.get(queue, first)
                if first == last:
                    continue
                marks = [first, *self._inner_cuts(queue, first, last), last]
                found += [StreamSlice(queue, a, b) for a, b in pairwise(marks)]
                found[-len(marks) + 1].recreated = recreated
            return found or [StreamSlice.nothing()]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """The rows of one slice."""
        with error_marks.marked_errors():
            if not partition.is_nothing:
                yield from self.source.read_slice(partition)

    def commit(self, end: SparkOffsets) -> None:
        """Nothing to do: reading leaves no trace on the server."""

    def stop(self) -> None:
        """Nothing to do: the link is the process's."""

    def _subscribed(self, before: dict[str, StreamPosition]) -> dict[str, StreamPosition]:
        """The queues to read on, each from where it was left. One that is new begins at `startingOffsets`,
        or, if a pattern found it while we looked, with the first entry it ever had.
        """
        queues, by_name = self._queues(), not self.source.options.pattern
        if by_name and before and before.keys().isdisjoint(queues):
            raise ConfigError(
                f"the checkpoint is of {', '.join(sorted(before))}, not of {', '.join(queues)}",
                hint="use another checkpoint, or another archive, for other queues",
            )
        fresh = [queue for queue in queues if queue not in before]
        if self._goal is not None:
            fresh = [queue for queue in fresh if queue in self._goal]
        begun = {queue: self._start_position(queue) if by_name else StreamPosition() for queue in fresh}
        return {queue: before[queue] for queue in queues if queue in before} | begun

    def _queues(self) -> list[str]:
        clock = SystemClock()
        begun = clock.monotonic()
        if begun >= self._look_at:
            self._known = self.source.queues()
            took = clock.monotonic() - begun
            self._look_at = begun + max(DISCOVERY_INTERVAL_S, took / DISCOVERY_TIME_SHARE)
        return self._known

    def _start_position(self, queue: str) -> StreamPosition:
        options, key = self.source.options, self.source.stream_key(queue)
        floor, end, _ = self.source.run(stream_bounds, key)
        if options.starting_ms is not None:
            wanted = position_before_ms(options.starting_ms).id
        elif isinstance(options.starting, dict) and queue in options.starting:
            wanted = options.starting[queue]
        else:
            return end if options.starting == "latest" else floor
        if sort_key(wanted) >= sort_key(end.id):
            return end
        rows = end.ordinal - floor.ordinal
        return self.source.run(position_after, key, floor, rows, last=wanted)

    def _unread_range(self, queue: str, mark: StreamPosition) -> tuple[StreamPosition, StreamPosition]:
        """From where a queue is read on, and how far it reaches. A stream that was created again begins another epoch,
        and so does one whose server forgot what was read already.
        """
        options, key = self.source.options, self.source.stream_key(queue)
        fate, chunk = self.source.run(check_position, key, mark)
        if not chunk.reach.exists:
            return mark, mark
        if fate is PositionStatus.RECREATED:
            if not options.allow_recreated:
                raise recreated_error(queue, mark, chunk)
            mark = StreamPosition(epoch=mark.epoch + 1)
        elif fate is PositionStatus.ROLLED_BACK:
            if options.fail_on_loss and not options.allow_recreated:
                raise rolled_back_error(queue, mark, chunk)
            mark = self.source.run(position_after_rollback, key, mark)
        newest = StreamPosition(chunk.reach.last_id or ZERO, chunk.reach.added, mark.epoch)
        if options.table == "events" and options.fail_on_loss and chunk.lost and fate is PositionStatus.SAME:
            raise data_loss_error(queue, mark, newest, chunk.lost)
        if self._goal is not None:
            if fate is not PositionStatus.SAME or queue not in self._goal:
                self._goal[queue] = newest  # the old one is of another stream
            goal = self._goal[queue]
            if sort_key(goal.id) < sort_key(newest.id):
                newest = StreamPosition(goal.id, goal.ordinal, mark.epoch)
        self._newest[queue] = newest
        if fate is PositionStatus.SAME and self._may_delay(queue, newest.ordinal - mark.ordinal, chunk.reach.length):
            return mark, mark
        return mark, newest

    def _may_delay(self, queue: str, unread: int, length: int) -> bool:
        """Whether a queue's few new entries are left for a later batch, so that many small ones become few. Not the first
        ones after a start, nor any that are much of what the stream holds, for those may be trimmed soon.
        """
        options = self.source.options
        few = unread < min(options.min_per_trigger, length * MAX_DELAYED_SHARE)
        waited = SystemClock().monotonic() - self._taken_at.get(queue, -inf)
        return few and waited < options.max_delay_s and self._goal is None

    def _note_taken(self, queue: str, begin: StreamPosition, end: StreamPosition, newest: StreamPosition) -> None:
        """Remember when all of a queue was taken. What the limit left over has waited already."""
        if end.ordinal < newest.ordinal:
            self._taken_at.pop(queue, None)
        elif begin.ordinal < end.ordinal:
            self._taken_at[queue] = SystemClock().monotonic()

    def _end_position(self, queue: str, start: StreamPosition, newest: StreamPosition, share: float) -> StreamPosition:
        """As far on as this queue's share of the limit goes, cut into slices on the way."""
        rows = newest.ordinal - start.ordinal
        size = self.source.options.max_per_partition
        wanted = rows if share >= 1.0 else max(1, int(rows * share))
        if wanted == rows and rows <= size:
            return newest
        cuts = self._cut_positions(queue, start, start.ordinal + wanted, newest)
        if wanted == rows:
            self._cuts[queue] = cuts
            return newest
        self._cuts[queue] = cuts[:-1]
        return cuts[-1] if cuts else newest

    def _cut_positions(
        self, queue: str, start: StreamPosition, goal: int, last: StreamPosition
    ) -> list[StreamPosition]:
        """Marks up to the `goal`-th entry, a slice apart."""
        key, size = self.source.stream_key(queue), self.source.options.max_per_partition
        marks, at = [], start
        while at.ordinal < goal:
            step = min(size, goal - at.ordinal)
            onwards = self.source.run(position_after, key, at, step, last=last.id)
            if onwards.ordinal <= at.ordinal:
                break
            at = StreamPosition(onwards.id, onwards.ordinal, start.epoch)
            marks.append(at)
        return marks

    def _inner_cuts(self, queue: str, first: StreamPosition, last: StreamPosition) -> list[StreamPosition]:
        if last.ordinal - first.ordinal <= self.source.options.max_per_partition:
            return []
        cuts = self._cuts.get(queue) or self._cut_positions(queue, first, last.ordinal, last)
        return [
            cut for cut in cuts if first.ordinal < cut.ordinal < last.ordinal and sort_key(cut.id) <= sort_key(last.id)
        ]


def offsets_from(marks: dict[str, StreamPosition], origins: dict[str, StreamPosition]) -> SparkOffsets:
    """Marks as Spark keeps them: `{"emails": {"id": …, "n": …, "ep": …, "from": {"id": …, "n": …}}}`.

    from: where the epoch began for us, so that the batch in which it did can be read again after a restart.
    """
    found: SparkOffsets = {}
    for queue, mark in marks.items():
        found[queue] = {"id": mark.id, "n": mark.ordinal, "ep": mark.epoch}
        if queue in origins:
            found[queue]["from"] = {"id": origins[queue].id, "n": origins[queue].ordinal}
    return found


def positions_in(offsets: SparkOffsets) -> dict[str, StreamPosition]:
    """The marks of an offset."""
    return {queue: StreamPosition(one["id"], one["n"], one.get("ep", 0)) for queue, one in offsets.items()}


def origins_in(offsets: SparkOffsets) -> dict[str, StreamPosition]:
    """Where the epochs of an offset began; older checkpoints do not say."""
    return {
        queue: StreamPosition(one["from"]["id"], one["from"]["n"], one.get("ep", 0))
        for queue, one in offsets.items()
        if "from" in one
    }
