"""What a change came to, for the program that started this one."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import asdict, dataclass


@dataclass(slots=True)
class ChangeResult:
    """op: the operation that `undo` takes back, if there is one. planned, done: how many records. queue: the name that
    a protected context wants typed.
    """

    op: str | None = None
    planned: int = 0
    done: int = 0
    queue: str | None = None

    def send(self, descriptor: int | None) -> None:
        """Write it as a line of JSON to a file descriptor; a closed one is ignored."""
        if descriptor is not None:
            with suppress(OSError):
                os.write(descriptor, json.dumps(asdict(self)).encode() + b"\n")
