"""Findings from a server's report; and the throughput of a queue, from two snapshots."""

from __future__ import annotations

from dataclasses import replace

import pytest

from chasqui.health import Level, ServerFacts, check_server
from chasqui.inspect import throughput
from chasqui.inspect.snapshot import Snapshot
from chasqui.inspect.throughput import BacklogForecast
from chasqui.server.commands.replies import StreamExtent
from chasqui.server.features import Features
from chasqui.server.server_info import ServerInfo

GOOD = ServerInfo(0, "master", "standalone", 1, 1, 50, 100, "noeviction", "aof", 1)
NATIVE = Features(idmp=True, ackdel=True, claim=True, kind="redis", version="8.6.3")
EMPTY = Snapshot(
    "q",
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    None,
    None,
    (),
    None,
    None,
    0,
    StreamExtent(),
    StreamExtent(),
    StreamExtent(),
)


def codes(facts: ServerFacts) -> dict[str, Level]:
    return {finding.code: finding.level for finding in check_server(facts)}


def test_a_good_server_has_no_findings() -> None:
    assert codes(ServerFacts(GOOD, NATIVE, 20)) == {}


@pytest.mark.parametrize(
    ("changed", "code", "level"),
    [
        ({"eviction": "allkeys-lru"}, "evicts", Level.CRITICAL),
        ({"eviction": "volatile-ttl", "max_memory_bytes": 0}, "evicts", Level.WARNING),
        ({"memory_bytes": 95}, "memory-full", Level.WARNING),
        ({"memory_bytes": 101}, "memory-full", Level.CRITICAL),
        ({"persistence": "none"}, "not-persistent", Level.WARNING),
        ({"persistence": "rdb"}, "snapshots-only", Level.NOTE),
        ({"role": "slave"}, "replica", Level.WARNING),
    ],
)
def test_what_makes_a_server_risky(changed: dict[str, object], code: str, level: Level) -> None:
    assert codes(ServerFacts(replace(GOOD, **changed), NATIVE)) == {code: level}  # type: ignore[arg-type]


def test_a_clock_apart_and_missing_words() -> None:
    old = Features(idmp=False, ackdel=False, claim=False, kind="redis", version="7.0.15")
    assert codes(ServerFacts(GOOD, old, -8000)) == {"clock-skew": Level.WARNING, "stand-ins": Level.NOTE}


def after(seconds: int, *, added: int, waiting: int, dead: int = 0) -> Snapshot:
    return replace(
        EMPTY,
        server_time_ms=seconds * 1000,
        waiting=waiting,
        stream=StreamExtent(waiting, None, "9-9", added),
        dlq=StreamExtent(dead, None, "9-9", dead),
    )


@pytest.mark.parametrize(
    ("added", "waiting", "forecast"),
    [
        (100, 80, BacklogForecast("clears", clears_ms=8000)),
        (100, 100, BacklogForecast("stalled")),
        (120, 120, BacklogForecast("grows", per_s=10.0)),
        (150, 100, BacklogForecast("grows", per_s=0.0)),
        (150, 0, None),
    ],
)
def test_the_forecast_has_three_words(added: int, waiting: int, forecast: BacklogForecast | None) -> None:
    went = throughput.throughput_between(after(0, added=100, waiting=100), after(2, added=added, waiting=waiting))
    assert went is not None
    assert went.forecast == forecast


def test_rates_are_by_the_servers_clock() -> None:
    went = throughput.throughput_between(after(1, added=10, waiting=10, dead=1), after(3, added=30, waiting=26, dead=4))
    assert went is not None
    assert (went.window_ms, went.added, went.read, went.died) == (2000, 20, 4, 3)
    assert (went.in_per_s, went.out_per_s) == (10.0, 2.0)


def test_another_stream_and_no_time_give_no_throughput() -> None:
    assert throughput.throughput_between(after(0, added=10, waiting=1), after(2, added=3, waiting=3)) is None
    assert throughput.throughput_between(after(2, added=3, waiting=3), after(2, added=3, waiting=3)) is None
