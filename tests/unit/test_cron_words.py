"""Cron in words: every form of every field, and never the same words for two different meanings."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chasqui import cron
from chasqui.cron import description, dst_notes, grammar
from chasqui.errors import ConfigError
from chasqui.schedule import fire_times
from chasqui.wire.repeat_spec import Cron

DESCRIPTIONS = {
    "* * * * *": "every minute",
    "*/15 * * * *": "every 15 minutes",
    "*/25 * * * *": "every 25 minutes from minute 0 to 50",
    "5/15 * * * *": "every 15 minutes from minute 5 to 50",
    "0-30/10 * * * *": "every 10 minutes from minute 0 to 30",
    "59/5 * * * *": "at minute 59",
    "*/60 * * * *": "at minute 0",
    "10-20 * * * *": "each minute from 10 to 20",
    "0 * * * *": "every hour, on the hour",
    "@hourly": "every hour, on the hour",
    "5 * * * *": "at 5 minutes past every hour",
    "1 * * * *": "at 1 minute past every hour",
    "1,,2 * * * *": "at 1 and 2 minutes past every hour",
    "15,45 8-10 * * *": "at 15 and 45 minutes past the hour, from 08:00 to 10:59",
    "0 */2 * * *": "on the hour, every 2 hours from 00:00",
    "0 */5 * * *": "on the hour, every 5 hours from 00:00 to 20:59",
    "23 0-20/2 * * *": "at 23 minutes past the hour, every 2 hours from 00:00 to 20:59",
    "* 9 * * *": "every minute, from 09:00 to 09:59",
    "*/5 9-17 * * 1-5": "every 5 minutes, from 09:00 to 17:59, on Monday to Friday",
    "30 2 * * *": "at 02:30, every day",
    "@daily": "at 00:00, every day",
    "0 9,17 * * *": "at 09:00 and 17:00, every day",
    "0 9 * * MON-FRI": "at 09:00, on Monday to Friday",
    "0 9 * * fri-sun": "at 09:00, on Friday to Sunday",
    "0 12 * * SAT,SUN": "at 12:00, on Saturday and Sunday",
    "0 0 ? * SUN": "at 00:00, on Sunday",
    "0 0 * * 7": "at 00:00, on Sunday",
    "@weekly": "at 00:00, on Sunday",
    "0 0 * * */2": "at 00:00, on Sunday, Tuesday, Thursday and Saturday",
    "0 0 * * 5#2": "at 00:00, on the second Friday of the month",
    "0 0 * * 1-2#1": "at 00:00, on the first Monday and Tuesday of the month",
    "0 0 * * 5L": "at 00:00, on the last Friday of the month",
    "0 0 * * 7L": "at 00:00, on the last Sunday of the month (7L never comes; write 0L)",
    "0 0 1 * *": "at 00:00, on the 1st",
    "@monthly": "at 00:00, on the 1st",
    "0 0 1,15 * *": "at 00:00, on the 1st and the 15th",
    "0 0 1-7 * *": "at 00:00, on the 1st to the 7th",
    "0 0 */2 * *": "at 00:00, on every 2nd day from the 1st to the 31st",
    "0 0 10-20/5 * *": "at 00:00, on the 10th, the 15th and the 20th",
    "0 0 L * *": "at 00:00, on the last day of the month",
    "0 0 15W * *": "at 00:00, on the workday nearest the 15th",
    "0 0 3W,L * *": "at 00:00, on the workday nearest the 3rd and the last day of the month",
    "0 0 1 * MON": "at 00:00, on the 1st or on Monday",
    "0 0 1 * +MON": "at 00:00, on the 1st, if that is also on Monday",
    "0 0 , * *": "at 00:00, on no day of the month",
    ", * * * *": "never: a field is left empty",
    "@yearly": "at 00:00, on the 1st, in January",
    "0 0 * JAN,jul *": "at 00:00, in January and July",
    "0 0 * 2-4 *": "at 00:00, in February to April",
    "0 0 * */3 *": "at 00:00, in January, April, July and October",
    "0 0,12 1 */2 *": "at 00:00 and 12:00, on the 1st, in January, March, May, July, September and November",
    "*/10 * * * * *": "every 10 seconds",
    "* * * * * *": "every second",
    "10-20 * * * * *": "each second from 10 to 20",
    "30 0 12 * * *": "at 12:00:30, every day",
    "0 * 5 * * *": "every minute, from 05:00 to 05:59",
    "15 * * * * *": "at second 15",
    "0,30 0-5 * * * *": "at second 0 and second 30, in each minute from 0 to 5",
    "*/5 7 * * * *": "every 5 seconds, in minute 7 of the hour",
    "0 0 0 1 1 * 2027": "at 00:00, on the 1st, in January, in 2027",
    "0 0 0 1 1 * 2027-2030": "at 00:00, on the 1st, in January, in 2027 to 2030",
    "0 0 0 1 1 * 2024/4": "at 00:00, on the 1st, in January, in every 4th year from 2024",
}  # fmt: skip


@pytest.mark.parametrize(("expression", "text"), DESCRIPTIONS.items())
def test_an_expression_in_words(expression: str, text: str) -> None:
    assert description.describe(expression) == text


def test_what_is_no_expression_is_refused_as_everywhere() -> None:
    with pytest.raises(ConfigError, match="between 5 and 7 fields"):
        description.describe("whenever")


def _field(low: int, high: int, *more: str) -> st.SearchStrategy[str]:
    number = st.integers(low, high)
    pair = st.tuples(number, number).map(sorted)
    single = number.map(str)
    span = pair.map(lambda ends: f"{ends[0]}-{ends[1]}")
    stepped = st.tuples(st.one_of(st.just("*"), single, span), st.integers(1, 40)).map(
        lambda parts: f"{parts[0]}/{parts[1]}"
    )
    term = st.one_of(single, span, stepped, *([st.sampled_from(more)] if more else []))
    return st.one_of(st.just("*"), st.lists(term, min_size=1, max_size=3).map(",".join))


EXPRESSIONS = st.tuples(
    _field(0, 59),
    _field(0, 59),
    _field(0, 23),
    _field(1, 31, "L", "15W", "1W"),
    _field(1, 12),
    st.tuples(st.sampled_from(["", "+"]), _field(0, 7, "5#2", "1L", "0#5", "7L")).map("".join),
    _field(2020, 2040),
).map(" ".join)


@settings(max_examples=300, deadline=None)
@given(st.lists(EXPRESSIONS, min_size=2, max_size=40))
def test_different_meanings_have_different_words(expressions: list[str]) -> None:
    """One field differs at a time, too: each expression also stands with its neighbour's fields, one by one."""
    meant: dict[str, grammar.CronFields] = {}
    mixed = [
        " ".join([*one.split()[:at], other.split()[at], *one.split()[at + 1 :]])
        for one, other in pairwise(expressions)
        for at in range(7)
    ]
    for expression in [*expressions, *mixed]:
        fields, text = grammar.parse_fields(expression), description.describe(expression)
        assert text.isprintable()
        # Whether a time is fixed or an interval is not a matter of which times are meant.
        plain = tuple(getattr(fields, name) for name in ("seconds", "minutes", "hours", "days", "months"))
        years = frozenset(fields.years)
        known = meant.setdefault(text, fields)
        before = tuple(getattr(known, name) for name in ("seconds", "minutes", "hours", "days", "months"))
        assert (plain, years) == (before, frozenset(known.years)), expression


def _remarks(expression: str, tz: str, start: datetime, count: int) -> list[tuple[str, str | None]]:
    pattern, schedule = Cron(expression, tz), cron.parse_cron(expression, tz)
    from_ms = round(start.timestamp() * 1000)
    text: list[tuple[str, str | None]] = []
    before: int | None = None
    for at_ms in fire_times.upcoming_fires(pattern, fire_times.first_fire(pattern, from_ms), count):
        text.append((dst_notes.local_time_text(at_ms, schedule.zone), dst_notes.dst_remark(schedule, at_ms, before)))
        before = at_ms
    return text


def test_a_time_the_clocks_jump_over_notes_when_it_fires_instead() -> None:
    text = _remarks("30 2 * * *", "Europe/Madrid", datetime(2027, 3, 27, tzinfo=UTC), 3)
    assert text == [
        ("Sat 2027-03-27 02:30:00 CET", None),
        (
            "Sun 2027-03-28 03:00:00 CEST",
            "clocks go forward at 02:00: 02:30 does not exist that day, fires at 03:00",
        ),
        ("Mon 2027-03-29 02:30:00 CEST", None),
    ]


def test_a_time_just_before_the_jump_fires_twice_with_a_note() -> None:
    text = _remarks("15 1 * * *", "Europe/Madrid", datetime(2027, 3, 28, tzinfo=UTC), 2)
    assert text[1] == (
        "Sun 2027-03-28 03:00:00 CEST",
        "clocks go forward at 02:00: fires a second time that day, at 03:00",
    )


def test_a_time_that_is_shown_twice_fires_once_with_a_note() -> None:
    text = _remarks("30 2 * * *", "Europe/Madrid", datetime(2026, 10, 24, 12, tzinfo=UTC), 2)
    assert text == [
        (
            "Sun 2026-10-25 02:30:00 CEST",
            "clocks go back: 02:30 is shown twice that day, fires the first time",
        ),
        ("Mon 2026-10-26 02:30:00 CET", "clocks went back by 60 minutes since the fire before"),
    ]


def test_an_interval_notes_where_clocks_changed() -> None:
    text = _remarks("*/30 * * * *", "Europe/Madrid", datetime(2027, 3, 28, 0, 20, tzinfo=UTC), 3)
    assert [remark for _, remark in text] == [
        None,
        "clocks went forward by 60 minutes since the fire before",
        None,
    ]


def test_upcoming_fires_end_where_the_schedule_does() -> None:
    pattern = Cron("0 0 0 1 1 * 2030-2031")
    first = fire_times.first_fire(pattern, 0)
    assert len(list(fire_times.upcoming_fires(pattern, first, 10))) == 2
    assert len(list(fire_times.upcoming_fires(pattern, first, 10, end_before_ms=first))) == 1
