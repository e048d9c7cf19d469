"""One Spark for all tests of this directory: two cores, a small heap, Java's words in a file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chasqui.server.link import Link
from chasqui.spark import spark_session
from chasqui.spark.spark_session import SparkTarget
from tests.support.servers.pool import ServerPool
from tests.support.servers.server import Server

pytest.importorskip("pyspark", reason="the pipeline's tests need the extra `spark`; run them with: make spark")


FRUGAL = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto",
}
"""Tests ask many small questions once each: whatever Java would compile for them is never used again."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings("default"))  # Spark's own warnings are not ours to fix
            item.add_marker(pytest.mark.timeout(300))


@pytest.fixture(scope="session")
def spark_target(tmp_path_factory: pytest.TempPathFactory) -> SparkTarget:
    place = tmp_path_factory.mktemp("spark")
    event_log = place / "told"
    event_log.mkdir()
    conf = {
        "spark.sql.shuffle.partitions": "2",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": event_log.as_uri(),
    }
    return SparkTarget(place / "cache", place / "log", master="local[2,4]", conf=conf)


@pytest.fixture(scope="session")
def spark(spark_target: SparkTarget) -> Iterator[Any]:
    with spark_session.open_session(spark_target) as running:
        yield running


@pytest.fixture(scope="session")
def redis(servers: ServerPool) -> Server:
    return servers.get("redis-8.6")


@pytest.fixture(scope="session")
def link(redis: Server) -> Iterator[Link]:
    with Link.open(redis.url) as opened:
        yield opened


@pytest.fixture
def data_source_options(redis: Server) -> dict[str, str]:
    """Options of the data source that name the server."""
    return {"redis.url": redis.url, "retryFor": "5"}
