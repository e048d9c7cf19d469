"""Flows for bulk loads: jobs by the million from tasks that may die, run twice at once or start again; each job is added
once.

A chunk of jobs is added together with its mark in the load's ledger. How many tasks run in parallel, and what rows the
jobs are made of, is up to the caller; ordinary producers use `batch.py`.
"""

from __future__ import annotations

import hashlib
import zlib
from dataclasses import dataclass
from itertools import repeat
from typing import TYPE_CHECKING, Literal

from chasqui.defaults import ProducerOptions
from chasqui.errors import ArgumentError, ServerError
from chasqui.inspect.snapshot import server_time_ms
from chasqui.wire import delayed_member, msgpack_codec, stream_entry
from chasqui.wire.job_id import check_job_id

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from chasqui.server.commands import Commands, LedgerKind
    from chasqui.server.flow import Call, Flow, Reply
    from chasqui.wire.keys import Keys

Idempotence = Literal["rows", "chunks", "idmp", "none"]
IDMP_PRODUCERS = 4096
"""A server remembers few ids of one producer, so a load pretends to be many."""


@dataclass(frozen=True, slots=True)
class BulkLoad:
    """One bulk load, however many tasks work on it.

    run_id: whose ledger it is; with the same one nothing is added twice. started_ms: when it was started.
    max_stream_len: the load adds no job beyond this many entries. rate: jobs a second, all tasks together; 0: unlimited.
    """

    run_id: str
    started_ms: int
    idempotence: Idempotence = "rows"
    ttl_s: int = 7 * 86_400
    max_stream_len: int | None = None
    rate: int = 0


@dataclass(frozen=True, slots=True)
class LoadStart:
    """When a load was started for the first time, and when this try of it was, by the server's clock."""

    since_ms: int
    now_ms: int


@dataclass(frozen=True, slots=True)
class LoadChunk:
    """Jobs that are written together. `chunk` is its name in the ledger where that is kept by chunk."""

    job_ids: Sequence[str]
    dues: Sequence[int | None]
    envelopes: Sequence[bytes]
    names: Sequence[bytes]
    ledger_name: str = ""

    @property
    def is_uniform(self) -> bool:
        """Whether its jobs differ in nothing but their ids and envelopes, as most do: half the words to send."""
        dues, names = self.dues, self.names
        return dues.count(None) == len(dues) and names.count(names[0]) == len(names)

    def columns(self, *, with_ids: bool) -> list[bytes | str | int]:
        """What the server needs of the jobs, one column after the other."""
        columns: list[bytes | str | int] = [*self.job_ids] if with_ids else []
        columns += self.envelopes
        if not self.is_uniform:
            columns += self.names
            columns += ["" if due is None else due for due in self.dues]
        return columns

    @property
    def digest(self) -> str:
        """Which jobs these are."""
        return hashlib.sha1("\0".join(self.job_ids).encode(), usedforsecurity=False).hexdigest()


@dataclass(frozen=True, slots=True)
class LoadChunkResult:
    """What became of a chunk: how many jobs were added, or, if it was not its turn, how long to wait."""

    added: int
    done: bool = True
    wait_ms: int = 0


def start_load(commands: Commands, keys: Keys, run_id: str, idempotence: str, *, ttl_s: int) -> Flow[LoadStart]:
    """Record when and how a load was started the first time; any later try gets the same time.

    idempotence: what its ledger knows jobs by. A try with another value is refused, because that ledger would know nothing
    of what is written already. Without a ledger ("none") every try is a load of its own.
    """
    now_ms = yield from server_time_ms(commands)
    if idempotence == "none":
        return LoadStart(now_ms, now_ms)
    [before] = yield [commands.begin_load(keys, run_id, f"{now_ms} {idempotence}", ttl_s=ttl_s)]
    since, _, how_then = (before or b"%d" % now_ms).decode().partition(" ")
    if how_then not in ("", idempotence):
        raise ArgumentError(
            f"load {run_id!r} was begun with idempotence={how_then}, and is now to be {idempotence}: it would add jobs twice",
            hint="go on as it was begun (chunks: with the same pipelineSize, maxBacklog and maxRate), "
            "or give another runId",
        )
    return LoadStart(int(since), now_ms)


def count_written(commands: Commands, keys: Keys, run_id: str) -> Flow[int]:
    """How many jobs of a load are written, by its ledger of rows."""
    [count] = yield [commands.load_count(keys, run_id)]
    return int(count)


def make_envelopes(
    job_ids: Sequence[str], payloads: Iterable[bytes], created_at_ms: int | Sequence[int]
) -> list[bytes]:
    """The bytes of jobs that never ran, as a producer writes them."""
    moments = repeat(created_at_ms) if isinstance(created_at_ms, int) else created_at_ms
    return msgpack_codec.pack_each(zip(job_ids, payloads, moments, repeat(0)))


def check_chunk(chunk: LoadChunk, load: BulkLoad, now_ms: int) -> LoadChunk:
    """The chunk, if a producer would have accepted each of its jobs."""
    if not all(map(str.strip, chunk.job_ids)):
        for job_id in chunk.job_ids:
            check_job_id(job_id)
    dues = [due for due in chunk.dues if due is not None]
    if dues:
        check_due(max(dues), now_ms)
    if load.idempotence == "idmp" and dues:
        raise ArgumentError(
            "idempotence=idmp knows no delayed jobs, and some rows have run_at_ms", hint="use idempotence=rows for them"
        )
    return chunk


def check_due(due_ms: int, now_ms: int) -> int:
    """When a job is to run. What was near enough once is so in every later try, too."""
    most_s = ProducerOptions().max_delay_s
    try:
        delayed_member.check_delay(max(0, due_ms - now_ms), most_s)
    except ArgumentError as fault:
        hint = f"run_at_ms is a time in ms, at most {most_s // 86_400} days ahead"
        raise ArgumentError(str(fault), hint=hint) from None
    return due_ms


def check_name(name: str | None) -> bytes:
    """A job's name as bytes."""
    try:
        return stream_entry.encode_name(name or "", ProducerOptions().max_name_bytes)
    except ArgumentError as fault:
        raise ArgumentError(str(fault), hint="give shorter names, and put the rest into the data") from None


def send_chunks(
    commands: Commands, keys: Keys, load: BulkLoad, chunks: Sequence[LoadChunk]
) -> Flow[list[LoadChunkResult]]:
    """Add chunks, in one round trip; one that is early is not added and gets a time to wait. Sending them again adds
    nothing twice, unless the load keeps no ledger.
    """
    kind = load.idempotence
    if kind == "idmp":
        return (yield from _send_with_idmp(commands, keys, load, chunks))
    if kind == "rows":
        chunks = [_without_duplicates(chunk) for chunk in chunks]
    replies = yield [_load_call(commands, keys, load, kind, chunk) for chunk in chunks]
    return [_chunk_result(chunk, reply) for chunk, reply in zip(chunks, replies, strict=True)]


def _load_call(commands: Commands, keys: Keys, load: BulkLoad, kind: LedgerKind, chunk: LoadChunk) -> Call:
    by_chunk = kind == "chunks"
    return commands.load_jobs(
        keys,
        load.run_id,
        chunk.columns(with_ids=kind == "rows"),
        count=len(chunk.job_ids),
        shared=chunk.names[0] if chunk.is_uniform else b"",
        kind=kind,
        ttl_s=load.ttl_s,
        most=load.max_stream_len,
        rate=load.rate,
        chunk=chunk.ledger_name if by_chunk else "",
        digest=chunk.digest if by_chunk else "",
    )


def _without_duplicates(chunk: LoadChunk) -> LoadChunk:
    """The chunk with the first job of each id only; nearly always that is the chunk itself."""
    if len(set(chunk.job_ids)) == len(chunk.job_ids):
        return chunk
    first: dict[str, int] = {}
    for at, job_id in enumerate(chunk.job_ids):
        first.setdefault(job_id, at)
    places = first.values()
    return LoadChunk(
        [*first],
        [chunk.dues[at] for at in places],
        [chunk.envelopes[at] for at in places],
        [chunk.names[at] for at in places],
        chunk.ledger_name,
    )


def _chunk_result(chunk: LoadChunk, reply: Reply) -> LoadChunkResult:
    word, added, wait_ms = reply
    if word == b"other":
        raise ArgumentError(
            f"chunk {chunk.ledger_name} holds other rows than when it was first written",
            hint="rows must come in the same partitions and order on every try: sort them, or use idempotence=rows",
        )
    return LoadChunkResult(added, word == b"added", wait_ms)


def _send_with_idmp(
    commands: Commands, keys: Keys, load: BulkLoad, chunks: Sequence[LoadChunk]
) -> Flow[list[LoadChunkResult]]:
    """One XADD IDMP per job. Its reply is the same for a repetition and an addition, so all count as added."""
    results = [LoadChunkResult(len(chunk.job_ids)) for chunk in chunks]
    if load.max_stream_len is not None:
        [depth] = yield [commands.stream_length(keys.stream)]
        for at, chunk in enumerate(chunks):
            if depth + len(chunk.job_ids) > load.max_stream_len:
                results[at] = LoadChunkResult(0, done=False, wait_ms=50)
            else:
                depth += len(chunk.job_ids)
    yield [
        commands.add_entry(
            keys, _idmp_producer_id(load, job_id), job_id, stream_entry.encode(chunk.envelopes[at], chunk.names[at])
        )
        for chunk, one in zip(chunks, results, strict=True)
        if one.done
        for at, job_id in enumerate(chunk.job_ids)
    ]
    return results


def _idmp_producer_id(load: BulkLoad, job_id: str) -> str:
    return f"{load.run_id}:{zlib.crc32(job_id.encode()) % IDMP_PRODUCERS}"


def check_idmp(commands: Commands, keys: Keys, *, jobs_each: int = 1000) -> Flow[None]:
    """Refuse native ids where the server would forget them before the load is done."""
    [info] = yield [commands.stream_info(keys)]
    if not commands.features.idmp:
        raise ArgumentError("this server does not know XADD IDMP", hint="use idempotence=rows: it works everywhere")
    settings = {} if isinstance(info, ServerError) else dict(zip(info[::2], info[1::2], strict=True))
    most, seconds = settings.get(b"idmp-maxsize", 100), settings.get(b"idmp-duration", 100)
    if most < jobs_each or seconds < 3600:
        raise ArgumentError(
            f"the server forgets ids of a producer after {most} others or {seconds} s: a retry would add jobs twice",
            hint=f"use idempotence=rows, or XCFGSET {keys.stream} IDMP-DURATION 86400 IDMP-MAXSIZE 10000 first, "
            "which makes it forget all ids it knows now",
        )
