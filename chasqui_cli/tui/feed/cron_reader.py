"""The reader for repeatable jobs: what they say in words, and when they fire next."""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING

from chasqui import Undecodable, cron
from chasqui.cron import dst_notes
from chasqui.errors import ChasquiError
from chasqui.schedule import fire_times, repeatable
from chasqui.undo import changed_schedules
from chasqui_cli.output.job_text import pattern_text
from chasqui_cli.tui.feed.tab_reader import QueueTabReader, queue_keys
from chasqui_cli.tui.views import CronView, FireRow, ScheduleRow

if TYPE_CHECKING:
    from chasqui import RepeatSpec
    from chasqui.schedule.repeatable import ListedSpec
    from chasqui_cli.tui.feed.tab_reader import FeedContext
    from chasqui_cli.tui.feed_messages import ReadTarget

PAGE = 200
NEXT_FIRES = 5


class CronReader(QueueTabReader):
    """Repeatable jobs."""

    def __init__(self, place: FeedContext) -> None:
        super().__init__(place)
        self._known: tuple[str, list[bytes]] = ("", [])

    def forget(self) -> None:
        """A change was made."""
        self._known = ("", [])

    async def read(self, target: ReadTarget) -> tuple[CronView, int]:
        """In one round trip while the schedules are those of the tick before; in two more when they are not."""
        queue, keys = target.queue or "", queue_keys(target.queue or "")
        known = self._known[1] if self._known[0] == queue else []
        row, now_ms, [held] = await self.query(
            queue, changed_schedules.read_raw_specs(self.place.commands, keys, known)
        )
        if len(held) == row.native_snapshot.repeatable_count and all(one.next_ms is not None for one in held):
            found = [repeatable.decode_raw_spec(key, one) for key, one in zip(known, held, strict=True)]
            found.sort(key=lambda one: (one.next_ms, one.raw_key))
        else:
            listing = repeatable.list_specs(self.place.commands, keys, PAGE * (target.page + 1))
            row, now_ms, [found] = await self.query(queue, listing)
            self._known = (queue, [one.raw_key for one in found])
        return CronView(row, tuple(_schedule_row(one) for one in found)), now_ms


def _schedule_row(one: ListedSpec) -> ScheduleRow:
    spec = one.spec
    if isinstance(spec, Undecodable):
        return ScheduleRow(one.key, "", "", one.next_ms, one.fired, None, (), spec.reason)
    return ScheduleRow(
        key=one.key,
        name=spec.job_name,
        words=pattern_text(spec.pattern),
        next_ms=one.next_ms,
        fired=one.fired,
        limit=spec.limit,
        fires=_fires(one, spec),
        unreadable=None,
    )


def _fires(one: ListedSpec, spec: RepeatSpec) -> tuple[FireRow, ...]:
    left = NEXT_FIRES if spec.limit is None else max(0, min(NEXT_FIRES, spec.limit - one.fired))
    expression = getattr(spec.pattern, "expression", None)
    try:
        schedule = cron.parse_cron(expression, getattr(spec.pattern, "tz", None)) if expression else None
        times = list(
            fire_times.upcoming_fires(
                spec.pattern, one.next_ms, left, start_after_ms=spec.start_after_ms, end_before_ms=spec.end_before_ms
            )
        )
    except ChasquiError:
        return ()
    return tuple(
        FireRow(
            at_ms,
            dst_notes.local_time_text(at_ms, schedule.zone if schedule else UTC),
            (dst_notes.dst_remark(schedule, at_ms, before) or "") if schedule else "",
        )
        for before, at_ms in zip([None, *times], times, strict=False)
    )
