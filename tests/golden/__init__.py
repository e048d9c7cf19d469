"""Golden bytes captured from the released reference engine, and how the rest of the tests reach them.

The full set is read when it lies next to the checkout (or where CHASQUI_VECTORS points); the part kept in the
repository, one or two items of every case, does otherwise. Each item has an `id`, a `kind` and a `case`, the
captured bytes in `hex`, and what they mean in `expect`.
"""

from __future__ import annotations

import json
import os
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from chasqui.wire.msgpack_codec import ExtType, MsgpackMap, Timestamp

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Item = dict[str, Any]

_HERE = Path(__file__).parent
_FULL_SET = _HERE.parents[2] / "shared" / "wire" / "vectors.json"
_OWN_PART = _HERE / "vectors.json"


def path() -> Path:
    """The vectors in use."""
    named = os.environ.get("CHASQUI_VECTORS")
    if named:
        return Path(named)
    return _FULL_SET if _FULL_SET.exists() else _OWN_PART


def items(kind: str) -> list[Item]:
    """All items of one kind."""
    return [item for item in _all() if item["kind"] == kind]


@cache
def _all() -> list[Item]:
    found: list[Item] = json.loads(path().read_text("utf-8"))["items"]
    return found


def walk(
    kind: str, check: Callable[[Item], None], record: Callable[[str, object], None], but: tuple[str, ...] = ()
) -> None:
    """Check every item of a kind (`but` some cases), list all that fail by id, record how many there were."""
    found = [item for item in items(kind) if item["case"] not in but]
    assert found, f"no {kind} items in {path()}"
    failures = [f"{item['id']}: {fault}" for item in found if (fault := _fault(check, item))]
    record(f"vectors {kind}", len(found))
    assert not failures, f"{len(failures)} of {len(found)}:\n" + "\n".join(failures[:20])


def _fault(check: Callable[[Item], None], item: Item) -> str | None:
    try:
        check(item)
    except (AssertionError, ArithmeticError, LookupError, TypeError, ValueError, RuntimeError) as fault:
        return f"{type(fault).__name__}: {str(fault)[:300]}"
    return None


def summary(reports: Iterable[pytest.TestReport]) -> list[str]:
    """One line per kind of vector that the run has checked; `user_properties` survive xdist's wire."""
    counts: dict[str, int] = {}
    failed: set[str] = set()
    for report in reports:
        for name, count in report.user_properties:
            if str(name).startswith("vectors "):
                kind = str(name).removeprefix("vectors ")
                counts[kind] = max(counts.get(kind, 0), int(str(count)))
                failed |= set() if report.passed else {kind}
    return [f"vectors: {kind} {n} {'FAILED' if kind in failed else 'ok'}" for kind, n in sorted(counts.items())]


def write_summary(terminal: pytest.TerminalReporter) -> None:
    """For `pytest_terminal_summary`: say which golden bytes this run has checked."""
    reports = [
        report
        for outcome in ("passed", "failed")
        for report in terminal.stats.get(outcome, [])
        if isinstance(report, pytest.TestReport)
    ]
    for line in summary(reports):
        terminal.write_line(line)


def value(tagged: Any) -> Any:
    """Tagged JSON as the value it stands for; maps with other than text keys as `Pairs`."""
    if isinstance(tagged, list):
        return [value(child) for child in tagged]
    if isinstance(tagged, dict):
        if len(tagged) == 1 and (tag := next(iter(tagged))) in _FROM_TAG:
            return _FROM_TAG[tag](tagged[tag])
        return {key: value(child) for key, child in tagged.items()}
    return tagged


def tag(plain: Any) -> Any:
    """A value as tagged JSON: the form in which two values, NaN included, compare as equal."""
    if isinstance(plain, list):
        return [tag(child) for child in plain]
    if isinstance(plain, dict):
        return {key: tag(child) for key, child in plain.items()}
    for kind, write in _TO_TAG:
        if isinstance(plain, kind):
            return write(plain)
    return plain


def _integer(number: int) -> Any:
    return number if isinstance(number, bool) or abs(number) < 2**53 else {"$int": str(number)}


_FROM_TAG: dict[str, Callable[[Any], Any]] = {
    "$int": int,
    "$float": float,
    "$bin": bytes.fromhex,
    "$ext": lambda pair: ExtType(pair[0], bytes.fromhex(pair[1])),
    "$timestamp": lambda pair: Timestamp(value(pair[0]), pair[1]),
    "$map": lambda pairs: MsgpackMap(tuple((value(key), value(item)) for key, item in pairs)),
}
_TO_TAG: tuple[tuple[Any, Callable[[Any], Any]], ...] = (
    (int, _integer),
    (float, lambda number: {"$float": repr(number)}),
    (bytes, lambda raw: {"$bin": raw.hex()}),
    (Timestamp, lambda stamp: {"$timestamp": [_integer(stamp.seconds), stamp.nanoseconds]}),
    (ExtType, lambda ext: {"$ext": [ext.code, ext.data.hex()]}),
    (MsgpackMap, lambda found: {"$map": [[tag(key), tag(item)] for key, item in found.pairs]}),
)
