"""Runs command lines for the dashboard: what a dialog shows is what a shell would run.

The server's URL and its password travel in the environment, never among the words.
"""

from __future__ import annotations

import asyncio
import os
import pty
import re
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from chasqui_cli.exit_codes import ExitCode
from chasqui_cli.tui.command_line import add_options, shell_quote

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

MAX_OUTPUT_CHARS = 400_000
"""Of what a command prints, as many characters are kept for the screen."""
TIMEOUT_S = 600
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
        return add_options(words, *self.connection_words)


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
