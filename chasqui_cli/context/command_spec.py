"""What a verb declares about itself: the one source for help, the index, the dashboard and the tests."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal


class Effect(StrEnum):
    """What running a verb can do."""

    READS = "reads"
    CHANGES = "changes"
    READS_LOCAL = "reads local"
    """Reads configuration or files of this machine: contexts, the journal, an archive."""
    LOCAL = "local"
    """Writes configuration or files of this machine, or starts and stops its services; changes nothing in a queue."""
    RUNS = "runs"
    """Runs until it is stopped: a worker, an exporter, the dashboard."""


@dataclass(frozen=True, slots=True)
class CommandSpec:
    """One verb. `path`: its words, its file below `commands/`, and its name in the journal.

    changes_with: the option without which a verb that can change data only reads. asks: whether it asks for a
    confirmation always, or in protected contexts only. failed: outcomes that mean that not all was done. endless: options that make it run until it is stopped.
    local_paths: parameters that name files of this machine, or another server. hint: options worth offering in the dashboard.
    """

    path: str
    summary: str
    effect: Effect = Effect.READS
    changes_with: str | None = None
    asks: Literal["always", "protected"] = "always"
    undoable: bool = False
    failed: tuple[str, ...] = ()
    endless: tuple[str, ...] = ()
    local_paths: tuple[str, ...] = ()
    hint: str = "--note TEXT"
