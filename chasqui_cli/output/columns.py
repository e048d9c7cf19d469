"""A record's columns, written once and drawn by every skin. Getters return plain values; drawing makes them safe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Callable

Record = dict[str, Any]
Align = Literal["left", "right"]
ValueKind = Literal["plain", "moment", "span", "count", "bytes", "attempt"]


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its title and where its value is found. `wide` ones show only with `-o wide`.

    kind: how people read the value: a moment (epoch ms), a span (ms), a count, a number of bytes, an
    attempt (counted from 0; people see the run, counted from 1). Formats that programs read keep the number.
    """

    title: str
    value: Callable[[Record], Any]
    align: Align = "left"
    wide: bool = False
    kind: ValueKind = "plain"


def column(title: str, *path: str, align: Align | None = None, wide: bool = False, kind: ValueKind = "plain") -> Column:
    """A column that looks its value up along a path of keys (by default, its own title). Numbers stand on the right."""
    steps = path or (title,)

    def value(record: Record) -> Any:
        found: Any = record
        for step in steps:
            found = found.get(step) if isinstance(found, dict) else None
        return found

    return Column(title, value, align or ("left" if kind in ("plain", "moment") else "right"), wide, kind)
