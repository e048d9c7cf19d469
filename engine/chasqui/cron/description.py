"""A cron expression in words: every field in the order and form it was written. It computes no times.

words.describe("*/15 9-17 * * MON-FRI")   every 15 minutes, from 09:00 to 17:59, on Monday to Friday
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

from chasqui.cron import grammar
from chasqui.cron.grammar import LAST, NEAREST, PLAIN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from chasqui.cron.grammar import CronTerms, FieldTerm

WEEKDAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONTHS = (
    "", "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
_NTH = ("", "first", "second", "third", "fourth", "fifth")
_FEW_TIMES = 6


def describe(expression: str) -> str:
    """What an expression means; `ConfigError` if it is invalid."""
    grammar.parse_fields(expression)
    fields = grammar.parse_terms(expression)
    if not all((fields.second, fields.minute, fields.hour, fields.month, fields.year)):
        return "never: a field is left empty"
    clock, rest = _time_phrase(fields), [_day_phrase(fields), _month_phrase(fields.month), _year_phrase(fields)]
    if not any(rest) and clock[0].startswith("at ") and len(clock) == 1 and ":" in clock[0]:
        rest = ["every day"]
    return ", ".join(part for part in [*clock, *rest] if part)


def _time_phrase(fields: CronTerms) -> list[str]:
    """The time of day: as times where they are few, else as what each hand does."""
    hands = [_plain_numbers(terms) for terms in (fields.hour, fields.minute, fields.second)]
    if all(hands) and len(times := list(product(*(hand or [] for hand in hands)))) <= _FEW_TIMES:
        with_seconds = any(second for _, _, second in times)
        return ["at " + join_words([_clock_text(*time, with_seconds=with_seconds) for time in times])]
    hour = _hour_phrase(fields.hour)
    minute = _cycle_phrase(fields.minute, "minute", 60)
    if _numbers(fields.second) == {0}:
        return [part for part in (_fixed_minute_phrase(fields.minute, fields.hour) or minute, hour) if part]
    every_minute = minute == "every minute"
    second = _cycle_phrase(fields.second, "second", 60)
    return [part for part in (second, "" if every_minute else _minute_condition(fields.minute), hour) if part]


def _fixed_minute_phrase(minute: Sequence[FieldTerm], hour: Sequence[FieldTerm]) -> str | None:
    """A fixed minute of many hours."""
    numbers = _plain_numbers(minute)
    if not numbers:
        return None
    if numbers == [0]:
        return "every hour, on the hour" if _is_star(hour) else "on the hour"
    past = f"at {join_words(numbers)} {'minute' if numbers == [1] else 'minutes'} past"
    return f"{past} every hour" if _is_star(hour) else f"{past} the hour"


def _minute_condition(minute: Sequence[FieldTerm]) -> str:
    """Minutes as a condition, next to seconds that come first."""
    numbers = _plain_numbers(minute)
    if numbers:
        return f"in {'minute' if len(numbers) == 1 else 'minutes'} {join_words(numbers)} of the hour"
    return "in " + _cycle_phrase(minute, "minute", 60).removeprefix("at ")


def _cycle_phrase(terms: Sequence[FieldTerm], unit: str, whole: int) -> str:
    """What a hand does that comes round: seconds and minutes."""
    [first, *others] = terms
    if not others and first.star and first.numbers.step == 1:
        return f"every {unit}"
    if not others and first.star and whole % first.numbers.step == 0:
        return f"every {first.numbers.step} {unit}s" if first.numbers.step < whole else f"at {unit} 0"
    text = join_words([_cycle_term(term, unit) for term in terms])
    return f"at {text}" if text.startswith(unit) else text


def _cycle_term(term: FieldTerm, unit: str) -> str:
    numbers = term.numbers
    if len(numbers) == 1:
        return f"{unit} {numbers[0]}"
    if numbers.step == 1:
        return f"each {unit} from {numbers[0]} to {numbers[-1]}"
    return f"every {numbers.step} {unit}s from {unit} {numbers[0]} to {numbers[-1]}"


def _hour_phrase(terms: Sequence[FieldTerm]) -> str:
    if _is_star(terms):
        return ""
    [first, *others] = terms
    if not others and first.star and 24 % first.numbers.step == 0 and first.numbers.step < 24:
        return f"every {first.numbers.step} hours from 00:00"
    return join_words([_hour_term_phrase(term) for term in terms])


def _hour_term_phrase(term: FieldTerm) -> str:
    numbers = term.numbers
    if len(numbers) == 1:
        return f"from {numbers[0]:02d}:00 to {numbers[0]:02d}:59"
    if numbers.step == 1:
        return f"from {numbers[0]:02d}:00 to {numbers[-1]:02d}:59"
    return f"every {numbers.step} hours from {numbers[0]:02d}:00 to {numbers[-1]:02d}:59"


def _day_phrase(fields: CronTerms) -> str:
    if not fields.any_date and not fields.date:
        date = "on no day of the month"
    else:
        date = "" if fields.any_date else "on " + join_words([_date_phrase(term) for term in fields.date])
    if not fields.any_weekday and not fields.weekday:
        weekday = "on no day of the week"
    else:
        weekday = "" if fields.any_weekday else "on " + join_words([_weekday_phrase(term) for term in fields.weekday])
    if date and weekday:
        return f"{date}, if that is also {weekday}" if fields.both else f"{date} or {weekday}"
    return date or weekday


def _date_phrase(term: FieldTerm) -> str:
    if term.mark == LAST:
        return "the last day of the month"
    if term.mark == NEAREST:
        return f"the workday nearest the {ordinal(term.numbers[0])}"
    return _number_phrase(term, ordinal, "the ", "day", 31)


def _weekday_phrase(term: FieldTerm) -> str:
    if term.mark == PLAIN:
        return _number_phrase(term, _weekday_name, "", "day", 7)
    names = join_words([_weekday_name(number) for number in term.numbers])
    if term.mark == LAST:
        never = 7 in term.numbers
        return f"the last {names} of the month" + (" (7L never comes; write 0L)" if never else "")
    return f"the {_NTH[int(term.mark)]} {names} of the month"


def _weekday_name(number: int) -> str:
    return WEEKDAYS[number]


def _month_phrase(terms: Sequence[FieldTerm]) -> str:
    if _is_star(terms):
        return ""
    return "in " + join_words([_number_phrase(term, lambda number: MONTHS[number], "", "month", 12) for term in terms])


def _year_phrase(fields: CronTerms) -> str:
    if fields.any_year:
        return ""
    return "in " + join_words([_number_phrase(term, str, "", "year", grammar.LAST_YEAR) for term in fields.year])


def _number_phrase(term: FieldTerm, name: Callable[[int], str], article: str, unit: str, high: int) -> str:
    """One number, some in a row, or every nth."""
    numbers = term.numbers
    if len(numbers) == 1:
        return f"{article}{name(numbers[0])}"
    if numbers.step == 1:
        return f"{article}{name(numbers[0])} to {article}{name(numbers[-1])}"
    if unit == "year" or len(numbers) > _FEW_TIMES:
        end = "" if unit == "year" and numbers[-1] + numbers.step > high else f" to {article}{name(numbers[-1])}"
        return f"every {ordinal(numbers.step)} {unit} from {article}{name(numbers[0])}{end}"
    return join_words([f"{article}{name(number)}" for number in numbers])


def ordinal(number: int) -> str:
    """1st, 2nd, 3rd, 11th."""
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def join_words(items: Iterable[object]) -> str:
    """a, b and c."""
    texts = [str(item) for item in items]
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"


def _clock_text(hour: int, minute: int, second: int, *, with_seconds: bool) -> str:
    return f"{hour:02d}:{minute:02d}" + (f":{second:02d}" if with_seconds else "")


def _plain_numbers(terms: Sequence[FieldTerm]) -> list[int] | None:
    """The numbers, where they were written one by one."""
    if all(len(term.numbers) == 1 and not term.star and not term.stepped for term in terms):
        return sorted({term.numbers[0] for term in terms})
    return None


def _numbers(terms: Sequence[FieldTerm]) -> set[int]:
    return {number for term in terms for number in term.numbers}


def _is_star(terms: Sequence[FieldTerm]) -> bool:
    return len(terms) == 1 and terms[0].star and terms[0].numbers.step == 1
