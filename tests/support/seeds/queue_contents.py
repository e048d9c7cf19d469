"""Queues with something in every place, for the verbs that tend queues."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

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
