"""A parsed cron expression in its zone, and the search for the next time it names. Reading text is `grammar.py`.

The search walks the wall clock the way the reference does: to the next matching date, then to the next matching
hour, minute and second, carrying into the larger unit when there is none left. Its stops matter, not only its end:
one inside a spring gap fires a fixed-time schedule behind the gap.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, tzinfo
from functools import lru_cache
from typing import TYPE_CHECKING

from chasqui.cron import grammar, zones
from chasqui.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator

_SECOND, _MINUTE = timedelta(seconds=1), timedelta(minutes=1)
_HOUR, _DAY = timedelta(hours=1), timedelta(days=1)
_HORIZON = date(grammar.LAST_YEAR, 1, 1)
_LONGEST_FIXED_GAP = timedelta(seconds=7201)


class NoSuchTimeError(ConfigError):
    """The expression is well formed, but names no time from here to the year 5000."""

    def __init__(self) -> None:
        super().__init__(
            "cron scheduling failed: CronScheduler time search limit exceeded.",
            hint="no date fits all fields: 30 February, a year gone by, or a field left empty",
        )


@dataclass(frozen=True, slots=True)
class CronSchedule:
    """When a cron expression fires. All times are milliseconds since 1970."""

    expression: str
    tz: str | None
    fields: grammar.CronFields
    zone: tzinfo

    def next(self, from_ms: int) -> int:
        """The next time after `from_ms`, exactly as the reference computes it.

        The fraction of a second of `from_ms` is kept, unless the search leaves a month or year that is not named.
        During the second pass of an autumn hour the result is a time of the first pass, so not after `from_ms`.
        """
        try:
            return self._search(zones.wall_clock(from_ms, self.zone) + _SECOND)
        except OverflowError:  # beyond what a date can say, so beyond the search limit too
            raise NoSuchTimeError from None

    def next_after(self, from_ms: int) -> int:
        """The next time strictly after `from_ms`: what `next` returns, but never a moment that has passed."""
        found = self.next(from_ms)
        while found <= from_ms:
            found = self.next(found)
        return found

    def skip_within_day(self, from_ms: int, until_ms: int) -> tuple[int, int]:
        """How many times follow one of its times within the same day, up to `until_ms`, and the last of them.

        Between two changes of the zone's clocks a day names its times by counting, so nothing has to walk from one to
        the next. An hour in which the clocks change is not leapt over.
        """
        wall = zones.wall_clock(from_ms, self.zone)
        until = zones.wall_clock(until_ms - (until_ms - from_ms) % 1000, self.zone)
        for end in (_hour_start(wall + _DAY), _hour_start(wall, wall.hour) + _HOUR):
            if zones.has_constant_offset(wall, end, self.zone):
                last = min(until, end - _SECOND)
                count = self._times_up_to(last) - self._times_up_to(wall)
                if count <= 0:
                    break
                found = self._second_of_day(self._times_up_to(last) - 1)
                return count, from_ms + (found - _seconds_into_day(wall)) * 1000
        return 0, from_ms

    def _times_up_to(self, wall: datetime) -> int:
        """How many of a day's times there are up to this one."""
        hours, minutes, seconds = self.fields.hours, self.fields.minutes, self.fields.seconds
        place = bisect_left(hours, wall.hour) * len(minutes) * len(seconds)
        if wall.hour in hours:
            place += bisect_left(minutes, wall.minute) * len(seconds)
            if wall.minute in minutes:
                place += bisect_right(seconds, wall.second)
        return place

    def _second_of_day(self, index: int) -> int:
        """The second of the day of one of its times, counted from 0."""
        rest, second = divmod(index, len(self.fields.seconds))
        hour, minute = divmod(rest, len(self.fields.minutes))
        return self.fields.hours[hour] * 3600 + self.fields.minutes[minute] * 60 + self.fields.seconds[second]

    def _search(self, wall: datetime) -> int:
        if not self._can_match(wall.year):
            raise NoSuchTimeError
        while True:
            wall, settled = self._next_matching_time(self._next_matching_date(wall))
            if not zones.exists(wall, self.zone):
                landed = zones.end_of_gap(wall, self.zone)
                if self.fields.one_time_of_day and self._fires_after_gap(wall, landed):
                    return zones.to_ms(landed, self.zone)
                wall = landed
            elif settled:
                return zones.to_ms(wall, self.zone)

    def _can_match(self, year: int) -> bool:
        """False spares a search of three thousand years: a year gone by, 30 February, an empty field."""
        fields = self.fields
        clock = fields.seconds and fields.minutes and fields.hours
        return bool(clock) and year <= fields.last_year and fields.days.matches_ever(fields.months)

    def _fires_after_gap(self, wall: datetime, landed: datetime) -> bool:
        """Whether a fixed time that a gap swallowed fires behind it: yes, if that is still a day it names."""
        if landed - wall > _LONGEST_FIXED_GAP:
            raise NoSuchTimeError
        return self._next_matching_date(landed) == landed

    def _next_matching_date(self, wall: datetime) -> datetime:
        """The same moment if its date matches, else the start of the next date that does."""
        found, dropped = self._next_date(wall.date())
        if found == wall.date():
            return wall
        return datetime.combine(found, time(microsecond=0 if dropped else wall.microsecond))

    def _next_date(self, start: date) -> tuple[date, bool]:
        """The date, and whether the fraction of a second was dropped on the way.

        It is dropped where the reference leaves a month (or year) that is not named: the one it starts in, or one
        that it enters because a day in it matches.
        """
        dropped = False
        first = start.day
        for year, month in _months_from(start):
            days = self.fields.days.of_month(year, month)
            left = days[bisect_left(days, first) :]
            if year not in self.fields.years or month not in self.fields.months:
                dropped = dropped or first > 0 or bool(left)
            elif left:
                return _check_horizon(start, date(year, month, left[0])), dropped
            first = 0
        raise NoSuchTimeError

    def _next_matching_time(self, wall: datetime) -> tuple[datetime, bool]:
        """The next matching time of this day and True; or, where a unit runs out, the start of the next and False."""
        hour = _first_at_least(wall.hour, self.fields.hours)
        if hour is None:
            return wall.replace(hour=0, minute=0, second=0) + _DAY, False
        if hour > wall.hour:
            wall = wall.replace(hour=hour, minute=0, second=0)
        minute = _first_at_least(wall.minute, self.fields.minutes)
        if minute is None:
            return wall.replace(minute=0, second=0) + _HOUR, False
        if minute > wall.minute:
            wall = wall.replace(minute=minute, second=0)
        second = _first_at_least(wall.second, self.fields.seconds)
        if second is None:
            return wall.replace(second=0) + _MINUTE, False
        return wall.replace(second=second), True


@lru_cache(maxsize=1024)  # a scheduler asks for the same few expressions every second
def parse_cron(expression: str, tz: str | None = None) -> CronSchedule:
    """The schedule that this text means in this zone; `ConfigError` explains what is wrong with either."""
    fields = grammar.parse_fields(expression)
    return CronSchedule(expression, tz, fields, zones.parse_zone(tz))


def _months_from(start: date) -> Iterator[tuple[int, int]]:
    for month in range(start.month, 13):
        yield start.year, month
    for year in range(start.year + 1, _HORIZON.year + 1):
        for month in range(1, 13):
            yield year, month


def _check_horizon(start: date, found: date) -> date:
    if start < found > _HORIZON:
        raise NoSuchTimeError
    return found


def _hour_start(wall: datetime, hour: int = 0) -> datetime:
    return datetime.combine(wall.date(), time(hour, microsecond=wall.microsecond))


def _seconds_into_day(wall: datetime) -> int:
    return wall.hour * 3600 + wall.minute * 60 + wall.second


def _first_at_least(value: int, numbers: tuple[int, ...]) -> int | None:
    index = bisect_left(numbers, value)
    return numbers[index] if index < len(numbers) else None
