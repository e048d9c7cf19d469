"""RSMQ's keys and message ids: where another system keeps what, and what its ids say. Nothing here connects.

The layout is that of npm `rsmq` 0.12.4; `docs/foreign.md` has it in full.
"""

from __future__ import annotations

import re
import secrets
import string
from dataclasses import dataclass

NAMESPACE = "rsmq"
KEY_TYPES = ("zset", "hash", "set", "zset")
"""The types of `RsmqKeys.all_keys`."""
_DIGITS = string.digits + string.ascii_lowercase
_LETTERS = string.ascii_letters + string.digits
_TIME_CHARS, _RANDOM_CHARS = 10, 22
_TIME_PATTERN = re.compile(r"[0-9a-zA-Z]{10}")


@dataclass(frozen=True, slots=True)
class RsmqKeys:
    """The keys of one queue. No client checks a namespace, so neither do we."""

    queue: str
    namespace: str = NAMESPACE

    @property
    def messages(self) -> str:
        """Sorted set: message ids, scored by the time in ms at which each may be received."""
        return f"{self.namespace}:{self.queue}"

    @property
    def hash(self) -> str:
        """Hash: attributes, totals, and of every message its body, receive count and first receive time."""
        return f"{self.messages}:Q"

    @property
    def queues(self) -> str:
        """Set: the names of all queues of the namespace."""
        return f"{self.namespace}:QUEUES"

    @property
    def channel(self) -> str:
        """Channel: how many messages there are, after each send of a realtime client."""
        return f"{self.namespace}:rt:{self.queue}"

    @property
    def in_migration(self) -> str:
        """Sorted set of ours: messages on their way to another server. No queue's key, for names have no colon."""
        return f"{self.messages}:mig"

    @property
    def all_keys(self) -> tuple[str, ...]:
        """The keys above, but for the channel."""
        return self.messages, self.hash, self.queues, self.in_migration

    @property
    def split_hint(self) -> str:
        """What to do where a cluster has the keys in several slots."""
        return (
            "nothing was changed; one tagged namespace holds them together: `rsmq export` from here, "
            "`rsmq import` there with --ns '{rsmq}'"
        )

    def one_slot_keys(self, *, listed: bool) -> list[str]:
        """The keys that a change needs in one slot."""
        return [self.messages, self.hash, self.in_migration, *([self.queues] if listed else [])]

    def undo_marker(self, op: str) -> str:
        """Hash of ours, for a month: messages that an undo of this operation has brought back."""
        return f"{self.messages}:undo:{op}"


def new_message_id(now_us: int) -> str:
    """A new message id: the server's time in base 36, then 22 random characters."""
    stamp = ""
    while now_us:
        now_us, digit = divmod(now_us, 36)
        stamp = _DIGITS[digit] + stamp
    return stamp.rjust(_TIME_CHARS, "0") + random_letters(_RANDOM_CHARS)


def random_letters(count: int) -> str:
    """Unpredictable characters; those of the other clients can be guessed."""
    return "".join(secrets.choice(_LETTERS) for _ in range(count))


def sent_at_us(message_id: str) -> int | None:
    """When a message was sent, by its id; None for an id without a time."""
    return int(message_id[:_TIME_CHARS], 36) if _TIME_PATTERN.match(message_id) else None
