"""The name under which a consumer reads and settles entries, and the commands it gives in that name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from chasqui.server.commands import Commands
    from chasqui.server.flow import Flow
    from chasqui.wire.keys import Keys


@dataclass(frozen=True, slots=True)
class ConsumerIdentity:
    """One consumer of one group of one queue."""

    commands: Commands
    keys: Keys
    group: str
    consumer: str

    @property
    def settle_args(self) -> tuple[Keys, str, str]:
        """The first arguments of every command that checks the owner of an entry."""
        return self.keys, self.group, self.consumer

    def ensure_group(self) -> Flow[bool]:
        """Create the group if it is missing."""
        return self.commands.ensure_group(self.keys, self.group)
