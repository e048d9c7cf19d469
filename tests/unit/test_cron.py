from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from chasqui import cron
from chasqui.errors import ConfigError
from tests import golden

Record = Callable[[str, object], None]


def at(text: str) -> int:
    moment = datetime.fromisoformat(text)
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def following(expression: str, after: str, tz: str | None = None, count: int = 1) -> list[str]:
    schedule, moment, found = cron.parse_cron(expression, tz), at(after), []
    for _ in range(count):
        moment = schedule.next(moment)
        found.append(
            datetime.fromtimestamp(moment / 1000, UTC).isoformat(timespec="milliseconds").removesuffix("+00:00")
        )
    return found


def test_every_captured_next_fire_and_refusal_is_ours_too(record_property: Record) -> None:
    def check(item: golden.Item) -> None:
        asked, expect = item["context"], item["expect"]
        if "error" in expect:
            with pytest.raises(ConfigError) as refused:
                cron.parse_cron(asked["expression"], asked["tz"]).next(asked["from_ms"])
            assert f"config: {refused.value}" == expect["error"]
            assert refused.value.hint
        else:
            assert cron.parse_cron(asked["expression"], asked["tz"]).next(asked["from_ms"]) == expect["next_fire_ms"]

    golden.walk("cron_next", check, record_property)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("0 9 * * *", "2027-03-02T09:00:00.532"),
        ("30 0 9 * * *", "2027-03-02T09:00:30.532"),
        ("0 0 9 2 3 * 2028", "2028-03-02T09:00:00.000"),
        ("@weekly", "2027-03-07T00:00:00.532"),
        ("  0 9 * * mon-FRI ", "2027-03-02T09:00:00.532"),
        ("0 0 ? * 7", "2027-03-07T00:00:00.532"),
        ("0 0 * * SAT-SUN", "2027-03-06T00:00:00.532"),
        ("0 0 L * *", "2027-03-31T00:00:00.532"),
        ("0 0 15W 5 *", "2027-05-14T00:00:00.000"),
        ("0 0 1W 5 *", "2027-05-03T00:00:00.000"),
        ("0 0 28W 2 *", "2028-02-28T00:00:00.000"),
        ("0 0 * * 5#2", "2027-03-12T00:00:00.532"),
        ("0 0 * * 7#2", "2027-03-14T00:00:00.532"),
        ("0 0 * * 5L", "2027-03-26T00:00:00.532"),
        ("0 0 * * 5#L", "2027-03-26T00:00:00.532"),
        ("0 0 13 * 5", "2027-03-05T00:00:00.532"),
        ("0 0 13 * +5", "2027-08-13T00:00:00.532"),
        ("5/15 * * * *", "2027-03-01T12:35:00.532"),
        ("5-5 * * * *", "2027-03-01T13:05:00.532"),
        ("59/5 * * * *", "2027-03-01T12:59:00.532"),
        ("0 0 29 2 *", "2028-02-29T00:00:00.000"),
        ("0 0 ,2, * *", "2027-03-02T00:00:00.532"),
    ],
)
def test_the_dialect_by_example(expression: str, expected: str) -> None:
    assert following(expression, "2027-03-01T12:34:56.532") == [expected]


def test_a_matching_second_is_never_its_own_successor() -> None:
    assert following("0 9 * * *", "2027-03-01T09:00:00") == ["2027-03-02T09:00:00.000"]
    assert following("0 9 * * *", "2027-03-01T08:59:59.999") == ["2027-03-01T09:00:00.999"]


def test_a_month_without_a_matching_day_is_crossed_without_losing_the_fraction() -> None:
    assert following("0 0 30 1,3 *", "2027-01-31T12:00:00.532") == ["2027-03-30T00:00:00.532"]
    assert following("0 0 28 1,3 *", "2027-01-31T12:00:00.532") == ["2027-03-28T00:00:00.000"]


def test_a_fixed_time_in_the_spring_gap_fires_behind_it_and_an_interval_does_not() -> None:
    fixed = following("30 2 * * *", "2027-03-27T12:00:00", "Europe/Madrid", 2)
    assert fixed == ["2027-03-28T01:00:00.000", "2027-03-29T00:30:00.000"]
    interval = following("*/30 2 * * *", "2027-03-27T12:00:00", "Europe/Madrid")
    assert interval == ["2027-03-29T00:00:00.000"]


def test_a_fixed_time_just_before_the_gap_fires_again_behind_it_as_the_reference_does() -> None:
    times = following("15 1 * * *", "2027-03-14T00:00:00", "America/New_York", 2)
    assert times == ["2027-03-14T06:15:00.000", "2027-03-14T07:00:00.000"]


def test_the_repeated_autumn_hour_counts_once() -> None:
    times = following("30 1 * * *", "2027-11-07T00:00:00", "America/New_York", 2)
    assert times == ["2027-11-07T05:30:00.000", "2027-11-08T06:30:00.000"]
    times = following("*/30 * * * *", "2027-11-07T05:10:00", "America/New_York", 2)
    assert times == ["2027-11-07T05:30:00.000", "2027-11-07T07:00:00.000"]


def test_in_the_second_pass_of_the_autumn_hour_next_looks_back_and_next_after_does_not() -> None:
    schedule = cron.parse_cron("*/30 * * * *", "America/New_York")
    second_pass = at("2027-11-07T06:10:00")
    assert schedule.next(second_pass) == at("2027-11-07T05:30:00")
    assert schedule.next_after(second_pass) == at("2027-11-07T07:00:00")


@pytest.mark.parametrize(
    ("tz", "expected"),
    [
        (None, "2027-03-02T09:00:00.000"),
        ("", "2027-03-02T09:00:00.000"),
        (" utc ", "2027-03-02T09:00:00.000"),
        ("Z", "2027-03-02T09:00:00.000"),
        ("+5:30", "2027-03-02T03:30:00.000"),
        ("-0330", "2027-03-01T12:30:00.000"),
        ("+-1:00", "2027-03-02T10:00:00.000"),
        (" Asia/Tokyo", "2027-03-02T00:00:00.000"),
        ("US/Pacific", "2027-03-01T17:00:00.000"),
    ],
)
def test_the_zone_by_example(tz: str | None, expected: str) -> None:
    assert following("0 9 * * *", "2027-03-01T12:00:00", tz) == [expected]


@pytest.mark.parametrize(
    ("tz", "message"),
    [
        (
            "z",
            'unsupported timezone "z": expected UTC, +HH:MM, or any IANA timezone name (e.g. "America/New_York")',
        ),
        ("America", "unsupported timezone"),
        ("../etc/passwd", "unsupported timezone"),
        ("Factory", "unsupported timezone"),
        ("+530", 'malformed timezone offset "+530": expected +HH:MM or +HHMM'),
        ("+5:", 'malformed timezone offset "+5:"'),
        ("+1é1", 'malformed timezone offset "+1é1"'),
        ("+24:00", 'timezone offset "+24:00" out of range'),
        ("+0:99999999999", 'malformed timezone offset "+0:99999999999"'),
    ],
)
def test_a_zone_that_is_none_is_refused_in_the_reference_s_words(tz: str, message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        cron.parse_cron("0 9 * * *", tz)
    assert str(refused.value).startswith(message)


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("0 0 * * FRI-MON", "Component error: Range out of bounds."),
        ("0 0 LW * *", "Component error: Invalid day for closest weekday."),
        ("0 0 L3 * *", "Component error: L not allowed in the current field."),
        ("1-2-3 * * * *", "Component error: Invalid range syntax."),
        ("1-2-3/4 * * * *", "Component error: Invalid range syntax in stepping."),
        ("1/2/3 * * * *", "Component error: Invalid stepped range syntax."),
        ("1/65535 * * * *", "Component error: Value exceeded max after stepping."),
        ("10-5/2 * * * *", "Component error: Range is out of bounds in stepping."),
        ("*,5 * * * *", "Component error: Invalid number."),
        ("99999999999999999999 * * * *", "Component error: Invalid number."),
        ("0 0 * * 3#999", "Component error: Invalid nth specifier."),
        (
            "H * * * *",
            "Pattern contains illegal characters: CronPattern contains illegal character 'H' in part 'H'",
        ),
        ("@midnight", "Invalid pattern: Pattern must have between 5 and 7 fields."),
    ],
)
def test_a_text_that_is_no_cron_is_refused_in_the_reference_s_words(expression: str, message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        cron.parse_cron(expression)
    assert str(refused.value) == f'invalid cron expression "{expression}": {message}'


def test_a_refused_text_is_quoted_with_everything_visible() -> None:
    with pytest.raises(ConfigError, match="invalid") as refused:
        cron.parse_cron('a"\\\n\x1b\u0301')
    assert str(refused.value).startswith('invalid cron expression "a\\"\\\\\\n\\u{1b}\\u{301}": ')


def test_the_hint_explains_when_the_text_is_cron_elsewhere() -> None:
    with pytest.raises(ConfigError) as foreign:
        cron.parse_cron("0 0 * * FRI-MON")
    with pytest.raises(ConfigError) as nonsense:
        cron.parse_cron("soon, please")
    assert "croniter reads this" in (foreign.value.hint or "")
    assert "croniter" not in (nonsense.value.hint or "")


@pytest.mark.parametrize(
    "expression",
    [
        "0 0 30 2 *",
        "0 0 0 1 1 * 2020",
        "0 0 31W 2,4,6,9,11 *",
        "0 0 * * 7L",
        "0 0 * * L",
        ", * * * *",
        "0 0 0 2 1 * 5000",
    ],
)
def test_what_never_comes_is_refused_at_once(expression: str) -> None:
    with pytest.raises(cron.NoSuchTimeError, match=r"time search limit exceeded\.$"):
        cron.parse_cron(expression).next(at("2027-03-01T12:00:00"))


@pytest.mark.parametrize("from_ms", [2**62, -(2**62), at("9999-12-31T23:59:59")])
def test_a_moment_that_no_calendar_reaches_is_beyond_the_search_limit(from_ms: int) -> None:
    with pytest.raises(cron.NoSuchTimeError):
        cron.parse_cron("0 9 * * *", "Asia/Tokyo").next(from_ms)
