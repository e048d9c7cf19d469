"""Jobs on their way: in batches, paced if asked, written down before they leave, and sent again after a lost reply."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from chasqui import Keys, ProducerOptions
    from chasqui.adding import Added, Ledger, Load, Wanted
    from chasqui.errors import ChasquiError
    from chasqui_cli.journal import Pen
    from chasqui_cli.session import Session

BATCH = 10_000
PATIENCE_S = 60.0
"""How long a load is sent again: a server remembers for 100 seconds what it has seen."""


def _ledger() -> Ledger:
    from chasqui.adding import Ledger

    return Ledger()


@dataclass(slots=True)
class Sender:
    """Sends jobs of one queue.

    done: how many the server has, those with ids that it had before (`repeated`) among them. error: why it stopped, if
    it did; then `unsure` tells how many got no answer, and `in_order` whether those that are done are the first ones.
    """

    session: Session
    keys: Keys
    options: ProducerOptions
    pen: Pen | None
    rps: float | None = None
    ledger: Ledger = field(default_factory=_ledger)
    done: int = 0
    repeated: int = 0
    unsure: int = 0
    in_order: bool = True
    error: ChasquiError | None = None

    def send(self, jobs: Iterable[Wanted]) -> Iterator[Added]:
        """Send all, and tell of each when its load is there. Trouble ends it and is kept in `error`."""
        from chasqui import SystemClock
        from chasqui.errors import ChasquiError

        coming, clock = iter(jobs), SystemClock()
        began = clock.mono()
        while some := list(islice(coming, self._at_once)):
            try:
                load = self._loaded(some)
                self._delivered(load)
            except ChasquiError as error:
                self.error = error
                return
            yield from self._told(load)
            if self.error:
                return
            if self.rps and (early := began + self.done / self.rps - clock.mono()) > 0:
                clock.pause(early)

    @property
    def _at_once(self) -> int:
        return BATCH if self.rps is None else max(1, min(BATCH, int(self.rps / 4)))

    def _loaded(self, jobs: list[Wanted]) -> Load:
        """Jobs with ids and dates, on disk before they leave."""
        from chasqui import adding, withdrawal

        footing = self.session.run(withdrawal.footing, self.keys)
        load = adding.made(jobs, footing.now_ms, self.options)
        if self.pen:
            self.pen.keep(load.items(footing))
        return load

    def _delivered(self, load: Load) -> None:
        """Send until it is confirmed, refused, or too late to ask again."""
        from chasqui import SystemClock, adding
        from chasqui.errors import QueueFull, ServerError

        clock, pause_s = SystemClock(), 0.1
        until = clock.mono() + PATIENCE_S
        while True:
            problem: ServerError | None
            try:
                problem = self.session.run(adding.send, self.keys, load, self.ledger).problem
            except ServerError as error:
                problem = error
            if problem is None:
                return
            if isinstance(problem, QueueFull) or not problem.transient or clock.mono() + pause_s > until:
                self.error = problem
                return
            clock.pause(pause_s)
            pause_s = min(3.0, pause_s * 2)

    def _told(self, load: Load) -> Iterator[Added]:
        added = load.added
        self.unsure += sum(one.written is None for one in added)
        left = [place for place, one in enumerate(added) if not one.written]
        self.in_order = not left or left == list(range(left[0], len(added)))
        for one in added:
            if one.written:
                self.done += 1
                self.repeated += one.duplicate
                yield one
