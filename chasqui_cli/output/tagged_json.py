"""Values that JSON cannot carry, as tagged JSON: bytes, extension types, timestamps, odd map keys, NaN.

    bytes            {"$bin": "c0ffee"}
    extension        {"$ext": [code, "hex"]}
    timestamp        {"$timestamp": [seconds, nanoseconds]}
    map              {"$map": [[key, value], …]}   when a key is not a string, or could be taken for a tag
    nan, ±inf        {"$float": "nan"}
    broken UTF-8     {"$str": "hex"}
    too deep         {"$deep": 128}                the depth at which display stops; the bytes are shown next to it

Integers stay integers, however large. `untagged` reads it back.
"""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

MAX_DEPTH = 128

# Non-ASCII text stays readable, but nothing that a terminal would act upon or hide leaves unescaped.
_UNPRINTABLE = re.compile(r"[^\x20-\x7e\n]")
_SURROGATE = re.compile(r"[\ud800-\udfff]")


def json_escape(char: str) -> str:
    """A character in JSON's own notation."""
    code = ord(char)
    if code <= 0xFFFF:
        return f"\\u{code:04x}"
    high, low = divmod(code - 0x10000, 0x400)
    return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"


def _escape_unprintable(match: re.Match[str]) -> str:
    char = match.group()
    return char if char.isprintable() else json_escape(char)


def json_text(value: Any, *, indent: int | None = None) -> str:
    """JSON that is valid, readable and harmless on any terminal."""
    text = json.dumps(tagged(value), ensure_ascii=False, allow_nan=False, indent=indent)
    return text if text.isascii() and text.isprintable() else _UNPRINTABLE.sub(_escape_unprintable, text)


def tagged(value: Any, depth: int = 0) -> Any:
    """The value in JSON's own types, tagged where these do not suffice."""
    kind = type(value)
    if kind is str:
        return value if value.isascii() else _tagged_text(value)
    if kind is dict and depth < MAX_DEPTH:
        return _plain_mapping(value, depth)
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, str):
        return _tagged_text(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else {"$float": repr(value)}
    if isinstance(value, bytes | bytearray):
        return {"$bin": value.hex()}
    if depth >= MAX_DEPTH:
        return {"$deep": MAX_DEPTH}
    if isinstance(value, dict):
        return _tagged_mapping(list(value.items()), depth)
    if type(value) is list:
        return [tagged(item, depth + 1) for item in value]
    return _tagged_wire_value(value, depth)


def _tagged_wire_value(value: Any, depth: int) -> Any:
    # Only values that came off the wire can be these; by then the engine is imported anyway.
    from chasqui import ExtType, MsgpackMap, Timestamp

    if isinstance(value, MsgpackMap):
        return _tagged_mapping(value.pairs, depth)
    if isinstance(value, Timestamp):
        return {"$timestamp": [value.seconds, value.nanoseconds]}
    if isinstance(value, ExtType):
        return {"$ext": [value.code, value.data.hex()]}
    if isinstance(value, list | tuple):
        return [tagged(item, depth + 1) for item in value]
    raise TypeError(f"no JSON form for {type(value).__name__}")


def _plain_mapping(value: dict[Any, Any], depth: int) -> Any:
    """A mapping with text keys, as nearly all are; any other is for `_mapping`."""
    found = {}
    for key, item in value.items():
        if type(key) is not str or not key.isascii() or key[:1] == "$":
            return _tagged_mapping(list(value.items()), depth)
        found[key] = tagged(item, depth + 1)
    return found


def _tagged_mapping(pairs: Sequence[tuple[Any, Any]], depth: int) -> Any:
    inner = [(tagged(key, depth + 1), tagged(item, depth + 1)) for key, item in pairs]
    plain = {key: item for key, item in inner if isinstance(key, str) and not key.startswith("$")}
    return plain if len(plain) == len(inner) else {"$map": [list(pair) for pair in inner]}


def _tagged_text(value: str) -> Any:
    """Text; or, where its bytes were not UTF-8 (the codec keeps those as lone surrogates), the bytes."""
    if value.isascii() or not _SURROGATE.search(value):
        return value
    try:
        return {"$str": value.encode("utf-8", "surrogateescape").hex()}
    except UnicodeEncodeError:
        return {"$str": value.encode("utf-8", "surrogatepass").hex()}


def untagged(value: Any) -> Any:
    """The value that `tagged` made this of. What looks like a tag and is none is refused with `ArgumentError`."""
    if isinstance(value, list):
        return [untagged(item) for item in value]
    if not isinstance(value, dict):
        return value
    tags = [key for key in value if key.startswith("$")]
    if not tags:
        return {key: untagged(item) for key, item in value.items()}
    from chasqui import ArgumentError

    try:
        if len(value) == 1 and tags[0] in _TAG_PARSERS:
            return _TAG_PARSERS[tags[0]](value[tags[0]])
    except (TypeError, ValueError, KeyError, IndexError) as fault:
        raise ArgumentError(
            f"{tags[0]} cannot hold {json.dumps(value[tags[0]])[:60]}: {fault}", hint=_TAG_HINT
        ) from None
    raise ArgumentError(f"{tags[0]} stands where no tag belongs", hint=_TAG_HINT)


_TAG_HINT = 'a key that begins with $ is written as {"$map": [["$key", value]]}; see the tags in docs/dead-letters.md'


def _parse_ext(parts: Any) -> Any:
    from chasqui import ExtType

    code, data = parts
    if not isinstance(code, int) or not -128 <= code <= 127:
        raise ValueError("the type is a number from -128 to 127")
    return tuple.__new__(ExtType, (code, bytes.fromhex(data)))


def _parse_timestamp(parts: Any) -> Any:
    from chasqui import Timestamp

    seconds, nanoseconds = parts
    return Timestamp(seconds, nanoseconds)


def _parse_map(pairs: Any) -> Any:
    from chasqui import MsgpackMap

    found = [(untagged(key), untagged(item)) for key, item in pairs]
    keys = [key for key, _ in found]
    if all(isinstance(key, str) for key in keys) and len(set(keys)) == len(keys):
        return dict(found)
    return MsgpackMap(tuple(found))


def _reject_deep(_: Any) -> Any:
    raise ValueError(f"what lies deeper than {MAX_DEPTH} levels is not shown, so it cannot be written back")


_TAG_PARSERS: dict[str, Callable[[Any], Any]] = {
    "$bin": bytes.fromhex,
    "$ext": _parse_ext,
    "$timestamp": _parse_timestamp,
    "$map": _parse_map,
    "$float": float,
    "$str": lambda data: bytes.fromhex(data).decode("utf-8", "surrogateescape"),
    "$deep": _reject_deep,
}
