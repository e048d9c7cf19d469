"""Which days of a month a cron expression means: day of month, day of week, `L`, `W`, `#`. No clock, no zones."""

from __future__ import annotations

from calendar import monthrange
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_SATURDAY, _SUNDAY = 6, 0
_LENGTHS = (28, 29, 30, 31)


@dataclass(frozen=True, slots=True)
class DayRule:
    """Both day fields together. Weekdays count from Sunday = 0.

    Either field may be any day; two that are not are alternatives, unless `both` asks for days that satisfy the two.
    """

    dates: frozenset[int]
    nearest: frozenset[int]
    last_date: bool
    weekdays: frozenset[int]
    nth_weekdays: frozenset[tuple[int, int]]
    last_weekdays: frozenset[int]
    any_date: bool
    any_weekday: bool
    both: bool


@dataclass(frozen=True, slots=True)
class MatchingDays:
    """The rule worked out: a month begins on one of 7 weekdays and has one of 4 lengths, so there are 28 results."""

    by_month_shape: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, rule: DayRule) -> MatchingDays:
        """All results of the rule."""
        return cls(tuple(_matching_days(rule, first, length) for first in range(7) for length in _LENGTHS))

    def of_month(self, year: int, month: int) -> tuple[int, ...]:
        """The days of that month that match, in order."""
        monday_based, length = monthrange(year, month)
        return self.by_month_shape[(monday_based + 1) % 7 * len(_LENGTHS) + length - _LENGTHS[0]]

    def matches_ever(self, months: Iterable[int]) -> bool:
        """Whether any of these months has a matching day in some year: February has no 30th."""
        # Within one century weekdays and leap years come round every 28 years, so these show each month's every shape.
        return any(self.of_month(year, month) for month in months for year in range(2000, 2028))


def _matching_days(rule: DayRule, first_weekday: int, length: int) -> tuple[int, ...]:
    by_date = _by_date(rule, first_weekday, length)
    if rule.any_weekday:
        return tuple(sorted(by_date))
    by_weekday = _by_weekday(rule, first_weekday, length)
    if rule.any_date:
        return tuple(sorted(by_weekday))
    return tuple(sorted(by_date & by_weekday if rule.both else by_date | by_weekday))


def _by_date(rule: DayRule, first_weekday: int, length: int) -> set[int]:
    days = {day for day in rule.dates if day <= length}
    days |= {_nearest_workday(day, first_weekday, length) for day in rule.nearest if day <= length}
    return days | {length} if rule.last_date else days


def _nearest_workday(day: int, first_weekday: int, length: int) -> int:
    """Saturday gives Friday and Sunday gives Monday, unless that would leave the month."""
    weekday = (first_weekday + day - 1) % 7
    if weekday == _SATURDAY:
        return day - 1 if day > 1 else day + 2
    if weekday == _SUNDAY:
        return day + 1 if day < length else day - 2
    return day


def _by_weekday(rule: DayRule, first_weekday: int, length: int) -> set[int]:
    def matches(day: int) -> bool:
        weekday = (first_weekday + day - 1) % 7
        return (
            weekday in rule.weekdays
            or (weekday, (day + 6) // 7) in rule.nth_weekdays
            or (weekday in rule.last_weekdays and day + 7 > length)
        )

    return {day for day in range(1, length + 1) if matches(day)}
