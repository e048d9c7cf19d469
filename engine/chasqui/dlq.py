"""Flows for the dead letters: look at them, and put them back to work. How jobs get there is the consumer's business."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from chasqui.errors import WireError
from chasqui.server.commands import Entry, Letter
from chasqui.wire import dead_entry, envelope

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from chasqui.server.call import Flow
    from chasqui.server.commands import Commands
    from chasqui.wire.dead_entry import DeadEntry
    from chasqui.wire.keys import Keys

PAGE = 100
"""Letters are as large as jobs may be, so a page of them can be a hundred megabytes."""


@dataclass(frozen=True, slots=True)
class DeadJob:
    """A dead letter and its id among the dead."""

    dead_id: str
    letter: DeadEntry


@dataclass(frozen=True, slots=True)
class Replayed:
    """What replaying did.

    moved: how many letters are jobs again. unreadable: how many were passed over because they hold no job that could
    run; they stay. full: whether it ended early because the stream held as many jobs as it may.
    """

    moved: int = 0
    unreadable: int = 0
    full: bool = False


def peek(commands: Commands, keys: Keys, limit: int, *, after: str | None = None) -> Flow[list[DeadJob]]:
    """The dead letters, oldest first, or those after an id."""
    found: list[DeadJob] = []
    while len(found) < limit:
        count = min(PAGE, limit - len(found))
        [rows] = yield [commands.oldest(keys.dlq, count, after=after)]
        found += [
            DeadJob(row.entry_id.decode(), dead_entry.decode(row.fields)) for row in Entry.list_of(rows)
        ]
        if len(rows) < count:
            break
        after = found[-1].dead_id
    return found


def replay(
    commands: Commands,
    keys: Keys,
    limit: int,
    *,
    cap: int | None = None,
    wanted: Callable[[DeadJob], bool] = lambda _: True,
) -> Flow[Replayed]:
    """Put up to `limit` letters back into the stream, oldest first, each with all its attempts before it again.

    What is not wanted or cannot be read is passed over and stays, without using up the limit. A letter is deleted in
    the same step that writes its job, so an end in the middle loses none and doubles none; letters somebody else took
    meanwhile are not counted. It never trims: with `cap` jobs in the stream it ends.
    """
    so_far = Replayed()
    after: str | None = None
    while so_far.moved < limit and not so_far.full:
        dead = yield from peek(commands, keys, PAGE, after=after)
        seen, letters = _choose(dead, wanted, limit - so_far.moved)
        told = (yield [commands.replay_dead(keys, letters, cap=cap)])[0] if letters else []
        so_far = Replayed(
            so_far.moved + sum(answer not in (b"gone", b"full") for answer in told),
            so_far.unreadable + sum(map(wanted, seen)) - len(letters),
            full=b"full" in told,
        )
        if len(seen) < PAGE and len(seen) == len(dead):
            break
        after = seen[-1].dead_id
    return so_far


def _choose(
    dead: Sequence[DeadJob], wanted: Callable[[DeadJob], bool], most: int
) -> tuple[list[DeadJob], list[Letter]]:
    """The letters to replay, and all that were looked at to find them."""
    seen: list[DeadJob] = []
    letters: list[Letter] = []
    for job in dead:
        if len(letters) == most:
            break
        seen.append(job)
        letter = _revived(job) if wanted(job) else None
        if letter:
            letters.append(letter)
    return seen, letters


def _revived(job: DeadJob) -> Letter | None:
    """The letter as a job that never ran, its payload in the form it had; None if there is no job in it."""
    try:
        found = envelope.decode(job.letter.d, len(job.letter.d))
    except WireError:
        return None
    fresh = envelope.encode(found.at_attempt(0), exact_payload=True)
    return Letter(job.dead_id, fresh, job.letter.name_bytes)
