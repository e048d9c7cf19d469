"""What the crossings of all systems have in common: how much there is to move, and what came of a page of it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

from chasqui.foreign.conversion import NotConvertible

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from chasqui.foreign.job_import import ImportedJob
    from chasqui.server.flow import Flow
    from chasqui.wire.keys import Keys


class _HasId(Protocol):
    @property
    def id(self) -> str: ...


T = TypeVar("T", bound=_HasId)
Cursor: TypeAlias = Any
"""Where a source goes on; None before the first page and after the last."""


@dataclass(frozen=True, slots=True)
class SourceCounts:
    """What a source holds: what could go now, now or later, what a consumer holds, what failed, and what is on its way.

    sent, received: how many messages its own counters count; 0 for a system that counts none.
    """

    ready: int = 0
    delayed: int = 0
    held: int = 0
    failed: int = 0
    parked: int = 0
    sent: int = 0
    received: int = 0


@dataclass(slots=True)
class TransferResult:
    """What came of a page. counts: by where messages are now (stream, delayed, dlq) or why they stay (held, changed,
    gone, arrived before). failures: by id, why one cannot be a job.
    """

    counts: Counter[str] = field(default_factory=Counter)
    failures: dict[str, str] = field(default_factory=dict)

    def add(self, outcome: str, count: int = 1) -> None:
        """Count messages with this outcome; an outcome that no message has is not mentioned."""
        self.counts += Counter({outcome: count})

    def add_replies(self, replies: Sequence[bytes]) -> None:
        """Count what scripts return; what is parked has no outcome yet."""
        self.counts.update(reply.decode() for reply in replies if reply != b"parked")


@dataclass(frozen=True, slots=True)
class ParkedPage:
    """Parcels that wait to be taken to the target, and ids that were settled meanwhile and need only be forgotten."""

    jobs: Sequence[ImportedJob]
    done: Sequence[str]
    failures: dict[str, str]
    looked: int


def convert(
    items: Sequence[T], to_job: Callable[[T], ImportedJob]
) -> tuple[list[tuple[T, ImportedJob]], TransferResult]:
    """Messages with the jobs that they become, and why others cannot be jobs."""
    ready: list[tuple[T, ImportedJob]] = []
    result = TransferResult()
    for item in items:
        try:
            ready.append((item, to_job(item)))
        except NotConvertible as error:
            result.failures[item.id] = str(error)
    return ready, result


def without_dead_letters(ready: Sequence[tuple[T, ImportedJob]], result: TransferResult) -> list[tuple[T, ImportedJob]]:
    """Those that do not become dead letters; the target has no room for the others."""
    jobs = [(item, job) for item, job in ready if not job.dead]
    result.add("full", len(ready) - len(jobs))
    return jobs


class TransferSource(Protocol):
    """A queue of another system, as something to move away from; see the crossings."""

    kind: str

    @property
    def keys(self) -> Any:
        """The keys of the queue."""
        ...

    def count(self) -> Flow[SourceCounts]:
        """What it holds."""
        ...

    def forward(self, target: Keys, cursor: Cursor) -> Flow[tuple[TransferResult, Cursor]]:
        """Move a page on the same server."""
        ...

    def park(self, cursor: Cursor, *, dead_letters: bool = True) -> Flow[tuple[TransferResult, Cursor]]:
        """Set a page aside, perhaps without what becomes dead letters."""
        ...

    def read_parked(self) -> Flow[ParkedPage]:
        """Some of what is set aside, packed."""
        ...

    def delete_parked(self, job_ids: Sequence[str]) -> Flow[None]:
        """Forget what has arrived."""
        ...

    def return_parked(self) -> Flow[int]:
        """Return what is set aside."""
        ...
