"""Golden steps captured from real clients of RSMQ and of the list job queue, and how tests reach them.

The full set is read when it lies next to the checkout (or where CHASQUI_FOREIGN_VECTORS points), else the part kept
here. A step has a client, its call, what that answered, and the whole database after it; the part kept here shows
only of keys that changed (`delta`, with null for those that went). `python -m tests.golden.foreign FULL.json` renews that part.
"""

from __future__ import annotations

import json
import os
import sys
from functools import cache
from pathlib import Path
from typing import Any

Vector = dict[str, Any]

_HERE = Path(__file__).parent
_FULL_SET = _HERE.parents[2] / "shared" / "foreign" / "vectors.json"
_OWN_PART = _HERE / "foreign.json"


def path() -> Path:
    """The vectors in use."""
    named = os.environ.get("CHASQUI_FOREIGN_VECTORS")
    if named:
        return Path(named)
    return _FULL_SET if _FULL_SET.exists() else _OWN_PART


@cache
def vectors(layout: str) -> list[Vector]:
    """All vectors of one layout, every step with its database."""
    found = [vector for vector in json.loads(path().read_text("utf-8"))["vectors"] if vector["layout"] == layout]
    for vector in found:
        before: dict[str, Any] = {}
        for step in vector["steps"]:
            if "state" not in step:
                after = before | step.pop("delta", {})
                step["state"] = {key: value for key, value in after.items() if value is not None}
            before = step["state"]
    return found


def compact(full: dict[str, Any]) -> dict[str, Any]:
    """All vectors without what is said about them, and with databases as what changed in them."""
    for vector in full["vectors"]:
        for word in ("title", "notes", "clients", "binds"):
            vector.pop(word, None)
        before: dict[str, Any] = {}
        for step in vector["steps"]:
            step.pop("commands", None)
            step.pop("note", None)
            step.pop("binds", None)
            state = step.pop("state")
            changed = {key: value for key, value in state.items() if before.get(key) != value}
            delta = changed | dict.fromkeys(before.keys() - state.keys())
            if delta:
                step["delta"] = delta
            before = state
    return {"format": full["format"], "set": "part", "clients": full["clients"], "vectors": full["vectors"]}


def main(source: str) -> None:
    part = compact(json.loads(Path(source).read_text("utf-8")))
    lines = ",\n".join(_line(vector) for vector in part.pop("vectors"))
    _OWN_PART.write_text(f'{_line(part)[:-1]},"vectors":[\n{lines}\n]}}\n', "utf-8")


def _line(value: dict[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


if __name__ == "__main__":
    main(sys.argv[1])
