"""Dead letters of every kind, on a real server, as both engines write them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from chasqui.server.flow import Call
from chasqui.server.link import Link
from chasqui.wire import dead_letter_entry, envelope, event_entry, msgpack_codec
from chasqui.wire.dead_letter_entry import DeadLetterEntry
from chasqui.wire.envelope import Envelope, Payload, RetryOverride
from chasqui.wire.event_entry import Event
from chasqui.wire.keys import Keys
from chasqui.wire.retry_override import Backoff
from tests.support.links import PlainCommands, command_batch

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

RETRY = RetryOverride(5, Backoff("fixed", 100))
GARBAGE = b"\xc1\x00not a job"


@dataclass(frozen=True, slots=True)
class DeadLetterSeeder(PlainCommands):
    """Adds dead letters to one queue, and reads them."""

    link: Link
    keys: Keys

    @property
    def queue(self) -> str:
        return self.keys.queue

    def add_dead_letter(
        self,
        job_id: str,
        data: Any = None,
        *,
        name: str = "mail",
        reason: str = "retries_exhausted",
        detail: str | None = None,
        d: bytes | None = None,
        attempt: int = 24,
        retry: RetryOverride | None = None,
    ) -> str:
        """Add a dead letter and return its id."""
        entry = dead_letter_fields(
            job_id, data, name=name, reason=reason, detail=detail, d=d, attempt=attempt, retry=retry
        )
        answer: bytes = self.command("XADD", self.keys.dlq, "*", *entry)
        return answer.decode()

    def add_dead_letters(self, letters: Iterable[Sequence[bytes]]) -> list[str]:
        calls = [Call(("XADD", self.keys.dlq, "*", *words), keys=(self.keys.dlq,)) for words in letters]
        found: list[str] = []
        for start in range(0, len(calls), 1000):
            found += [reply.decode() for reply in self.link.run(command_batch(*calls[start : start + 1000]))]
        return found

    def add_event(self, kind: str, job_id: str, reason: str | None = None) -> None:
        """An event of a job."""
        words = event_entry.encode(Event(kind, job_id, 1, "mail", 1, reason))
        self.command("XADD", self.keys.events, "*", *words)

    def dead_letters(self) -> list[tuple[str, list[bytes]]]:
        """Every dead letter: its id and its fields."""
        return [(row[0].decode(), list(row[1])) for row in self.command("XRANGE", self.keys.dlq, "-", "+")]

    def dead_ids(self) -> list[str]:
        return [dead_id for dead_id, _ in self.dead_letters()]

    def jobs(self) -> list[Envelope]:
        """Every job in the stream."""
        rows = self.command("XRANGE", self.keys.stream, "-", "+")
        return [envelope.decode(row[1][1], len(row[1][1])) for row in rows]

    def job_ids(self) -> list[str]:
        return [job.id for job in self.jobs()]


def dead_letter_fields(
    job_id: str,
    data: Any = None,
    *,
    name: str = "mail",
    reason: str = "retries_exhausted",
    detail: str | None = None,
    d: bytes | None = None,
    attempt: int = 24,
    retry: RetryOverride | None = None,
) -> list[bytes]:
    """The fields of a dead letter."""
    job = Envelope(job_id, Payload("bin", msgpack_codec.pack(data)), 1_700_000_000_000, attempt, retry)
    content = envelope.encode(job) if d is None else d
    return dead_letter_entry.encode(DeadLetterEntry(content, "1-1", reason, detail, name=name))


def seed_every_kind(seeder: DeadLetterSeeder) -> dict[str, str]:
    """Add one dead letter of each kind: entry ids by job id, or by what is wrong with it."""
    found = {
        "told": seeder.add_dead_letter("told", {"to": "ada@example.org", "n": 1}, detail="timeout after 31 s"),
        "untold": seeder.add_dead_letter("untold", {"to": "bob", "blob": b"\xc0\xff"}, name="charge", retry=RETRY),
        "secret": seeder.add_dead_letter("secret", {"user": "eve", "password": "hunter2"}, reason="unrecoverable"),
        "garbage": seeder.add_dead_letter("", d=GARBAGE, reason="decode_failed", name=""),
        "inner": seeder.add_dead_letter("inner", d=envelope.encode(Envelope("inner", Payload("bin", b"\xc1"), 1, 2))),
        "late": seeder.add_dead_letter("late", [1, 2, 3], detail="timeout after 7 s"),
    }
    seeder.add_event("failed", "untold", "first error")
    seeder.add_event("failed", "untold", "card 4711 declined")
    seeder.add_event("dlq", "untold", "retries_exhausted")
    return found
