"""From where on a finding is a warning or critical, and how much of a queue is sampled for findings."""

from __future__ import annotations

from typing import NamedTuple


class Threshold(NamedTuple):
    """The value from which a number is worth a warning, and the one from which it is critical; None for never."""

    warn: int | None
    crit: int | None


class HealthThresholds(NamedTuple):
    """From which values on a queue has a finding. All ours: the reference has no health checks.

    idle_ms: how long a job in flight may be untouched; workers renew every ten seconds, and take over after thirty.
    full_percent: of the cap, beyond which the reference's workers begin to trim. grace_ms: how late something may be
    before the lack of a leader counts. A queue without workers is critical as soon as a job waits.
    """

    waiting: Threshold = Threshold(10_000, 100_000)
    age_ms: Threshold = Threshold(300_000, 1_800_000)
    dlq: Threshold = Threshold(1, 1000)
    delayed_lag_ms: Threshold = Threshold(30_000, 300_000)
    repeat_lag_ms: Threshold = Threshold(60_000, 600_000)
    idle_ms: Threshold = Threshold(90_000, 600_000)
    full_percent: Threshold = Threshold(80, 95)
    needs_workers: bool = True
    needs_leaders: bool = True
    grace_ms: int = 10_000


class SampleLimits(NamedTuple):
    """How much of a queue is read to find problems.

    sample: jobs, members, dead letters and specs of each place that are read. events, pending: the newest of them, and the
    oldest. claim_ms: after how long without a sign of life the reference's workers take a job over. gone_ms: how long
    a consumer that asked for nothing counts as alive. skew_ms: how far two clocks may be apart.
    """

    sample: int = 100
    events: int = 2000
    pending: int = 2000
    claim_ms: int = 30_000
    gone_ms: int = 3_600_000
    skew_ms: int = 5000
