"""A record as the reference's serializer reads it: fields by position in an array, or by name in a map.

Here are the two shapes and the checks of single fields; which fields a record has, its own file knows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from chasqui.errors import ArgumentError, WireError
from chasqui.wire.msgpack_codec import U64_MAX, Value, unpack
from chasqui.wire.msgpack_scan import split_value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from chasqui.wire.msgpack_scan import MsgpackParts

T = TypeVar("T")
NIL, ZERO = b"\xc0", b"\x00"


@dataclass(frozen=True, slots=True)
class RecordLayout:
    """A record's field names in order.

    shortest: fewest elements of the array form. required: how many leading fields the map form must name.
    """

    label: str
    names: tuple[str, ...]
    min_elements: int
    required: int

    def from_list(self, value: Value) -> dict[str, Value]:
        """The fields of a record that was decoded already, in the form we write: an array."""
        if type(value) is not list:
            raise WireError(f"{self.label} is {type_name(value)}, not an array", b"")
        return self._by_position(value)

    def from_element(self, element: bytes) -> dict[str, bytes]:
        """The fields of the record in these bytes, each as its own bytes: none is looked into."""
        return self.from_parts(split_value(element))

    def from_parts(self, found: MsgpackParts) -> dict[str, bytes]:
        """The fields of a record that was only taken apart, each as its own bytes."""
        if found.kind == "array":
            return self._by_position(found.children)
        if found.kind == "map":
            keys = (unpack(key, U64_MAX) for key in found.children[::2])
            return self._by_name(zip(keys, found.children[1::2], strict=True))
        raise WireError(f"{self.label} is neither an array nor a map", b"")

    def _by_position(self, children: Sequence[T]) -> dict[str, T]:
        if not self.min_elements <= len(children) <= len(self.names):
            allowed = " to ".join(str(n) for n in dict.fromkeys((self.min_elements, len(self.names))))
            raise WireError(f"{self.label} has {len(children)} elements, not {allowed}", b"")
        return dict(zip(self.names, children, strict=False))

    def _by_name(self, pairs: Iterable[tuple[Value, T]]) -> dict[str, T]:
        fields: dict[str, T] = {}
        for key, value in pairs:
            name = self._name_of(key)
            if name in fields:
                raise WireError(f"{self.label} names {name} twice", b"")
            if name is not None:
                fields[name] = value
        missing = [name for name in self.names[: self.required] if name not in fields]
        if missing:
            raise WireError(f"{self.label} lacks {', '.join(missing)}", b"")
        return fields

    def _name_of(self, key: Value) -> str | None:
        if type(key) is int and 0 <= key < len(self.names):
            return self.names[key]
        name = key.decode("utf-8", "replace") if isinstance(key, bytes) else key
        return name if name in self.names else None


def decode_field(fields: Mapping[str, bytes], name: str, absent: bytes = NIL) -> Value:
    """The value of one field; what was taken apart is within bounds already."""
    return unpack(fields.get(name, absent), U64_MAX)


def check_field(where: str, check: Callable[[Value], T], value: Value) -> T:
    """One field's value, checked; an error names the field."""
    try:
        return check(value)
    except WireError as fault:
        raise WireError(f"{where}: {fault}", fault.data) from fault


def as_text(value: Value) -> str:
    """Text, also when it came as bin."""
    if isinstance(value, str):
        value = value.encode("utf-8", "surrogateescape")
    if not isinstance(value, bytes):
        raise WireError(f"{type_name(value)} where text belongs", b"")
    try:
        return value.decode()
    except UnicodeDecodeError as fault:
        raise WireError("text is not UTF-8", value) from fault


def as_u64(value: Value) -> int:
    """A whole number that the reference holds in 64 bits."""
    if type(value) is not int:
        raise WireError(f"{type_name(value)} where a whole number belongs", b"")
    if value < 0:
        raise WireError(f"{value} is negative", b"")
    return value


def as_u32(value: Value) -> int:
    """A whole number that the reference holds in 32 bits."""
    if as_u64(value) >= 2**32:
        raise WireError(f"{value} does not fit 32 bits", b"")
    return int(value)


def as_float(value: Value) -> float:
    """Any number, as a 64-bit float."""
    if type(value) not in (int, float):
        raise WireError(f"{type_name(value)} where a number belongs", b"")
    return float(value)


def check_storable(where: str, value: int | None, most: int = U64_MAX) -> int | None:
    """A producer's number, if the field holds it: with any other the record could not be read again."""
    if value is not None and (type(value) is bool or not isinstance(value, int) or not 0 <= value <= most):
        raise ArgumentError(f"{where} must be a non-negative int")
    return value


def optional(check: Callable[[Value], T]) -> Callable[[Value], T | None]:
    """The same check, with nil let through."""
    return lambda value: None if value is None else check(value)


def type_name(value: Value) -> str:
    """What to call a misplaced value in a message; never the value itself, which may be anything."""
    return "nil" if value is None else type(value).__name__
