"""The reader for delayed jobs: the next ones, and how many fall due when."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chasqui import SystemClock
from chasqui.inspect import jobs_by_state
from chasqui.operate import delayed_jobs
from chasqui_cli.output.records import job_ref
from chasqui_cli.tui.feed.job_details import job_row
from chasqui_cli.tui.feed.tab_reader import QueueTabReader, queue_keys
from chasqui_cli.tui.views import DelayedView

if TYPE_CHECKING:
    from chasqui import Flow
    from chasqui.operate.delayed_jobs import Histogram
    from chasqui_cli.tui.feed.tab_reader import FeedContext
    from chasqui_cli.tui.feed_messages import ReadTarget

PAGE = 100
BUCKETS = 12


class DelayedReader(QueueTabReader):
    """Jobs that wait for their time. Of each queue it keeps how far the server's clock is from ours, and when the last
    job was due.
    """

    def __init__(self, place: FeedContext) -> None:
        super().__init__(place)
        self._histogram_range: dict[str, tuple[int, int]] = {}

    async def read(self, target: ReadTarget) -> tuple[DelayedView, int]:
        """In one round trip, but for the first time: the reach of the histogram is known from the tick before."""
        queue, commands = target.queue or "", self.place.commands
        page_of = jobs_by_state.list_delayed(commands, queue_keys(queue), PAGE * (target.page + 1))
        row, now_ms, [page, histogram] = await self.query(queue, page_of, self._histogram(queue))
        if histogram.latest_ms is not None:
            self._histogram_range[queue] = (now_ms - self._mono_ms(), histogram.latest_ms)
        buckets: list[tuple[int | None, int | None, int]] = [
            (None, histogram.now_ms, histogram.overdue),
            *((one.from_ms, one.to_ms, one.jobs) for one in histogram.buckets),
        ]
        if histogram.later:
            buckets.append(
                (histogram.buckets[-1].to_ms if histogram.buckets else histogram.now_ms, None, histogram.later)
            )
        rows = [
            job_row(f"{one.run_at_ms}/{nth}/{job_ref(one)}", one.job, one.name, one.run_at_ms, one, job_ref(one))
            for nth, one in enumerate(page)
        ]
        return DelayedView(row, tuple(rows), tuple(buckets)), now_ms

    def _histogram(self, queue: str) -> Flow[Histogram]:
        commands, keys = self.place.commands, queue_keys(queue)
        if queue not in self._histogram_range:
            return delayed_jobs.due_histogram(commands, keys, buckets=BUCKETS)
        apart_ms, latest_ms = self._histogram_range.pop(queue)
        return delayed_jobs.due_histogram_at(commands, keys, self._mono_ms() + apart_ms, latest_ms, buckets=BUCKETS)

    @staticmethod
    def _mono_ms() -> int:
        return int(SystemClock().monotonic() * 1000)
