"""Command lines as the dashboard makes and judges them: the words, and what the verb's own parser reads from them.

What a line may do is decided by the declaration of its verb and the values of its parameters, never by its spelling.
"""

from __future__ import annotations

import io
import shlex
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from chasqui_cli.command_index import COMMANDS, GROUPS
from chasqui_cli.context.command_spec import CommandSpec, Effect

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

HELP_OPTIONS = ["-h", "--help"]
CONNECTION_OPTIONS = (
    "redis_url", "url_file", "context", "password_file",
    "tls_ca", "tls_cert", "tls_key", "tls_server_name", "tls_insecure",
)  # fmt: skip
"""The parameters that choose a server, or read a file to reach it."""
_NOTHING = CommandSpec("", "")


@dataclass(frozen=True, slots=True)
class ParsedLine:
    """A line as its verb reads it: the verb's declaration and the value of each parameter. problem: why it cannot be
    run at all.
    """

    spec: CommandSpec = _NOTHING
    values: Mapping[str, Any] = field(default_factory=dict)
    problem: str = ""

    @property
    def is_change(self) -> bool:
        """Whether running it can change data."""
        needed = self.spec.changes_with
        return (
            self.spec.effect is Effect.CHANGES
            and (needed is None or bool(self.values.get(needed)))
            and not self.values.get("dry_run")
        )

    def refusal(self, *, is_web: bool) -> str | None:
        """Why the dashboard does not run it, if there is a reason. is_web: the user may be far away, and gets this
        server only, and no files of this machine.
        """
        spec = self.spec
        if self.problem:
            return self.problem
        # A change that cannot be tried dry cannot be previewed here.
        if spec.effect in (Effect.RUNS, Effect.LOCAL) or (self.is_change and "dry_run" not in self.values):
            return f"{spec.path.split()[0]} needs a terminal of its own"
        if any(map(self.values.get, spec.endless)):
            return "what never ends needs a terminal of its own"
        if is_web and (
            spec.effect is Effect.READS_LOCAL or any(map(self.values.get, (*CONNECTION_OPTIONS, *spec.local_paths)))
        ):
            return "this dashboard is served to a browser: it knows one server, and no files"
        return None


def inspect_line(words: Sequence[str]) -> ParsedLine:
    """Parse a line as the program would, without running it."""
    if not words:
        return ParsedLine(problem="type a verb, such as: inspect")
    path = _verb_path(words)
    if path is None:
        group = " ".join(word for word in words if word not in HELP_OPTIONS)
        return ParsedLine() if group in GROUPS else ParsedLine(problem=f"there is no verb {' '.join(words[:2])!r}")
    import typer

    from chasqui_cli.context.command_loader import load_command

    arguments = list(words[len(path.split()) :])
    try:
        with redirect_stdout(io.StringIO()):  # --help is printed by the parser
            context = load_command(path).make_context(path, arguments, help_option_names=HELP_OPTIONS)
    except typer.exceptions.TyperException as error:
        return ParsedLine(problem=getattr(error, "format_message", error.__str__)())
    except typer.Exit:
        return ParsedLine()
    if "--" in words and inspect_line([*words[: words.index("--")], "--help"]) != ParsedLine():
        # Not the end of the options, but the value of one: what is added before it would be that value instead.
        return ParsedLine(problem="-- cannot be the value of an option here")
    return ParsedLine(COMMANDS[path], context.params)


def takes_connection_options(words: Sequence[str]) -> bool:
    """Whether the verb of a line reaches a server."""
    from chasqui_cli.context.command_loader import load_command

    path = _verb_path(words)
    return path is not None and any(one.name == "redis_url" for one in load_command(path).params)


def _verb_path(words: Sequence[str]) -> str | None:
    return next((path for length in (3, 2, 1) if (path := " ".join(words[:length])) in COMMANDS), None)


def command_words(verb: str, *arguments: str, **options: str | int | None) -> list[str]:
    """The words of a line: the verb, its options, its arguments. A name that looks like an option is kept apart."""
    words = verb.split()
    for name, value in options.items():
        if value is not None:
            words += [f"--{name.replace('_', '-')}", str(value)]
    if any(argument.startswith("-") for argument in arguments):
        words.append("--")
    return [*words, *arguments]


def add_options(words: Sequence[str], *options: str) -> list[str]:
    """More options, before whatever must not be one."""
    at = words.index("--") if "--" in words else len(words)
    return [*words[:at], *options, *words[at:]]


def shell_quote(word: str) -> str:
    """A word as a shell reads it. What is not printable is written in bytes, which bash and zsh put together again."""
    if word.isprintable():
        return shlex.quote(word)
    encoded = word.encode("utf-8", "surrogateescape")
    return "$'" + "".join(_escaped(byte) for byte in encoded) + "'"


def _escaped(byte: int) -> str:
    char = chr(byte)
    return f"\\{char}" if char in "\\'" else char if 0x20 <= byte < 0x7F else f"\\x{byte:02x}"
