"""Which attempt it is, and whether there is another: the numbers of one job's life, and the rule at the door.

An envelope's `attempt` counts finished runs; people and events count runs from 1. How long to wait between
runs is for `backoff.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from chasqui.defaults import RetryDefaults
    from chasqui.wire.retry_override import RetryOverride

StartDecision = Literal["run", "retries_exhausted", "crashed"]

EXTRA_STARTS = 2
"""So many more starts has a job whose guilt is in doubt. By then chance explains nothing any more."""


def run_number(attempt: int) -> int:
    """The run under way, from 1: told in active, completed and failed events, and in dlq after a failure."""
    return attempt + 1


def attempt_after_failure(attempt: int) -> int:
    """What the envelope says once this run has failed and the job is parked."""
    return attempt + 1


def next_run_number(attempt: int) -> int:
    """The run to come, from 1: told in retry-scheduled after this run has failed."""
    return attempt + 2


def effective_max_attempts(override: RetryOverride | None, default: RetryDefaults) -> int:
    """How many runs this job may have. 0 means it never runs."""
    if override is None or override.max_attempts is None:
        return default.max_attempts
    return override.max_attempts


def is_last(attempt: int, most: int) -> bool:
    """Whether a failure of this run is final."""
    return run_number(attempt) >= most


def start_decision(attempt: int, starts: int, most: int, crash_limit: int) -> StartDecision:
    """Whether a delivered job may run.

    Failed runs are counted by the envelope, and only they use up attempts. `starts` counts runs of this same entry
    that ended without a verdict: crashes of a worker, not faults of the job. A job that takes its worker down every
    time must still end, so these have a limit of their own.
    """
    if run_number(attempt) > most:
        return "retries_exhausted"
    return "crashed" if starts >= crash_limit else "run"


def deserves_extra_start(starts: int, deaths: int, crash_limit: int) -> bool:
    """Whether a job that is about to be buried as crashed may be a bystander after all.

    `deaths`: how many workers died lately, with it or without. Where most of them died without it, something else
    kills workers, and that may as well have struck while this job ran. The benefit of the doubt ends somewhere: a job
    that kills among others that do would go on for ever.
    """
    return deaths > 2 * starts and starts < crash_limit + EXTRA_STARTS


def reference_runs(attempt: int, delivered_before: int, most: int) -> bool:
    """The reference's rule at the door, for comparison.

    It mixes both counts and then forgives one crash: a job allowed a single attempt runs twice if its worker
    died, while one that failed never and crashed often dies as `retries_exhausted`.
    """
    return max(attempt, delivered_before - 1) + 1 <= most
