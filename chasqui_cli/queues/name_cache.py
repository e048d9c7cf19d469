"""Queue names that were found before, kept on disk per server: completion needs them at once, and a search among a
million keys need not be made twice.

What is kept is a convenience: a file that cannot be read is as good as none, and one that cannot be written does no harm.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class CachedNames:
    """What was found at `at_ms` among `keys` keys. `others`: queues of other systems, None if never looked for; found at
    `others_at_ms`.
    """

    at_ms: int
    keys: int
    queues: tuple[str, ...]
    others: tuple[str, ...] | None = None
    others_at_ms: int = 0


class NameCache:
    """The names of one server's queues. `place`: where caches live, None for nowhere."""

    def __init__(self, place: Path | None, url: str) -> None:
        # The URL may hold a password; its digest only distinguishes servers.
        digest = hashlib.sha256(url.encode(errors="surrogateescape")).hexdigest()[:24]
        self._path = place / "names" / f"{digest}.json" if place else None

    def read(self) -> CachedNames | None:
        """What is kept, if anything is."""
        if self._path is None:
            return None
        try:
            stored = json.loads(self._path.read_text())
            others = stored.get("others")
            return CachedNames(
                int(stored["at_ms"]),
                int(stored["keys"]),
                tuple(map(str, stored["queues"])),
                None if others is None else tuple(map(str, others)),
                int(stored.get("others_at_ms", stored["at_ms"])),
            )
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def write(
        self,
        at_ms: int,
        keys: int,
        queues: Sequence[str],
        others: Sequence[str] | None = None,
        others_at_ms: int | None = None,
    ) -> None:
        """Keep what was found. Written to a file of its own and moved into place, so that no reader sees half of it."""
        if self._path is None:
            return
        temporary = self._path.with_suffix(f".{os.getpid()}")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            found: dict[str, Any] = {"at_ms": at_ms, "keys": keys, "queues": list(queues)}
            if others is not None:
                found |= {"others": list(others), "others_at_ms": at_ms if others_at_ms is None else others_at_ms}
            temporary.write_text(json.dumps(found))
            temporary.replace(self._path)
        except OSError:
            return
