"""The reader for delayed jobs: the next ones, and how many fall due when."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from chasqui import Keys, Undecodable, delaying, jobs
from chasqui_cli.tui.feed.asking import QueueAsker
from chasqui_cli.tui.feed.opening import job_row
from chasqui_cli.tui.views import DelayedView

if TYPE_CHECKING:
    from chasqui import Envelope
    from chasqui_cli.tui.messages import Target

PAGE = 100
BUCKETS = 12


class DelayedReader(QueueAsker):
    """Jobs that wait for their time."""

    async def read(self, target: Target) -> tuple[DelayedView, int]:
        """In two round trips: how far the histogram reaches has to be known before it is counted."""
        queue, commands = target.queue or "", self.place.commands
        row, now_ms, [page, told] = await self.ask(
            queue,
            jobs.delayed(commands, Keys(queue), PAGE * (target.page + 1)),
            delaying.histogram(commands, Keys(queue), buckets=BUCKETS),
        )
        buckets: list[tuple[int | None, int | None, int]] = [
            (None, told.now_ms, told.overdue),
            *((one.from_ms, one.to_ms, one.jobs) for one in told.buckets),
        ]
        if told.later:
            buckets.append((told.buckets[-1].to_ms if told.buckets else told.now_ms, None, told.later))
        rows = [
            job_row(
                f"{one.run_at_ms}/{nth}/{_ref(one.job)}", one.job, one.name, one.run_at_ms, one, _ref(one.job)
            )
            for nth, one in enumerate(page)
        ]
        return DelayedView(row, tuple(rows), tuple(buckets)), now_ms


def _ref(job: Envelope | Undecodable) -> str:
    """How a delayed job is named on the command line: by its id, or by a digest of what is no job."""
    return "~" + hashlib.sha256(job.raw).hexdigest()[:12] if isinstance(job, Undecodable) else job.id
