"""Which dead letters a verb is about: looked for from one end, chosen by cheap tests first, captured before a change."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import typer

from chasqui_cli.commands.dlq._record import ENTRY_ID, DeadLetterMatch, FoundErrors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from chasqui import Keys
    from chasqui.operate.dead_letters import DeadLetter
    from chasqui_cli.context.command_context import CommandContext
    from chasqui_cli.context.session import Session
    from chasqui_cli.input.filters import RecordFilter
    from chasqui_cli.output.columns import Record

MAX_PAGE_BYTES = 4 << 20
MAX_PAGE_ENTRIES = 2000
CHUNK_SIZE = 500
"""Dead letters that are journaled and then changed at a time."""


@dataclass(slots=True)
class DeadLetterSearch:
    """A bounded search through the dead letters of a queue, from one end. Iterating finds; `looked` is how far it went.

    ids: only dead letters with these job ids. cut_off: it ended because it had looked at as many as it may.
    """

    session: Session
    keys: Keys
    judge: RecordFilter
    most: int
    newest: bool = False
    ids: frozenset[str] = frozenset()
    scanned: int = 0
    cut_off: bool = False
    _failures: FoundErrors = field(init=False)
    _asks_for: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        """Events are read for an expression that asks for errors, and for no other."""
        asks = not self.judge.fields_used.isdisjoint({"error", "@"})
        self._failures = FoundErrors(self.session, self.keys, None if asks else {})
        by_letter = self.judge.name is not None or self.judge.reason is not None
        self._asks_for = self.judge.fields_used | ({"name", "reason"} if by_letter else set())

    def __iter__(self) -> Iterator[DeadLetterMatch]:
        may_be = _byte_filter(self.judge)
        for letter in self._dead_letters():
            self.scanned += 1
            if may_be(letter):
                match = DeadLetterMatch(letter, letter.job())
                if self._is_wanted(match):
                    yield match

    def _is_wanted(self, match: DeadLetterMatch) -> bool:
        if self.ids and getattr(match.job, "id", None) not in self.ids:
            return False
        return self.judge.where is None or self.judge(match.filter_record(self._failures, self._asks_for))

    def _dead_letters(self) -> Iterator[DeadLetter]:
        from chasqui.operate import dead_letters

        since_ms, until_ms = self.judge.since_ms, self.judge.until_ms
        first = "-" if since_ms is None else f"{max(0, since_ms)}-0"
        last = "+" if until_ms is None else str(max(0, until_ms))
        count, read = 200, 0
        while read < self.most:
            asked = min(count, self.most - read)
            page = self.session.query(
                dead_letters.dead_letter_page, self.keys, asked, first=first, last=last, newest=self.newest
            )
            yield from page
            read += len(page)
            if len(page) < asked:
                return
            first, last = (first, f"({page[-1].dead_id}") if self.newest else (f"({page[-1].dead_id}", last)
            count = page_size_for(page)
        self.cut_off = True


def page_size_for(page: Sequence[DeadLetter]) -> int:
    """How many such dead letters may be read at once: they are as large as jobs may be."""
    weight = sum(len(word) for letter in page for word in letter.fields) // len(page)
    return max(10, min(MAX_PAGE_ENTRIES, MAX_PAGE_BYTES // (weight + 1)))


def _byte_filter(judge: RecordFilter) -> Callable[[DeadLetter], bool]:
    """What the bytes alone show; most dead letters are passed over by it."""
    reason = None if judge.reason is None else judge.reason.encode("utf-8", "surrogateescape")
    name, needles = judge.name, judge.required_texts

    def may_be(letter: DeadLetter) -> bool:
        if reason is not None and letter.field(b"reason") != reason:
            return False
        if name is not None and not name.fullmatch(letter.name):
            return False
        if not needles:
            return True
        everything = b" ".join(letter.fields)
        return all(needle in everything for needle in needles)

    return may_be


@dataclass(slots=True)
class DeadLetterSelection:
    """The dead letters to change: only these are touched, whatever else arrives meanwhile.

    unreadable: dead letters without a job; passed over where a job is needed. missing: ids that were given and are not
    there.
    """

    records: list[Record] = field(default_factory=list)
    unreadable: list[Record] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    max_bytes: int = 1

    @property
    def chunk_size(self) -> int:
        """How many of them may be held in memory at once."""
        return max(1, min(CHUNK_SIZE, MAX_PAGE_BYTES // self.max_bytes))

    @property
    def ids(self) -> list[str]:
        """The ids of the letters."""
        return [record["dlq_id"] for record in self.records]


def select_dead_letters(
    ctx: CommandContext,
    session: Session,
    keys: Keys,
    ids: Sequence[str] | None,
    *,
    now_ms: int,
    limit: int | None,
    jobs_only: bool,
) -> DeadLetterSelection:
    """Find dead letters, oldest first: by ids, or by filters up to a limit. Prints how far it looked."""
    if ids and not ctx.filters.matches_everything:
        raise typer.BadParameter("give ids or filters, not both")
    caught = DeadLetterSelection()
    judge = ctx.filters.compile(now_ms)
    search = DeadLetterSearch(session, keys, judge, ctx.filters.scan)
    matches: Iterable[DeadLetterMatch] = _find_by_ids(search, list(dict.fromkeys(ids)), caught) if ids else search
    with ctx.progress("looking through the dead letters", None) as advance:
        for match in matches if limit != 0 else ():
            if jobs_only and not hasattr(match.job, "id"):
                caught.unreadable.append(match.summary_record())
                continue
            caught.records.append(match.summary_record())
            caught.max_bytes = max(caught.max_bytes, match.size_bytes)
            if len(caught.records) % 1000 == 0:
                advance(search.scanned)
            if limit is not None and not ids and len(caught.records) >= limit:
                break
    print_search_extent(ctx, search)
    return caught


def _find_by_ids(
    search: DeadLetterSearch, ids: Sequence[str], caught: DeadLetterSelection
) -> Iterator[DeadLetterMatch]:
    """Dead letters by their own ids first; other ids are searched as ids of jobs."""
    from chasqui.operate import dead_letters

    own = [one for one in ids if ENTRY_ID.fullmatch(one)]
    letters = [one for one in search.session.query(dead_letters.dead_letters_by_id, search.keys, own) if one]
    yield from (DeadLetterMatch(letter, letter.job()) for letter in letters)
    seen = {letter.dead_id for letter in letters}
    search.ids = frozenset(ids) - seen
    found: set[Any] = set()
    for match in search if search.ids else ():
        found.add(getattr(match.job, "id", None))
        if match.letter.dead_id not in seen:
            yield match
    caught.missing = [one for one in ids if one not in seen and one not in found]


def print_search_extent(ctx: CommandContext, search: DeadLetterSearch) -> None:
    """Where a bound ended the search there may be more, and that must be known."""
    if search.cut_off:
        ctx.info(f"looked at {search.scanned:,} dead letters and no further; --scan N looks at more")


def print_unreadable(ctx: CommandContext, caught: DeadLetterSelection, queue: str) -> None:
    """Dead letters without a job stay where they are."""
    if caught.unreadable:
        some = ", ".join(record["dlq_id"] for record in caught.unreadable[:3])
        more = ", …" if len(caught.unreadable) > 3 else ""
        ctx.info(
            f"passed over {len(caught.unreadable):,} undecodable dead letters, which stay: {some}{more};"
            f" see them with: chasqui dlq peek {queue} --where undecodable"
        )


def require_found(caught: DeadLetterSelection, ids: Sequence[str] | None, queue: str) -> None:
    """Nothing of what was asked for by id is there: that is an error, not an empty answer."""
    from chasqui.errors import NotFound

    if ids and not caught.records and not caught.unreadable:
        raise NotFound(
            f"no dead letter of {queue} has the id {', '.join(caught.missing[:3])}",
            hint=f"`chasqui dlq peek {queue}` lists them; it may have been replayed or purged",
        )
