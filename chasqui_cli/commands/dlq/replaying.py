"""`chasqui dlq replay`: dead letters become jobs again; exactly those that were shown, at a pace, after a canary."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

import typer

from chasqui_cli.changes import Plan
from chasqui_cli.columns import column
from chasqui_cli.commands.dlq.letters import (
    DIED,
    OUTCOME,
    Capture,
    Ids,
    QueueName,
    capture,
    in_chunks,
    letter_item,
    or_not_found,
    say_unreadable,
)
from chasqui_cli.desk import Desk, at_desk
from chasqui_cli.streams import talk
from chasqui_cli.times import duration_ms, span

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from chasqui import Keys, SystemClock
    from chasqui.dlq import DeadLetter
    from chasqui.events import Position
    from chasqui.snapshot import Snapshot
    from chasqui_cli.columns import Record
    from chasqui_cli.journal import Pen
    from chasqui_cli.session import Session

REPLAYED = OUTCOME | {"entry_id": "str?", "error": "str?"}
COLUMNS = [column("dlq_id"), column("id"), column("name"), column("reason"), column("outcome")]
COLUMNS += [column("entry_id"), column("error")]
SAMPLE_COLUMNS = [column("dlq_id"), DIED, column("name"), column("id"), column("reason")]
FAILURES = ("gone", "full", "failed", "no word", "held back", "not found", "undecodable")
TICKS_A_SECOND = 50
"""At a given rate so many small batches leave each second: no burst is longer than 20 ms of it."""
Cap = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="N",
        help="How many jobs the stream may hold; producers of the reference trim at 1,000,000.",
    ),
]


@at_desk(shape=REPLAYED, chooses=True, by_reason=True, changes=True)
def replay(
    desk: Desk,
    queue: QueueName,
    ids: Ids = None,
    limit: Annotated[
        int, typer.Option(min=0, metavar="N", help="Replay so many at most, oldest first.")
    ] = 100,
    rps: Annotated[
        float | None, typer.Option("--rps", min=0.01, metavar="N", help="So many a second, and no more.")
    ] = None,
    canary: Annotated[
        int,
        typer.Option(min=0, metavar="N", help="Replay N first, and the rest only if all of them complete."),
    ] = 0,
    canary_timeout: Annotated[
        str, typer.Option(metavar="TIME", help="How long to wait for the canary's jobs: 30s, 5m.")
    ] = "60s",
    cap: Cap = None,
) -> None:
    """Put dead letters back to work: attempt 0, everything else as it was, and nothing else than what was shown.

    Each letter is deleted in the very step that writes its job, so it can be interrupted and run again. Letters that
    cannot be decoded are reported, stay, and do not use up the limit. It refuses to fill the stream beyond its cap,
    where producers of the released engine would trim jobs nobody has read.

    chasqui dlq replay emails --reason retries_exhausted --where "data.to == 'x'" --canary 3 --rps 50
    """
    from chasqui import Keys, snapshot

    patience_ms = duration_ms(canary_timeout)
    keys = Keys(queue)
    with desk.session() as session:
        seen = session.look(snapshot.one, keys)
        now_ms = seen.server_time_ms
        caught = capture(desk, session, keys, ids, now_ms=now_ms, limit=limit, jobs_only=True)
        or_not_found(caught, ids, queue)
        say_unreadable(desk, caught, queue)
        most = cap or seen.caps.stream
        preflight(seen, len(caught.records), most)
        plan = Plan(
            "replay",
            queue,
            "dead letters",
            caught.records,
            SAMPLE_COLUMNS,
            chosen=str(desk.choice) if not ids else "ids",
            effects=_effects(seen, caught, most, limit=None if ids else limit, rps=rps, canary=canary),
        )
        if not desk.agrees(plan, now_ms=now_ms):
            told = [_outcome(one, "would replay") for one in caught.records]
        else:
            told = _replayed(desk, session, keys, caught, Terms(most, rps, canary, patience_ms))
    if ids:
        told += [_outcome(one, "undecodable") for one in caught.unreadable]
        told += [
            _outcome({"dlq_id": one, "id": None, "name": "", "reason": ""}, "not found")
            for one in caught.missing
        ]
    desk.emit(told, COLUMNS)
    if any(one["outcome"] in FAILURES for one in told):
        raise typer.Exit(3)


@dataclass(frozen=True, slots=True)
class Terms:
    """How to replay: up to how many jobs in the stream, how fast, and with how many to begin."""

    cap: int
    rps: float | None = None
    canary: int = 0
    patience_ms: int = 60_000


def preflight(seen: Snapshot, batch: int, cap: int) -> None:
    """Beyond the cap the next producer of the released engine would trim the oldest jobs, also unread ones."""
    from chasqui.errors import Refused

    if batch and seen.stream_depth + batch > cap:
        raise Refused(
            f"the stream holds {seen.stream_depth:,} jobs; {batch:,} more would exceed its cap of {cap:,},"
            " and producers of the released engine then trim jobs that nobody has read",
            hint="wait for the workers, replay fewer with --limit, or give the cap your producers use with --cap N",
        )


def _effects(
    seen: Snapshot, caught: Capture, cap: int, *, limit: int | None, rps: float | None, canary: int
) -> list[str]:
    count = len(caught.records)
    effects = [
        f"the stream holds {seen.stream_depth:,} jobs, then {seen.stream_depth + count:,} of at most {cap:,}",
        "each starts at attempt 0 and keeps its id, its payload and its retry rule",
    ]
    if limit is not None and count == limit:
        effects.append(f"there may be more: --limit is {limit:,}")
    if not seen.consumers:
        effects.append("no consumer is known: nobody may be there to run them")
    if canary:
        effects.append(f"{min(canary, count):,} go first, the rest only when these have completed")
    if rps:
        effects.append(f"at {rps:g} a second that takes {span(round(count / rps * 1000))}")
    return effects


def _outcome(
    record: Record, outcome: str, *, entry_id: str | None = None, error: str | None = None
) -> Record:
    return record | {"outcome": outcome, "entry_id": entry_id, "error": error}


def _replayed(desk: Desk, session: Session, keys: Keys, caught: Capture, terms: Terms) -> list[Record]:
    from chasqui import SystemClock

    first, rest = caught.records[: terms.canary], caught.records[terms.canary :]
    with (
        desk.written_down("dlq replay", keys.queue) as pen,
        desk.progress("replaying", len(caught.records)) as advance,
    ):
        mover = Mover(session, keys, pen, terms, caught.chunk, SystemClock(), advance)
        told: list[Record] = []
        if first:
            told, well = _canary(desk, mover, first)
            if not well:
                told += [_outcome(one, "held back") for one in rest]
                rest = []
        told += mover.move(rest)
        count = _counted(told)
        pen.tell(**count)
    desk.say("  ".join(f"{name} {number:,}" for name, number in count.items()))
    return told


def _counted(told: Sequence[Record]) -> dict[str, int]:
    from collections import Counter

    return dict(Counter(one["outcome"] for one in told))


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
    _began: float | None = field(default=None)

    def move(self, records: Sequence[Record]) -> list[Record]:
        """Replay these, and say of each what became of it."""
        return [told for some in in_chunks(records, self.chunk) for told in self._chunk(some)]

    def _chunk(self, records: Sequence[Record]) -> list[Record]:
        from chasqui import dlq

        if self.full:
            return [_outcome(one, "full") for one in records]
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

        self._began = self.clock.mono() if self._began is None else self._began
        answers = self.session.run(dlq.replay_exactly, self.keys, letters, cap=self.terms.cap)
        self.full = self.full or "full" in answers
        self.sent += len(letters)
        self.advance(self.sent)
        if self.terms.rps:
            self._hold_back(self.terms.rps)
        return answers

    def _hold_back(self, rps: float) -> None:
        """Wait until as many as were sent are due. Who fell behind by more than a second does not make up for it."""
        due = (self._began or 0) + self.sent / rps
        late = self.clock.mono() - due
        if late < 0:
            self.clock.pause(-late)
        elif late > 1:
            self._began = (self._began or 0) + late


def _answered(record: Record, answer: str) -> Record:
    if "-" in answer:
        return _outcome(record, "replayed", entry_id=answer)
    return _outcome(record, answer)


def _canary(desk: Desk, mover: Mover, records: Sequence[Record]) -> tuple[list[Record], bool]:
    """Replay the first ones and wait for what the events tell of them."""
    from chasqui import events

    [position] = mover.session.run(events.begin, [mover.keys])
    told = mover.move(records)
    followed = {one["id"] for one in told if one["outcome"] == "replayed"}
    desk.say(f"waiting for the canary: {len(followed)} jobs, up to {span(mover.terms.patience_ms)}")
    heard = _followed(mover, position, followed)
    for one in told:
        if one["outcome"] == "replayed":
            outcome, error = heard.get(one["id"], ("no word", None))
            one |= {"outcome": outcome, "error": desk.shown(error)}
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
    """What became of these jobs, until each has completed or failed, one has failed, or the time is over."""
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
                    heard[item.event.job_id] = ("completed", None)
    return heard
