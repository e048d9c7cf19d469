"""Runs command lines for the dashboard: what a dialog shows is what a shell would run.

The server's URL and its password travel in the environment, never among the words.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from chasqui_cli.context.settings import RESULT_VARIABLE
from chasqui_cli.exit_codes import ExitCode
from chasqui_cli.tui.command_line import add_options, shell_quote, takes_connection_options

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

MAX_OUTPUT_CHARS = 400_000
"""Of what a command prints, as many characters are pieces for the screen."""
TIMEOUT_S = 600


@dataclass(frozen=True, slots=True)
class CommandResult:
    """How a command line ended: its output, and what it reported of a change. op: the operation that can be undone.
    planned, done: how many records. queue: the name that a protected context wants typed; None where nothing was planned.
    """

    code: int
    out: str
    err: str
    op: str | None = None
    planned: int = 0
    done: int = 0
    queue: str | None = None

    @property
    def changed_something(self) -> bool:
        """Whether all or part of it was done."""
        return self.op is not None or self.done > 0 or (self.queue is None and self.code in (0, ExitCode.PARTLY))


@dataclass(frozen=True, slots=True)
class CommandRunner:
    """Runs `chasqui` for the dashboard: the same program, server and rights. `reach`: words that name the server."""

    environment: Mapping[str, str]
    connection_words: Sequence[str] = field(default=())
    program: Sequence[str] = (sys.executable, "-m", "chasqui_cli")

    def display_text(self, words: Sequence[str]) -> str:
        """The line as a user would type it."""
        return " ".join(["chasqui", *map(shell_quote, self._with_connection(words))])

    async def run(
        self, words: Sequence[str], *, on_output: Callable[[str], None] = lambda _: None, limit: int = MAX_OUTPUT_CHARS
    ) -> CommandResult:
        """Run it. on_output gets what the command writes to stderr, as it comes. Cancelling ends the command, too."""
        with _result_pipe() as (pipe, read_result):
            try:
                process = await asyncio.create_subprocess_exec(
                    *self.program,
                    *self._with_connection(words),
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=asyncio.subprocess.PIPE,
                    env={**self.environment, RESULT_VARIABLE: str(pipe)},
                    pass_fds=(pipe,),
                )
            except (ValueError, OSError) as error:
                return CommandResult(2, "", f"error: this cannot be a command line: {error}")
            code, out, err = await self._wait_for(process, on_output, limit)
            return CommandResult(code, out, err, **read_result())

    async def _wait_for(
        self, process: asyncio.subprocess.Process, on_output: Callable[[str], None], limit: int
    ) -> tuple[int, str, str]:
        try:
            async with asyncio.timeout(TIMEOUT_S):
                out, err = await asyncio.gather(
                    _read_output(cast("asyncio.StreamReader", process.stdout), lambda _: None, limit),
                    _read_output(cast("asyncio.StreamReader", process.stderr), on_output, limit),
                )
                code = await process.wait()
        except TimeoutError:
            return 1, "", f"error: it did not end within {TIMEOUT_S // 60} minutes"
        finally:
            if process.returncode is None:
                process.terminate()
        return code, out, err

    def run_in_terminal(self, words: Sequence[str]) -> CommandResult:
        """Run it on this terminal, for the user to answer its questions."""
        with _result_pipe() as (pipe, read_result):
            environment = {**self.environment, RESULT_VARIABLE: str(pipe)}
            command = [*self.program, *self._with_connection(words)]
            code = subprocess.run(command, env=environment, pass_fds=(pipe,), check=False).returncode
            return CommandResult(code, "", "", **read_result())

    def _with_connection(self, words: Sequence[str]) -> list[str]:
        return add_options(words, *self.connection_words) if takes_connection_options(words) else list(words)


@contextmanager
def _result_pipe() -> Iterator[tuple[int, Callable[[], dict[str, Any]]]]:
    """A descriptor for a command to report a change on, and what reads the report when the command has ended."""
    ours, its = os.pipe()
    os.set_blocking(ours, False)

    def read() -> dict[str, Any]:
        with suppress(OSError, ValueError):  # nothing was reported
            report: dict[str, Any] = json.loads(os.read(ours, 1 << 16))
            return report
        return {}

    try:
        yield its, read
    finally:
        os.close(ours)
        os.close(its)


async def _read_output(stream: asyncio.StreamReader, on_output: Callable[[str], None], limit: int) -> str:
    """All that a stream yields, up to a limit; the rest is read and dropped, so that the writer never waits for us."""
    pieces: list[str] = []
    size = 0
    while piece := await stream.read(1 << 16):
        text = piece.decode("utf-8", "replace")
        on_output(text)
        if size < limit:
            pieces.append(text[: limit - size])
            size += len(text)
    return "".join(pieces)
