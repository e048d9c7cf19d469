"""Timezone text → tzinfo, and the wall clock of that zone: gaps, overlaps, instants. Knows nothing of cron fields."""

from __future__ import annotations

import re
from bisect import bisect_left
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import cache
from importlib import resources
from zoneinfo import ZoneInfo

from chasqui.cron.quoting import WHITESPACE, quote
from chasqui.errors import ConfigError

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_SIGNED = re.compile(r"[+-]?[0-9]{1,10}")
_MAX_GAP_S = 2 * 24 * 3600
_HINT = 'write UTC, an offset like "+05:30", or a name like "Europe/Madrid" (upper and lower case count)'


def parse_zone(text: str | None) -> tzinfo:
    """The zone a spec names: nothing and `UTC` are UTC, then offsets, then IANA names in their exact case."""
    name = (text or "").strip(WHITESPACE)
    if not name or name.upper() == "UTC" or name == "Z":
        return UTC
    if name[0] in "+-":
        return _offset(text or "", name)
    if name not in _iana_names():
        expected = 'expected UTC, +HH:MM, or any IANA timezone name (e.g. "America/New_York")'
        raise ConfigError(f"unsupported timezone {quote(text or '')}: {expected}", hint=_HINT)
    return ZoneInfo(name)


def _offset(text: str, name: str) -> tzinfo:
    digits = name[1:]
    hours, colon, minutes = digits.partition(":")
    if not colon:
        if len(digits.encode()) != 4:
            raise ConfigError(f"malformed timezone offset {quote(text)}: expected +HH:MM or +HHMM", hint=_HINT)
        hours, minutes = digits[:2], digits[2:]
    # Each half may carry a sign of its own: the reference reads "+-1:00" as one hour west.
    if not (_SIGNED.fullmatch(hours) and _SIGNED.fullmatch(minutes)):
        raise ConfigError(f"malformed timezone offset {quote(text)}", hint=_HINT)
    offset = timedelta(hours=int(hours), minutes=int(minutes))
    if abs(offset) >= timedelta(days=1):
        raise ConfigError(f"timezone offset {quote(text)} out of range", hint=_HINT)
    return timezone(-offset if name[0] == "-" else offset)


@cache
def _iana_names() -> frozenset[str]:
    # The list decides, not the file system: there, "America" is a folder and "localtime" depends on the machine.
    listed = resources.files("tzdata").joinpath("zones").read_text("utf-8").split()
    return frozenset(listed) - {"Factory"}


def wall_clock(instant_ms: int, tz: tzinfo) -> datetime:
    """What the clocks on the wall show at that instant, as a naive datetime."""
    return (EPOCH + instant_ms * _MILLISECOND).astimezone(tz).replace(tzinfo=None, fold=0)


def to_ms(wall: datetime, tz: tzinfo) -> int:
    """When the wall clock shows that, in ms; the first time, where it is shown twice."""
    return (wall.replace(tzinfo=tz) - EPOCH) // _MILLISECOND


def exists(wall: datetime, tz: tzinfo) -> bool:
    """False where clocks jump over that reading."""
    before = wall.replace(tzinfo=tz).utcoffset() or timedelta()
    after = wall.replace(tzinfo=tz, fold=1).utcoffset() or timedelta()
    return before >= after


def has_constant_offset(wall: datetime, end: datetime, tz: tzinfo) -> bool:
    """Whether clocks run from one reading to the other without being put back or forward. (That both happens within a
    day, and just undoes it, is not known of any zone.)
    """
    offsets = {at.replace(tzinfo=tz, fold=fold).utcoffset() for at, fold in ((wall, 0), (wall, 1), (end, 0))}
    return len(offsets) == 1


def end_of_gap(wall: datetime, tz: tzinfo) -> datetime:
    """The first reading that exists, whole seconds later than one that does not."""
    seconds = range(_MAX_GAP_S)
    return wall + timedelta(seconds=bisect_left(seconds, True, key=lambda s: exists(wall + timedelta(seconds=s), tz)))
