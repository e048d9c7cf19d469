"""The shapes of the JSON that scripts rely on, each written once, in a short notation that becomes JSON Schema.

    {"queue": "str", "ttl_ms": "int?", "lock": Maybe({...}), "groups": [{...}], "data": "any"}

A `?` means: or null. Every key is there in every record, unless it stands in `Sometimes`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

SchemaNotation = dict[str, Any]

_TYPES = {"str": "string", "int": "integer", "float": "number", "bool": "boolean"}


class Nullable(NamedTuple):
    """A shape, or null."""

    shape: Any


class OptionalKey(NamedTuple):
    """A key that only some records have."""

    shape: Any


def json_schema(shape: Any, *, many: bool) -> dict[str, Any]:
    """What `--schema` prints: the schema of `-o json`, which is one object or an array of them."""
    return _schema([shape] if many else shape)


def _schema(shape: Any) -> dict[str, Any]:
    if isinstance(shape, OptionalKey):
        return _schema(shape.shape)
    if isinstance(shape, Nullable):
        return {"anyOf": [_schema(shape.shape), {"type": "null"}]}
    if isinstance(shape, list):
        return {"type": "array", "items": _schema(shape[0])}
    if isinstance(shape, dict):
        required = [name for name, part in shape.items() if not isinstance(part, OptionalKey)]
        parts = {name: _schema(part) for name, part in shape.items()}
        return {"type": "object", "properties": parts, "required": required}
    if shape == "any":
        return {}
    kind = _TYPES[shape.removesuffix("?")]
    return {"type": [kind, "null"] if shape.endswith("?") else kind}
