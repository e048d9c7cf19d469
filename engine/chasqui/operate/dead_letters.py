"""Flows for the dead letters: list, replay, rewrite, delete and import them.

The worker writes them; `undo/` takes changes back; `inspect/error_search.py` finds a job's last error where its dead letter
has none.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from chasqui.server.commands import IdRange, ReplayItem
from chasqui.wire import dead_letter_entry, envelope, payload
from chasqui.wire.entry_id import time_ms
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
"""Dead letters are as large as jobs may be, so a page of them can be a hundred megabytes."""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A dead letter as the server sent it: its fields are decoded only on demand, because most are skipped."""

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
        return decode_name(self.field(b"n"))

    @property
    def died_at_ms(self) -> int:
        """When the job died, by the server's clock."""
        return time_ms(self.dead_id)

    def decoded(self) -> DeadLetterEntry:
        return dead_letter_entry.decode(self.fields)

    def job(self) -> Envelope | Undecodable:
        """The job in it, or why there is none."""
        return envelope.decode_or_undecodable(self.field(b"d"))

    @property
    def digest(self) -> str:
        """Identifies it among all dead letters, also when it has another id elsewhere."""
        digest = hashlib.sha256(self.dead_id.encode())
        for word in self.fields:
            digest.update(b"%d:" % len(word) + word)
        return digest.hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """The result of replaying dead letters.

    moved: how many are jobs again. unreadable: how many were skipped because they hold no job that could run; they stay.
    is_stream_full: whether it ended early because the stream held as many jobs as it may.
    """

    moved: int = 0
    unreadable: int = 0
    is_stream_full: bool = False


def list_dead_letters(
    commands: Commands, keys: Keys, limit: int, *, after: str | None = None
) -> Flow[list[DeadLetter]]:
    """The dead letters, oldest first, or those after an id."""
    found: list[DeadLetter] = []
    while len(found) < limit:
        count = min(PAGE_SIZE, limit - len(found))
        [rows] = yield [commands.oldest_entries(keys.dlq, count, after=after)]
        found += [DeadLetter(row[0].decode(), row[1]) for row in rows]
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
    matches: Callable[[DeadLetter], bool] = lambda _: True,
) -> Flow[ReplayResult]:
    """Put up to `limit` dead letters back into the stream, oldest first, each with all its attempts before it again.

    Dead letters that do not match or cannot be read stay, and do not use up the limit. A dead letter is deleted in the
    step that writes its job, so an interruption loses and duplicates nothing; those that another process took
    meanwhile are not counted. Nothing is trimmed: it ends when `cap` jobs are in the stream.
    """
    so_far = ReplayResult()
    after: str | None = None
    while so_far.moved < limit and not so_far.is_stream_full:
        page = yield from list_dead_letters(commands, keys, PAGE_SIZE, after=after)
        chosen: list[tuple[DeadLetter, bytes]] = []
        unreadable = 0
        for letter in page:
            if len(chosen) == limit - so_far.moved:
                break
            after = letter.dead_id
            if matches(letter):
                data = replay_envelope(letter)
                if data is None:
                    unreadable += 1
                else:
                    chosen.append((letter, data))
        results = yield from replay_dead_letters(commands, keys, chosen, cap=cap)
        so_far = ReplayResult(
            so_far.moved + sum(result not in ("gone", "full") for result in results),
            so_far.unreadable + unreadable,
            is_stream_full="full" in results,
        )
        if len(page) < PAGE_SIZE and (not page or after == page[-1].dead_id):
            break
    return so_far


def dead_letter_page(
    commands: Commands, keys: Keys, count: int, *, first: str = "-", last: str = "+", newest: bool = False
) -> Flow[list[DeadLetter]]:
    """Dead letters between two ids (an id after `(` is left out), from the oldest on, or from the newest."""
    [rows] = yield [commands.entries_in_range(keys.dlq, IdRange(first, last, newest), count)]
    return [DeadLetter(row[0].decode(), row[1]) for row in rows]


def dead_letters_by_id(commands: Commands, keys: Keys, dead_ids: Sequence[str]) -> Flow[list[DeadLetter | None]]:
    """The dead letters with these ids, in one round trip; None for each that is not there."""
    if not dead_ids:
        return []
    replies = yield [commands.entries_between(keys.dlq, dead_id, dead_id, 1) for dead_id in dead_ids]
    return [DeadLetter(rows[0][0].decode(), rows[0][1]) if rows else None for rows in replies]


def replay_envelope(letter: DeadLetter) -> bytes | None:
    """The envelope that a replay writes: attempt 0, everything else unchanged; None for an unreadable job."""
    job = letter.job()
    return None if isinstance(job, Undecodable) else reset_attempts(job)


def replay_dead_letters(
    commands: Commands, keys: Keys, letters: Sequence[tuple[DeadLetter, bytes]], *, cap: int | None = None
) -> Flow[list[str]]:
    """Put these dead letters back into the stream, each with the envelope given; returns entry ids, "gone" or "full".

    A dead letter is deleted in the step that writes its job, so an interruption leaves the rest as dead letters.
    """
    if not letters:
        return []
    requests = [ReplayItem(letter.dead_id, fresh, letter.field(b"n")) for letter, fresh in letters]
    [replies] = yield [commands.replay_dead(keys, requests, cap=cap)]
    return [reply.decode() for reply in replies]


def delete_dead_letters(commands: Commands, keys: Keys, dead_ids: Sequence[str]) -> Flow[list[bool]]:
    """Delete dead letters, in one round trip; returns for each whether it was there."""
    if not dead_ids:
        return []
    counts = yield [commands.delete_dead(keys, [dead_id]) for dead_id in dead_ids]
    return [bool(count) for count in counts]


def replace_envelope(commands: Commands, keys: Keys, letter: DeadLetter, data: bytes) -> Flow[str | None]:
    """Replace the envelope of a dead letter and nothing else; returns its new id, None if it is gone meanwhile."""
    [new_id] = yield [commands.rewrite_dead(keys, letter.dead_id, _with_envelope(letter.fields, data))]
    return None if new_id is None else new_id.decode()


def envelope_with_data(letter: DeadLetter, after: Value) -> bytes:
    """The envelope of a dead letter with other data; equal parts keep their exact bytes."""
    data = letter.field(b"d")
    job = envelope.decode(data, len(data))
    before = job.payload.data(len(job.payload.raw))
    content = payload.Payload(job.payload.form, splice(job.payload.raw, before, after))
    return envelope.encode(job._replace(payload=content), exact_payload=True)


def reset_attempts(job: Envelope) -> bytes:
    """The job as a replay writes it: with all its attempts before it, its payload in the form it had."""
    return envelope.encode(job.with_attempt(0), exact_payload=True)


@dataclass(frozen=True, slots=True)
class ImportCheck:
    """Whether a dead letter to be imported is still there under its old id, or was imported before, and as which."""

    is_present: bool
    imported_as: str | None


def check_imports(commands: Commands, keys: Keys, letters: Sequence[DeadLetter]) -> Flow[list[ImportCheck]]:
    """For each dead letter to be imported whether the server has it, in one round trip."""
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
    """Add exported dead letters, in one round trip; returns new ids, "there" or "before". Repeating it adds nothing.

    again: also those that were imported before and have left since.
    """
    replies = yield [
        commands.import_dead(keys, letter.dead_id, letter.digest, letter.fields, again=again) for letter in letters
    ]
    return [reply.decode() for reply in replies]


def _with_envelope(fields: Sequence[bytes], data: bytes) -> list[bytes]:
    changed = list(fields)
    for at in range(0, len(changed), 2):
        if changed[at] == b"d":
            changed[at + 1] = data
            return changed
    return [b"d", data, *changed]
