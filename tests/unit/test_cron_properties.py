from __future__ import annotations

import contextlib
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

from croniter import croniter
from hypothesis import example, given, settings
from hypothesis import strategies as st

from chasqui import cron
from chasqui.errors import ConfigError

MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)
ZONES = (
    "Europe/Madrid",
    "America/New_York",
    "Australia/Lord_Howe",
    "Africa/Cairo",
    "Asia/Tokyo",
    "America/Havana",
)

moments = st.integers(1_800_000_000, 2_840_000_000).map(lambda seconds: datetime.fromtimestamp(seconds, UTC))


@dataclass(frozen=True)
class Wanted:
    """What an expression should mean, kept apart from how it is written. None is any."""

    minutes: frozenset[int] | None
    hours: frozenset[int] | None
    dates: frozenset[int] | None
    months: frozenset[int] | None
    weekdays: frozenset[int] | None
    both: bool = False

    @property
    def text(self) -> str:
        fields = [self.minutes, self.hours, self.dates, self.months, self.weekdays]
        words = ["*" if field is None else ",".join(map(str, sorted(field))) for field in fields]
        return " ".join([*words[:4], ("+" if self.both else "") + words[4]])

    def on(self, day: date) -> bool:
        if self.months is not None and day.month not in self.months:
            return False
        by_date = self.dates is None or day.day in self.dates
        by_weekday = self.weekdays is None or day.isoweekday() % 7 in self.weekdays
        if self.dates is None or self.weekdays is None or self.both:
            return by_date and by_weekday
        return by_date or by_weekday

    def at(self, moment: datetime) -> bool:
        minute = self.minutes is None or moment.minute in self.minutes
        hour = self.hours is None or moment.hour in self.hours
        return minute and hour and moment.second == 0 and self.on(moment.date())


def some(low: int, high: int) -> st.SearchStrategy[frozenset[int] | None]:
    return st.none() | st.frozensets(st.integers(low, high), min_size=1, max_size=4)


wanted = st.builds(Wanted, some(0, 59), some(0, 23), some(1, 28), some(1, 12), some(0, 6), st.booleans())


def next_utc(expression: str, moment: datetime) -> datetime:
    return datetime.fromtimestamp(cron.parse_cron(expression).next(int(moment.timestamp()) * 1000) / 1000, UTC)


@settings(deadline=None)
@given(wanted, moments)
def test_the_answer_fits_all_fields_and_nothing_before_it_does(want: Wanted, moment: datetime) -> None:
    found = next_utc(want.text, moment)
    assert found > moment
    assert want.at(found)
    minute = moment.replace(second=0) + MINUTE
    while minute < min(found, moment + 2 * DAY):
        assert not want.at(minute)
        minute += MINUTE
    day = moment.date() + DAY
    while day < found.date():
        assert not want.on(day)
        day += DAY


@settings(deadline=None)
@given(wanted, moments, st.sampled_from(ZONES), st.integers(0, 999))
def test_in_any_zone_an_interval_is_strictly_later_and_fits_the_wall_clock(
    want: Wanted, moment: datetime, zone: str, fraction: int
) -> None:
    interval = Wanted(None, want.hours, want.dates, want.months, want.weekdays, want.both)
    from_ms = int(moment.timestamp()) * 1000 + fraction
    found = cron.parse_cron(interval.text, zone).next_after(from_ms)
    assert found > from_ms
    assert found % 1000 in (0, fraction)
    assert interval.at(datetime.fromtimestamp(found // 1000, ZoneInfo(zone)))


@settings(deadline=None)
@given(wanted, moments)
def test_where_croniter_speaks_the_same_dialect_it_gives_the_same_answer(want: Wanted, moment: datetime) -> None:
    found = croniter(want.text.replace("+", ""), moment, day_or=not want.both).get_next(datetime)
    assert next_utc(want.text, moment) == found


@settings(deadline=None)
@given(st.integers(1, 31), moments)
def test_the_nearest_workday_is_a_workday_of_its_month_at_most_two_days_off(day: int, moment: datetime) -> None:
    found = next_utc(f"0 0 {day}W * *", moment)
    assert found.isoweekday() <= 5
    assert abs(found.day - day) <= 2
    if found.day != day:
        assert found.replace(day=day).isoweekday() >= 6


@settings(deadline=None)
@given(st.integers(0, 6), st.integers(1, 5), moments)
def test_the_nth_weekday_has_n_minus_one_before_it_in_its_month(weekday: int, nth: int, moment: datetime) -> None:
    found = next_utc(f"0 0 * * {weekday}#{nth}", moment)
    assert found.isoweekday() % 7 == weekday
    assert (found - (nth - 1) * 7 * DAY).month == found.month != (found - nth * 7 * DAY).month


@settings(deadline=None)
@given(st.integers(0, 6), moments)
def test_the_last_weekday_and_the_last_day_have_none_after_them(weekday: int, moment: datetime) -> None:
    found = next_utc(f"0 0 * * {weekday}L", moment)
    assert found.isoweekday() % 7 == weekday
    assert (found + 7 * DAY).month != found.month
    last = next_utc("0 0 L * *", moment)
    assert (last + DAY).month != last.month


@settings(max_examples=300, deadline=5000)
@given(
    st.text(max_size=40) | st.text("0123456789*/-,LW#?+ MONJANFRI@h", max_size=40),
    st.none() | st.text(max_size=12) | st.text("+-0123456789:Z", max_size=8),
    st.integers(-(2**63), 2**63),
)
@example("0 0 0 1 1 * 4999", None, 0)
@example("0 0 * * L", "Europe/Madrid", 1_800_000_000_000)
@example("9" * 5000 + " * * * *", "+" + "9" * 5000 + ":00", 0)
@example("0-99999999999999 * * * *", None, 0)
def test_any_text_is_a_schedule_or_a_config_error_and_soon(text: str, tz: str | None, from_ms: int) -> None:
    with contextlib.suppress(ConfigError):
        assert isinstance(cron.parse_cron(text, tz).next(from_ms), int)
