"""Every default, as frozen values; the numbers are those of the reference engine unless a comment explains why not.

What a default is used for lives with its user; nothing here reads the environment or checks an argument. Named tuples,
because every command line imports them all, and ten dataclasses take as long to make as a query.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple


class RetryDefaults(NamedTuple):
    """What happens after a failure when the job does not say otherwise.

    `crash_limit` is ours: starts that ended without a verdict are counted apart from failures.
    """

    max_attempts: int = 25
    delay_ms: int = 100
    max_delay_ms: int = 30_000
    multiplier: float = 2.0
    jitter_ms: int = 100
    crash_limit: int = 3


class ProducerOptions(NamedTuple):
    """What a producer accepts and writes. A `max_delay_s` of 0 means: any delay.

    `cap` is the reference's number for another rule: it trims the oldest entries beyond it, also those no worker has
    read; here nothing more is added, or, with None, the stream grows. `delayed_prefix` is how a delayed job's name
    is written in front of it. "u8" is the form of the public wire page, for fleets that follow it; a released
    engine's promoter destroys such members. Ours: `unique_s` (how long an id is taken once it was added as unique),
    `replicas` (how many replicas must have a job before it counts as added) and `replica_wait_ms` (how long they may take).
    """

    max_delay_s: int = 2_592_000
    max_name_bytes: int = 256
    delayed_prefix: Literal["u32le", "u8"] = "u32le"
    cap: int | None = 1_000_000
    unique_s: int = 3_600
    replicas: int = 0
    replica_wait_ms: int = 2_000


class WorkerOptions(NamedTuple):
    """What a worker takes in and leaves behind.

    Ours: `heartbeat_ms` (None: a third of `claim_min_idle_ms`, which is how long a job is leased), `read_count` (None:
    as many as fit; the reference reads 64), `prefetch_ms` and `prefetch_bytes` (how much more than fits its slots a
    worker holds: so much as it can do in that time), `detail_bytes` (an error's text in a dead letter), `silence_s` (a
    connection that should have answered for so long is broken), `housekeeping_ms` and `dead_consumer_ms` (how often
    to look for consumers that are gone, and after how long they are).
    """

    concurrency: int = 100
    group: str = "default"
    read_count: int | None = None
    read_block_ms: int = 5000
    claim_min_idle_ms: int = 30_000
    heartbeat_ms: int | None = None
    prefetch_ms: float = 5.0
    prefetch_bytes: int = 64 * 1024 * 1024
    max_payload_bytes: int = 1_048_576
    result_ttl_ms: int = 3_600_000
    dlq_cap: int = 100_000
    events_cap: int = 100_000
    detail_bytes: int = 4096
    reply_timeout_s: float = 5.0
    shutdown_timeout_s: float = 30.0
    cleanup_interval_ms: int = 10_000
    dead_consumer_ms: int = 30_000
    events: bool = True
    store_results: bool = False
    burst: bool = False


class PromoterOptions(NamedTuple):
    """How due jobs are moved to the stream.

    The caps are ours: the reference trims the stream at 1,000,000 entries, also those that no worker has read yet, and
    a quarantined member should cost no other dead letter its place. `batch` bounds one run of the script.
    """

    poll_ms: int = 100
    batch: int = 256
    lock_ttl_s: int = 5
    stream_cap: int | None = None
    dead_cap: int | None = None
    events_cap: int = 100_000


class SchedulerOptions(NamedTuple):
    """How repeatable jobs are fired. `stream_cap`: as for the promoter."""

    tick_ms: int = 1000
    batch: int = 256
    lock_ttl_s: int = 5
    stream_cap: int | None = None


class StreamCaps(NamedTuple):
    """How long streams may grow before the reference's producers and workers trim them."""

    stream: int = 1_000_000
    dlq: int = 100_000
    events: int = 100_000


@dataclass(frozen=True, slots=True)
class FollowOptions:
    """How events are followed. `poll_ms` is ours: how often many queues of a cluster are asked, where no single
    call can wait for all of them.
    """

    block_ms: int = 5000
    count: int = 100
    poll_ms: int = 250


class SearchLimits(NamedTuple):
    """How far a search for a job goes: entries per place when it must look everywhere, and around a time it has a
    hint of; and the window around such a time.
    """

    max_entries: int = 100_000
    max_entries_nearby: int = 10_000
    before_ms: int = 50
    after_ms: int = 2000
