"""Builders for a job's stay in the stream: added, delivered, kept, settled. What comes before and after lies beside.

The three differences between servers end in this file: IDMP, CLAIM and XACKDEL, each native or by a script.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from chasqui.errors import ServerError
from chasqui.server.call import Call, Flow, Reply, Word
from chasqui.server.commands.caps import NO_CAP, trimming
from chasqui.server.commands.values import Delivery
from chasqui.server.scripts import script

if TYPE_CHECKING:
    from chasqui.server.features import Features
    from chasqui.wire.keys import Keys

EntryId = bytes | str

REMEMBER_ADDED_S = 100
"""How long an added id is remembered where the server does not do it by itself: the native default."""

RELEASED = "released"
"""The consumer that owns entries handed back, until another one claims them."""

LONG_IDLE_MS = 1_000_000_000
"""More than any claim waits for, so an entry with it is claimed at once."""


@dataclass(frozen=True, slots=True)
class Entries:
    """The jobs that wait or run."""

    features: Features

    def add_entry(
        self, keys: Keys, producer_id: str, job_id: str, fields: Sequence[Word], *, cap: int | None = None
    ) -> Call:
        """Add a job; again with the same producer and id it answers the first entry's id and adds nothing."""
        if self.features.idmp:
            words = ("XADD", keys.stream, "IDMP", producer_id, job_id, *trimming(cap), "*", *fields)
            return Call(words, keys=(keys.stream,))
        return script(
            "add_once",
            stream=keys.stream,
            marker=keys.added_marker(producer_id, job_id),
            ttl_s=REMEMBER_ADDED_S,
            cap=cap or NO_CAP,
            rest=fields,
        )

    def add_anyway(self, keys: Keys, fields: Sequence[Word], *, cap: int | None = None) -> Call:
        """Add a job without asking whether it was added before; answers the entry's id."""
        return Call(("XADD", keys.stream, *trimming(cap), "*", *fields), keys=(keys.stream,))

    def add_unique(
        self, keys: Keys, job_id: str, fields: Sequence[Word], *, ttl_s: int, cap: int | None = None
    ) -> Call:
        """Add a job unless anyone used its id within `ttl_s`; answers the entry's id, or None for a duplicate.

        The marker is the one of delayed jobs: an id is used up whether it was meant for now or for later.
        """
        return script(
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

    def read_group(
        self,
        keys: Keys,
        group: str,
        consumer: str,
        *,
        count: int,
        claim_idle_ms: int,
        block_ms: int | None = None,
    ) -> Flow[list[Delivery]]:
        """Entries for this consumer: those others left idle first, then new ones; waits only if there is none.

        The stand-in for CLAIM waits for new entries only: what is abandoned meanwhile comes with the next read,
        so where it is used `block_ms` also bounds how late a dead worker's jobs are found.
        """
        who = ("XREADGROUP", "GROUP", group, consumer, "COUNT", count)
        wait = () if block_ms is None else ("BLOCK", block_ms)
        where = ("STREAMS", keys.stream, ">")
        if self.features.claim:
            words = (*who, *wait, "CLAIM", claim_idle_ms, *where)
            [reply] = yield [Call(words, keys=(keys.stream,), block_ms=block_ms)]
            return _deliveries(reply)
        now = script(
            "read_ready",
            stream=keys.stream,
            group=group,
            consumer=consumer,
            count=count,
            idle_ms=claim_idle_ms,
        )
        [ready] = yield [now]
        if ready or block_ms is None:
            return [Delivery(*row) for row in ready]
        [reply] = yield [Call((*who, *wait, *where), keys=(keys.stream,), block_ms=block_ms)]
        return _deliveries(reply)

    def settle(self, keys: Keys, group: str, entry_ids: Sequence[EntryId]) -> Call:
        """Acknowledge and delete; answers 1 for each entry settled now, -1 for one that was not pending."""
        if self.features.ackdel:
            words = ("XACKDEL", keys.stream, group, "IDS", len(entry_ids), *entry_ids)
            return Call(words, keys=(keys.stream,))
        return script("ack_delete", stream=keys.stream, group=group, rest=entry_ids)

    def settle_with_result(
        self, keys: Keys, group: str, entry_id: EntryId, job_id: str, data: bytes, *, ttl_s: int
    ) -> Call:
        """Store what the job returned, then settle it; answers 1, or -1 (and stores nothing) if not pending."""
        return script(
            "settle_with_result",
            stream=keys.stream,
            result=keys.result(job_id),
            group=group,
            entry_id=entry_id,
            data=data,
            ttl_s=ttl_s,
        )

    def renew(self, keys: Keys, group: str, consumer: str, entry_ids: Sequence[EntryId]) -> Call:
        """Keep running jobs from being claimed by others; answers the ids that are no longer this consumer's."""
        return script("renew", stream=keys.stream, group=group, consumer=consumer, rest=entry_ids)

    def hand_back(self, keys: Keys, group: str, consumer: str, entry_ids: Sequence[EntryId]) -> Call:
        """Let others have entries that were never started, uncounted; answers how many were still ours."""
        return script(
            "hand_back",
            stream=keys.stream,
            group=group,
            consumer=consumer,
            released=RELEASED,
            idle_ms=LONG_IDLE_MS,
            rest=entry_ids,
        )

    def drop_consumers(self, keys: Keys, group: str, consumers: Sequence[str | bytes]) -> Call:
        """Remove consumers that have nothing pending; answers the names of those that were kept."""
        return script("drop_consumers", stream=keys.stream, group=group, rest=consumers)

    def drop_ghosts(self, keys: Keys, group: str, *, page: int = 1000) -> Flow[int]:
        """Remove pending rows whose entry was deleted, page by page; answers how many there were."""
        total: int = 0
        after = "-"
        while True:
            [(removed, last)] = yield [
                script("drop_ghosts", stream=keys.stream, group=group, after=after, count=page)
            ]
            total += removed
            if not last:
                return total
            after = f"({last.decode()}"


def _deliveries(reply: Reply) -> list[Delivery]:
    """From XREADGROUP on one stream: a pair of name and entries in RESP2, a mapping in RESP3, None when it is dry."""
    if not reply:
        return []
    [rows] = reply.values() if isinstance(reply, Mapping) else [reply[0][1]]
    return [Delivery(*row) for row in rows]
