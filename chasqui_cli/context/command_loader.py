"""From a verb's words to its Typer command, imported when it is asked for."""

from __future__ import annotations

from importlib import import_module
from keyword import iskeyword
from typing import Any

import typer


def load_command(path: str) -> Any:
    """The Typer command of a verb. The verb stands in the file that its first two words name."""
    file = ".".join(f"{word}_" if iskeyword(word) else word for word in path.split()[:2])
    module = import_module(f"chasqui_cli.commands.{file}")
    verb = next(found for found in vars(module).values() if getattr(found, "spec", None) and found.spec.path == path)
    single = typer.Typer(add_completion=False, rich_markup_mode=None)
    single.command(path.split()[-1])(verb)
    command = typer.main.get_command(single)
    command.name = path.split()[-1]
    return command
