"""Flows for the dead letters: look at them, put them back to work, rewrite, delete and import them.

How jobs get there is the consumer's business; how such a change is taken back is told in `restoring.py`, and with which
error a job died, where its letter does not say, in `failures.py`.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from chasqui.errors import WireError
from chasqui.server.commands import IdRange, RawEntry, ReplayItem
from chasqui.wire import dead_letter_entry, envelope, payload
from chasqui.wire.msgpack_codec import Undecodable
from chasqui.wire.msgpack_splice import splice
from chasqui.wire.stream_entry import decode_name

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from chasqui.server.commands import Commands
    from chasqui.server.flow import Flow
    from chasqui.wire.dead_letter_entry import DeadLetterEntry
    from chasqui.wire.envelope import Envelope
    from chasqui.wire.keys import Keys
    from chasqui.wire.msgpack_codec import Value

PAGE_SIZE = 100
"""Letters are as large as jobs may be, so a page of them can be a hundred megabytes."""


@dataclass(frozen=True, slots=True)
class DeadJob:
    """A dead letter and its id among the dead."""

    dead_id: str
    letter: DeadLetterEntry


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A dead letter as the server sent it: its fields are looked into only when asked, for most are passed over."""

    dead_id: str
    fields: Sequence[bytes]

    def field(self, field: bytes) -> bytes:
        """The first value under this name, empty where there is none."""
        for at in range(0, len(self.fields), 2):
            if self.fields[at] == field:
                return self.fields[at + 1]
        return b""

    @property
    def name(self) -> str:
        """The job's name."""
        return decode_name(self.field(b"n"))

    @property
    def died_at_ms(self) -> int:
        """When it was buried, by the server's clock."""
        return int(self.dead_id.partition("-")[0])

    def decoded(self) -> DeadLetterEntry:
        """All it says."""
        return dead_letter_entry.decode(self.fields)

    def job(self) -> Envelope | Undecodable:
        """The job in it, or why there is none."""
        data = self.field(b"d")
        try:
            return envelope.decode(data, len(data))
        except WireError as fault:
            return Undecodable(data, str(fault))

    @property
    def digest(self) -> str:
        """Tells it from every other letter, also once it has another id elsewhere."""
        told = hashlib.sha256(self.dead_id.encode())
        for word in self.fields:
            told.update(b"%d:" % len(word) + word)
        return told.hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """What replaying did.

    moved: how many letters are jobs again. unreadable: how many were passed over because they hold no job that could
    run; they stay. full: whether it ended early because the stream held as many jobs as it may.
    """

    moved: int = 0
    unreadable: int = 0
    is_stream_full: bool = False


def list_dead_letters(commands: Commands, keys: Keys, limit: int, *, after: str | None = None) -> Flow[list[DeadJob]]:
    """The dead letters, oldest first, or those after an id."""
    found: list[DeadJob] = []
    while len(found) < limit:
        count = min(PAGE_SIZE, limit - len(found))
        [rows] = yield [commands.oldest_entries(keys.dlq, count, after=after)]
        found += [
            DeadJob(row.entry_id.decode(), dead_letter_entry.decode(row.fields))
            for row in RawEntry.list_from_reply(rows)
        ]
        if len(rows) < count:
            break
        after = found[-1].dead_id
    return found


def replay_oldest(
    commands: Commands,
    keys: Keys,
    limit: int,
    *,
    cap: int | None = None,
    matches: Callable[[DeadJob], bool] = lambda _: True,
) -> Flow[ReplayResult]:
    """Put up to `limit` letters back into the stream, oldest first, each with all its attempts before it again.

    What is not wanted or cannot be read is passed over and stays, without using up the limit. A letter is deleted in
    the same step that writes its job, so an end in the middle loses none and doubles none; letters somebody else took
    meanwhile are not counted. It never trims: with `cap` jobs in the stream it ends.
    """
    so_far = ReplayResult()
    after: str | None = None
    while so_far.moved < limit and not so_far.is_stream_full:
        dead = yield from list_dead_letters(commands, keys, PAGE_SIZE, after=after)
        seen, letters = _select_for_replay(dead, matches, limit - so_far.moved)
        told = (yield [commands.replay_dead(keys, letters, cap=cap)])[0] if letters else []
        so_far = ReplayResult(
            so_far.moved + sum(answer not in (b"gone", b"full") for answer in told),
            so_far.unreadable + sum(map(matches, seen)) - len(letters),
            is_stream_full=b"full" in told,
        )
        if len(seen) < PAGE_SIZE and len(seen) == len(dead):
            break
        after = seen[-1].dead_id
    return so_far


def _select_for_replay(
    dead: Sequence[DeadJob], wanted: Callable[[DeadJob], bool], most: int
) -> tuple[list[DeadJob], list[ReplayItem]]:
    """The letters to replay, and all that were looked at to find them."""
    seen: list[DeadJob] = []
    letters: list[ReplayItem] = []
    for job in dead:
        if len(letters) == most:
            break
        seen.append(job)
        letter = _replay_request(job) if wanted(job) else None
        if letter:
            letters.append(letter)
    return seen, letters


def _replay_request(job: DeadJob) -> ReplayItem | None:
    """The letter as a job that never ran; None if there is no job in it."""
    try:
        found = envelope.decode(job.letter.d, len(job.letter.d))
    except WireError:
        return None
    return ReplayItem(job.dead_id, _reset_attempts(found), job.letter.name_bytes)


def _reset_attempts(job: Envelope) -> bytes:
    """The job with all its attempts before it, its payload in the form it had."""
    return envelope.encode(job.with_attempt(0), exact_payload=True)


def dead_letter_page(
    commands: Commands, keys: Keys, count: int, *, first: str = "-", last: str = "+", newest: bool = False
) -> Flow[list[DeadLetter]]:
    """Letters between two ids (an id after `(` is left out), from the oldest on, or from the newest."""
    [rows] = yield [commands.entries_in_range(keys.dlq, IdRange(first, last, newest), count)]
    return [DeadLetter(row[0].decode(), row[1]) for row in rows]


def dead_letters_by_id(commands: Commands, keys: Keys, dead_ids: Sequence[str]) -> Flow[list[DeadLetter | None]]:
    """The letters with these ids, in one round trip; None for each that is not there."""
    if not dead_ids:
        return []
    replies = yield [commands.entries_between(keys.dlq, dead_id, dead_id, 1) for dead_id in dead_ids]
    return [DeadLetter(rows[0][0].decode(), rows[0][1]) if rows else None for rows in replies]


def replay_envelope(letter: DeadLetter) -> bytes | None:
    """The envelope that a replay writes: attempt 0, everything else as it was; None if there is no job in it."""
    job = letter.job()
    return None if isinstance(job, Undecodable) else _reset_attempts(job)


def replay_dead_letters(
    commands: Commands, keys: Keys, letters: Sequence[tuple[DeadLetter, bytes]], *, cap: int | None = None
) -> Flow[list[str]]:
    """Put these letters back into the stream, each with the envelope given; answers ids of entries, "gone" or "full".

    A letter is deleted in the step that writes its job, so after an end in the middle the rest is still dead.
    """
    if not letters:
        return []
    told = [ReplayItem(letter.dead_id, fresh, letter.field(b"n")) for letter, fresh in letters]
    [answers] = yield [commands.replay_dead(keys, told, cap=cap)]
    return [answer.decode() for answer in answers]


def delete_dead_letters(commands: Commands, keys: Keys, dead_ids: Sequence[str]) -> Flow[list[bool]]:
    """Delete letters for good, in one round trip; answers for each whether it was there."""
    if not dead_ids:
        return []
    counts = yield [commands.delete_dead(keys, [dead_id]) for dead_id in dead_ids]
    return [bool(count) for count in counts]


def replace_envelope(commands: Commands, keys: Keys, letter: DeadLetter, data: bytes) -> Flow[str | None]:
    """Give a letter another envelope, all else as it was; answers its new id, None if it is gone meanwhile."""
    [new_id] = yield [commands.rewrite_dead(keys, letter.dead_id, _with_envelope(letter.fields, data))]
    return None if new_id is None else new_id.decode()


def envelope_with_data(letter: DeadLetter, after: Value) -> bytes:
    """The letter's envelope with other data; what is the same in both keeps its very bytes."""
    data = letter.field(b"d")
    job = envelope.decode(data, len(data))
    before = job.payload.data(len(job.payload.raw))
    content = payload.Payload(job.payload.form, splice(job.payload.raw, before, after))
    return envelope.encode(job._replace(payload=content), exact_payload=True)


def reset_attempts(data: bytes) -> bytes:
    """An envelope as a replay writes it."""
    return _reset_attempts(envelope.decode(data, len(data)))


@dataclass(frozen=True, slots=True)
class ImportCheck:
    """What a server already has of letters to be imported: still there under the old id, or imported before as."""

    is_present: bool
    imported_as: str | None


def check_imports(commands: Commands, keys: Keys, letters: Sequence[DeadLetter]) -> Flow[list[ImportCheck]]:
    """For each letter to be imported whether the server has it, in one round trip."""
    if not letters:
        return []
    looks = [commands.entries_between(keys.dlq, letter.dead_id, letter.dead_id, 1) for letter in letters]
    *found, before = yield [*looks, commands.imported_ids(keys, [letter.digest for letter in letters])]
    there = [
        bool(rows) and list(rows[0][1]) == list(letter.fields) for rows, letter in zip(found, letters, strict=True)
    ]
    return [
        ImportCheck(is_there, as_id.decode() if as_id else None) for is_there, as_id in zip(there, before, strict=True)
    ]


def import_dead_letters(
    commands: Commands, keys: Keys, letters: Sequence[DeadLetter], *, again: bool = False
) -> Flow[list[str]]:
    """Add exported letters, in one round trip; answers their new ids, "there" or "before". Twice is once.

    again: also those that were imported before and have left since.
    """
    answers = yield [
        commands.import_dead(keys, letter.dead_id, letter.digest, letter.fields, again=again) for letter in letters
    ]
    return [answer.decode() for answer in answers]


def _with_envelope(fields: Sequence[bytes], data: bytes) -> list[bytes]:
    changed = list(fields)
    for at in range(0, len(changed), 2):
        if changed[at] == b"d":
            changed[at + 1] = data
            return changed
    return [b"d", data, *changed]
