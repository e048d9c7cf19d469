"""The reader for the dead letters: the newest of them, why each died, and which died alike.

They are read in full once, and again when some have left; otherwise a tick asks only for new ones.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from chasqui import Undecodable
from chasqui.inspect import error_search
from chasqui.inspect.dead_letter_groups import group_dead_letters
from chasqui.inspect.error_fingerprint import fingerprint
from chasqui.operate import dead_letters
from chasqui_cli.output.redaction import redacted
from chasqui_cli.tui.feed.tab_reader import QueueTabReader, queue_keys
from chasqui_cli.tui.views import DeadLetterGroupRow, DeadLetterRow, DlqView

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from chasqui.operate.dead_letters import DeadLetter
    from chasqui_cli.tui.feed_messages import QueueRow, ReadTarget

MAX_ENTRIES = 1000
PAGE_SIZE = 100
MAX_BYTES = 20_000_000
MAX_EVENTS = 10_000
NEW_GROUP_MS = 3_600_000
"""A group whose first dead letter is younger is called new."""


@dataclass(frozen=True, slots=True)
class _LoadedDeadLetters:
    """The dead letters of one queue that were read, newest first, and how many there were at that moment."""

    queue: str
    page: int
    letters: tuple[DeadLetterRow, ...]
    depth: int
    added: int
    all_read: bool


class DlqReader(QueueTabReader):
    """Dead letters."""

    _loaded: _LoadedDeadLetters | None = None

    def forget(self) -> None:
        """Some may have been replayed or deleted."""
        self._loaded = None

    async def read(self, target: ReadTarget) -> tuple[DlqView, int]:
        """In one round trip while nothing leaves."""
        queue, loaded = target.queue or "", self._loaded
        if loaded is None or (loaded.queue, loaded.page) != (target.queue, target.page):
            row, now_ms, _ = await self.query(queue)
            loaded = await self._read_all(queue, target.page, row)
        else:
            last = loaded.letters[0].dead_id if loaded.letters else "0-0"
            page = dead_letters.dead_letter_page(self.place.commands, queue_keys(queue), PAGE_SIZE, first=f"({last}")
            row, now_ms, [new] = await self.query(queue, page)
            loaded = await self._add_new(loaded, row, new)
        self._loaded = loaded
        return DlqView(row, loaded.letters, _groups(loaded.letters, now_ms), loaded.all_read), now_ms

    async def _add_new(
        self, loaded: _LoadedDeadLetters, row: QueueRow, new: Sequence[DeadLetter]
    ) -> _LoadedDeadLetters:
        """The loaded ones with the new ones on top, if nothing else has changed; otherwise all of them, read again."""
        seen = row.native_snapshot
        if not new and seen.dlq_depth == loaded.depth:
            return loaded
        only_came = seen.dlq_depth - loaded.depth == seen.dlq.added - loaded.added
        if not only_came or len(new) >= PAGE_SIZE:
            return await self._read_all(loaded.queue, loaded.page, row)
        rows = await self._rows(loaded.queue, new[::-1])
        return replace(loaded, letters=(*rows, *loaded.letters), depth=seen.dlq_depth, added=seen.dlq.added)

    async def _read_all(self, queue: str, page: int, row: QueueRow) -> _LoadedDeadLetters:
        keys, most = queue_keys(queue), MAX_ENTRIES * (page + 1)
        found: list[DeadLetter] = []
        weight, last, ended = 0, "+", False
        while len(found) < most and weight < MAX_BYTES * (page + 1) and not ended:
            asked = dead_letters.dead_letter_page(self.place.commands, keys, PAGE_SIZE, last=last, newest=True)
            some = await self.place.link.run(asked)
            found += some
            weight += sum(len(word) for letter in some for word in letter.fields)
            ended = len(some) < PAGE_SIZE
            last = f"({some[-1].dead_id}" if some else last
        rows = await self._rows(queue, found)
        return _LoadedDeadLetters(
            queue, page, tuple(rows), row.native_snapshot.dlq_depth, row.native_snapshot.dlq.added, ended
        )

    async def _rows(self, queue: str, found: Sequence[DeadLetter]) -> list[DeadLetterRow]:
        """Dead letters with the errors found among events. Decoding a thousand takes a while, so a thread does it."""
        silent = {
            job.id: letter.died_at_ms
            for letter in found
            if not letter.field(b"detail") and not isinstance(job := letter.job(), Undecodable)
        }
        texts: Mapping[str, str] = {}
        if silent:
            commands, keys = self.place.commands, queue_keys(queue)
            asked = (
                error_search.find_errors(commands, keys, silent)
                if len(silent) <= error_search.MAX_SINGLE_SEARCHES
                else error_search.find_recent_errors(commands, keys, MAX_EVENTS)
            )
            texts = (await self.place.link.run(asked)).texts
        return await asyncio.to_thread(lambda: [_row(letter, texts) for letter in found])


def _row(letter: DeadLetter, texts: Mapping[str, str]) -> DeadLetterRow:
    decoded, job = letter.decoded(), letter.job()
    found = None if isinstance(job, Undecodable) else job
    error = decoded.detail or (texts.get(found.id, "") if found else "")
    alike = fingerprint(error)
    return DeadLetterRow(
        dead_id=letter.dead_id,
        source_id=decoded.source_id,
        job_id=found.id if found else "",
        name=decoded.name,
        reason=decoded.reason,
        error=str(redacted(error)),
        attempt=found.attempt if found else None,
        died_ms=letter.died_at_ms,
        size=len(decoded.d),
        group=f"{decoded.name}\0{decoded.reason}\0{alike}",
        unreadable=job.reason if isinstance(job, Undecodable) else None,
        raw=letter,
    )


def _groups(letters: Sequence[DeadLetterRow], now_ms: int) -> tuple[DeadLetterGroupRow, ...]:
    """Groups of dead letters with the same error, the largest first."""
    found = group_dead_letters(
        (one.name, one.reason, one.group.rpartition("\0")[2], one.died_ms, one) for one in letters
    )
    rows = [
        DeadLetterGroupRow(
            key=group.sample.group,
            name=group.name,
            reason=group.reason,
            error=group.error,
            count=group.count,
            first_ms=group.first_ms,
            last_ms=group.last_ms,
            is_new=now_ms - group.first_ms < NEW_GROUP_MS,
        )
        for group in found
    ]
    return tuple(sorted(rows, key=lambda one: (-one.count, one.name, one.reason, one.error)))
