"""Spark sessions as the pipeline wants them: on this machine, on a cluster, or through a Connect server.

Java is found, its output goes to a log file, workers use this very Python, and nothing listens beyond loopback unless
a cluster is named.
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chasqui.errors import ConfigError
from chasqui.spark import java, plain

if TYPE_CHECKING:
    from collections.abc import Iterator

SUBMITTED = "submitted"
"""As a master: whichever `spark-submit` was told, inside a program that it started."""

LOCAL = "local[*,4]"
"""All cores, and four tries for a task: with `local[*]` alone Spark gives up at the first failure."""

CONF = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.sources.partitionOverwriteMode": "dynamic",
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.sql.maxConcurrentOutputFileWriters": "32",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.ui.showConsoleProgress": "false",
    "spark.python.authenticate.socketTimeout": "120s",  # a busy machine takes its time to start a Python
}
_PARTS = ("bin", "sbin", "jars", "conf", "licenses", "examples", "data")
LOCAL_CONF = {
    "spark.ui.enabled": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}


@dataclass(frozen=True, slots=True)
class Where:
    """Which Spark. master: a master URL. remote: a Connect server instead. cache, log: where our files go."""

    cache: Path
    log: Path
    master: str = LOCAL
    remote: str | None = None
    heap: str = "1g"
    conf: dict[str, str] = field(default_factory=dict)

    @property
    def is_local(self) -> bool:
        """Whether all of Spark runs in one process of this machine."""
        return self.remote is None and self.master.startswith("local")


def under_submit() -> bool:
    """Whether `spark-submit` started this program, and with it a Spark."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def check_installed() -> None:
    """Say what to install, instead of failing somewhere below."""
    from importlib.util import find_spec

    for name in ("pyspark", "pyarrow"):
        if find_spec(name) is None:
            raise ConfigError(
                f"the pipeline needs {name}, which is not installed", hint="pip install 'chasqui-cli[spark]'"
            )


def environment(where: Where) -> dict[str, str]:
    """What Spark's processes must find in their environment."""
    if where.master == SUBMITTED:
        return {}
    found = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    if where.remote is None:
        found["JAVA_HOME"] = str(java.find(where.cache).home)
        if where.is_local:
            found["SPARK_LOCAL_IP"] = "127.0.0.1"
            if "SPARK_HOME" not in os.environ:
                found["SPARK_HOME"] = str(_home(where.cache))
    return found


def _home(cache: Path) -> Path:
    """The installed Spark under a roof of our own, without its `pyspark.zip`.

    Workers would import pyspark out of that archive, which keeps no compiled code: 1.7 s of CPU for each process
    instead of 0.5. Without it they find the installed package.
    """
    import pyspark

    real = Path(pyspark.__file__).parent
    home = cache / f"spark-{pyspark.__version__}"
    lib = home / "python" / "lib"
    lib.mkdir(parents=True, exist_ok=True)
    links = {home / one.name: one for one in real.iterdir() if one.name in _PARTS}
    for link, target in links.items():
        if not link.is_symlink() or link.readlink() != target:
            fresh = link.with_name(f"{link.name}.{os.getpid()}")
            fresh.symlink_to(target)
            fresh.rename(link)
    return home


def configuration(where: Where) -> dict[str, str]:
    """Spark's settings, the caller's last."""
    cores = os.cpu_count() or 2
    found = dict(CONF)
    if where.remote is None:
        found |= {"spark.driver.memory": where.heap, "spark.sql.shuffle.partitions": str(2 * cores)}
    if where.is_local:
        found |= LOCAL_CONF
    return found | where.conf


@contextmanager
def opened(where: Where) -> Iterator[Any]:
    """A session, closed afterwards unless it was there before; errors out of Spark leave as ours."""
    check_installed()
    from pyspark.sql import SparkSession

    with plain.plainly(str(where.log)):
        borrowed = where.remote is None and SparkSession.getActiveSession() is not None
        spark = start(where)
        try:
            yield spark
        finally:
            if not borrowed and where.remote is None:
                with _aside(where.log):
                    spark.stop()


def start(where: Where) -> Any:
    """A session that somebody else will stop."""
    from pyspark.sql import SparkSession

    os.environ.update(environment(where))
    builder = SparkSession.builder.appName("chasqui")
    own = where.remote is None and where.master != SUBMITTED
    if where.remote:
        builder = builder.remote(where.remote)
    elif own:
        builder = builder.master(where.master)
    for name, value in configuration(where).items():
        if own or name.startswith("spark.sql."):
            builder = builder.config(name, value)
    with _aside(where.log):
        spark = builder.getOrCreate()
    if where.remote is None:
        spark.sparkContext.setLogLevel("WARN")
    return spark


@contextmanager
def _aside(log: Path) -> Iterator[None]:
    """What Java says at its start, and everything its processes say later, goes to the log: they inherit the file."""
    log.parent.mkdir(parents=True, exist_ok=True)
    sys.stdout.flush()
    sys.stderr.flush()
    kept = [os.dup(1), os.dup(2)]
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.dup2(file, 1)
        os.dup2(file, 2)
        yield
    finally:
        for number, saved in zip((1, 2), kept, strict=True):
            os.dup2(saved, number)
            os.close(saved)
        os.close(file)
