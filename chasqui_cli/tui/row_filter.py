"""What `/` takes: words a row must contain, `field:glob` a field must match, and `-` before either for the contrary."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class RowFilter:
    """Which rows stay. No rule keeps them all."""

    rules: tuple[tuple[bool, str | None, str], ...] = ()

    @classmethod
    def parse(cls, text: str) -> RowFilter:
        """From what was typed; case is ignored."""
        rules = []
        for word in text.lower().split():
            keeps, word = not word.startswith("-"), word.removeprefix("-")
            field, colon, wanted = word.partition(":")
            if word:
                rules.append((keeps, field, wanted) if colon and wanted else (keeps, None, word.rstrip(":")))
        return cls(tuple(rules))

    def keeps(self, row: Mapping[str, str]) -> bool:
        """Whether a row stays. What looks like a field it has not is a text with a colon in it."""
        return all(_matches(row, field, wanted) is keeps for keeps, field, wanted in self.rules)


def _matches(row: Mapping[str, str], field: str | None, wanted: str) -> bool:
    if field is None or field not in row:  # the colon of `rsmq:orders` is none of ours
        wanted = wanted if field is None else f"{field}:{wanted}"
        return any(wanted in value.lower() for value in row.values())
    value = row[field].lower()
    return fnmatchcase(value, wanted) if any(char in wanted for char in "*?[") else wanted in value
