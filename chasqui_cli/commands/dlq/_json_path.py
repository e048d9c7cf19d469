"""Values set and removed along paths such as `items[0].price`, in a payload's JSON form. Pure; what changes is the caller's."""

from __future__ import annotations

import json
import re
from typing import Any

from chasqui_cli.output.tagged_json import tagged, untagged

_STEP = re.compile(r'\.?(?:"((?:[^"\\]|\\.)*)"|([^.\[\]"=]+))|\[(-?\d+)\]')


def apply_assignments(before: Any, assignments: list[str], removals: list[str]) -> Any:
    """The data with values set and removed along their paths. Works on its JSON form, which is what people read."""
    from chasqui.errors import ArgumentError

    root = {"": json.loads(json.dumps(tagged(before)))}
    for text in assignments:
        path, equals, value = text.partition("=")
        if not equals:
            raise ArgumentError(f"--set {text}: there is no =", hint="write it as --set to=x or --set count=3")
        *way, last = _parse_path(path)
        _assign(_walk(root, way, path, make=True), last, _parse_value(value), path)
    for path in removals:
        *way, last = _parse_path(path)
        parent = _walk(root, way, path, make=False)
        if not _has(parent, last):
            raise ArgumentError(f"--unset {path}: there is no such thing", hint="`dlq peek` shows what there is")
        del parent[last]
    return untagged(root[""])


def _parse_value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _parse_path(path: str) -> list[str | int]:
    """The steps from the root, which is the payload itself. A key with odd characters is quoted."""
    from chasqui.errors import ArgumentError

    steps: list[str | int] = [""]
    at = 0
    while at < len(path):
        found = _STEP.match(path, at)
        if not found:
            raise ArgumentError(
                f"{path!r} is no path", hint='write a.b[0].c; a key with odd characters in quotes: "a.b"'
            )
        quoted, plain, index = found.groups()
        steps.append(int(index) if index else plain if quoted is None else json.loads(f'"{quoted}"'))
        at = found.end()
    return steps


def _walk(root: Any, way: list[str | int], path: str, *, make: bool) -> Any:
    from chasqui.errors import ArgumentError

    here = root
    for step in way:
        if make and isinstance(here, dict) and isinstance(step, str):
            here.setdefault(step, {})
        if not _has(here, step):
            raise ArgumentError(f"{path}: there is no {step!r} on the way", hint="`dlq peek` shows what there is")
        here = here[step]
    return here


def _has(place: Any, step: str | int) -> bool:
    if isinstance(place, dict):
        return step in place
    return isinstance(place, list) and isinstance(step, int) and -len(place) <= step < len(place)


def _assign(place: Any, step: str | int, value: Any, path: str) -> None:
    from chasqui.errors import ArgumentError

    if isinstance(place, list) and step == len(place):
        place.append(value)
    elif (isinstance(place, dict) and isinstance(step, str)) or _has(place, step):
        place[step] = value
    else:
        raise ArgumentError(f"{path}: {step!r} has no place there", hint="`dlq peek` shows what there is")
