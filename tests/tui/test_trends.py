"""Rates, forecasts, lines; filters; command lines; figures from events: everything that needs no screen."""

from __future__ import annotations

import pytest

from chasqui.inspect.event_stats import event_stats
from chasqui.inspect.events import StoredEvent
from chasqui.server.commands.replies import StreamExtent
from chasqui.wire.event_entry import Event
from chasqui_cli.tui.command_runner import CommandRunner
from chasqui_cli.tui.crash import crash_report
from chasqui_cli.tui.feed.feed_loop import Feed
from chasqui_cli.tui.row_filter import RowFilter
from chasqui_cli.tui.trends import HOUR_MS, Rates, Trend, forecast_text, short_count, sparkline
from chasqui_cli.tui.web_server import visitor_command
from tests.support.tui.fixed_views import snapshot


def watched(*samples: tuple[int, int, int]) -> Trend:
    """(second, ever added, waiting)"""
    trend = Trend()
    for second, added, waiting in samples:
        trend.add(
            snapshot(
                "q",
                server_time_ms=second * 1000,
                waiting=waiting,
                stream=StreamExtent(waiting, None, "1-0", added),
            )
        )
    return trend


def test_rates_are_what_came_and_what_was_read() -> None:
    assert watched((0, 100, 10)).rates() is None
    assert watched((0, 100, 10), (10, 200, 30)).rates() == Rates(10.0, 8.0, 10_000)


def test_rates_follow_the_last_seconds_and_a_new_stream_begins_a_new_story() -> None:
    trend = watched((0, 0, 0), (100, 1000, 0), (110, 1500, 0), (120, 2000, 0))
    assert trend.rates() == Rates(50.0, 50.0, 20_000)
    trend.add(snapshot("q", server_time_ms=121_000, stream=StreamExtent(0, None, "1-0", 5)))
    assert trend.rates() is None


def test_samples_of_an_hour_are_thinned_out() -> None:
    trend = watched(*((second, second, 1) for second in range(0, 2 * 3600, 2)))
    assert len(trend.samples) <= 330
    assert trend.samples[-1].at_ms - trend.samples[0].at_ms <= HOUR_MS


@pytest.mark.parametrize(
    ("waiting", "rates", "text"),
    [
        (0, None, "–"),
        (5, None, "…"),
        (5, Rates(0, 0, 9000), "stalled"),
        (100, Rates(5, 15, 9000), "clears ~10s"),
        (100, Rates(52, 40, 9000), "grows 12/s"),
        (100, Rates(9, 9, 9000), "clears >1d"),
    ],
)
def test_the_forecast_has_three_words(waiting: int, rates: Rates | None, text: str) -> None:
    assert forecast_text(waiting, rates) == text


def test_numbers_fit_their_columns() -> None:
    assert [short_count(n) for n in (0, 9999, 84_213, 1_000_000, 41_000_000_000)] == [
        "0",
        "9999",
        "84.2k",
        "1.0M",
        "41.0G",
    ]
    assert sparkline([None, 0, 4, 8]) == " ▁▄█"
    assert sparkline([0, 0]) == "▁▁"


def test_filters_keep_what_was_asked_for() -> None:
    row = {"name": "send-email", "reason": "timeout", "error": "SMTP 550"}
    for text, stays in {
        "": True, "smtp": True, "name:send*": True, "name:charge": False, "-reason:timeout": False, "550 -name:x": True,
        "name:": False, ":": True, "-": True,
    }.items():  # fmt: skip
        assert RowFilter.parse(text).keeps(row) is stays, text


async def test_a_line_that_cannot_be_run_reports_why() -> None:
    ended = await CommandRunner({}).run(["why", "a\0b"])
    assert ended.code == 2
    assert "error:" in ended.err


def test_a_visitor_gets_no_url_among_his_words() -> None:
    given = [
        "top",
        "q",
        "--web",
        "127.0.0.1:8000",
        "-u",
        "redis://:pw@h",
        "--redis-url=redis://:pw@h",
        "--allow-changes",
        "--light",
    ]
    assert visitor_command(given) == ["top", "q", "--light"]


def test_a_slow_server_is_asked_less_often() -> None:
    feed = Feed(lambda: None, interval_s=2.0)  # type: ignore[arg-type,return-value]  # it is never opened
    feed._adapt_interval(0.6)
    assert feed._slowdown == 2
    for _ in range(9):
        feed._adapt_interval(100.0)
    assert feed._slowdown == 32
    for _ in range(9):
        feed._adapt_interval(0.01)
    assert feed._slowdown == 1


def test_event_stats_have_waits_and_runs_and_their_window() -> None:
    stored = [
        StoredEvent("q", "1000-0", Event("waiting", "a", 1000)),
        StoredEvent("q", "1500-0", Event("active", "a", 1500, "mail", 1)),
        StoredEvent("q", "1600-0", Event("completed", "a", 1600, "mail", 1, duration_us=100_000)),
        StoredEvent("q", "2000-0", Event("active", "custom-id", 2000, "mail", 1)),
        StoredEvent("q", "3000-0", Event("failed", "custom-id", 3000, "mail", 1, "boom", 900_000)),
    ]
    found = event_stats(stored)
    assert (found.events, found.window_ms, found.completed, found.failed) == (5, 2000, 1, 1)
    assert found.wait
    assert found.wait.count == 1, "when an id of the caller's own was made is unknown, and not guessed"
    assert found.wait.p50 == 500
    assert found.run
    assert (found.run.p50, found.run.p99) == (100.0, 900.0)
    assert event_stats([]).wait is None


def test_a_crash_report_has_no_secrets() -> None:
    def fail(url: str) -> None:
        raise ValueError(f"cannot open {url}")

    try:
        fail("redis://:hunter2@prod")
    except ValueError as error:
        text = crash_report(error)
    assert "ValueError" in text
    assert "test_trends.py" in text
    assert "hunter2" not in text


def test_a_name_with_a_colon_is_no_field() -> None:
    row = {"queue": "rsmq:orders", "kind": "rsmq"}
    assert RowFilter.parse("rsmq:ord").keeps(row)
    assert RowFilter.parse("queue:*orders").keeps(row)
    assert not RowFilter.parse("rsmq:mail").keeps(row)
