"""Dead letters on their way back into the stream: written down first, in batches, at a pace; and the canary before them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from chasqui_cli.changes.confirm import plural
from chasqui_cli.commands.dlq._record import chunked
from chasqui_cli.output.stdio import print_stderr
from chasqui_cli.output.times import format_duration

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from chasqui import Keys, SystemClock
    from chasqui.inspect.events import EventPosition
    from chasqui.inspect.snapshot import Snapshot
    from chasqui.operate.dead_letters import DeadLetter
    from chasqui_cli.changes.journal import JournalWriter
    from chasqui_cli.context.command_context import CommandContext
    from chasqui_cli.context.session import Session
    from chasqui_cli.output.columns import Record

BATCHES_PER_SECOND = 50
"""Batches a second at a given rate: no burst is longer than 20 ms of it."""


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """How to replay: up to how many jobs in the stream, how fast, and with how many to begin."""

    cap: int
    rps: float | None = None
    canary: int = 0
    patience_ms: int = 60_000


def outcome_record(record: Record, word: str, *, entry_id: str | None = None, error: str | None = None) -> Record:
    """The outcome of a dead letter."""
    return record | {"outcome": word, "entry_id": entry_id, "error": error}


@dataclass(slots=True)
class Replayer:
    """Replays dead letters: each chunk is journaled first, then sent in batches, at the given rate."""

    session: Session
    keys: Keys
    pen: JournalWriter
    terms: ReplayOptions
    chunk: int
    clock: SystemClock
    advance: Callable[[int], None]
    sent: int = 0
    full: bool = False
    _began: float = field(init=False)
    _paced: int = 0

    def replay(self, records: Sequence[Record]) -> list[Record]:
        """Replay these and return the outcome of each. The rate is counted from now."""
        self._paced = 0
        return [replayed for some in chunked(records, self.chunk) for replayed in self._replay_chunk(some)]

    def _replay_chunk(self, records: Sequence[Record]) -> list[Record]:
        from chasqui.operate import dead_letters
        from chasqui.undo import replayed_dead_letters

        if self.full:
            return [outcome_record(one, "full") for one in records]
        found = self.session.run(dead_letters.dead_letters_by_id, self.keys, [one["dlq_id"] for one in records])
        letters = [(letter, fresh) for letter in found if letter and (fresh := dead_letters.replay_envelope(letter))]
        items = [replayed_dead_letters.item(letter.dead_id, letter.fields, fresh) for letter, fresh in letters]
        number = self.pen.write_items(items)
        entries: dict[str, str] = {}
        for batch in chunked(letters, self._batch_size):
            answers = self._send_batch(batch)
            entries |= {letter.dead_id: answer for (letter, _), answer in zip(batch, answers, strict=True)}
            facts = ({"entry_id" if "-" in answer else "untouched": answer} for answer in answers)
            self.pen.add_facts(dict(enumerate(facts, number)))
            number += len(batch)
        return [_reply_record(one, entries.get(one["dlq_id"], "gone")) for one in records]

    @property
    def _batch_size(self) -> int:
        return max(1, min(self.chunk, int((self.terms.rps or 1e9) / BATCHES_PER_SECOND)))

    def _send_batch(self, letters: Sequence[tuple[DeadLetter, bytes]]) -> list[str]:
        from chasqui.operate import dead_letters

        if not self._paced:
            self._began = self.clock.monotonic()
        answers = self.session.run(dead_letters.replay_dead_letters, self.keys, letters, cap=self.terms.cap)
        self.full = self.full or "full" in answers
        self.sent += len(letters)
        self._paced += len(letters)
        self.advance(self.sent)
        if self.terms.rps:
            self._throttle(self.terms.rps)
        return answers

    def _throttle(self, rps: float) -> None:
        """Wait until as many as were sent are due. Who fell behind by more than a second does not make up for it."""
        late = self.clock.monotonic() - (self._began + self._paced / rps)
        if late < 0:
            self.clock.sleep_sync(-late)
        elif late > 1:
            self._began += late


def _reply_record(record: Record, answer: str) -> Record:
    if "-" in answer:
        return outcome_record(record, "replayed", entry_id=answer)
    return outcome_record(record, answer)


def run_canary(ctx: CommandContext, mover: Replayer, records: Sequence[Record]) -> tuple[list[Record], bool]:
    """Replay the first ones and wait for their outcomes in the events."""
    from chasqui.inspect import events

    [position] = mover.session.run(events.start_positions, [mover.keys])
    replayed = mover.replay(records)
    followed = {one["id"] for one in replayed if one["outcome"] == "replayed"}
    ctx.info(
        f"waiting for the canary: {plural(len(followed), 'jobs')}, up to {format_duration(mover.terms.patience_ms)}"
    )
    outcomes = _await_outcomes(mover, position, followed)
    for one in replayed:
        if one["outcome"] == "replayed":
            word, error = outcomes.get(one["id"], ("no word", None))
            one |= {"outcome": word, "error": ctx.redacted(error)}
    bad = [one for one in replayed if one["outcome"] != "completed"]
    for one in bad[:3]:
        why = {"failed": one["error"] or "without a word", "no word": "nothing was heard of it in time"}
        print_stderr(f"error: canary job {one['id']}: {why.get(one['outcome'], one['outcome'])}")
    if bad:
        print_stderr(
            "hint: the rest stays dead; mend the cause, or do without --canary. Are workers there that tell events?"
        )
    return replayed, not bad


def _await_outcomes(mover: Replayer, position: EventPosition, job_ids: set[str]) -> dict[str, tuple[str, str | None]]:
    """What came first of each of these jobs, that it completed or that it failed; until the time is over."""
    from chasqui.inspect import events

    outcomes: dict[str, tuple[str, str | None]] = {}
    deadline = mover.clock.monotonic() + mover.terms.patience_ms / 1000
    while job_ids - outcomes.keys() and (left := deadline - mover.clock.monotonic()) > 0:
        wait_ms = max(1, min(1000, round(left * 1000)))
        [haul] = mover.session.run(events.read_after, [position], count=1000, block_ms=wait_ms)
        position = haul.position
        if haul.error:
            raise haul.error
        for item in haul.items:
            if isinstance(item, events.StoredEvent) and item.event.job_id in job_ids:
                if item.event.kind in ("failed", "dlq"):
                    outcomes.setdefault(item.event.job_id, ("failed", item.event.reason))
                elif item.event.kind == "completed":
                    outcomes.setdefault(item.event.job_id, ("completed", None))
    return outcomes


def check_stream_cap(seen: Snapshot, batch: int, cap: int) -> None:
    """Beyond the cap the next producer of the released engine would trim the oldest jobs, also unread ones."""
    from chasqui.errors import ChangeRefused

    if batch and seen.stream_depth + batch > cap:
        raise ChangeRefused(
            f"the stream holds {seen.stream_depth:,} jobs; {batch:,} more would exceed its cap of {cap:,},"
            " and producers of the released engine then trim jobs that nobody has read",
            hint="wait for the workers, replay fewer with --limit, or give the cap your producers use with --cap N",
        )
