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
from chasqui.stretch import ORIGIN, Mark, Standing, ends, order, resume, standing, walk
from pyspark_chasqui import plainly
from pyspark_chasqui.reading import before_ms
from pyspark_chasqui.slices import Slice, Source, data_loss, recreated, rolled_back

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from pyspark_chasqui.options import ReadOptions

LOOK_AGAIN_S = 10.0
"""How often a pattern is matched against the queues there are, at the most."""
LOOKING_SHARE = 1 / 50
"""How much of the time may go into that: among millions of keys one look takes the server seconds."""
SAFE_SHARE = 1 / 10
"""How much of a stream may wait unread for more to come; whatever its cap is, the rest of it is room."""

Offsets = dict[str, dict[str, Any]]


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Follows the streams of the queues. Spark keeps one of it on the driver for the length of a query."""

    def __init__(self, options: ReadOptions, schema: Any) -> None:
        self.source = Source(options, schema)
        self._known: list[str] = []
        self._look_at = 0.0
        self._cuts: dict[str, list[Mark]] = {}
        self._goal: dict[str, Mark] | None = None
        self._newest: dict[str, Mark] = {}
        self._taken_at: dict[str, float] = {}

    def initialOffset(self) -> Offsets:  # noqa: N802 - Spark's word
        """Where the first batch begins."""
        with plainly.told():
            begins = {queue: self._start(queue) for queue in self._queues()}
            return told(begins, begins)

    def latestOffset(self, start: Offsets, limit: Any) -> Offsets:  # noqa: N802 - Spark's word
        """Where the next batch ends: at the newest entries, or as far as the limit goes, shared evenly."""
        with plainly.told():
            before, origins = marks_in(start), origins_in(start)
            marks = self._subscribed(before)
            most = getattr(limit, "max_rows", None)
            self._cuts, self._newest = {}, {}
            waiting = {queue: self._newest_of(queue, mark) for queue, mark in marks.items()}
            backlog = sum(newest.n - begin.n for begin, newest in waiting.values()) or 1
            share = 1.0 if most is None else min(1.0, most / backlog)
            found = {queue: self._end(queue, *waiting[queue], share) for queue in marks}
            for queue, (begin, newest) in waiting.items():
                self._took(queue, begin, found[queue], newest)
                if queue not in before or before[queue].epoch != begin.epoch:
                    origins[queue] = begin
            return told(before | found, origins)

    def getDefaultReadLimit(self) -> Any:  # noqa: N802 - Spark's word
        """`maxOffsetsPerTrigger`, if it was given."""
        most = self.source.options.max_per_trigger
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def reportLatestOffset(self) -> Offsets | None:  # noqa: N802 - Spark's word
        """How far the streams reached when they were last looked at, for the lag in Spark's progress."""
        return told(self._newest, {}) if self._newest else None

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's word
        """What is there now is what will be read, however much comes meanwhile."""
        with plainly.told():
            self._goal = {}
            for queue in self._queues():
                _, end, _ = self.source.ask(ends, self.source.key(queue))
                self._goal[queue] = end

    def partitions(self, start: Offsets, end: Offsets) -> Sequence[Slice]:
        """The slices of one batch. The cuts were made with the offset; after a restart they are made again.

        For its very first batch Spark asks for the initial offset once more, and after a restart again: by then it may
        have moved. What counts is where the batch was said to begin when its end was chosen.
        """
        with plainly.told():
            begins, begun, origins, found = marks_in(start), origins_in(start), origins_in(end), []
            for queue, last in marks_in(end).items():
                first = begins.get(queue)
                anew = first is not None and first.epoch != last.epoch
                if first is None or anew:
                    first = origins.get(queue, Mark(epoch=last.epoch))
                elif first == begun.get(queue):
                    first = origins.get(queue, first)
                if first == last:
                    continue
                marks = [first, *self._inner(queue, first, last), last]
                found += [Slice(queue, a, b) for a, b in pairwise(marks)]
                found[-len(marks) + 1].anew = anew
            return found or [Slice("", Mark(), Mark())]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """The rows of one slice."""
        with plainly.told():
            if partition.end != Mark():
                yield from self.source.rows_of(partition)

    def commit(self, end: Offsets) -> None:
        """Nothing to do: reading leaves no trace on the server."""

    def stop(self) -> None:
        """Nothing to do: the link is the process's."""

    def _subscribed(self, before: dict[str, Mark]) -> dict[str, Mark]:
        """The queues to read on, each from where it was left. One that is new begins where `startingOffsets` says,
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
        begun = {queue: self._start(queue) if by_name else Mark() for queue in fresh}
        return {queue: before[queue] for queue in queues if queue in before} | begun

    def _queues(self) -> list[str]:
        clock = SystemClock()
        begun = clock.mono()
        if begun >= self._look_at:
            self._known = self.source.queues()
            took = clock.mono() - begun
            self._look_at = begun + max(LOOK_AGAIN_S, took / LOOKING_SHARE)
        return self._known

    def _start(self, queue: str) -> Mark:
        options, key = self.source.options, self.source.key(queue)
        floor, end, _ = self.source.ask(ends, key)
        if options.starting_ms is not None:
            wanted = before_ms(options.starting_ms).id
        elif isinstance(options.starting, dict) and queue in options.starting:
            wanted = options.starting[queue]
        else:
            return end if options.starting == "latest" else floor
        if order(wanted) >= order(end.id):
            return end
        rows = end.n - floor.n
        return self.source.ask(walk, key, floor, rows, last=wanted)

    def _newest_of(self, queue: str, mark: Mark) -> tuple[Mark, Mark]:
        """From where a queue is read on, and how far it reaches. A stream that was made anew begins another epoch, and so
        does one whose server forgot what was read already.
        """
        options, key = self.source.options, self.source.key(queue)
        fate, chunk = self.source.ask(standing, key, mark)
        if not chunk.reach.exists:
            return mark, mark
        if fate is Standing.RECREATED:
            if not options.allow_recreated:
                raise recreated(queue, mark, chunk)
            mark = Mark(epoch=mark.epoch + 1)
        elif fate is Standing.ROLLED_BACK:
            if options.fail_on_loss and not options.allow_recreated:
                raise rolled_back(queue, mark, chunk)
            mark = self.source.ask(resume, key, mark)
        newest = Mark(chunk.reach.last_id or ORIGIN, chunk.reach.added, mark.epoch)
        if options.table == "events" and options.fail_on_loss and chunk.lost and fate is Standing.SAME:
            raise data_loss(queue, mark, newest, chunk.lost)
        if self._goal is not None:
            if fate is not Standing.SAME or queue not in self._goal:
                self._goal[queue] = newest  # the old one is of another stream
            goal = self._goal[queue]
            if order(goal.id) < order(newest.id):
                newest = Mark(goal.id, goal.n, mark.epoch)
        self._newest[queue] = newest
        if fate is Standing.SAME and self._may_wait(queue, newest.n - mark.n, chunk.reach.length):
            return mark, mark
        return mark, newest

    def _may_wait(self, queue: str, unread: int, length: int) -> bool:
        """Whether a queue's few new entries are left for a later batch, so that many small ones become few. Not the first
        ones after a start, nor any that are much of what the stream holds, for those may be trimmed soon.
        """
        options = self.source.options
        few = unread < min(options.min_per_trigger, length * SAFE_SHARE)
        waited = SystemClock().mono() - self._taken_at.get(queue, -inf)
        return few and waited < options.max_delay_s and self._goal is None

    def _took(self, queue: str, begin: Mark, end: Mark, newest: Mark) -> None:
        """Remember when all of a queue was taken. What the limit left over has waited already."""
        if end.n < newest.n:
            self._taken_at.pop(queue, None)
        elif begin.n < end.n:
            self._taken_at[queue] = SystemClock().mono()

    def _end(self, queue: str, start: Mark, newest: Mark, share: float) -> Mark:
        """As far on as this queue's share of the limit goes, cut into slices on the way."""
        rows = newest.n - start.n
        size = self.source.options.max_per_partition
        wanted = rows if share >= 1.0 else max(1, int(rows * share))
        if wanted == rows and rows <= size:
            return newest
        cuts = self._walked(queue, start, start.n + wanted, newest)
        if wanted == rows:
            self._cuts[queue] = cuts
            return newest
        self._cuts[queue] = cuts[:-1]
        return cuts[-1] if cuts else newest

    def _walked(self, queue: str, start: Mark, goal: int, last: Mark) -> list[Mark]:
        """Marks up to the `goal`-th entry, a slice apart."""
        key, size = self.source.key(queue), self.source.options.max_per_partition
        marks, at = [], start
        while at.n < goal:
            step = min(size, goal - at.n)
            onwards = self.source.ask(walk, key, at, step, last=last.id)
            if onwards.n <= at.n:
                break
            at = Mark(onwards.id, onwards.n, start.epoch)
            marks.append(at)
        return marks

    def _inner(self, queue: str, first: Mark, last: Mark) -> list[Mark]:
        if last.n - first.n <= self.source.options.max_per_partition:
            return []
        cuts = self._cuts.get(queue) or self._walked(queue, first, last.n, last)
        return [cut for cut in cuts if first.n < cut.n < last.n and order(cut.id) <= order(last.id)]


def told(marks: dict[str, Mark], origins: dict[str, Mark]) -> Offsets:
    """Marks as Spark keeps them: `{"emails": {"id": …, "n": …, "ep": …, "from": {"id": …, "n": …}}}`.

    from: where the epoch began for us, so that the batch in which it did can be read again after a restart.
    """
    found: Offsets = {}
    for queue, mark in marks.items():
        found[queue] = {"id": mark.id, "n": mark.n, "ep": mark.epoch}
        if queue in origins:
            found[queue]["from"] = {"id": origins[queue].id, "n": origins[queue].n}
    return found


def marks_in(offsets: Offsets) -> dict[str, Mark]:
    """The marks of an offset."""
    return {queue: Mark(one["id"], one["n"], one.get("ep", 0)) for queue, one in offsets.items()}


def origins_in(offsets: Offsets) -> dict[str, Mark]:
    """Where the epochs of an offset began; older checkpoints do not say."""
    return {
        queue: Mark(one["from"]["id"], one["from"]["n"], one.get("ep", 0))
        for queue, one in offsets.items()
        if "from" in one
    }
