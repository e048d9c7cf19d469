"""Times as people write and read them: `1d3h`, ISO-8601, `@<stream id>` in; ages, dates or bare numbers out.

"Now" is always a parameter, because it is the server's time, never this machine's.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Literal

_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d|w)")
_DURATION = re.compile(rf"(?:{_DURATION_PART.pattern})+")
_ENTRY_ID = re.compile(r"@(\d{1,15})(?:-\d+)?")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MAX_ISO_MS = 253_402_300_799_999
"""The last millisecond of the year 9999; later moments are shown as a bare number."""


class TimeStyle(StrEnum):
    """What `--time` takes."""

    RELATIVE = "relative"
    ISO = "iso"
    RAW = "raw"


def parse_duration_ms(text: str) -> int:
    """`30s`, `5m`, `1h`, `7d`, `1d3h`, `250ms`; a bare number is refused, because its unit is unknown."""
    from chasqui.errors import ArgumentError

    squeezed = text.strip().lower().replace(" ", "")
    if not _DURATION.fullmatch(squeezed):
        raise ArgumentError(f"{text!r} is no duration", hint="write it as 30s, 5m, 1h, 7d or 1d3h")
    return round(sum(float(count) * _UNITS_MS[unit] for count, unit in _DURATION_PART.findall(squeezed)))


def parse_optional_duration_ms(text: str | None) -> int | None:
    """A duration that need not be given."""
    return None if text is None else parse_duration_ms(text)


def parse_time_ms(text: str, now_ms: int, towards: Literal["past", "future"]) -> int:
    """A moment: a duration before or after now, an ISO-8601 date, or `@` and a stream id. Without a zone it is UTC."""
    from chasqui.errors import ArgumentError

    given = text.strip()
    if entry_id := _ENTRY_ID.fullmatch(given):
        return int(entry_id[1])
    if given == "now":
        return now_ms
    if _DURATION.fullmatch(given.lower().replace(" ", "")):
        return now_ms + parse_duration_ms(given) * (1 if towards == "future" else -1)
    try:
        found = datetime.fromisoformat(given)
    except ValueError:
        raise ArgumentError(
            f"{text!r} is no time", hint="write 30s, 1d3h, 2026-11-18T03:00:00Z or @1794797012371-0"
        ) from None
    return (found.replace(tzinfo=found.tzinfo or UTC) - _EPOCH) // timedelta(milliseconds=1)


def format_duration(ms: int) -> str:
    """How long, in its two largest units: `3s`, `12m04s`, `3h05m`, `2d03h`."""
    if ms < 0:
        return f"-{format_duration(-ms)}"
    if ms < 1000:
        return f"{ms}ms"
    seconds = ms // 1000
    for size, unit, smaller, small_unit in ((86400, "d", 3600, "h"), (3600, "h", 60, "m"), (60, "m", 1, "s")):
        if seconds >= size:
            return f"{seconds // size}{unit}{seconds % size // smaller:02d}{small_unit}"
    return f"{seconds}s"


def format_iso(ms: int) -> str:
    """A date with its zone, to the millisecond."""
    if not 0 <= ms <= MAX_ISO_MS:
        return str(ms)
    return (_EPOCH + timedelta(milliseconds=ms)).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def format_time(ms: int, now_ms: int | None, style: TimeStyle) -> str:
    """A moment as asked for; without a "now" to count from, as a date."""
    if style is TimeStyle.RAW:
        return str(ms)
    if style is TimeStyle.ISO or now_ms is None:
        return format_iso(ms)
    return f"{format_duration(now_ms - ms)} ago" if ms <= now_ms else f"in {format_duration(ms - now_ms)}"
