"""Flows that put jobs into a queue: now, or later. Nothing here connects, waits or tells the time.

What a job looks like in bytes is the wire room's business; which words the server understands, the server room's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from chasqui.options import Producer
from chasqui.wire import delayed_member, envelope, ids, packed, payload, stream_entry
from chasqui.wire.retry_override import check_backoff

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chasqui.server.call import Flow
    from chasqui.server.commands import Commands
    from chasqui.wire.keys import Keys
    from chasqui.wire.packed import Pack, Value
    from chasqui.wire.retry_override import RetryOverride


@dataclass(frozen=True, slots=True)
class NewJob:
    """A job to be added. Without an id it gets a new ULID; `retry` says what it does differently from its queue."""

    data: Value
    name: str = ""
    id: str | None = None
    retry: RetryOverride | None = None


@dataclass(frozen=True, slots=True)
class Added:
    """A job that was added: at `entry_id` in the stream, or due at `run_at_ms`."""

    id: str
    entry_id: str | None = None
    run_at_ms: int | None = None


def add(
    commands: Commands,
    keys: Keys,
    jobs: Sequence[NewJob],
    *,
    producer_id: str,
    now_ms: int,
    cap: int | None = None,
) -> Flow[list[Added]]:
    """Add jobs to be run as soon as may be, all in one round trip. If one is not fit to be sent, none is.

    The same producer adding the same id again within the server's memory adds nothing and is told the first entry.
    """
    packets = _packed(jobs, now_ms)
    entry_ids = yield [
        commands.add_entry(keys, producer_id, one.id, stream_entry.encode(one.envelope, one.name), cap=cap)
        for one in packets
    ]
    return [Added(one.id, entry_id.decode()) for one, entry_id in zip(packets, entry_ids, strict=True)]


def add_later(
    commands: Commands,
    keys: Keys,
    jobs: Sequence[NewJob],
    *,
    delay_ms: int,
    now_ms: int,
    options: Producer | None = None,
) -> Flow[list[Added]]:
    """Add jobs that become due `delay_ms` after `now_ms`, which should be the server's time, in one round trip."""
    options = options or Producer()
    run_at_ms = now_ms + delayed_member.check_delay(delay_ms, options.max_delay_s)
    packets = _packed(jobs, now_ms)
    members = [delayed_member.encode(one.envelope, one.name, options.delayed_prefix) for one in packets]
    yield [commands.schedule(keys, member, run_at_ms) for member in members]
    return [Added(one.id, run_at_ms=run_at_ms) for one in packets]


class _Packet(NamedTuple):
    id: str
    name: bytes
    envelope: bytes


def _packed(jobs: Sequence[NewJob], now_ms: int) -> list[_Packet]:
    pack, fresh = packed.packer(), ids.mint_many(len(jobs), now_ms)
    return [_packet(job, minted, now_ms, pack) for job, minted in zip(jobs, fresh, strict=True)]


def _packet(job: NewJob, minted: str, now_ms: int, pack: Pack) -> _Packet:
    if job.retry and job.retry.backoff:
        check_backoff(job.retry.backoff)
    job_id = minted if job.id is None else ids.check(job.id)
    content = envelope.Envelope(job_id, payload.Payload("bin", pack(job.data)), now_ms, retry=job.retry)
    return _Packet(job_id, stream_entry.check_name(job.name), envelope.encode(content, pack=pack))
