"""RSMQ's queues and messages as values, read from whatever any of its clients left behind. Nothing is refused here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from chasqui.foreign.decoding import to_int, to_number, to_text
from chasqui.foreign.rsmq import keys
from chasqui.server.commands.replies import score_to_ms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chasqui.server.flow import Reply

MessageState: TypeAlias = Literal["ready", "delayed", "in-flight"]


@dataclass(frozen=True, slots=True)
class QueueAttributes:
    """A queue as stored. What is missing or no number is None; `vt_s` and `delay_s` may be fractions, from PyRSMQ."""

    vt_s: float | None
    delay_s: float | None
    maxsize: int | None
    created_s: int | None
    modified_s: int | None
    sent: int
    received: int

    @classmethod
    def from_fields(cls, fields: Sequence[bytes | None]) -> QueueAttributes:
        """From the fields in the order of `rsmq_calls.ATTRIBUTES`."""
        vt, delay, *others = fields
        maxsize, created, modified, sent, received = map(to_int, others)
        return cls(to_number(vt), to_number(delay), maxsize, created, modified, sent or 0, received or 0)


@dataclass(frozen=True, slots=True)
class QueueStats:
    """A queue and how many messages it has at `now_ms`.

    hidden: as npm rsmq counts, by whole seconds, so that what became visible within this one still counts as hidden.
    hidden_now: by the ms, as PyRSMQ counts.
    """

    attributes: QueueAttributes
    now_ms: int
    messages: int
    hidden: int
    hidden_now: int


@dataclass(frozen=True, slots=True)
class MessageCounts:
    """Messages by state, at `now_ms`."""

    now_ms: int
    messages: int
    ready: int
    delayed: int
    in_flight: int


@dataclass(frozen=True, slots=True)
class Message:
    """A message. `body` is None where it is missing; or a part of it, when `size` is larger.

    receives: None before the first receive, and when it is not a number. score: when it becomes visible, as stored.
    """

    id: str
    body: bytes | None
    receives: int | None = None
    first_received_ms: int | None = None
    score: str = "0"
    size: int | None = None
    receives_seen: str = ""

    @classmethod
    def from_row(cls, row: Sequence[Reply]) -> Message:
        """From a row of `rsmq_calls.page`."""
        message_id, score, receives, first, size, body = row
        return cls(
            id=to_text(message_id),
            body=body,
            receives=to_int(receives),
            first_received_ms=to_int(first),
            score=to_text(score),
            size=size,
            receives_seen=to_text(receives or b""),
        )

    @classmethod
    def from_receipt(cls, reply: Sequence[Reply], until_ms: int) -> Message:
        """From `rsmq_calls.receive` or `pop`."""
        message_id, body, receives, first = reply
        return cls(
            id=to_text(message_id),
            body=body,
            receives=receives,
            first_received_ms=to_int(first),
            score=str(until_ms),
            size=None if body is None else len(body),
            receives_seen="" if receives is None else str(receives),
        )

    @property
    def visible_at_ms(self) -> int:
        """When it may be received, or could be since."""
        return score_to_ms(self.score)

    @property
    def sent_us(self) -> int | None:
        """When it was sent, by its id."""
        return keys.sent_at_us(self.id)

    def state(self, now_ms: int) -> MessageState:
        """What it is at this time: in flight is what was received and is hidden."""
        if float(self.score) <= now_ms:
            return "ready"
        return "in-flight" if self.receives_seen else "delayed"

    def age_ms(self, now_ms: int) -> int | None:
        """How long ago it was sent."""
        return None if self.sent_us is None else now_ms - self.sent_us // 1000

    @property
    def version(self) -> tuple[str, str, str]:
        """What a script compares to see that it has not changed."""
        return self.id, self.score, self.receives_seen
