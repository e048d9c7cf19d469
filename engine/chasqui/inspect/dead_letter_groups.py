"""Groups dead letters that died alike: of one name and reason, with errors that differ only in what varies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from chasqui.inspect.error_fingerprint import fingerprint

if TYPE_CHECKING:
    from collections.abc import Iterable

T = TypeVar("T")


@dataclass(slots=True)
class DeadLetterGroup(Generic[T]):
    """`error` is the fingerprint of the errors; `sample` the dead letter that was seen first."""

    name: str
    reason: str
    error: str
    sample: T
    first_ms: int
    last_ms: int
    count: int = 0


def group_dead_letters(letters: Iterable[tuple[str, str, str, int, T]]) -> list[DeadLetterGroup[T]]:
    """Groups, in the order they were first seen, of dead letters given as name, reason, error, time of death and the
    dead letter itself.
    """
    groups: dict[tuple[str, str, str], DeadLetterGroup[T]] = {}
    for name, reason, error, died_ms, letter in letters:
        key = (name, reason, fingerprint(error))
        group = groups.get(key) or groups.setdefault(key, DeadLetterGroup(*key, letter, died_ms, died_ms))
        group.count += 1
        group.first_ms, group.last_ms = min(group.first_ms, died_ms), max(group.last_ms, died_ms)
    return list(groups.values())
