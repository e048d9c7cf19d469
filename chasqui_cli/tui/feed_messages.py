"""Messages of the feed to the screens: values that are read and drawn, never changed.

Engine values inside are only looked at; no screen imports the engine.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from textual.message import Message

if TYPE_CHECKING:
    from chasqui.foreign import ForeignSnapshot
    from chasqui.inspect.snapshot import Snapshot
    from chasqui_cli.tui.trends import Rates
    from chasqui_cli.tui.views import View


@dataclass(frozen=True, slots=True)
class ReadCost:
    """What one tick cost the server: counted by the link, not reckoned."""

    round_trips: int
    commands: int
    bytes_moved: int
    ms: float


@dataclass(frozen=True, slots=True)
class ReadTarget:
    """What is looked at: a tab, the queue it is about, and how many entries of it are wanted."""

    tab: str
    queue: str | None = None
    page: int = 0


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """Who the server is, for the frame."""

    address: str
    kind: str
    version: str


@dataclass(frozen=True, slots=True)
class FindingRow:
    """A problem, and the command line that examines or fixes it."""

    level: int
    code: str
    text: str
    fix: str | None


@dataclass(frozen=True, slots=True)
class QueueRow:
    """The state of a queue and its rates. snapshot: None when it could not be read, for the reason in `error`.

    level: 0 when nothing is the matter, 2 a warning, 3 critical. died: dead letters added in the
    `watched_ms` it was watched. waiting_history: how many waited in the last minutes, part by part.
    """

    queue: str
    snapshot: Snapshot | ForeignSnapshot | None
    error: str | None
    level: int
    glyph: str
    state: str
    rates: Rates | None
    died: int
    watched_ms: int
    waiting_history: tuple[int | None, ...]
    findings: tuple[FindingRow, ...]

    @property
    def native_snapshot(self) -> Snapshot:
        """The snapshot of a queue of ours that was seen: most tabs have no other."""
        if self.snapshot is None:
            raise LookupError(self.error)
        return cast("Snapshot", self.snapshot)


@dataclass(frozen=True, slots=True)
class FleetView:
    """Every queue, worst first; while keys are still being looked through, how far that is."""

    rows: tuple[QueueRow, ...]
    keys_scanned: int
    keys_total: int
    complete: bool


class ViewReady(Message):
    """A tick brought something."""

    def __init__(self, target: ReadTarget, view: View, cost: ReadCost, now_ms: int, interval_s: float) -> None:
        super().__init__()
        self.target, self.view, self.cost, self.now_ms, self.interval_s = (target, view, cost, now_ms, interval_s)


class ServerIdentified(Message):
    """It is known who the server is."""

    def __init__(self, face: ServerInfo) -> None:
        super().__init__()
        self.face = face


class ReadFailed(Message):
    """A tick failed. `lasting`: the server replied with a refusal."""

    def __init__(self, target: ReadTarget, error: str, *, lasting: bool) -> None:
        super().__init__()
        self.target, self.error, self.lasting = target, error, lasting
