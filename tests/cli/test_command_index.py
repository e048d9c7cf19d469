"""The index of verbs against the files below `commands/`: one address for the words, the file and the help."""

from __future__ import annotations

import inspect
from importlib import import_module
from pathlib import Path

import pytest

import chasqui_cli.commands
from chasqui_cli.command_index import COMMANDS, GROUPS
from chasqui_cli.context.command_loader import load_command

ROOT = Path(inspect.getfile(chasqui_cli.commands)).parent


def _file(path: str) -> Path:
    """The file of a verb: its first two words, with `_` where Python reserves one."""
    words = [f"{word}_" if word == "import" else word for word in path.split()[:2]]
    file = ROOT.joinpath(*words).with_suffix(".py")
    return file if file.exists() else ROOT.joinpath(*words) / "__init__.py"


def test_every_verb_has_the_file_that_its_words_name_and_every_file_a_verb() -> None:
    files = {_file(path) for path in COMMANDS}
    public = {file for file in ROOT.rglob("*.py") if not file.relative_to(ROOT).as_posix().startswith("_")}
    public = {file for file in public if not file.stem.startswith("_") or (file in files and file.stem == "__init__")}
    assert public == files


@pytest.mark.parametrize("path", COMMANDS)
def test_a_verbs_summary_begins_its_help(path: str) -> None:
    text = " ".join((load_command(path).help or "").split())
    assert text.startswith(COMMANDS[path].summary)


def test_every_group_is_a_package_or_a_file_and_has_a_help() -> None:
    for path, text in GROUPS.items():
        module = import_module("chasqui_cli.commands." + path.replace(" ", "."))
        assert text
        assert text == inspect.getdoc(module)
