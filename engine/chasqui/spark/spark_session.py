"""Spark sessions as the pipeline wants them: on this machine, on a cluster, or through a Connect server.

Java is found, its output goes to a log file, workers use this very Python, and nothing listens beyond loopback unless
a cluster is named.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import warnings
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chasqui.errors import ConfigError, ServerError
from chasqui.spark import error_decoding, java

if TYPE_CHECKING:
    from collections.abc import Iterator

SUBMITTED = "submitted"
"""As a master: the one given to `spark-submit`, inside a program that it started."""

LOCAL_MASTER = "local[*,4]"
"""All cores, and four tries for a task: with `local[*]` alone Spark gives up at the first failure."""

COMMON_CONF = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.sources.partitionOverwriteMode": "dynamic",
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.sql.maxConcurrentOutputFileWriters": "32",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.ui.showConsoleProgress": "false",
    # A Connect server would remember which files a table had when it was asked for the first time.
    "spark.connect.session.planCache.enabled": "false",
    "spark.python.authenticate.socketTimeout": "120s",  # a busy machine takes its time to start a Python
}
PACKAGES = {name: name for name in ("pyspark", "pyarrow", "pandas")}
CONNECT_PACKAGES = {
    "grpc": "grpcio", "grpc_status": "grpcio-status", "google.rpc": "googleapis-common-protos", "zstandard": "zstandard",
}  # fmt: skip
"""Modules that we need, and what to install for them."""

CONNECT_TIMEOUT_S = 5.0
"""How long a Connect server may take to its first word; Spark's own client would go on trying for ten minutes."""

_SPARK_DIRS = ("bin", "sbin", "jars", "conf", "licenses", "examples", "data")
LOCAL_CONF = {
    # An archive that was just written is thousands of small files: found by this process in milliseconds, by a task for
    # each in seconds; and read many at a time, for opening one here is nothing.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000000",
    "spark.sql.files.openCostInBytes": "65536",
    "spark.ui.enabled": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}


@dataclass(frozen=True, slots=True)
class SparkTarget:
    """Which Spark. master: a master URL. remote: a Connect server instead. cache, log: where our files go."""

    cache: Path
    log: Path
    master: str = LOCAL_MASTER
    remote: str | None = None
    heap: str = "1g"
    conf: dict[str, str] = field(default_factory=dict)

    @property
    def is_local(self) -> bool:
        """Whether all of Spark runs in one process of this machine."""
        return self.remote is None and self.master.startswith("local")

    @property
    def address(self) -> str:
        """Which Spark it is, for everybody: a token is for those who may know it."""
        return self.remote.partition("/;")[0] if self.remote else self.master


def is_under_spark_submit() -> bool:
    """Whether `spark-submit` started this program, and with it a Spark."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def check_installed(*, connect: bool = False) -> None:
    """Say what to install, instead of failing somewhere below. connect: also what a Connect server is talked to with."""
    for module, package in (PACKAGES | CONNECT_PACKAGES if connect else PACKAGES).items():
        if not _is_importable(module):
            raise ConfigError(
                f"the pipeline needs {package}, which is not installed", hint="pip install 'chasqui-cli[spark]'"
            )


def _is_importable(module: str) -> bool:
    from importlib.util import find_spec

    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # not even what it is a part of
        return False


def is_reachable(url: str, within_s: float = CONNECT_TIMEOUT_S) -> bool:
    """Whether a Connect server sends its first byte in time; one that hangs accepts connections, but is silent."""
    check_installed(connect=True)
    import grpc  # type: ignore[import-untyped, import-not-found, unused-ignore]  # as installed or not
    from pyspark.sql.connect.client import DefaultChannelBuilder

    try:
        builder = DefaultChannelBuilder(url)
    except ValueError:  # its text shows the whole URL, and that may hold a token
        raise ConfigError(
            "this is no URL of a Spark Connect server", hint="write it as sc://host or sc://host:15002"
        ) from None
    with builder.toChannel() as channel:
        try:
            grpc.channel_ready_future(channel).result(timeout=within_s)
        except grpc.FutureTimeoutError:
            return False
    return True


def spark_environment(where: SparkTarget) -> dict[str, str]:
    """What Spark's processes must find in their environment."""
    if where.master == SUBMITTED:
        return {}
    found = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    if where.remote is None:
        found["JAVA_HOME"] = str(java.find_java(where.cache).home)
        if where.is_local:
            found["SPARK_LOCAL_IP"] = "127.0.0.1"
            if "SPARK_HOME" not in os.environ:
                found["SPARK_HOME"] = str(_spark_home(where.cache))
    return found


def _spark_home(cache: Path) -> Path:
    """The installed Spark under a roof of our own, without its `pyspark.zip`.

    Workers would import pyspark out of that archive, which keeps no compiled code: 1.7 s of CPU for each process
    instead of 0.5. Without it they find the installed package.
    """
    import pyspark

    real = Path(pyspark.__file__).parent
    home = cache / f"spark-{pyspark.__version__}"
    lib = home / "python" / "lib"
    lib.mkdir(parents=True, exist_ok=True)
    links = {home / one.name: one for one in real.iterdir() if one.name in _SPARK_DIRS}
    for link, target in links.items():
        if not link.is_symlink() or link.readlink() != target:
            fresh = link.with_name(f"{link.name}.{os.getpid()}")
            fresh.symlink_to(target)
            fresh.rename(link)
    return home


def spark_conf(where: SparkTarget) -> dict[str, str]:
    """Spark's settings, the caller's last."""
    cores = os.cpu_count() or 2
    found = dict(COMMON_CONF)
    if where.remote is None:
        found |= {"spark.driver.memory": where.heap, "spark.sql.shuffle.partitions": str(2 * cores)}
    if where.is_local:
        found |= LOCAL_CONF
    return found | where.conf


@contextmanager
def open_session(where: SparkTarget) -> Iterator[Any]:
    """A session, closed afterwards unless it was there before; errors out of Spark leave as ours."""
    check_installed()
    from pyspark.sql import SparkSession

    with error_decoding.decoded_errors(str(where.log)):
        borrowed = where.remote is None and SparkSession.getActiveSession() is not None
        spark = start_session(where)
        try:
            yield spark
        except BaseException:
            with suppress(Exception):  # what went wrong before is what counts
                _close_session(spark, where, borrowed=borrowed)
            raise
        _close_session(spark, where, borrowed=borrowed)


def _close_session(spark: Any, where: SparkTarget, *, borrowed: bool) -> None:
    """End a Spark of our own; of another one only our end of the line, which would try to tidy up there at exit."""
    if where.remote:
        spark.client.close()
    elif not borrowed:
        with _output_to_log(where.log):
            spark.stop()


def start_session(where: SparkTarget) -> Any:
    """A session that the caller must stop."""
    from pyspark.sql import SparkSession

    if where.remote and not is_reachable(where.remote):
        raise ServerError(
            "no Spark answers there", hint="`chasqui pipeline up` starts one; or leave out --remote and --master"
        )
    os.environ.update(spark_environment(where))
    builder = SparkSession.builder.appName("chasqui")
    own = where.remote is None and where.master != SUBMITTED
    if where.remote:
        builder = builder.remote(where.remote)
    elif own:
        builder = builder.master(where.master)
    for name, value in spark_conf(where).items():
        if own or name.startswith(("spark.sql.", "spark.connect.session.")):
            builder = builder.config(name, value)
    with _output_to_log(where.log), _signals_deferred() if own else nullcontext():
        spark = builder.getOrCreate()
    _silence_logs(where.log)
    if where.remote is None:
        spark.sparkContext.setLogLevel("WARN")
    else:
        spark.client.set_retry_policies([_retry_policy()])
    return spark


def _silence_logs(log: Path) -> None:
    """What a query died of leaves as an error of ours, and what else its libraries have to say goes to the log; they
    would write whole traces to stderr before.
    """
    from pyspark.logger import PySparkLogger

    for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
        PySparkLogger.getLogger(name).disabled = True
    warnings.filterwarnings("ignore", message=r"\[RETRIES_EXCEEDED\]")
    if not logging.getLogger().handlers:
        logging.getLogger().addHandler(logging.FileHandler(log, delay=True))


def _retry_policy() -> Any:
    """How long a Connect server that went away is waited for: some twenty seconds, where Spark would wait ten minutes."""
    from pyspark.sql.connect.client.retries import DefaultPolicy

    return DefaultPolicy(max_retries=8, max_backoff=4000)


@contextmanager
def _signals_deferred() -> Iterator[None]:
    """Hold back what would end us until Java has come up: one that cannot report where it listens stays behind for
    ever, while one that did ends with us. A second signal acts at once.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[int] = []

    def note(number: int, _: object) -> None:
        if received:
            raise KeyboardInterrupt
        received.append(number)

    ends = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, note) for number in ends}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if received:
        signal.raise_signal(received[0])


@contextmanager
def _output_to_log(log: Path) -> Iterator[None]:
    """Everything that Java and its processes print goes to the log: they inherit the file."""
    log.parent.mkdir(parents=True, exist_ok=True)
    sys.stdout.flush()
    sys.stderr.flush()
    stored = [os.dup(1), os.dup(2)]
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.dup2(file, 1)
        os.dup2(file, 2)
        yield
    finally:
        for number, saved in zip((1, 2), stored, strict=True):
            os.dup2(saved, number)
            os.close(saved)
        os.close(file)
