"""Cron text → the numbers each field means, or the reference's own words for why not. It computes no times."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from chasqui.cron.days import DayRule, MatchingDays
from chasqui.cron.quoting import WHITESPACE, quote
from chasqui.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable

FIRST_YEAR, LAST_YEAR = 1, 5000

_NICKNAMES = {
    "@YEARLY": "0 0 1 1 *",
    "@ANNUALLY": "0 0 1 1 *",
    "@MONTHLY": "0 0 1 * *",
    "@WEEKLY": "0 0 * * 0",
    "@DAILY": "0 0 * * *",
    "@HOURLY": "0 * * * *",
}
_WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_MAX_NUMBER = 65535


class FieldBounds(NamedTuple):
    """What one field may hold: its numbers, and the words next to digits, lists, ranges and steps."""

    low: int
    high: int
    letters: str = ""


_SECOND, _MINUTE, _HOUR = FieldBounds(0, 59), FieldBounds(0, 59), FieldBounds(0, 23)
_DATE, _MONTH, _WEEKDAY = FieldBounds(1, 31, "LW?"), FieldBounds(1, 12), FieldBounds(0, 7, "#L?")
_YEAR = FieldBounds(FIRST_YEAR, LAST_YEAR)
_ALL_BOUNDS = (_SECOND, _MINUTE, _HOUR, _DATE, _MONTH, _WEEKDAY, _YEAR)

PLAIN, LAST, NEAREST = "", "L", "W"


class FieldTerm(NamedTuple):
    """One item of a field's list: some numbers, and what is meant by them (plain, `L`, `W`, or which nth)."""

    numbers: range
    mark: str | int = PLAIN
    star: bool = False
    stepped: bool = False


class CronTerms(NamedTuple):
    """The seven fields in the form they were written. `both`: both day fields must match."""

    second: list[FieldTerm]
    minute: list[FieldTerm]
    hour: list[FieldTerm]
    date: list[FieldTerm]
    month: list[FieldTerm]
    weekday: list[FieldTerm]
    year: list[FieldTerm]
    any_date: bool
    any_weekday: bool
    any_year: bool
    both: bool


@dataclass(frozen=True, slots=True)
class CronFields:
    """A whole expression, read. `one_time_of_day` distinguishes a fixed time (09:00) from an interval (every 5 minutes)."""

    seconds: tuple[int, ...]
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: MatchingDays
    months: frozenset[int]
    years: frozenset[int] | range
    last_year: int
    one_time_of_day: bool


class _InvalidCronError(Exception):
    """Why a text is not a cron expression, in the reference's words."""


def parse_fields(expression: str) -> CronFields:
    """The fields of five, six (seconds first) or seven (year last) words, or ConfigError."""
    try:
        return _cron_fields(_split_fields(expression))
    except _InvalidCronError as wrong:
        message = f"invalid cron expression {quote(expression)}: {wrong}"
        raise ConfigError(message, hint=_hint(expression)) from None


def _split_fields(expression: str) -> list[str]:
    text = expression.upper().strip(WHITESPACE)
    if not text:
        raise _InvalidCronError("CronPattern cannot be an empty string.")
    words = re.split(f"[{WHITESPACE}]+", _replace_names(_NICKNAMES.get(text, text)))
    if not 5 <= len(words) <= 7:
        raise _InvalidCronError("Invalid pattern: Pattern must have between 5 and 7 fields.")
    if len(words) == 5:
        words.insert(0, "0")
    return words if len(words) == 7 else [*words, "*"]


def _replace_names(text: str) -> str:
    """Names become numbers wherever they stand; Sunday ends a range as 7."""
    text = text.replace("-SUN", "-7")
    for number, name in enumerate(_WEEKDAYS):
        text = text.replace(name, str(number))
    for number, name in enumerate(_MONTHS, 1):
        text = text.replace(name, str(number))
    return text


def parse_terms(expression: str) -> CronTerms:
    """The terms of each field, to describe a valid expression in words."""
    return _parse_terms(_split_fields(expression))


def _parse_terms(words: list[str]) -> CronTerms:
    words[3] = words[3].replace("?", "*")
    words[5] = words[5].replace("?", "*")
    both = words[5].startswith("+")
    words[5] = words[5].removeprefix("+")
    for word, bounds in zip(words, _ALL_BOUNDS, strict=True):
        _check_letters(word, bounds)
    second, minute, hour, date, month, weekday, year = (
        _terms(word, bounds) for word, bounds in zip(words, _ALL_BOUNDS, strict=True)
    )
    any_date, any_weekday, any_year = (words[at] == "*" for at in (3, 5, 6))
    return CronTerms(second, minute, hour, date, month, weekday, year, any_date, any_weekday, any_year, both)


def _cron_fields(words: list[str]) -> CronFields:
    fields = _parse_terms(words)
    second, minute, hour, date, month, weekday, year = fields[:7]
    rule = _day_rule(date, weekday, any_date=fields.any_date, any_weekday=fields.any_weekday, both=fields.both)
    return CronFields(
        seconds=tuple(sorted(_numbers(second))),
        minutes=tuple(sorted(_numbers(minute))),
        hours=tuple(sorted(_numbers(hour))),
        days=MatchingDays.of(rule),
        months=_numbers(month),
        years=year[0].numbers if fields.any_year else _numbers(year),
        last_year=max(_numbers(year), default=0),
        one_time_of_day=all(map(_is_single_number, (second, minute, hour))),
    )


def _check_letters(word: str, bounds: FieldBounds) -> None:
    for letter in word:
        if letter not in "*/0123456789,-" + bounds.letters:
            why = f"CronPattern contains illegal character '{letter}' in part '{word}'"
            raise _InvalidCronError(f"Pattern contains illegal characters: {why}")


def _day_rule(
    date: list[FieldTerm], weekday: list[FieldTerm], *, any_date: bool, any_weekday: bool, both: bool
) -> DayRule:
    return DayRule(
        dates=_numbers(date),
        nearest=_numbers(date, NEAREST),
        last_date=any(term.mark == LAST for term in date),
        weekdays=frozenset(number % 7 for number in _numbers(weekday)),
        nth_weekdays=frozenset((n % 7, nth) for nth in range(1, 6) for n in _numbers(weekday, nth)),
        last_weekdays=_numbers(weekday, LAST),  # not folded: the reference never fires for 7L, and refuses it
        any_date=any_date,
        any_weekday=any_weekday,
        both=both,
    )


def _numbers(terms: Iterable[FieldTerm], mark: str | int = PLAIN) -> frozenset[int]:
    return frozenset(number for term in terms if term.mark == mark for number in term.numbers)


def _is_single_number(terms: list[FieldTerm]) -> bool:
    """One number, written as such: `*/60` means one minute too, but is an interval to the reference."""
    steps = [1, *(term.numbers.step for term in terms if term.stepped)]
    return len(_numbers(terms)) == 1 and steps[-1] == 1 and not any(term.star for term in terms)


def _terms(word: str, bounds: FieldBounds) -> list[FieldTerm]:
    if word == "*":
        return [FieldTerm(range(bounds.low, bounds.high + 1), star=True)]
    return [_term(part, bounds) for part in word.split(",") if part]


def _term(part: str, bounds: FieldBounds) -> FieldTerm:
    if "/" in part:
        return _stepped(part, bounds)
    if "-" in part:
        return _range(part, bounds)
    if "W" in part:
        return _nearest(part, bounds)
    if part == "L":
        return FieldTerm(range(0), LAST)
    return _single(part, bounds)


def _stepped(part: str, bounds: FieldBounds) -> FieldTerm:
    mark, body = _split_mark(part)
    start, *steps = body.split("/")
    if len(steps) != 1:
        raise _InvalidCronError("Component error: Invalid stepped range syntax.")
    step = _number(steps[0], "Invalid step.")
    if step == 0:
        raise _InvalidCronError("Component error: Step cannot be zero.")
    low, high = _stepped_bounds(start, bounds)
    if not bounds.low <= low <= high <= bounds.high:
        raise _InvalidCronError("Component error: Range is out of bounds in stepping.")
    numbers = range(low, high + 1, step)
    if numbers[-1] + step > _MAX_NUMBER:
        raise _InvalidCronError("Component error: Value exceeded max after stepping.")
    return FieldTerm(numbers, mark, star=start == "*", stepped=True)


def _stepped_bounds(start: str, bounds: FieldBounds) -> tuple[int, int]:
    if start == "*":
        return bounds.low, bounds.high
    if "-" not in start:
        return _number(start, "Invalid start."), bounds.high
    ends = start.split("-")
    if len(ends) != 2:
        raise _InvalidCronError("Component error: Invalid range syntax in stepping.")
    return _number(ends[0], "Invalid range start."), _number(ends[1], "Invalid range end.")


def _range(part: str, bounds: FieldBounds) -> FieldTerm:
    mark, body = _split_mark(part)
    ends = body.split("-")
    if len(ends) != 2:
        raise _InvalidCronError("Component error: Invalid range syntax.")
    low, high = _number(ends[0], "Invalid start of range."), _number(ends[1], "Invalid end of range.")
    if not bounds.low <= low <= high <= bounds.high:
        raise _InvalidCronError("Component error: Range out of bounds.")
    return FieldTerm(range(low, high + 1), mark)


def _nearest(part: str, bounds: FieldBounds) -> FieldTerm:
    day = _number(part.partition("W")[0], "Invalid day for closest weekday.")
    if not bounds.low <= day <= bounds.high:
        raise _InvalidCronError("Component error: Day for closest weekday out of bounds.")
    return FieldTerm(range(day, day + 1), NEAREST)


def _single(part: str, bounds: FieldBounds) -> FieldTerm:
    if part.endswith("L") and "#" not in part:
        part = part.replace("L", "#L")
    if "#" not in bounds.letters and "#" in part:
        raise _InvalidCronError("Component error: Nth specifier # not allowed in the current field.")
    if "#" not in bounds.letters and "L" in part:
        raise _InvalidCronError("Component error: L not allowed in the current field.")
    mark, body = _split_mark(part)
    number = _number(body, "Invalid number.")
    if not bounds.low <= number <= bounds.high:
        raise _InvalidCronError("Component error: Number out of bounds.")
    return FieldTerm(range(number, number + 1), mark)


def _split_mark(part: str) -> tuple[str | int, str]:
    """What follows `#` (the nth, or `L` for the last), and what stands before it."""
    body, sharp, nth = part.partition("#")
    if part.endswith("L"):
        return LAST, body
    if not sharp:
        return PLAIN, body
    number = _number(nth, "Invalid nth specifier.", largest=255)
    if not 1 <= number <= 5:
        raise _InvalidCronError("Component error: Nth specifier out of bounds.")
    return number, body


def _number(text: str, otherwise: str, largest: int = _MAX_NUMBER) -> int:
    digits = text.lstrip("0")[:6] or "0"
    if not re.fullmatch("[0-9]+", text) or int(digits) > largest:
        raise _InvalidCronError(f"Component error: {otherwise}")
    return int(digits)


def _hint(expression: str) -> str:
    if _croniter_reads(expression):
        return (
            "croniter reads this, but the engine's dialect does not: ranges never run backwards (FRI-SUN,MON), "
            "the last Friday is 5L, seconds come first, and H, R and @midnight do not exist"
        )
    return "minute hour day month weekday, with seconds before or a year after if wanted; docs/cron.md has it all"


def _croniter_reads(expression: str) -> bool:
    from croniter import croniter  # 60 ms of imports that only a refusal pays

    return len(expression) <= 200 and bool(croniter.is_valid(expression.strip(), second_at_beginning=True))
