"""Command lines as the dashboard makes, shows and runs them: what a dialog shows is what a shell would run.

Nothing here is drawn. The server's URL and its password travel in the environment, never among the words.
"""

from __future__ import annotations

import asyncio
import os
import pty
import re
import shlex
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from chasqui_cli.exit_codes import ExitCode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

MAX_OUTPUT_CHARS = 400_000
"""Of what a command prints, as many characters are kept for the screen."""
TIMEOUT_S = 600
CHANGING = {
    ("add",),
    ("dlq", "replay"),
    ("dlq", "edit"),
    ("dlq", "import"),
    ("dlq", "purge"),
    ("delayed", "now"),
    ("delayed", "cancel"),
    ("delayed", "move"),
    ("job", "cancel"),
    ("promote",),
    ("repeatable", "upsert"),
    ("repeatable", "remove"),
    ("repeatable", "run"),
    ("schedule",),
    ("workers", "prune"),
    ("workers", "claim"),
    ("undo",),
    *(("rsmq", verb) for verb in ("purge", "move", "sweep", "expire", "release", "hold")),
    *(("joblist", verb) for verb in ("reclaim", "retry", "cancel", "move", "purge")),
}
LOOKING = {
    *((verb,) for verb in ("queues", "inspect", "why", "job", "dlq", "delayed", "repeatable", "events", "workers")),
    *((verb,) for verb in ("check", "doctor", "log", "context", "decode")),
    *(("rsmq", verb) for verb in ("peek", "show", "counts", "doctor")),
    *(("joblist", verb) for verb in ("overview", "show", "list", "doctor")),
}
_ENDLESS_OPTIONS = {"--follow", "-f", "--port", "--metrics-port"}
_NOT_IN_BROWSER = re.compile(
    r"(-u|--redis-url|--url-file|--context|--password-file|--file|--out|--handler|--tls-)(\b|=|$)"
)
_OPERATION = re.compile(r"chasqui undo (\S+)")


@dataclass(frozen=True, slots=True)
class CommandResult:
    """How a command line ended. `op`: the operation it wrote down, which can be taken back."""

    code: int
    out: str
    err: str

    @property
    def changed_something(self) -> bool:
        """Whether all or part of it was done."""
        return self.code in (0, ExitCode.PARTLY)

    @property
    def op(self) -> str | None:
        """The last operation named."""
        found = _OPERATION.findall(self.err)
        return found[-1] if found else None


@dataclass(frozen=True, slots=True)
class CommandRunner:
    """Runs `chasqui` for the dashboard: the same program, server and rights. `reach`: words that name the server."""

    environment: Mapping[str, str]
    connection_words: Sequence[str] = field(default=())
    program: Sequence[str] = (sys.executable, "-m", "chasqui_cli")

    def display_text(self, words: Sequence[str]) -> str:
        """The line as somebody would type it."""
        return " ".join(["chasqui", *map(shell_quote, self._with_connection(words))])

    async def run(
        self,
        words: Sequence[str],
        *,
        hear: Callable[[str], None] = lambda _: None,
        limit: int = MAX_OUTPUT_CHARS,
    ) -> CommandResult:
        """Run it. `hear` is told each line for people as it comes. Who stops waiting ends the command, too."""
        try:
            process = await asyncio.create_subprocess_exec(
                *self.program,
                *self._with_connection(words),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=dict(self.environment),
            )
        except (ValueError, OSError) as error:
            return CommandResult(2, "", f"error: this cannot be a command line: {error}")
        try:
            async with asyncio.timeout(TIMEOUT_S):
                out, err = await asyncio.gather(
                    _read_output(cast("asyncio.StreamReader", process.stdout), lambda _: None, limit),
                    _read_output(cast("asyncio.StreamReader", process.stderr), hear, limit),
                )
                code = await process.wait()
        except TimeoutError:
            return CommandResult(1, "", f"error: it did not end within {TIMEOUT_S // 60} minutes")
        finally:
            if process.returncode is None:
                process.terminate()
        return CommandResult(code, out, err)

    def run_in_terminal(self, words: Sequence[str]) -> CommandResult:
        """Run it on this terminal, with somebody at it; what it says for people is heard, too, for the operation in it."""
        said: list[bytes] = []
        ours, its = pty.openpty()
        command = [*self.program, *self._with_connection(words)]
        with subprocess.Popen(command, env=dict(self.environment), stderr=its) as process:
            os.close(its)
            with suppress(OSError):  # Linux ends a terminal nobody holds any more with an error
                while piece := os.read(ours, 1 << 16):
                    os.write(2, piece)
                    said.append(piece)
            os.close(ours)
        return CommandResult(process.returncode, "", b"".join(said).decode("utf-8", "replace"))

    def _with_connection(self, words: Sequence[str]) -> list[str]:
        """Options that name the server stand before a `--`, behind which nothing is an option."""
        at = words.index("--") if "--" in words else len(words)
        return [*words[:at], *self.connection_words, *words[at:]]


async def _read_output(stream: asyncio.StreamReader, hear: Callable[[str], None], limit: int) -> str:
    """All a stream says, up to a limit; the rest is read and let go, so that the writer never waits for us."""
    kept: list[str] = []
    size = 0
    while piece := await stream.read(1 << 16):
        text = piece.decode("utf-8", "replace")
        hear(text)
        if size < limit:
            kept.append(text[: limit - size])
            size += len(text)
    return "".join(kept)


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
    told = word.encode("utf-8", "surrogateescape")
    return "$'" + "".join(_escaped(byte) for byte in told) + "'"


def _escaped(byte: int) -> str:
    char = chr(byte)
    return f"\\{char}" if char in "\\'" else char if 0x20 <= byte < 0x7F else f"\\x{byte:02x}"


def is_change(words: Sequence[str]) -> bool:
    """Whether this line is one that needs consent."""
    return "--dry-run" not in words and (_matches_verb(words, CHANGING) or "--repair" in words)


def _matches_verb(words: Sequence[str], verbs: set[tuple[str, ...]]) -> bool:
    plain = [word for word in words if not word.startswith("-")]
    return tuple(plain[:1]) in verbs or tuple(plain[:2]) in verbs


def refusal_reason(words: Sequence[str], *, is_web: bool) -> str | None:
    """Why a line is not run from the dashboard, if there is a reason. confined: whoever types may be far away, and
    gets this server only, and no files.
    """
    if not words:
        return "type a verb, such as: inspect"
    if not _matches_verb(words, LOOKING) and not _matches_verb(words, CHANGING):
        return f"{words[0]} needs a terminal of its own"
    if _ENDLESS_OPTIONS.intersection(words):
        return "what never ends needs a terminal of its own"
    if is_web and (words[0] in ("context", "log") or any(_NOT_IN_BROWSER.match(word) for word in words)):
        return "this dashboard is served to a browser: it knows one server, and no files"
    return None
