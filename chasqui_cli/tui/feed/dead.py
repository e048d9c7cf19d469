"""The reader for the dead letters: the newest of them, why each died, and which died alike.

They are read in full once, and again when some have left; otherwise a tick asks only for new ones.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from chasqui import Undecodable, dlq, failures
from chasqui.fingerprint import fingerprint
from chasqui_cli.redaction import redacted
from chasqui_cli.tui.feed.asking import QueueAsker, keys_of
from chasqui_cli.tui.views import DeadView, GroupRow, LetterRow

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from chasqui.dlq import DeadLetter
    from chasqui_cli.tui.messages import QueueRow, Target

MOST = 1000
AT_ONCE = 100
MOST_BYTES = 20_000_000
MOST_EVENTS = 10_000
NEW_MS = 3_600_000
"""A group whose first letter is younger is called new."""


@dataclass(frozen=True, slots=True)
class _Shelf:
    """What was read of one queue's letters, newest first, and how many there were at that moment."""

    queue: str
    page: int
    letters: tuple[LetterRow, ...]
    depth: int
    added: int
    all_read: bool


class DeadReader(QueueAsker):
    """Dead letters."""

    _shelf: _Shelf | None = None

    def forget(self) -> None:
        """Some may have been replayed or deleted."""
        self._shelf = None

    async def read(self, target: Target) -> tuple[DeadView, int]:
        """In one round trip while nothing leaves."""
        queue, shelf = target.queue or "", self._shelf
        if shelf is None or (shelf.queue, shelf.page) != (target.queue, target.page):
            row, now_ms, _ = await self.ask(queue)
            shelf = await self._read_all(queue, target.page, row)
        else:
            last = shelf.letters[0].dead_id if shelf.letters else "0-0"
            page = dlq.page(self.place.commands, keys_of(queue), AT_ONCE, first=f"({last}")
            row, now_ms, [new] = await self.ask(queue, page)
            shelf = await self._brought_up(shelf, row, new)
        self._shelf = shelf
        return DeadView(row, shelf.letters, _groups(shelf.letters, now_ms), shelf.all_read), now_ms

    async def _brought_up(self, shelf: _Shelf, row: QueueRow, new: Sequence[DeadLetter]) -> _Shelf:
        """The shelf with what is new on top, if nothing else has changed; otherwise all of it anew."""
        seen = row.sure
        if not new and seen.dlq_depth == shelf.depth:
            return shelf
        only_came = seen.dlq_depth - shelf.depth == seen.dlq.added - shelf.added
        if not only_came or len(new) >= AT_ONCE:
            return await self._read_all(shelf.queue, shelf.page, row)
        rows = await self._rows(shelf.queue, new[::-1])
        return replace(shelf, letters=(*rows, *shelf.letters), depth=seen.dlq_depth, added=seen.dlq.added)

    async def _read_all(self, queue: str, page: int, row: QueueRow) -> _Shelf:
        keys, most = keys_of(queue), MOST * (page + 1)
        found: list[DeadLetter] = []
        weight, last, ended = 0, "+", False
        while len(found) < most and weight < MOST_BYTES * (page + 1) and not ended:
            asked = dlq.page(self.place.commands, keys, AT_ONCE, last=last, newest=True)
            some = await self.place.link.run(asked)
            found += some
            weight += sum(len(word) for letter in some for word in letter.fields)
            ended = len(some) < AT_ONCE
            last = f"({some[-1].dead_id}" if some else last
        rows = await self._rows(queue, found)
        return _Shelf(queue, page, tuple(rows), row.sure.dlq_depth, row.sure.dlq.added, ended)

    async def _rows(self, queue: str, found: Sequence[DeadLetter]) -> list[LetterRow]:
        """Letters with the errors that events tell of. Opening a thousand of them takes a while, so a thread does it."""
        silent = {
            job.id: letter.died_ms
            for letter in found
            if not letter.raw(b"detail") and not isinstance(job := letter.job(), Undecodable)
        }
        texts: Mapping[str, str] = {}
        if silent:
            commands, keys = self.place.commands, keys_of(queue)
            asked = (
                failures.of(commands, keys, silent)
                if len(silent) <= failures.FEW
                else failures.every(commands, keys, MOST_EVENTS)
            )
            texts = (await self.place.link.run(asked)).texts
        return await asyncio.to_thread(lambda: [_row(letter, texts) for letter in found])


def _row(letter: DeadLetter, texts: Mapping[str, str]) -> LetterRow:
    told, job = letter.opened(), letter.job()
    found = None if isinstance(job, Undecodable) else job
    error = told.detail or (texts.get(found.id, "") if found else "")
    alike = fingerprint(error)
    return LetterRow(
        dead_id=letter.dead_id,
        source_id=told.source_id,
        job_id=found.id if found else "",
        name=told.name,
        reason=told.reason,
        error=str(redacted(error)),
        attempt=found.attempt if found else None,
        died_ms=letter.died_ms,
        size=len(told.d),
        group=f"{told.name}\0{told.reason}\0{alike}",
        unreadable=job.reason if isinstance(job, Undecodable) else None,
        raw=letter,
    )


def _groups(letters: Sequence[LetterRow], now_ms: int) -> tuple[GroupRow, ...]:
    """Letters that died alike, the most numerous first."""
    groups: dict[str, list[LetterRow]] = {}
    for letter in letters:
        groups.setdefault(letter.group, []).append(letter)
    rows = [
        GroupRow(
            key=key,
            name=some[0].name,
            reason=some[0].reason,
            error=key.rpartition("\0")[2],
            count=len(some),
            first_ms=some[-1].died_ms,
            last_ms=some[0].died_ms,
            is_new=now_ms - some[-1].died_ms < NEW_MS,
        )
        for key, some in groups.items()
    ]
    return tuple(sorted(rows, key=lambda one: (-one.count, one.name, one.reason, one.error)))
