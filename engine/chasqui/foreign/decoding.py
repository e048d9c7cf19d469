"""How other systems' clients store texts and numbers, read so that nothing they may have left behind is a crash."""

from __future__ import annotations

import math


def to_number(raw: bytes | str | None) -> float | None:
    """A stored number; None for what is missing or none."""
    try:
        found = float(raw) if raw is not None else math.nan
    except ValueError:
        return None
    return found if math.isfinite(found) else None


def to_int(raw: bytes | str | None) -> int | None:
    """The same, without its fraction."""
    found = to_number(raw)
    return None if found is None else int(found)


def to_bytes(name: str) -> bytes:
    """The bytes of such a text."""
    return name.encode("utf-8", "surrogateescape")


def to_text(raw: bytes) -> str:
    """A name as text; bytes that are none are kept as lone surrogates."""
    return raw.decode("utf-8", "surrogateescape")
