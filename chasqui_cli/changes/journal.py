"""Who changed what, and the bytes to undo it: one file per operation, on disk before the change is made.

A file is JSON lines: the operation, then what it is about to change, item by item, then how it ended. What an item
means, and how it is put back, is for those who wrote it; here it is kept, found and marked.
"""

from __future__ import annotations

import getpass
import json
import os
import secrets
import socket
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import IO, TYPE_CHECKING, Any

from chasqui_cli.output.tagged_json import json_text, untagged

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

JournalItem = dict[str, Any]
_ITEM_PREFIX = '{"item": '


@dataclass(frozen=True, slots=True)
class Operation:
    """One change: who made it, when, by which command line, to which queue of which server, and why."""

    op: str
    at_ms: int
    user: str
    host: str
    verb: str
    queue: str
    url: str
    context: str | None
    note: str | None
    command: str


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """An operation as found: what it kept, and how it ended. `result` is None when it was cut off."""

    operation: Operation
    items: int
    result: dict[str, Any] | None
    undone: bool
    path: Path = field(repr=False)


class JournalWriter:
    """Writes an operation. `write_items` returns when the items are on disk; only then may they be changed."""

    def __init__(self, operation: Operation, file: IO[str]) -> None:
        self.operation = operation
        self._file = file
        self.item_count = 0
        self.done = 0
        """How many records were changed."""
        self.nothing_changed = False
        """That nothing came of it, so there is nothing to take back."""
        self.result: dict[str, Any] = {}

    def write_items(self, items: Sequence[JournalItem]) -> int:
        """Write what is about to change; returns the number of the first. An item's `kind` names what reverts it."""
        first = self.item_count
        for item in items:
            _write_line(self._file, {"item": item})
        self.item_count += len(items)
        _flush_to_disk(self._file)
        return first

    def add_facts(self, facts: Mapping[int, JournalItem]) -> None:
        """Add to items, by number, what is known only after the change, such as a new id.

        Flushed with the next items, or at the end: without it an undo searches, which is slower.
        """
        for number, fact in facts.items():
            _write_line(self._file, {"learned": number, "fact": fact})
        self._file.flush()

    def set_result(self, **result: Any) -> None:
        """How it went, so far; written down at the end."""
        self.result |= result


class Journal:
    """The journal in a directory that only its owner may read: it holds payloads."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    @contextmanager
    def begin(
        self, *, at_ms: int, verb: str, queue: str, url: str, context: str | None, note: str | None, command: str
    ) -> Iterator[JournalWriter]:
        """A new operation: on disk before the body runs; how it ended is added afterwards, also after an error."""
        self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        stamp = datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y%m%d-%H%M%S")
        op = f"{stamp}-{secrets.token_hex(2)}"
        operation = Operation(op, at_ms, _user_name(), socket.gethostname(), verb, queue, url, context, note, command)
        with os.fdopen(os.open(self._path(op), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            writer = JournalWriter(operation, file)
            _write_line(file, {"operation": asdict(operation)})
            _flush_to_disk(file)
            ended: JournalItem = {"ended": "done"}
            try:
                yield writer
            except BaseException as error:
                ended = {"ended": "failed", "error": repr(error)}
                raise
            finally:
                _write_line(file, {"result": writer.result | ended})
                _flush_to_disk(file)

    def entries(self) -> list[JournalEntry]:
        """Every operation, oldest first; files that are none are passed over."""
        found = (self._read(path) for path in self._directory.glob("*.jsonl"))
        return sorted((entry for entry in found if entry), key=lambda entry: entry.operation.at_ms)

    def entry(self, op: str) -> JournalEntry:
        """One operation; its id may be cut short as long as it is the only one that begins so."""
        from chasqui.errors import NotFound

        matching = [entry for entry in self.entries() if entry.operation.op.startswith(op)] if op else []
        exact = [entry for entry in matching if entry.operation.op == op]
        if len(exact or matching) == 1:
            return (exact or matching)[0]
        problem = "several operations begin" if matching else "there is no operation that begins"
        raise NotFound(f"{problem} with {op!r}", hint="`chasqui log` lists them")

    def items(self, entry: JournalEntry) -> Iterator[JournalItem]:
        """What an operation kept, in order, with all that was learned of it."""
        facts: dict[int, JournalItem] = {}
        for line in _whole_lines(entry.path):
            if "learned" in line:
                facts[line["learned"]] = facts.get(line["learned"], {}) | line["fact"]
        items = (line["item"] for line in _whole_lines(entry.path) if "item" in line)
        for number, item in enumerate(items):
            yield item | facts.get(number, {})

    def mark_undone(self, entry: JournalEntry, by: str) -> None:
        """Write down that it was put back, and by which operation."""
        with entry.path.open("a") as file:
            _write_line(file, {"undone": by})
            _flush_to_disk(file)

    def _path(self, op: str) -> Path:
        return self._directory / f"{op}.jsonl"

    def _read(self, path: Path) -> JournalEntry | None:
        operation: Operation | None = None
        items, result, undone = 0, None, False
        try:
            with path.open() as file:
                for text in file:
                    # Items are most of a file, and hold payloads: they are counted without being read.
                    if text.startswith(_ITEM_PREFIX):
                        items += text.endswith("}}\n")
                        continue
                    line = _parse_line(text)
                    if "operation" in line:
                        operation = Operation(**line["operation"])
                    undone = undone or "undone" in line
                    result = line.get("result", result)
        except (OSError, TypeError, UnicodeDecodeError):
            return None
        return JournalEntry(operation, items, result, undone, path) if operation else None


def _whole_lines(path: Path) -> Iterable[dict[str, Any]]:
    """The lines that are whole: the last one may have been cut off by a power failure."""
    with path.open() as file:
        yield from filter(None, map(_parse_line, file))


def _parse_line(text: str) -> dict[str, Any]:
    try:
        line = json.loads(text)
        if '{"$' in text:  # a name that is not UTF-8 is journaled as its bytes
            line = untagged(line)
    except ValueError:
        return {}
    return line if isinstance(line, dict) else {}


def _write_line(file: IO[str], line: dict[str, Any]) -> None:
    file.write(json_text(line) + "\n")


def _flush_to_disk(file: IO[str]) -> None:
    file.flush()
    os.fsync(file.fileno())


def _user_name() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return str(os.getuid())
