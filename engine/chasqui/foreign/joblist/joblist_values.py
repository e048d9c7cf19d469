"""List job queues as values: options that live in no server, jobs as their hashes hold them, and what was claimed.

Nothing is refused here: a field that is missing or not a number is None, and a payload that is not JSON stays text.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from chasqui.foreign.decoding import to_int, to_text
from chasqui.foreign.joblist.keys import ListName, compact_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chasqui.server.flow import Reply

LIVE_LISTS: tuple[ListName, ...] = ("pending", "processing")


@dataclass(frozen=True, slots=True)
class JobListOptions:
    """Options that every process of a queue must share: they are not in Redis.

    history: how many completed, and how many failed ids are kept. write_json: how payloads, results and events are
    spelled, for readers that compare texts.
    """

    visibility_ms: int = 5000
    ttl_s: int = 300
    history: int = 50
    max_attempts: int = 3
    write_json: Callable[[object], str] = compact_json


DEFAULTS = JobListOptions()


@dataclass(frozen=True, slots=True)
class JobClaim:
    """A job that is ours for now: `token` proves it."""

    id: str
    payload: Any
    attempts: int
    token: str
    fields: Mapping[str, bytes] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class ClaimState:
    """An id in the processing list and what its hash holds: the two that matter unparsed, for comparing."""

    id: str
    token: str
    claimed: str
    enqueued_ms: int | None
    attempts: int | None
    status: str | None
    exists: bool

    @classmethod
    def from_fields(cls, job_id: str, fields: Sequence[bytes | None]) -> ClaimState:
        """From the fields of `joblist_calls.TIMES`."""
        token, claimed, enqueued, attempts, status = fields
        return cls(
            id=job_id,
            token=to_text(token or b""),
            claimed=to_text(claimed or b""),
            enqueued_ms=to_int(enqueued),
            attempts=to_int(attempts),
            status=None if status is None else to_text(status),
            exists=any(value is not None for value in fields),
        )


@dataclass(frozen=True, slots=True)
class ListJob:
    """A job as found. `places`: every list its id is in, and where, counted from the head. ttl_ms: None for ever.

    A history id whose hash has expired has no fields at all.
    """

    id: str
    fields: Mapping[str, bytes]
    places: Mapping[str, tuple[int, ...]]
    ttl_ms: int | None = None

    @property
    def is_expired(self) -> bool:
        """Whether only the id is left."""
        return not self.fields

    def text(self, name: str) -> str | None:
        """A field as text."""
        found = self.fields.get(name)
        return None if found is None else to_text(found)

    def number(self, name: str) -> int | None:
        """A field as a number, if it is one."""
        return to_int(self.fields.get(name))

    def value(self, name: str) -> Any:
        """The value of a field that holds JSON, or its text when it is not JSON."""
        found = self.fields.get(name)
        return None if found is None else parse_json(found, else_text=True)


@dataclass(frozen=True, slots=True)
class ListDepths:
    """How long the four lists are."""

    pending: int
    processing: int
    completed: int
    failed: int


def parse_hash(reply: Reply) -> dict[str, bytes]:
    """A hash as the server sends it."""
    if isinstance(reply, Exception) or not reply:
        return {}
    pairs = reply.items() if isinstance(reply, Mapping) else zip(reply[::2], reply[1::2], strict=True)
    return {to_text(name): value for name, value in pairs}


def parse_json(raw: bytes | None, *, else_text: bool = False) -> Any:
    """The value of the JSON; for anything else an empty object, as the guide has it, or its text."""
    try:
        return json.loads(raw) if raw is not None else {}
    except (ValueError, RecursionError):
        return to_text(raw or b"") if else_text else {}
