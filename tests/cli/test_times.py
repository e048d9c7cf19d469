from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chasqui.errors import ArgumentError
from chasqui_cli.output.times import (
    TimeStyle,
    format_duration,
    format_iso,
    format_time,
    parse_duration_ms,
    parse_time_ms,
)

NOW = 1_794_962_085_399


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("30s", 30_000),
        ("5m", 300_000),
        ("1h", 3_600_000),
        ("7d", 604_800_000),
        ("1d3h", 97_200_000),
        ("250ms", 250),
        ("1.5s", 1500),
        ("1H 30M", 5_400_000),
        ("2w", 1_209_600_000),
    ],
)
def test_durations_are_read_as_people_write_them(text: str, ms: int) -> None:
    assert parse_duration_ms(text) == ms


@pytest.mark.parametrize("text", ["", "5", "m5", "1h-3m", "five minutes", "1y", "-5m"])
def test_what_is_no_duration_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ArgumentError) as refused:
        parse_duration_ms(text)
    assert "1d3h" in (refused.value.hint or "")


def test_a_moment_is_a_date_a_distance_or_an_entry() -> None:
    assert parse_time_ms("5m", NOW, "past") == NOW - 300_000
    assert parse_time_ms("5m", NOW, "future") == NOW + 300_000
    assert parse_time_ms("now", NOW, "past") == NOW
    assert parse_time_ms("@1794797012371-5", NOW, "past") == 1_794_797_012_371
    assert parse_time_ms("2026-11-18T03:00:00Z", NOW, "past") == 1_794_970_800_000
    assert parse_time_ms("2026-11-18T03:00:00", NOW, "past") == 1_794_970_800_000
    assert parse_time_ms("2026-11-18T04:00:00+01:00", NOW, "past") == 1_794_970_800_000
    with pytest.raises(ArgumentError, match="is no time"):
        parse_time_ms("yesterday-ish", NOW, "past")


def test_spans_have_two_units() -> None:
    texts = [format_duration(ms) for ms in (0, 999, 3_000, 724_000, 11_100_000, 183_600_000, -3_000)]
    assert texts == ["0ms", "999ms", "3s", "12m04s", "3h05m", "2d03h", "-3s"]


@given(st.integers(0, 253_402_300_799_999))
def test_a_date_that_is_written_reads_back_to_the_millisecond(ms: int) -> None:
    assert parse_time_ms(format_iso(ms), NOW, "past") == ms


def test_moments_follow_the_style() -> None:
    assert format_time(NOW - 3_000, NOW, TimeStyle.RELATIVE) == "3s ago"
    assert format_time(NOW + 3_000, NOW, TimeStyle.RELATIVE) == "in 3s"
    assert format_time(NOW, NOW, TimeStyle.RAW) == str(NOW)
    assert format_time(NOW, NOW, TimeStyle.ISO) == "2026-11-18T00:34:45.399Z"
    assert format_time(1 << 62, NOW, TimeStyle.ISO) == str(1 << 62)
