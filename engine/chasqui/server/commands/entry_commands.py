"""Builders for a job's stay in the stream: added, delivered, held, settled. Files next to this one have the rest.

The three differences between servers end in this file: IDMP and XACKDEL, each native or by a script, and CLAIM, used by
one script and gone without by another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from chasqui.errors import ServerError
from chasqui.server.commands.caps import ADDED_MEMORY_S, NO_CAP, maxlen_args
from chasqui.server.flow import Arg, Call, Flow, Reply
from chasqui.server.scripts import script_call

if TYPE_CHECKING:
    from chasqui.server.features import Features
    from chasqui.wire.keys import Keys

EntryId = bytes | str

RELEASED_CONSUMER = "released"
"""The consumer that owns entries handed back, until another one claims them."""

CLAIMABLE_IDLE_MS = 1_000_000_000
"""More than any claim waits for, so an entry with it is claimed at once."""


class ReadRequest(Protocol):
    """One way to ask for entries; `rows` takes them out of the reply: id, fields and, if claimed, idle and count."""

    def call(self, count: int) -> Call:
        """The call that reads at most `count` entries."""
        ...

    def rows(self, reply: Reply) -> list[Any]:
        """The entries in the reply; none when it is dry."""
        ...


@dataclass(frozen=True, slots=True)
class EntryCommands:
    """The jobs that wait or run."""

    features: Features

    def add_entry(
        self, keys: Keys, producer_id: str, job_id: str, fields: Sequence[Arg], *, cap: int | None = None
    ) -> Call:
        """Add a job; again with the same producer and id it answers the first entry's id and adds nothing."""
        if self.features.idmp:
            words = ("XADD", keys.stream, "IDMP", producer_id, job_id, *maxlen_args(cap), "*", *fields)
            return Call(words, keys=(keys.stream,))
        return script_call(
            "add_once",
            stream=keys.stream,
            marker=keys.added_marker(producer_id, job_id),
            ttl_s=ADDED_MEMORY_S,
            cap=cap or NO_CAP,
            rest=fields,
        )

    def add_unchecked(self, keys: Keys, fields: Sequence[Arg], *, cap: int | None = None) -> Call:
        """Add a job without asking whether it was added before; answers the entry's id."""
        return Call(("XADD", keys.stream, *maxlen_args(cap), "*", *fields), keys=(keys.stream,))

    def add_batch(
        self, keys: Keys, producer_id: str, batch_id: str, jobs: Sequence[bytes], *, name: bytes | None = None
    ) -> Call:
        """Add a run of jobs, once per producer and batch; answers the first entry's id.

        `jobs` are envelopes if all have this name; without it the list is flat, envelope and name in turn, because it
        is long. A run is added whole or not at all.
        """
        return script_call(
            "add_batch",
            stream=keys.stream,
            marker=keys.added_marker(producer_id, batch_id),
            ttl_s=ADDED_MEMORY_S,
            words=2 if name is None else 1,
            shared=name or b"",
            rest=jobs,
        )

    def add_unique(self, keys: Keys, job_id: str, fields: Sequence[Arg], *, ttl_s: int, cap: int | None = None) -> Call:
        """Add a job unless anyone used its id within `ttl_s`; answers the entry's id, or None for a duplicate.

        The marker is the one of delayed jobs: an id is used up whether it was meant for now or for later.
        """
        return script_call(
            "add_unique",
            stream=keys.stream,
            marker=keys.delayed_marker(job_id),
            ttl_s=ttl_s,
            cap=cap or NO_CAP,
            rest=fields,
        )

    def ensure_group(self, keys: Keys, group: str) -> Flow[bool]:
        """Make the group, from the first entry on, and the stream with it; false when it was there already.

        From the start is right even after a loss, because settled entries are deleted: nothing runs again.
        """
        words = ("XGROUP", "CREATE", keys.stream, group, "0", "MKSTREAM")
        [reply] = yield [Call(words, keys=(keys.stream,), tolerant=True)]
        if isinstance(reply, ServerError) and reply.code != "BUSYGROUP":
            raise reply
        return not isinstance(reply, ServerError)

    def read_ready(self, keys: Keys, group: str, consumer: str, *, claim_idle_ms: int) -> ReadRequest:
        """What to say to be given what others left idle, then new entries, without waiting.

        Claiming an entry does not start its job, so its delivery count is unchanged. `set_delivery_counts` raises it.
        """
        return _ReadyEntriesRead(self.features.claim, keys, group, consumer, claim_idle_ms)

    def read_new(self, keys: Keys, group: str, consumer: str, *, block_ms: int | None) -> ReadRequest:
        """What to say to be given new entries only, and to wait for them."""
        return _NewEntriesRead(keys, group, consumer, block_ms)

    def ack_and_delete(self, keys: Keys, group: str, entry_ids: Sequence[EntryId]) -> Call:
        """Acknowledge and delete; answers 1 for each entry settled now, -1 for one that was not pending."""
        if self.features.ackdel:
            words = ("XACKDEL", keys.stream, group, "IDS", len(entry_ids), *entry_ids)
            return Call(words, keys=(keys.stream,))
        return script_call("ack_delete", stream=keys.stream, group=group, rest=entry_ids)

    def settle_owned(
        self,
        keys: Keys,
        group: str,
        consumer: str,
        entry_id: EntryId,
        job_id: str,
        *,
        data: bytes = b"",
        ttl_s: int = 1,
    ) -> Call:
        """Settle an entry only if it is still this consumer's, storing what the job returned when there is any.

        Answers 1, or -1 (and nothing is stored) when the entry was lost meanwhile.
        """
        return script_call(
            "settle_owned",
            stream=keys.stream,
            result=keys.result(job_id),
            group=group,
            consumer=consumer,
            entry_id=entry_id,
            data=data,
            ttl_s=ttl_s,
        )

    def renew_leases(self, keys: Keys, group: str, consumer: str, entry_ids: Sequence[EntryId]) -> Call:
        """Keep running jobs from being claimed by others; answers the ids that are no longer this consumer's."""
        return script_call("renew_leases", stream=keys.stream, group=group, consumer=consumer, rest=entry_ids)

    def release(self, keys: Keys, group: str, consumer: str | bytes, deliveries: Mapping[bytes, int]) -> Call:
        """Let others have entries that were never started, at once; answers the ids that were still ours.

        `deliveries` holds for each entry how many deliveries count: those before the one handed back.
        """
        return self._transfer(keys, group, consumer, deliveries, heir=RELEASED_CONSUMER, idle_ms=CLAIMABLE_IDLE_MS)

    def set_delivery_counts(self, keys: Keys, group: str, consumer: str, deliveries: Mapping[bytes, int]) -> Call:
        """Keep entries, and say how many deliveries of each shall count; answers the ids that are still ours."""
        return self._transfer(keys, group, consumer, deliveries, heir=consumer, idle_ms=0)

    def _transfer(
        self, keys: Keys, group: str, consumer: str | bytes, deliveries: Mapping[bytes, int], *, heir: str, idle_ms: int
    ) -> Call:
        return script_call(
            "transfer_entries",
            stream=keys.stream,
            group=group,
            consumer=consumer,
            heir=heir,
            idle_ms=idle_ms,
            rest=[word for pair in deliveries.items() for word in pair],
        )

    def remove_unread(self, keys: Keys, entries: Sequence[tuple[str, bytes, int]]) -> Call:
        """Remove unread entries, and delay again those that come with a member and a due time.

        Answers for each: 1 taken out, 0 read or gone, 2 delayed again already.
        """
        words = [word for entry in entries for word in entry]
        return script_call("remove_unread", stream=keys.stream, delayed=keys.delayed, rest=words)

    def drop_consumers(self, keys: Keys, group: str, consumers: Sequence[str | bytes]) -> Call:
        """Remove consumers that have nothing pending; answers the names of those that were kept."""
        return script_call("drop_consumers", stream=keys.stream, group=group, rest=consumers)

    def drop_dangling_pending(self, keys: Keys, group: str, entry_ids: Sequence[bytes]) -> Call:
        """Remove pending rows whose entry was deleted; answers the ids of those that were."""
        return script_call("drop_dangling_pending", stream=keys.stream, group=group, rest=entry_ids)


@dataclass(frozen=True, slots=True)
class _NewEntriesRead:
    keys: Keys
    group: str
    consumer: str
    block_ms: int | None

    def call(self, count: int) -> Call:
        wait = () if self.block_ms is None else ("BLOCK", self.block_ms)
        who = ("XREADGROUP", "GROUP", self.group, self.consumer, "COUNT", count)
        return Call((*who, *wait, "STREAMS", self.keys.stream, ">"), keys=(self.keys.stream,), block_ms=self.block_ms)

    def rows(self, reply: Reply) -> list[Any]:
        """On one stream: a pair of name and entries in RESP2, a mapping in RESP3, None when it is dry."""
        if not reply:
            return []
        [rows] = reply.values() if isinstance(reply, Mapping) else [reply[0][1]]
        return list(rows)


@dataclass(frozen=True, slots=True)
class _ReadyEntriesRead:
    has_claim: bool
    keys: Keys
    group: str
    consumer: str
    claim_idle_ms: int

    def call(self, count: int) -> Call:
        words: dict[str, Any] = {
            "stream": self.keys.stream,
            "group": self.group,
            "consumer": self.consumer,
            "count": count,
            "idle_ms": self.claim_idle_ms,
        }
        return (
            script_call("read_ready", **words) if self.has_claim else script_call("read_ready_without_claim", **words)
        )

    def rows(self, reply: Reply) -> list[Any]:
        return list(reply)
