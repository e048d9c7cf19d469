"""The id of a stream entry, `<milliseconds>-<number>`, as text or bytes: its order and its time."""

from __future__ import annotations

import re

from chasqui.errors import ArgumentError

ZERO = "0-0"
"""Before every entry."""
_USER_FORM = re.compile(r"\d{1,20}(-\d{1,20})?", re.ASCII)


def sort_key(entry_id: str | bytes | None) -> tuple[int, int]:
    """Ids in the order the server gave them: numbers, not text. None and an empty id are before every entry."""
    text = entry_id.decode() if isinstance(entry_id, bytes) else entry_id
    ms, _, nth = (text or ZERO).partition("-")
    return int(ms), int(nth or 0)


def time_ms(entry_id: str | bytes) -> int:
    """When the entry was added, by the server's clock."""
    return sort_key(entry_id)[0]


def parse_user_id(entry_id: str) -> str:
    """An id as people write them: the part after the dash may be left out."""
    if not _USER_FORM.fullmatch(entry_id):
        raise ArgumentError(f"{entry_id!r} is no event id", hint="give `$`, `0`, or an id such as 1794797012371-0")
    return entry_id if "-" in entry_id else f"{entry_id}-0"
