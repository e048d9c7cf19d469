"""A queue by its keys, for the tests of commands that change queues."""

from __future__ import annotations

from dataclasses import dataclass

from chasqui import Commands, Keys, Link
from tests.support.links import PlainCommands


@dataclass(slots=True)
class QueueContents(PlainCommands):
    """A queue by its keys."""

    link: Link
    queue: str

    @property
    def keys(self) -> Keys:
        return Keys(self.queue)

    @property
    def commands(self) -> Commands:
        return Commands(self.link.features())
