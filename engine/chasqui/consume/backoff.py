"""How long a failed job waits for its retry. Pure: the source of the jitter is an argument.

Whether there is a next attempt is decided in `attempts.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from chasqui.wire.retry_override import Backoff

if TYPE_CHECKING:
    from chasqui.defaults import RetryDefaults

N = TypeVar("N", int, float)
Jitter = Callable[[int], int]  # from 0 up to, not including, the number given: random.randrange fits

_MAX_DELAY_MS = 2**64 - 1


def retry_delay_ms(attempt: int, backoff: Backoff | None, default: RetryDefaults, jitter: Jitter) -> int:
    """The wait after a failed run. `attempt` is that run's, counted from 0: the first retry has not grown yet.

    Jitter comes on top of the cap, as in the reference, so a wait may exceed `max_delay_ms`.
    """
    policy = backoff or Backoff("exponential", default.delay_ms)
    spread = _or_default(policy.jitter_ms, default.jitter_ms)
    return _grown_delay_ms(attempt, policy, default) + (jitter(spread) if spread else 0)


def _grown_delay_ms(attempt: int, policy: Backoff, default: RetryDefaults) -> int:
    longest = float(_or_default(policy.max_delay_ms, default.max_delay_ms))
    wait = float(policy.delay_ms)
    if policy.kind != "fixed":
        wait *= _power(_or_default(policy.multiplier, default.multiplier), attempt)
    # A NaN becomes the longest wait: the reference's minimum ignores a NaN.
    shorter = longest if math.isnan(wait) else min(wait, longest)
    return min(int(max(0.0, shorter)), _MAX_DELAY_MS)


def _power(multiplier: float, attempt: int) -> float:
    """By repeated squaring, as the reference multiplies: `**` ends a last bit away, and so at times a whole ms."""
    power, square = 1.0, float(multiplier)
    while attempt:
        if attempt % 2:
            power *= square
        square *= square
        attempt //= 2
    return power


def _or_default(given: N | None, default: N) -> N:
    return default if given is None else given
