"""Every default, as frozen values; the numbers are those of the reference engine unless a line says why not.

What a default is used for lives with its user; nothing here reads the environment or checks an argument.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Retry:
    """What happens after a failure when the job does not say otherwise.

    `crash_limit` is ours: deliveries that ended without a verdict are counted apart from failures.
    """

    max_attempts: int = 25
    delay_ms: int = 100
    max_delay_ms: int = 30_000
    multiplier: float = 2.0
    jitter_ms: int = 100
    crash_limit: int = 3


@dataclass(frozen=True, slots=True)
class Producer:
    """What a producer accepts and writes. A `max_delay_s` of 0 means: any delay.

    `delayed_prefix` is how a delayed job's name is written in front of it. "u8" is the form of the public wire
    page, for fleets that follow it; a released engine's promoter destroys such members.
    """

    max_delay_s: int = 2_592_000
    max_name_bytes: int = 256
    delayed_prefix: Literal["u32le", "u8"] = "u32le"


@dataclass(frozen=True, slots=True)
class Worker:
    """What a worker takes in and leaves behind."""

    max_payload_bytes: int = 1_048_576
    result_ttl_ms: int = 3_600_000
