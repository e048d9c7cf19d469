"""What a worker's handler did: counted for the status line, and for Prometheus if enabled."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

Handler = Callable[[Any], Any]
MAX_LABEL_NAMES = 200
"""Producers choose names; beyond this many they are counted together."""


class RunCounts:
    """How many runs ended well, how many failed, and how many are under way. Handlers may run in threads."""

    def __init__(self, mono: Callable[[], float]) -> None:
        self._mono = mono
        self._lock = threading.Lock()
        self.done = self.failed = self.running = 0
        self.meters: WorkerMetrics | None = None

    @contextmanager
    def track_run(self, job: Any) -> Iterator[None]:
        """One run of the handler. Being called off is neither success nor failure."""
        began = self._mono()
        with self._lock:
            self.running += 1
        try:
            yield
        except Exception:
            with self._lock:
                self.failed += 1
            if self.meters:
                self.meters.record_run(job.name, self._mono() - began, failed=True)
            raise
        else:
            with self._lock:
                self.done += 1
            if self.meters:
                self.meters.record_run(job.name, self._mono() - began, failed=False)
        finally:
            with self._lock:
                self.running -= 1

    def wrap_handler(self, handler: Handler) -> Handler:
        """The handler, counted; a coroutine function stays one."""
        from chasqui import is_async_handler

        async def awaited(job: Any) -> Any:
            with self.track_run(job):
                return await handler(job)

        def called(job: Any) -> Any:
            with self.track_run(job):
                return handler(job)

        return awaited if is_async_handler(handler) else called


class WorkerMetrics:
    """Counters of one worker process, served over HTTP."""

    def __init__(self, queue: str, counts: RunCounts) -> None:
        try:
            from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
        except ImportError:
            from chasqui.errors import ConfigError

            raise ConfigError(
                "metrics need the package prometheus-client", hint="pip install 'chasqui-cli[metrics]'"
            ) from None
        self._queue = queue
        self._names: set[str] = set()
        self._registry = CollectorRegistry()
        labels = ["queue", "name"]
        self._done = Counter("chasqui_jobs_done", "Runs that ended well.", labels, registry=self._registry)
        self._failed = Counter("chasqui_jobs_failed", "Runs that failed.", labels, registry=self._registry)
        self._seconds = Histogram("chasqui_job_seconds", "How long runs took.", labels, registry=self._registry)
        in_flight = Gauge("chasqui_in_flight", "Runs that are under way.", ["queue"], registry=self._registry)
        in_flight.labels(queue).set_function(lambda: counts.running)

    def serve(self, host: str, port: int) -> None:
        """Answer scrapes, in a thread that ends with the process."""
        from prometheus_client import start_http_server

        start_http_server(port, host, registry=self._registry)

    def record_run(self, name: str, seconds: float, *, failed: bool) -> None:
        """A run has ended."""
        if name not in self._names:
            if len(self._names) >= MAX_LABEL_NAMES:
                name = "(other)"
            self._names.add(name)
        (self._failed if failed else self._done).labels(self._queue, name).inc()
        self._seconds.labels(self._queue, name).observe(seconds)
