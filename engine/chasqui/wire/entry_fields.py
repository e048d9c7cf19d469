"""Stream entry fields as Redis sends them, flat: the first of a name wins, and unused ones are preserved.

What the fields mean is said in `stream_entry`, `event_entry` and `dead_entry`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from chasqui.errors import WireError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

FieldPair = tuple[bytes, bytes]
T = TypeVar("T")


class EntryFields:
    """The fields of one entry, taken out one by one. What cannot be read as asked stays among the rest."""

    __slots__ = ("_left",)

    def __init__(self, flat: Sequence[bytes]) -> None:
        if len(flat) % 2:
            raise WireError("a field has no value", b"".join(flat))
        self._left = list(zip(flat[::2], flat[1::2], strict=True))

    def raw(self, name: bytes) -> bytes | None:
        """The first value under this name, as it is."""
        return self._pop(name, lambda value: value)

    def text(self, name: bytes) -> str | None:
        """The first value, if it is UTF-8."""
        return self._pop(name, _text)

    def number(self, name: bytes) -> int | None:
        """The first value, if it is a decimal as a program writes it."""
        return self._pop(name, _number)

    @property
    def rest(self) -> tuple[FieldPair, ...]:
        """What was not taken, in order."""
        return tuple(self._left)

    def _pop(self, name: bytes, read: Callable[[bytes], T | None]) -> T | None:
        for at, (found, value) in enumerate(self._left):
            if found == name:
                result = read(value)
                if result is not None:
                    del self._left[at]
                return result
        return None


def flatten(pairs: Iterable[FieldPair]) -> list[bytes]:
    """Pairs as the words of an XADD."""
    return [word for pair in pairs for word in pair]


def _text(value: bytes) -> str | None:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None


def _number(value: bytes) -> int | None:
    # Only what we would write back the same: "007", "+7" and "1_0" stay as they are found.
    if not value.isdigit() or len(value) > 20 or (value[0] == ord("0") and len(value) > 1):
        return None
    return int(value)


def decode_name_exact(raw: bytes) -> str:
    """A name from the server as text that can be encoded again: bytes that are not UTF-8 become lone surrogates."""
    return raw.decode("utf-8", "surrogateescape")


def printable_name(raw: bytes) -> str:
    """A name from the server for people: bytes that are not UTF-8 are shown as escapes."""
    return raw.decode("utf-8", "backslashreplace")
