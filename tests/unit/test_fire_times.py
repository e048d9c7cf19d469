from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from chasqui import cron
from chasqui.errors import ArgumentError, ConfigError
from chasqui.schedule import fire_times
from chasqui.schedule.fire_times import FirePlan, first_fire, plan_fires
from chasqui.wire.repeat_spec import Cron, Every, FireAll, FireOnce, MissedFires, Skip
from tests import golden

Record = Callable[[str, object], None]

NOW = 1_800_000_000_000
SECOND, MINUTE, DAY = 1000, 60_000, 86_400_000


def policy_of(context: golden.Item) -> MissedFires:
    asked = context["policy"] or {"kind": "skip"}
    if asked["kind"] == "fire-all":
        return FireAll(asked["max_catchup"])
    return FireOnce() if asked["kind"] == "fire-once" else Skip()


def test_every_captured_tick_fires_and_re_arms_as_ours_would(record_property: Record) -> None:
    def check(item: golden.Item) -> None:
        asked, expect = item["context"], item["expect"]
        ours = plan_fires(Every(asked["interval_ms"]), policy_of(asked), asked["score"], asked["now_ms"])
        assert list(ours.fire_at_ms) == expect["fire_at_ms"]
        assert ours.next_ms == expect["next_fire_ms_arg"]

    golden.walk("fire", check, record_property)


def test_a_spec_that_would_never_fire_is_refused_as_captured(record_property: Record) -> None:
    captured = [item for item in golden.items("error") if item["case"] == "end_before_first_fire"]
    assert captured
    record_property("vectors error, before the first fire", len(captured))
    for item in captured:
        end = int(item["context"]["end_before_ms"].removeprefix("now+"))
        with pytest.raises(ConfigError) as refused:
            first_fire(Every(item["context"]["interval_ms"]), NOW, end_before_ms=NOW + end)
        assert f"config: {refused.value}" == item["expect"]["error"]
        assert refused.value.hint


def test_an_interval_of_nothing_is_refused_as_captured() -> None:
    captured = [item for item in golden.items("error") if item["case"] == "every_zero"]
    assert captured
    for item in captured:
        with pytest.raises(ArgumentError) as refused:
            first_fire(Every(item["context"]["interval_ms"]), NOW)
        assert str(refused.value) == item["expect"]["error"]


def test_an_interval_counts_from_the_later_of_now_and_the_start() -> None:
    assert first_fire(Every(5000), NOW) == NOW + 5000
    assert first_fire(Every(5000), NOW, NOW - 1) == NOW + 5000
    assert first_fire(Every(5000), NOW, NOW + 70) == NOW + 5070


def test_a_first_fire_exactly_at_the_end_is_valid() -> None:
    assert first_fire(Every(5000), NOW, end_before_ms=NOW + 5000) == NOW + 5000


def test_a_first_fire_is_never_in_the_past_even_in_the_repeated_autumn_hour() -> None:
    second_pass = round(datetime(2027, 11, 7, 6, 10, tzinfo=UTC).timestamp() * 1000)
    pattern = Cron("*/30 * * * *", "America/New_York")
    assert cron.parse_cron(pattern.expression, pattern.tz).next(second_pass) == second_pass - 40 * MINUTE
    assert first_fire(pattern, second_pass) == second_pass + 50 * MINUTE


@pytest.mark.parametrize("policy", [Skip(), FireOnce(), FireAll(5)])
def test_late_but_before_the_next_time_is_one_fire_under_any_policy(policy: MissedFires) -> None:
    late = plan_fires(Cron("@daily"), policy, NOW - NOW % DAY, NOW)
    assert late == FirePlan((NOW - NOW % DAY,), NOW - NOW % DAY + DAY)


def test_a_next_time_of_exactly_now_waits_for_the_next_tick() -> None:
    assert plan_fires(Every(5000), Skip(), NOW - 5000, NOW) == FirePlan((NOW - 5000,), NOW)


def test_after_an_outage_each_policy_fires_what_it_promises_and_counts_the_rest() -> None:
    due, pattern = NOW - 10 * MINUTE, Cron("* * * * *")
    assert plan_fires(pattern, Skip(), due, NOW) == FirePlan((), NOW + MINUTE, lost=11)
    assert plan_fires(pattern, FireOnce(), due, NOW) == FirePlan((due,), NOW + MINUTE, lost=10)
    assert plan_fires(pattern, FireAll(3), due, NOW) == FirePlan(
        (due, due + MINUTE, due + 2 * MINUTE), NOW + MINUTE, lost=8
    )
    everything = plan_fires(pattern, FireAll(100), due, NOW)
    assert everything == FirePlan(tuple(range(due, NOW + 1, MINUTE)), NOW + MINUTE)


def test_no_tick_fires_more_than_the_hard_cap() -> None:
    flood = plan_fires(Every(1), FireAll(10**9), NOW - DAY, NOW)
    assert len(flood.fire_at_ms) == fire_times.MAX_FIRES
    assert (flood.next_ms, flood.lost) == (NOW + 1, DAY + 1 - fire_times.MAX_FIRES)


def test_a_search_of_too_many_steps_pauses_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fire_times, "MAX_STEPS", 50)  # the rule at a thousandth of its length
    paused = plan_fires(Cron("* * * * *"), Skip(), NOW - DAY, NOW)
    assert paused == FirePlan((), NOW + fire_times.RESUME_AFTER_MS, lost=51)


def test_the_last_time_of_a_pattern_fires_and_ends_it() -> None:
    last = round(datetime(2027, 1, 1, tzinfo=UTC).timestamp() * 1000)
    assert plan_fires(Cron("0 0 0 1 1 * 2027"), Skip(), last, last + DAY) == FirePlan((last,), None)


def test_a_pattern_that_cannot_be_read_is_an_error_and_not_an_end() -> None:
    with pytest.raises(ConfigError, match="invalid cron expression"):
        plan_fires(Cron("soon"), Skip(), NOW - MINUTE, NOW)


def test_an_outage_of_two_ticks_is_skipped_and_less_is_not() -> None:
    assert plan_fires(Every(400), Skip(), NOW - 2000, NOW, tick_ms=1000).fire_at_ms == (NOW - 2000,)
    assert plan_fires(Every(400), Skip(), NOW - 2001, NOW, tick_ms=1000).fire_at_ms == ()


@settings(deadline=None)
@given(st.integers(1, 5000), st.integers(10, 2000), st.lists(st.integers(0, 50), min_size=20, max_size=20))
def test_an_interval_of_any_length_fires_whenever_a_tick_finds_it_due(
    interval: int, tick: int, jitter: list[int]
) -> None:
    now, due = NOW, NOW + interval
    for late in jitter:
        now += tick + late * tick // 100
        if due > now:
            continue
        planned = plan_fires(Every(interval), Skip(), due, now, tick_ms=tick)
        assert planned.fire_at_ms == (due,)
        assert planned.next_ms is not None
        assert planned.next_ms >= now
        assert (planned.next_ms - due) // interval == 1 + planned.lost
        due = planned.next_ms


@settings(deadline=None)
@given(
    st.sampled_from([Every(700), Cron("*/7 * * * * *"), Cron("*/5 1-3 * * *", "America/New_York")]),
    st.sampled_from([Skip(), FireOnce(), FireAll(2), FireAll(1000)]),
    st.integers(0, DAY // 4),
)
def test_a_plan_never_re_arms_in_the_past_nor_dates_a_fire_in_the_future(
    pattern: Every | Cron, policy: MissedFires, lateness: int
) -> None:
    planned = plan_fires(pattern, policy, NOW - lateness, NOW)
    assert planned.next_ms is not None
    assert planned.next_ms >= NOW
    assert all(NOW - lateness <= fire <= NOW for fire in planned.fire_at_ms)
    assert sorted(set(planned.fire_at_ms)) == list(planned.fire_at_ms)


def next_or_none(pattern: Cron, after_ms: int) -> int | None:
    """None where the search of the reference ends: Apia's clocks once skipped a whole day."""
    try:
        return cron.parse_cron(pattern.expression, pattern.tz).next_after(after_ms)
    except cron.NoSuchTimeError:
        return None


def walked(pattern: Cron, due: int, now: int) -> FirePlan:
    """What an outage comes to under Skip when one walks from each time to the next, as the reference does."""
    times = [due]
    while len(times) <= fire_times.MAX_STEPS:
        following = next_or_none(pattern, times[-1])
        if following is None or following > now:
            return FirePlan((), following, len(times))
        times.append(following)
    return FirePlan((), now + fire_times.RESUME_AFTER_MS, fire_times.MAX_STEPS + 1)


CHANGES = {
    "UTC": datetime(2026, 3, 29, 1, tzinfo=UTC),
    "Europe/Madrid": datetime(2026, 3, 29, 1, tzinfo=UTC),
    "America/New_York": datetime(2026, 11, 1, 6, tzinfo=UTC),
    "America/Havana": datetime(2026, 3, 8, 5, tzinfo=UTC),
    "Australia/Lord_Howe": datetime(2026, 4, 4, 15, tzinfo=UTC),
    "Pacific/Apia": datetime(2011, 12, 30, 10, tzinfo=UTC),
    "Asia/Beirut": datetime(2026, 10, 24, 21, tzinfo=UTC),
}
"""About when clocks are put forward or back: at night, at midnight, by half an hour, by a whole day."""
SIXTY = st.sampled_from(["*", "*/7", "0", "0,30,59", "10-20"])


@settings(deadline=None, max_examples=150)
@example("Pacific/Apia", ("0", "0", "0", "*", "*", "*"), -1, 0)
@example("Pacific/Apia", ("0", "0", "0", "*", "*", "*"), -DAY, 40 * DAY)
@given(
    st.sampled_from(sorted(CHANGES)),
    st.tuples(
        SIXTY,
        SIXTY,
        st.sampled_from(["*", "*/5", "0", "1-3", "0,2,23"]),
        st.sampled_from(["*", "1-15", "L"]),
        st.sampled_from(["*", "*", "1,3,10"]),
        st.sampled_from(["*", "1-5"]),
    ),
    st.integers(-DAY, DAY // 2),
    st.sampled_from([MINUTE, 60 * MINUTE, DAY, 40 * DAY]).flatmap(lambda most: st.integers(0, most)),
)
def test_leaping_over_missed_times_lands_where_walking_does_also_where_clocks_change(
    zone: str, words: tuple[str, ...], before: int, outage: int
) -> None:
    pattern, due = Cron(" ".join(words), zone), round(CHANGES[zone].timestamp() * 1000) + before
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fire_times, "MAX_STEPS", 1000)
        planned = plan_fires(pattern, Skip(), due, due + outage, tick_ms=0)
        if planned.fire_at_ms:
            assert planned == FirePlan((due,), next_or_none(pattern, due))
        else:
            assert planned == walked(pattern, due, due + outage)


@pytest.mark.parametrize("days", [1, 2, 400])
def test_an_outage_of_a_schedule_of_every_second_is_worked_out_in_a_few_steps(
    days: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[int] = []
    walk = cron.CronSchedule.next

    def counted(schedule: cron.CronSchedule, from_ms: int) -> int:
        steps.append(from_ms)
        return walk(schedule, from_ms)

    monkeypatch.setattr(cron.CronSchedule, "next", counted)
    planned = plan_fires(Cron("* * * * * *", "Europe/Madrid"), FireOnce(), NOW - days * DAY, NOW)
    assert planned.lost == min(days * DAY // SECOND, fire_times.MAX_STEPS)
    assert len(steps) < 10
