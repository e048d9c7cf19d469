"""What a wall clock does to a schedule: local times, and remarks where clocks go forward or back. For previews.

`cron_schedule.py` computes when a schedule fires; this only explains why it looks odd.
"""

from __future__ import annotations

from datetime import datetime, timedelta, tzinfo
from typing import TYPE_CHECKING

from chasqui.cron import zones

if TYPE_CHECKING:
    from chasqui.cron.cron_schedule import CronSchedule

_MS = timedelta(milliseconds=1)


def local_time_text(at_ms: int, zone: tzinfo) -> str:
    """A moment as the clocks of the zone show it: `Mon 2026-03-30 09:00:00 CEST`."""
    wall = _aware(at_ms, zone)
    return f"{wall:%a %Y-%m-%d %H:%M:%S} {wall.tzname()}"


def dst_remark(schedule: CronSchedule, at_ms: int, before_ms: int | None = None) -> str | None:
    """What is odd about a fire, if anything is; `before_ms` is the fire before it."""
    zone, wall = schedule.zone, zones.wall_clock(at_ms, schedule.zone)
    return _moved_by_gap(schedule, wall, at_ms) or _shown_twice(wall, zone) or _offset_change(zone, before_ms, at_ms)


def _moved_by_gap(schedule: CronSchedule, wall: datetime, at_ms: int) -> str | None:
    """A fixed time of day that fires at another one: the clocks jumped over it."""
    fields = schedule.fields
    if not fields.one_time_of_day:
        return None
    meant = wall.replace(hour=fields.hours[0], minute=fields.minutes[0], second=fields.seconds[0])
    if (meant.hour, meant.minute, meant.second) == (wall.hour, wall.minute, wall.second):
        return None
    gone = zones.wall_clock(at_ms - at_ms % 1000 - 1, schedule.zone) + _MS
    jump = f"clocks go forward at {gone:%H:%M}"
    if zones.exists(meant, schedule.zone):
        return f"{jump}: fires a second time that day, at {wall:%H:%M}"
    return f"{jump}: {_clock_text(meant)} does not exist that day, fires at {_clock_text(wall)}"


def _shown_twice(wall: datetime, zone: tzinfo) -> str | None:
    first, second = wall.replace(tzinfo=zone), wall.replace(tzinfo=zone, fold=1)
    if first.utcoffset() == second.utcoffset() or not zones.exists(wall, zone):
        return None
    return f"clocks go back: {_clock_text(wall)} is shown twice that day, fires the first time"


def _offset_change(zone: tzinfo, before_ms: int | None, at_ms: int) -> str | None:
    if before_ms is None:
        return None
    shift = _offset(at_ms, zone) - _offset(before_ms, zone)
    if not shift:
        return None
    way, minutes = ("forward" if shift > timedelta() else "back"), abs(shift) // timedelta(minutes=1)
    return f"clocks went {way} by {minutes} minutes since the fire before"


def _offset(at_ms: int, zone: tzinfo) -> timedelta:
    return _aware(at_ms, zone).utcoffset() or timedelta()


def _aware(at_ms: int, zone: tzinfo) -> datetime:
    return (zones.EPOCH + at_ms * _MS).astimezone(zone)


def _clock_text(wall: datetime) -> str:
    return f"{wall:%H:%M:%S}" if wall.second else f"{wall:%H:%M}"
