"""Which dead letters a verb is about: looked for from one end, chosen by cheap tests first, captured before a change."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import typer

from chasqui_cli.commands.dlq.letters import ENTRY_ID, Failures, Match

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from chasqui import Keys
    from chasqui.dlq import DeadLetter
    from chasqui_cli.choosing import Judge
    from chasqui_cli.columns import Record
    from chasqui_cli.desk import Desk
    from chasqui_cli.session import Session

BYTES_AT_ONCE = 4 << 20
LETTERS_AT_ONCE = 2000
CHUNK = 500
"""So many letters are written down, and then changed, at a time."""


@dataclass(slots=True)
class Search:
    """A bounded look through the dead letters of a queue, from one end. Iterating finds; `looked` says how far.

    ids: only letters with these job ids. cut_off: it ended because it had looked at as many as it may.
    """

    session: Session
    keys: Keys
    judge: Judge
    most: int
    newest: bool = False
    ids: frozenset[str] = frozenset()
    looked: int = 0
    cut_off: bool = False
    _failures: Failures = field(init=False)
    _asks_for: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        """Events are read for an expression that asks for errors, and for no other."""
        asks = not self.judge.asks_for.isdisjoint({"error", "@"})
        self._failures = Failures(self.session, self.keys, None if asks else {})
        by_letter = self.judge.name is not None or self.judge.reason is not None
        self._asks_for = self.judge.asks_for | ({"name", "reason"} if by_letter else set())

    def __iter__(self) -> Iterator[Match]:
        may_be = _cheaply(self.judge)
        for letter in self._letters():
            self.looked += 1
            if may_be(letter):
                match = Match(letter, letter.job())
                if self._is_wanted(match):
                    yield match

    def _is_wanted(self, match: Match) -> bool:
        if self.ids and getattr(match.job, "id", None) not in self.ids:
            return False
        return self.judge.where is None or self.judge(match.judged(self._failures, self._asks_for))

    def _letters(self) -> Iterator[DeadLetter]:
        from chasqui import dlq

        since_ms, until_ms = self.judge.since_ms, self.judge.until_ms
        first = "-" if since_ms is None else f"{max(0, since_ms)}-0"
        last = "+" if until_ms is None else str(max(0, until_ms))
        count, read = 200, 0
        while read < self.most:
            asked = min(count, self.most - read)
            page = self.session.look(dlq.page, self.keys, asked, first=first, last=last, newest=self.newest)
            yield from page
            read += len(page)
            if len(page) < asked:
                return
            first, last = (first, f"({page[-1].dead_id}") if self.newest else (f"({page[-1].dead_id}", last)
            count = fitting(page)
        self.cut_off = True


def fitting(page: Sequence[DeadLetter]) -> int:
    """How many letters like these may be read at once: they are as large as jobs may be."""
    weight = sum(len(word) for letter in page for word in letter.fields) // len(page)
    return max(10, min(LETTERS_AT_ONCE, BYTES_AT_ONCE // (weight + 1)))


def _cheaply(judge: Judge) -> Callable[[DeadLetter], bool]:
    """What can be told from the bytes alone; most letters are passed over by it."""
    reason = None if judge.reason is None else judge.reason.encode("utf-8", "surrogateescape")
    name, needles = judge.name, judge.needles

    def may_be(letter: DeadLetter) -> bool:
        if reason is not None and letter.raw(b"reason") != reason:
            return False
        if name is not None and not name.fullmatch(letter.name):
            return False
        if not needles:
            return True
        everything = b" ".join(letter.fields)
        return all(needle in everything for needle in needles)

    return may_be


@dataclass(slots=True)
class Capture:
    """The letters a change is about: only these are touched, whatever else arrives meanwhile.

    unreadable: letters that hold no job; passed over where a job is needed. missing: ids that were given and are not
    there.
    """

    records: list[Record] = field(default_factory=list)
    unreadable: list[Record] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    heaviest: int = 1

    @property
    def chunk(self) -> int:
        """How many of them may be held in memory at once."""
        return max(1, min(CHUNK, BYTES_AT_ONCE // self.heaviest))

    @property
    def ids(self) -> list[str]:
        """The ids of the letters."""
        return [record["dlq_id"] for record in self.records]


def capture(
    desk: Desk,
    session: Session,
    keys: Keys,
    ids: Sequence[str] | None,
    *,
    now_ms: int,
    limit: int | None,
    jobs_only: bool,
) -> Capture:
    """Find what was asked for, oldest first: by ids, or by filters up to a limit. Says how far it looked."""
    if ids and not desk.choice.is_everything:
        raise typer.BadParameter("give ids or filters, not both")
    caught = Capture()
    judge = desk.choice.judge(now_ms, "")
    search = Search(session, keys, judge, desk.choice.scan)
    matches: Iterable[Match] = _by_ids(search, list(dict.fromkeys(ids)), caught) if ids else search
    with desk.progress("looking through the dead letters", None) as advance:
        for match in matches if limit != 0 else ():
            if jobs_only and not hasattr(match.job, "id"):
                caught.unreadable.append(match.brief())
                continue
            caught.records.append(match.brief())
            caught.heaviest = max(caught.heaviest, match.weight)
            if len(caught.records) % 1000 == 0:
                advance(search.looked)
            if limit is not None and not ids and len(caught.records) >= limit:
                break
    say_how_far(desk, search)
    return caught


def _by_ids(search: Search, ids: Sequence[str], caught: Capture) -> Iterator[Match]:
    """Letters by their own ids first; what is none of these is looked for as the id of a job."""
    from chasqui import dlq

    own = [one for one in ids if ENTRY_ID.fullmatch(one)]
    letters = [one for one in search.session.look(dlq.fetch, search.keys, own) if one]
    yield from (Match(letter, letter.job()) for letter in letters)
    seen = {letter.dead_id for letter in letters}
    search.ids = frozenset(ids) - seen
    found: set[Any] = set()
    for match in search if search.ids else ():
        found.add(getattr(match.job, "id", None))
        if match.letter.dead_id not in seen:
            yield match
    caught.missing = [one for one in ids if one not in seen and one not in found]


def say_how_far(desk: Desk, search: Search) -> None:
    """Where a bound ended the search there may be more, and that must be known."""
    if search.cut_off:
        desk.say(f"looked at {search.looked:,} dead letters and no further; --scan N looks at more")


def say_unreadable(desk: Desk, caught: Capture, queue: str) -> None:
    """Letters that hold no job stay where they are."""
    if caught.unreadable:
        some = ", ".join(record["dlq_id"] for record in caught.unreadable[:3])
        more = ", …" if len(caught.unreadable) > 3 else ""
        desk.say(
            f"passed over {len(caught.unreadable):,} undecodable dead letters, which stay: {some}{more};"
            f" see them with: chasqui dlq peek {queue} --where undecodable"
        )


def or_not_found(caught: Capture, ids: Sequence[str] | None, queue: str) -> None:
    """Nothing of what was asked for by id is there: that is an error, not an empty answer."""
    from chasqui.errors import NotFound

    if ids and not caught.records and not caught.unreadable:
        raise NotFound(
            f"no dead letter of {queue} has the id {', '.join(caught.missing[:3])}",
            hint=f"`chasqui dlq peek {queue}` lists them; it may have been replayed or purged",
        )
