"""Everything in the repository that is written by a program: command_index.py, completions/, docs/cli.md, docs/lua.md.

`make docs` (or `python -m chasqui_cli.generate`) renews it, and a test complains when it is stale.
"""

from __future__ import annotations

import inspect
import re
from dataclasses import fields
from importlib import import_module
from keyword import iskeyword
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from chasqui_cli.changes.confirm import ChangeOptions
from chasqui_cli.context.command_context import CommandContext
from chasqui_cli.context.command_spec import CommandSpec, Effect
from chasqui_cli.context.settings import ConnectionOptions
from chasqui_cli.context.shared_options import SchemaOption, option_parameters
from chasqui_cli.input.filters import FilterOptions

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

VERBS = (
    "queues", "inspect", "watch", "top", "add", "why", "job", "dlq", "delayed", "promote", "repeatable", "schedule",
    "events", "worker", "workers", "check", "doctor", "metrics", "pipeline", "log", "undo", "context", "rsmq",
    "joblist", "migrate", "decode", "server", "demo",
)  # fmt: skip
"""In the order of the help. The verbs of a group stand in its package."""

INDEX = Path("chasqui_cli/command_index.py")
SHELLS = ("bash", "zsh", "fish")

_CLI_REFERENCE_HEADER = """# The command line

Generated from the program's own help by `make docs`; do not edit.

Exit codes: 0 done · 1 server or runtime error · 2 usage or configuration · 3 partly failed · 4 not found ·
5 refused (read-only, declined, no terminal to ask) · 130 interrupted.

Options that many commands share stand here once; below, each command names the groups it takes. Among the filters,
`--name` is for jobs and `--reason` for dead letters: commands that take both kinds of options know `--note` by that name
only.
"""

_INDEX_HEADER = '''"""Every verb of the program: generated from what the verbs declare, by `make docs`; do not edit."""

# ruff: noqa
# fmt: off
from __future__ import annotations

from chasqui_cli.context.command_spec import CommandSpec, Effect
'''

_BASH_COMPLETION = """\
# bash breaks words at colons, and names and URLs have some: they are put together again before they are completed,
# and what stands before the last colon is taken off the answers.
_chasqui_completion() {
    local IFS=$'\\n' words=() cword=0 at word before=
    for at in "${!COMP_WORDS[@]}"; do
        word=${COMP_WORDS[at]}
        if [[ $at -gt 0 && ( $word == :* || $before == *: ) ]]; then
            words[${#words[@]}-1]+=$word
        else
            words+=("$word")
        fi
        [[ $at -eq $COMP_CWORD ]] && cword=$(( ${#words[@]} - 1 ))
        before=$word
    done
    COMPREPLY=( $( env COMP_WORDS="${words[*]}" COMP_CWORD=$cword _CHASQUI_COMPLETE=complete_bash $1 ) )
    if [[ ${words[cword]} == *:* && $COMP_WORDBREAKS == *:* ]]; then
        word=${words[cword]}
        COMPREPLY=( "${COMPREPLY[@]#"${word%"${word##*:}"}"}" )
    fi
    return 0
}

complete -o default -F _chasqui_completion chasqui
"""


def generated_files() -> dict[Path, str]:
    """Every generated file, as it should be."""
    from chasqui import lua_reference

    completions = {Path("completions") / f"chasqui.{shell}": completion_script(shell) for shell in SHELLS}
    index = {INDEX: command_index()}
    return index | completions | {Path("docs/cli.md"): cli_reference(), Path("docs/lua.md"): lua_reference()}


def command_index() -> str:
    """The index of verbs: what each module below `commands/` declares, in the order of the help."""
    specs: dict[str, CommandSpec] = {}
    groups: dict[str, str | None] = {}
    for word in VERBS:
        module = import_module(f"chasqui_cli.commands.{word}")
        if not hasattr(module, "VERBS"):
            specs |= _declared_in(module)
            continue
        groups[word] = inspect.getdoc(module)
        for verb in module.VERBS:
            below = import_module(f"chasqui_cli.commands.{word}.{verb}{'_' * iskeyword(verb)}")
            found = _declared_in(below)
            if f"{word} {verb}" not in found:
                groups[f"{word} {verb}"] = inspect.getdoc(below)
            specs |= found
    lines = [f"    {path!r}: {_spec_text(spec)}," for path, spec in specs.items()]
    return f"{_INDEX_HEADER}\nCOMMANDS = {{\n" + "\n".join(lines) + f"\n}}\nGROUPS = {groups!r}\n"


def _declared_in(module: ModuleType) -> dict[str, CommandSpec]:
    specs = [verb.spec for verb in vars(module).values() if isinstance(getattr(verb, "spec", None), CommandSpec)]
    return {spec.path: spec for spec in specs if module.__name__.endswith(_file_of(spec.path))}


def _file_of(path: str) -> str:
    return ".".join(word + "_" * iskeyword(word) for word in path.split()[:2])


def _spec_text(spec: CommandSpec) -> str:
    usual = CommandSpec(spec.path, spec.summary)
    unusual = [
        f"{one.name}={getattr(spec, one.name)!r}"
        for one in fields(CommandSpec)
        if getattr(spec, one.name) != getattr(usual, one.name) and one.name != "effect"
    ]
    effect = [] if spec.effect is Effect.READS else [f"Effect.{spec.effect.name}"]
    return f"CommandSpec({', '.join([repr(spec.path), repr(spec.summary), *effect, *unusual])})"


def completion_script(shell: str) -> str:
    """The script that makes a shell complete our words."""
    if shell == "bash":
        return _BASH_COMPLETION
    from typer.completion import get_completion_script  # type: ignore[attr-defined]  # used by Typer, not listed

    return get_completion_script(prog_name="chasqui", complete_var="_CHASQUI_COMPLETE", shell=shell) + "\n"


def cli_reference() -> str:
    """The help of every command, in the order of the table of verbs; options that many share stand once, at the top."""
    from chasqui_cli.app import app

    shared = [f"\n### {title} options\n\n```\n{_options_help(options)}\n```\n" for title, options in _shared_options()]
    sections = [
        f"\n## `{path}`\n\n```\n{text}\n```\n{notes}"
        for path, text, notes in _help_pages(typer.main.get_command(app), "chasqui", None)
    ]
    return _CLI_REFERENCE_HEADER + "".join([*shared, *sections])


def _shared_options() -> list[tuple[str, list[inspect.Parameter]]]:
    output = option_parameters(CommandContext, "output", "time_style", "color", "quiet")
    schema = inspect.Parameter("schema", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=SchemaOption)
    return [
        ("Output", [*output, schema]),
        ("Connection", option_parameters(ConnectionOptions)),
        ("Filter", option_parameters(FilterOptions)),
        ("Payload", option_parameters(CommandContext, "show_secrets")),
        ("Change", option_parameters(ChangeOptions)),
    ]


def _options_help(options: list[inspect.Parameter]) -> str:
    def verb(**_: object) -> None: ...

    verb.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]  # as inspect documents it
    single = typer.Typer(add_completion=False, rich_markup_mode=None)
    single.command()(verb)
    command = typer.main.get_command(single)
    return _help_text(command.make_context("", [], resilient_parsing=True)).partition("Options:\n")[2]


def _help_text(context: Any) -> str:
    context.terminal_width, context.max_content_width = 100, 100
    lines = [line for line in context.get_help().splitlines() if not line.lstrip().startswith(("-h, --help", "--help"))]
    return re.sub(r"\n\nOptions:(?=\n\n|$)", "", "\n".join(lines))


def _help_pages(command: Any, name: str, parent: Any) -> Iterator[tuple[str, str, str]]:
    from chasqui_cli.command_index import COMMANDS

    context = command.make_context(name, [], parent=parent, resilient_parsing=True)
    shared: set[str] = getattr(command.callback, "shared_options", set())
    groups = [title for title, options in _shared_options() if shared & {one.name for one in options}]
    formats = [one.default for one in command.params if one.name == "output" and one.name in shared]
    command.params = [one for one in command.params if one.name not in shared]
    spec = COMMANDS.get(context.command_path.removeprefix("chasqui "))
    notes = [f"{' · '.join(groups)} options"] if groups else []
    notes += [f"`-o {one}` by default" for one in formats if one != "table"]
    if spec and spec.effect is Effect.CHANGES:
        notes.append(f"changes data with `--{spec.changes_with}`" if spec.changes_with else "changes data")
        notes += ["asks in protected contexts only"] if spec.asks == "protected" else []
        notes += ["can be undone"] if spec.undoable else []
    yield context.command_path, _help_text(context), f"\n{'; '.join(notes)}\n" if notes else ""
    for word in getattr(command, "list_commands", lambda _: [])(context):
        yield from _help_pages(command.get_command(context, word), word, context)


def main() -> None:
    """Write every generated file below the current directory, the index first: the others read it."""
    INDEX.write_text(command_index())
    for path, text in generated_files().items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)


if __name__ == "__main__":
    main()
