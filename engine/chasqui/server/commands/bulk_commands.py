"""Builders for bulk loads: many jobs, written by many tasks that may die and begin again, each job once.

A load has a ledger of its own next to the queue, which outlives every connection and task. What a job's bytes are, and
when to try again, is decided by `loading.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from chasqui.server.commands.caps import NO_CAP
from chasqui.server.flow import Call
from chasqui.server.scripts import script_call

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chasqui.server.flow import Arg
    from chasqui.wire.keys import Keys

LedgerKind = Literal["rows", "chunks", "none"]


class BulkCommands:
    """Jobs by the million."""

    __slots__ = ()

    def load_jobs(
        self,
        keys: Keys,
        run_id: str,
        columns: Sequence[Arg],
        *,
        count: int,
        shared: bytes = b"",
        kind: LedgerKind,
        ttl_s: int,
        most: int | None = None,
        rate: int = 0,
        chunk: str = "",
        digest: str = "",
    ) -> Call:
        """Add a run of jobs unless the load's ledger knows them.

        columns: `count` words each: ids for a ledger of rows, envelopes; then names and due times (or ""), unless there
        are none of those and all jobs have the `shared` name.
        """
        return script_call(
            "load_jobs",
            stream=keys.stream,
            delayed=keys.delayed,
            ledger=keys.load_ledger(kind, run_id),
            pace=keys.load_pace(run_id),
            since=keys.load_start(run_id),
            kind=kind,
            ttl_s=ttl_s,
            most=most or NO_CAP,
            rate=rate,
            chunk=chunk,
            digest=digest,
            count=count,
            shared=shared,
            rest=columns,
        )

    def begin_load(self, keys: Keys, run_id: str, note: str, *, ttl_s: int) -> Call:
        """Note when and how a load began, the first time; answers what was noted then, None if that is now."""
        key = keys.load_start(run_id)
        return Call(("SET", key, note, "NX", "GET", "EX", ttl_s), keys=(key,))

    def load_count(self, keys: Keys, run_id: str) -> Call:
        """How many rows of a load its ledger knows."""
        key = keys.load_ledger("rows", run_id)
        return Call(("SCARD", key), keys=(key,))
