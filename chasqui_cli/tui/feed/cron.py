"""The reader for repeatable jobs: what they say in words, and when they fire next."""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING, Any

from chasqui import Undecodable, cron, fires, repeatable
from chasqui.cron import notes, words
from chasqui.errors import ChasquiError
from chasqui_cli.times import span
from chasqui_cli.tui.feed.asking import QueueAsker, keys_of
from chasqui_cli.tui.views import CronView, FireRow, SpecRow

if TYPE_CHECKING:
    from chasqui import RepeatSpec
    from chasqui.repeatable import Listed
    from chasqui_cli.tui.feed.asking import Place
    from chasqui_cli.tui.messages import Target

PAGE = 200
NEXT_FIRES = 5


class CronReader(QueueAsker):
    """Repeatable jobs."""

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self._known: tuple[str, list[bytes]] = ("", [])

    def forget(self) -> None:
        """Somebody changed something."""
        self._known = ("", [])

    async def read(self, target: Target) -> tuple[CronView, int]:
        """In one round trip while the schedules are those of the tick before; in two more when they are not."""
        queue, keys = target.queue or "", keys_of(target.queue or "")
        known = self._known[1] if self._known[0] == queue else []
        row, now_ms, [held] = await self.ask(queue, repeatable.held(self.place.commands, keys, known))
        if len(held) == row.sure.repeatable_count and all(one.next_ms is not None for one in held):
            found = [repeatable.listed(key, one) for key, one in zip(known, held, strict=True)]
            found.sort(key=lambda one: (one.next_ms, one.raw_key))
        else:
            listing = repeatable.listing(self.place.commands, keys, PAGE * (target.page + 1))
            row, now_ms, [found] = await self.ask(queue, listing)
            self._known = (queue, [one.raw_key for one in found])
        return CronView(row, tuple(_spec_row(one) for one in found)), now_ms


def _spec_row(one: Listed) -> SpecRow:
    spec = one.spec
    if isinstance(spec, Undecodable):
        return SpecRow(one.key, "", "", one.next_ms, one.fired, None, (), spec.reason)
    return SpecRow(
        key=one.key,
        name=spec.job_name,
        words=_words(spec.pattern),
        next_ms=one.next_ms,
        fired=one.fired,
        limit=spec.limit,
        fires=_fires(one, spec),
        unreadable=None,
    )


def _words(pattern: Any) -> str:
    """When it fires; an expression that cannot be read stands for itself."""
    if hasattr(pattern, "interval_ms"):
        return f"every {span(pattern.interval_ms)}"
    try:
        return f"{words.describe(pattern.expression)} ({pattern.tz or 'UTC'})"
    except ChasquiError:
        return str(pattern.expression)


def _fires(one: Listed, spec: RepeatSpec) -> tuple[FireRow, ...]:
    left = NEXT_FIRES if spec.limit is None else max(0, min(NEXT_FIRES, spec.limit - one.fired))
    expression = getattr(spec.pattern, "expression", None)
    try:
        schedule = cron.parse(expression, getattr(spec.pattern, "tz", None)) if expression else None
        times = list(
            fires.upcoming(
                spec.pattern,
                one.next_ms,
                left,
                start_after_ms=spec.start_after_ms,
                end_before_ms=spec.end_before_ms,
            )
        )
    except ChasquiError:
        return ()
    return tuple(
        FireRow(
            at_ms,
            notes.local(at_ms, schedule.zone if schedule else UTC),
            (notes.remark(schedule, at_ms, before) or "") if schedule else "",
        )
        for before, at_ms in zip([None, *times], times, strict=False)
    )
