"""Job ids: ULIDs as we mint them, and the rules for ids that callers bring.

An id's time part is when it was made; the random part is not monotonic, so ids of one batch do not sort.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from chasqui.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable

ULID_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_VALUE = {letter: value for value, letter in enumerate(ULID_ALPHABET)}
_LETTER_OF_BYTE = bytes(ord(ULID_ALPHABET[byte & 31]) for byte in range(256))
_TIME_LETTERS, _RANDOM_LETTERS = 10, 16
_TIME_BITS = 48
_RANDOM_PARTS = re.compile(f".{{{_RANDOM_LETTERS}}}")


def new_job_id(now_ms: int) -> str:
    """One new id of this moment."""
    return new_job_ids(1, now_ms)[0]


def new_job_ids(count: int, now_ms: int, entropy: Callable[[int], bytes] = os.urandom) -> list[str]:
    """New ids of one moment: one read of randomness for all, a byte (of which five bits count) per character."""
    stamp = _encode_time(now_ms)
    letters = entropy(count * _RANDOM_LETTERS).translate(_LETTER_OF_BYTE).decode("ascii")
    return [stamp + random for random in _RANDOM_PARTS.findall(letters)]


def created_ms(job_id: str) -> int | None:
    """When this id was minted, if it is a ULID as we and the reference write them."""
    if len(job_id) != _TIME_LETTERS + _RANDOM_LETTERS or not _VALUE.keys() >= set(job_id):
        return None
    stamp = 0
    for letter in job_id[:_TIME_LETTERS]:
        stamp = stamp << 5 | _VALUE[letter]
    return stamp if stamp < 1 << _TIME_BITS else None


def check_job_id(job_id: str) -> str:
    """A caller's id, as it is. Redis refuses an empty one, and one of spaces could not be typed again."""
    if not job_id.strip():
        raise ArgumentError("job_id must be a non-empty, non-whitespace string")
    return job_id


def _encode_time(now_ms: int) -> str:
    if not 0 <= now_ms < 1 << _TIME_BITS:
        raise ArgumentError(f"{now_ms} ms does not fit the 48 bits of an id's time")
    return "".join(ULID_ALPHABET[now_ms >> shift & 31] for shift in range(45, -1, -5))
