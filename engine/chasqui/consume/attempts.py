"""The number of an attempt, whether there is another one, and whether a delivered job may start.

An envelope's `attempt` counts finished runs; people and events count runs from 1. `backoff.py` defines how long to
wait between runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from chasqui.defaults import RetryDefaults
    from chasqui.wire.retry_override import RetryOverride

StartDecision = Literal["run", "retries_exhausted", "crashed"]

EXTRA_STARTS = 2
"""How many more starts a job gets that may not be the one that crashes workers."""


def run_number(attempt: int) -> int:
    """The number of this run, from 1: in active, completed and failed events, and in dlq after a failure."""
    return attempt + 1


def attempt_after_failure(attempt: int) -> int:
    """The `attempt` of the envelope once this run has failed and the job waits for its retry."""
    return run_number(attempt)


def next_run_number(attempt: int) -> int:
    """The number of the next run, from 1: in retry-scheduled after this run has failed."""
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
    that had no outcome: crashes of a worker, not failures of the job. A job that crashes its worker every time must
    still end, so these have a limit of their own.
    """
    if run_number(attempt) > most:
        return "retries_exhausted"
    return "crashed" if starts >= crash_limit else "run"


def deserves_extra_start(starts: int, deaths: int, crash_limit: int) -> bool:
    """Whether a job whose starts are used up may start once more, because it may not be the one that crashes workers.

    `deaths`: how many workers died lately, with it or without. If most of them died without it, something else
    crashes workers, and may have done so while this job ran. The extra starts are limited: otherwise one crashing job
    among others would go on for ever.
    """
    return deaths > 2 * starts and starts < crash_limit + EXTRA_STARTS
