from __future__ import annotations

import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def temporary_server() -> Iterator[Path]:
    """The socket of a server that is gone afterwards with all its files, also when the tour is interrupted."""
    from chasqui import EmbeddedServer

    place = Path(tempfile.mkdtemp(prefix="chasqui-demo-"))
    server = EmbeddedServer(place / "server")
    try:
        yield server.start()
    finally:
        with _signals_blocked():
            server.stop()
            shutil.rmtree(place)


@contextmanager
def _signals_blocked() -> Iterator[None]:
    """Signals that would end us wait until this is done."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
