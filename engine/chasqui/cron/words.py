"""A cron expression in words, for people who read schedules: every field as it was written. It computes no times.

words.describe("*/15 9-17 * * MON-FRI")   every 15 minutes, from 09:00 to 17:59, on Monday to Friday
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

from chasqui.cron import grammar
from chasqui.cron.grammar import LAST, NEAREST, PLAIN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from chasqui.cron.grammar import Parts, Term

WEEKDAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONTHS = (
    "", "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
_NTH = ("", "first", "second", "third", "fourth", "fifth")
_FEW_TIMES = 6


def describe(expression: str) -> str:
    """What an expression says; `ConfigError` if it is none."""
    grammar.read(expression)
    told = grammar.parts(expression)
    if not all((told.second, told.minute, told.hour, told.month, told.year)):
        return "never: a field is left empty"
    clock, rest = _clock(told), [_days(told), _months(told.month), _years(told)]
    if not any(rest) and clock[0].startswith("at ") and len(clock) == 1 and ":" in clock[0]:
        rest = ["every day"]
    return ", ".join(part for part in [*clock, *rest] if part)


def _clock(told: Parts) -> list[str]:
    """The time of day: as times where they are few, else as what each hand does."""
    hands = [_plain_numbers(terms) for terms in (told.hour, told.minute, told.second)]
    if all(hands) and len(times := list(product(*(hand or [] for hand in hands)))) <= _FEW_TIMES:
        with_seconds = any(second for _, _, second in times)
        return ["at " + listed([_time(*time, with_seconds=with_seconds) for time in times])]
    hour = _hour(told.hour)
    minute = _hand(told.minute, "minute", 60)
    if _numbers(told.second) == {0}:
        return [part for part in (_minutes(told.minute, told.hour) or minute, hour) if part]
    every_minute = minute == "every minute"
    second = _hand(told.second, "second", 60)
    return [part for part in (second, "" if every_minute else _during(told.minute), hour) if part]


def _minutes(minute: Sequence[Term], hour: Sequence[Term]) -> str | None:
    """A fixed minute of many hours."""
    numbers = _plain_numbers(minute)
    if not numbers:
        return None
    if numbers == [0]:
        return "every hour, on the hour" if _is_star(hour) else "on the hour"
    past = f"at {listed(numbers)} {'minute' if numbers == [1] else 'minutes'} past"
    return f"{past} every hour" if _is_star(hour) else f"{past} the hour"


def _during(minute: Sequence[Term]) -> str:
    """Minutes as a condition, beside seconds that are told first."""
    numbers = _plain_numbers(minute)
    if numbers:
        return f"in {'minute' if len(numbers) == 1 else 'minutes'} {listed(numbers)} of the hour"
    return "in " + _hand(minute, "minute", 60).removeprefix("at ")


def _hand(terms: Sequence[Term], unit: str, whole: int) -> str:
    """What a hand does that comes round: seconds and minutes."""
    [first, *others] = terms
    if not others and first.star and first.numbers.step == 1:
        return f"every {unit}"
    if not others and first.star and whole % first.numbers.step == 0:
        return f"every {first.numbers.step} {unit}s" if first.numbers.step < whole else f"at {unit} 0"
    told = listed([_hand_term(term, unit) for term in terms])
    return f"at {told}" if told.startswith(unit) else told


def _hand_term(term: Term, unit: str) -> str:
    numbers = term.numbers
    if len(numbers) == 1:
        return f"{unit} {numbers[0]}"
    if numbers.step == 1:
        return f"each {unit} from {numbers[0]} to {numbers[-1]}"
    return f"every {numbers.step} {unit}s from {unit} {numbers[0]} to {numbers[-1]}"


def _hour(terms: Sequence[Term]) -> str:
    if _is_star(terms):
        return ""
    [first, *others] = terms
    if not others and first.star and 24 % first.numbers.step == 0 and first.numbers.step < 24:
        return f"every {first.numbers.step} hours from 00:00"
    return listed([_hour_term(term) for term in terms])


def _hour_term(term: Term) -> str:
    numbers = term.numbers
    if len(numbers) == 1:
        return f"from {numbers[0]:02d}:00 to {numbers[0]:02d}:59"
    if numbers.step == 1:
        return f"from {numbers[0]:02d}:00 to {numbers[-1]:02d}:59"
    return f"every {numbers.step} hours from {numbers[0]:02d}:00 to {numbers[-1]:02d}:59"


def _days(told: Parts) -> str:
    if not told.any_date and not told.date:
        date = "on no day of the month"
    else:
        date = "" if told.any_date else "on " + listed([_date(term) for term in told.date])
    if not told.any_weekday and not told.weekday:
        weekday = "on no day of the week"
    else:
        weekday = "" if told.any_weekday else "on " + listed([_weekday(term) for term in told.weekday])
    if date and weekday:
        return f"{date}, if that is also {weekday}" if told.both else f"{date} or {weekday}"
    return date or weekday


def _date(term: Term) -> str:
    if term.mark == LAST:
        return "the last day of the month"
    if term.mark == NEAREST:
        return f"the workday nearest the {ordinal(term.numbers[0])}"
    return _run(term, ordinal, "the ", "day", 31)


def _weekday(term: Term) -> str:
    if term.mark == PLAIN:
        return _run(term, _weekday_name, "", "day", 7)
    names = listed([_weekday_name(number) for number in term.numbers])
    if term.mark == LAST:
        never = 7 in term.numbers
        return f"the last {names} of the month" + (" (7L never comes; write 0L)" if never else "")
    return f"the {_NTH[int(term.mark)]} {names} of the month"


def _weekday_name(number: int) -> str:
    return WEEKDAYS[number]


def _months(terms: Sequence[Term]) -> str:
    if _is_star(terms):
        return ""
    return "in " + listed([_run(term, lambda number: MONTHS[number], "", "month", 12) for term in terms])


def _years(told: Parts) -> str:
    if told.any_year:
        return ""
    return "in " + listed([_run(term, str, "", "year", grammar.LAST_YEAR) for term in told.year])


def _run(term: Term, name: Callable[[int], str], article: str, unit: str, high: int) -> str:
    """One number, some in a row, or every nth."""
    numbers = term.numbers
    if len(numbers) == 1:
        return f"{article}{name(numbers[0])}"
    if numbers.step == 1:
        return f"{article}{name(numbers[0])} to {article}{name(numbers[-1])}"
    if unit == "year" or len(numbers) > _FEW_TIMES:
        end = (
            ""
            if unit == "year" and numbers[-1] + numbers.step > high
            else f" to {article}{name(numbers[-1])}"
        )
        return f"every {ordinal(numbers.step)} {unit} from {article}{name(numbers[0])}{end}"
    return listed([f"{article}{name(number)}" for number in numbers])


def ordinal(number: int) -> str:
    """1st, 2nd, 3rd, 11th."""
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def listed(items: Iterable[object]) -> str:
    """a, b and c."""
    told = [str(item) for item in items]
    return told[0] if len(told) == 1 else f"{', '.join(told[:-1])} and {told[-1]}"


def _time(hour: int, minute: int, second: int, *, with_seconds: bool) -> str:
    return f"{hour:02d}:{minute:02d}" + (f":{second:02d}" if with_seconds else "")


def _plain_numbers(terms: Sequence[Term]) -> list[int] | None:
    """The numbers, where they were written one by one."""
    if all(len(term.numbers) == 1 and not term.star and not term.stepped for term in terms):
        return sorted({term.numbers[0] for term in terms})
    return None


def _numbers(terms: Sequence[Term]) -> set[int]:
    return {number for term in terms for number in term.numbers}


def _is_star(terms: Sequence[Term]) -> bool:
    return len(terms) == 1 and terms[0].star and terms[0].numbers.step == 1
