"""The program inside the test's own process: as `shell`, but without the time a process takes to start."""

from __future__ import annotations

import io
import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from chasqui_cli.app import run
from chasqui_cli.output.json_schema import Nullable, OptionalKey
from tests.support.cli.subprocess_cli import CommandResult

_PLAIN: dict[str, Any] = {"str": str, "int": int, "float": (int, float), "bool": bool}


# Settings that a developer's shell may have and a test must not see.
_SETTINGS = ("CHASQUI_", "REDIS", "XDG_", "NO_COLOR", "FORCE_COLOR", "EDITOR", "VISUAL")


@dataclass(slots=True)
class InProcessCli:
    """Runs `chasqui`, by default on the server at `url`, if set. `home` holds configuration and journal."""

    capsys: pytest.CaptureFixture[str]
    monkeypatch: pytest.MonkeyPatch
    home: Path
    url: str = ""

    def __call__(self, *words: str | Path, stdin: str = "") -> CommandResult:
        args = [str(word) for word in words]
        self.capsys.readouterr()
        self.monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        self.monkeypatch.setattr(sys, "argv", ["chasqui", *args])
        with self.monkeypatch.context() as patch:
            if self.url:
                patch.setenv("CHASQUI_REDIS_URL", self.url)
            code = int(run(args))
        captured = self.capsys.readouterr()
        return CommandResult(code, captured.out, captured.err)

    def set(self, **variables: str) -> None:
        for name, value in variables.items():
            self.monkeypatch.setenv(name, value)

    def journal(self) -> list[dict[str, Any]]:
        """The items of the last operation."""
        files = (self.home / ".local/state/chasqui/journal").glob("*.jsonl")
        last = max(files, key=lambda path: path.stat().st_mtime_ns)
        lines = [json.loads(line) for line in last.read_text().splitlines()]
        return [line["item"] for line in lines if "item" in line]

    def operations(self) -> list[str]:
        """Ids of the operations in the journal, newest first."""
        return self("log", "-o", "name").out.split()


def unset_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ.copy():
        if name.startswith(_SETTINGS):
            monkeypatch.delenv(name)


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> InProcessCli:
    unset_settings(monkeypatch)
    monkeypatch.setenv("HOME", str(tmp_path))
    return InProcessCli(capsys, monkeypatch, tmp_path)


def assert_matches_schema(value: Any, shape: Any, where: str = "") -> None:
    """The value has the keys of its shape, all of them and no others, and their types."""
    if isinstance(shape, OptionalKey):
        shape = shape.shape
    if isinstance(shape, Nullable):
        if value is None:
            return
        shape = shape.shape
    if isinstance(shape, list):
        assert isinstance(value, list), where
        for item in value:
            assert_matches_schema(item, shape[0], f"{where}[]")
    elif isinstance(shape, dict):
        assert isinstance(value, dict), where
        needed = {name for name, part in shape.items() if not isinstance(part, OptionalKey)}
        assert needed <= value.keys() <= shape.keys(), f"{where}: {value.keys() ^ shape.keys()}"
        for name in value:
            assert_matches_schema(value[name], shape[name], f"{where}.{name}")
    elif shape.startswith("str") and isinstance(value, dict):
        assert value.keys() == {"$str"}, f"{where}: text that is no UTF-8 is told by its bytes"
    elif shape != "any" and not (shape.endswith("?") and value is None):
        assert isinstance(value, _PLAIN[shape.removesuffix("?")]), f"{where}: {value!r} is no {shape}"


def has_keys(record: dict[str, Any], schema: dict[str, Any]) -> bool:
    """Whether a record has exactly the keys of its schema."""
    needed = {name for name, part in schema.items() if not isinstance(part, OptionalKey)}
    return needed <= set(record) <= set(schema)
