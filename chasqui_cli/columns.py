"""A record's columns, written once and drawn by every skin. Getters return plain values; drawing makes them safe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Callable

Record = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its title and where its value is found. `wide` ones show only with `-o wide`."""

    title: str
    value: Callable[[Record], Any]
    align: Literal["left", "right"] = "left"
    wide: bool = False


def column(title: str, *path: str, align: Literal["left", "right"] = "left", wide: bool = False) -> Column:
    """A column that looks its value up along a path of keys (by default, its own title)."""
    steps = path or (title,)

    def value(record: Record) -> Any:
        found: Any = record
        for step in steps:
            found = found.get(step) if isinstance(found, dict) else None
        return found

    return Column(title, value, align, wide)
