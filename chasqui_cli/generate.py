"""Everything in the repository that is written by a program: completions/, docs/cli.md, docs/lua.md.

`make docs` (or `python -m chasqui_cli.generate`) renews it, and a test complains when it is stale.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from collections.abc import Iterator

SHELLS = ("bash", "zsh", "fish")

_CLI_REFERENCE_HEADER = """# The command line

Generated from the program's own help by `make docs`; do not edit.

Exit codes: 0 done · 1 server or runtime error · 2 usage or configuration · 3 partly failed · 4 not found ·
5 refused (read-only, declined, no terminal to ask) · 130 interrupted.
"""

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
    return completions | {Path("docs/cli.md"): cli_reference(), Path("docs/lua.md"): lua_reference()}


def completion_script(shell: str) -> str:
    """The script that makes a shell complete our words."""
    if shell == "bash":
        return _BASH_COMPLETION
    from typer.completion import get_completion_script  # type: ignore[attr-defined]  # used by Typer, not listed

    return get_completion_script(prog_name="chasqui", complete_var="_CHASQUI_COMPLETE", shell=shell) + "\n"


def cli_reference() -> str:
    """The help of every command, in the order of the table of verbs."""
    from chasqui_cli.app import app

    sections = [
        f"\n## `{path}`\n\n```\n{text}\n```\n"
        for path, text in _help_pages(typer.main.get_command(app), "chasqui", None)
    ]
    return _CLI_REFERENCE_HEADER + "".join(sections)


def _help_pages(command: Any, name: str, parent: Any) -> Iterator[tuple[str, str]]:
    context = command.make_context(name, [], parent=parent, resilient_parsing=True)
    context.terminal_width, context.max_content_width = 100, 100
    yield context.command_path, context.get_help()
    for word in getattr(command, "list_commands", lambda _: [])(context):
        yield from _help_pages(command.get_command(context, word), word, context)


def main() -> None:
    """Write every generated file below the current directory."""
    for path, text in generated_files().items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)


if __name__ == "__main__":
    main()
