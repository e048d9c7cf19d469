"""Queues with something in every place, for the verbs that tend queues."""

from __future__ import annotations

import os
import pty
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from chasqui import Commands, Keys, Link
from chasqui.server.flow import Call, Flow


@dataclass(slots=True)
class QueueContents:
    """A queue laid open."""

    link: Link
    queue: str

    @property
    def keys(self) -> Keys:
        return Keys(self.queue)

    @property
    def commands(self) -> Commands:
        return Commands(self.link.features())

    def command(self, *words: str | bytes | int) -> Any:
        return self.link.run(_alone(words))

    def now_ms(self) -> int:
        seconds, micros = self.command("TIME")
        return int(seconds) * 1000 + int(micros) // 1000

    def run(self, flow: Flow[Any]) -> Any:
        return self.link.run(flow)


def _alone(words: tuple[str | bytes | int, ...]) -> Flow[Any]:
    [reply] = yield [Call(words)]
    return reply


@contextmanager
def fake_terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bytes]]:
    """Stdout and stderr are a terminal meanwhile; what was written to it stands in the list afterwards."""
    ours, theirs = pty.openpty()
    seen: list[bytes] = []

    def listen() -> None:
        while True:
            try:
                read = os.read(ours, 65536)
            except OSError:
                return
            if not read:
                return
            seen.append(read)

    listener = threading.Thread(target=listen, daemon=True)
    listener.start()
    with os.fdopen(theirs, "w", encoding="utf-8") as screen:
        monkeypatch.setattr(sys, "stdout", screen)
        monkeypatch.setattr(sys, "stderr", screen)
        yield seen
        screen.flush()
    listener.join(5)
    os.close(ours)
