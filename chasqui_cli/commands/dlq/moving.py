"""Dead letters on their way back into the stream: written down first, in batches, at a pace; and the canary before them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from chasqui_cli.changes import counted
from chasqui_cli.commands.dlq.letters import in_chunks, letter_item
from chasqui_cli.streams import talk
from chasqui_cli.times import span

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from chasqui import Keys, SystemClock
    from chasqui.dlq import DeadLetter
    from chasqui.events import Position
    from chasqui_cli.columns import Record
    from chasqui_cli.desk import Desk
    from chasqui_cli.journal import Pen
    from chasqui_cli.session import Session

TICKS_A_SECOND = 50
"""At a given rate so many small batches leave each second: no burst is longer than 20 ms of it."""


@dataclass(frozen=True, slots=True)
class Terms:
    """How to replay: up to how many jobs in the stream, how fast, and with how many to begin."""

    cap: int
    rps: float | None = None
    canary: int = 0
    patience_ms: int = 60_000


def outcome(record: Record, word: str, *, entry_id: str | None = None, error: str | None = None) -> Record:
    """What became of a letter."""
    return record | {"outcome": word, "entry_id": entry_id, "error": error}


@dataclass(slots=True)
class Mover:
    """Moves letters: each chunk is written down first, then leaves in batches, at the pace that was asked for."""

    session: Session
    keys: Keys
    pen: Pen
    terms: Terms
    chunk: int
    clock: SystemClock
    advance: Callable[[int], None]
    sent: int = 0
    full: bool = False
    _began: float = field(init=False)
    _paced: int = 0

    def move(self, records: Sequence[Record]) -> list[Record]:
        """Replay these, and say of each what became of it. The pace is counted anew."""
        self._paced = 0
        return [told for some in in_chunks(records, self.chunk) for told in self._chunk(some)]

    def _chunk(self, records: Sequence[Record]) -> list[Record]:
        from chasqui import dlq

        if self.full:
            return [outcome(one, "full") for one in records]
        found = self.session.run(dlq.fetch, self.keys, [one["dlq_id"] for one in records])
        letters = [(letter, fresh) for letter in found if letter and (fresh := dlq.revived(letter))]
        items = [letter_item(letter, "replayed", d=fresh.hex()) for letter, fresh in letters]
        number = self.pen.keep(items)
        entries: dict[str, str] = {}
        for batch in in_chunks(letters, self._batch):
            answers = self._send(batch)
            entries |= {letter.dead_id: answer for (letter, _), answer in zip(batch, answers, strict=True)}
            facts = ({"entry_id" if "-" in answer else "untouched": answer} for answer in answers)
            self.pen.learn(dict(enumerate(facts, number)))
            number += len(batch)
        return [_answered(one, entries.get(one["dlq_id"], "gone")) for one in records]

    @property
    def _batch(self) -> int:
        return max(1, min(self.chunk, int((self.terms.rps or 1e9) / TICKS_A_SECOND)))

    def _send(self, letters: Sequence[tuple[DeadLetter, bytes]]) -> list[str]:
        from chasqui import dlq

        if not self._paced:
            self._began = self.clock.mono()
        answers = self.session.run(dlq.replay_exactly, self.keys, letters, cap=self.terms.cap)
        self.full = self.full or "full" in answers
        self.sent += len(letters)
        self._paced += len(letters)
        self.advance(self.sent)
        if self.terms.rps:
            self._hold_back(self.terms.rps)
        return answers

    def _hold_back(self, rps: float) -> None:
        """Wait until as many as were sent are due. Who fell behind by more than a second does not make up for it."""
        late = self.clock.mono() - (self._began + self._paced / rps)
        if late < 0:
            self.clock.pause(-late)
        elif late > 1:
            self._began += late


def _answered(record: Record, answer: str) -> Record:
    if "-" in answer:
        return outcome(record, "replayed", entry_id=answer)
    return outcome(record, answer)


def canary_run(desk: Desk, mover: Mover, records: Sequence[Record]) -> tuple[list[Record], bool]:
    """Replay the first ones and wait for what the events tell of them."""
    from chasqui import events

    [position] = mover.session.run(events.begin, [mover.keys])
    told = mover.move(records)
    followed = {one["id"] for one in told if one["outcome"] == "replayed"}
    desk.say(
        f"waiting for the canary: {counted(len(followed), 'jobs')}, up to {span(mover.terms.patience_ms)}"
    )
    heard = _followed(mover, position, followed)
    for one in told:
        if one["outcome"] == "replayed":
            word, error = heard.get(one["id"], ("no word", None))
            one |= {"outcome": word, "error": desk.shown(error)}
    bad = [one for one in told if one["outcome"] != "completed"]
    for one in bad[:3]:
        why = {"failed": one["error"] or "without a word", "no word": "nothing was heard of it in time"}
        talk(f"error: canary job {one['id']}: {why.get(one['outcome'], one['outcome'])}")
    if bad:
        talk(
            "hint: the rest stays dead; mend the cause, or do without --canary. Are workers there that tell events?"
        )
    return told, not bad


def _followed(mover: Mover, position: Position, job_ids: set[str]) -> dict[str, tuple[str, str | None]]:
    """What came first of each of these jobs, that it completed or that it failed; until the time is over."""
    from chasqui import events

    heard: dict[str, tuple[str, str | None]] = {}
    deadline = mover.clock.mono() + mover.terms.patience_ms / 1000
    while job_ids - heard.keys() and (left := deadline - mover.clock.mono()) > 0:
        wait_ms = max(1, min(1000, round(left * 1000)))
        [haul] = mover.session.run(events.read_after, [position], count=1000, block_ms=wait_ms)
        position = haul.position
        if haul.error:
            raise haul.error
        for item in haul.items:
            if isinstance(item, events.Told) and item.event.job_id in job_ids:
                if item.event.kind in ("failed", "dlq"):
                    heard.setdefault(item.event.job_id, ("failed", item.event.reason))
                elif item.event.kind == "completed":
                    heard.setdefault(item.event.job_id, ("completed", None))
    return heard
