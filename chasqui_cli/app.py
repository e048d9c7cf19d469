"""The root command: which word lives in which module, and how an error becomes an exit code.

Nothing heavy is imported here. A verb's module is imported when that verb is called, and the engine
only inside the verb, so `--help` and shell completion stay as cheap as Typer itself.
"""

from __future__ import annotations

import signal
import sys
from enum import IntEnum
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from chasqui_cli.output.stdio import prepare_stdio, print_stderr, redirect_to_devnull

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chasqui.errors import ChasquiError

VERBS = {
    "queues": "Every queue of the server, one row each, the worst first.",
    "inspect": "How queues stand right now: one snapshot, one round trip.",
    "watch": "Look at queues again and again: what comes in, what goes out, when the backlog clears.",
    "top": "The dashboard: every queue, worst first, on this terminal or in a browser.",
    "add": "Add jobs: one, or as many as a file has lines; now, later, once per id.",
    "why": "Why a job is where it is: one verdict, with its evidence.",
    "job": "One job: everything known of it, its result; cancel it.",
    "dlq": "Dead letters: see why jobs died, put them back to work, mend, export, import or purge them.",
    "delayed": "Jobs that wait for a time: list them, count them by due time, run, cancel or move them.",
    "promote": "Move due jobs to the stream: one tick, or a promoter of its own.",
    "repeatable": "Jobs that come again: list, store, remove, run out of turn, preview in words and local time.",
    "schedule": "Fire due repeatable jobs: one tick, or a scheduler of its own.",
    "events": "What happened: past events, or as they come.",
    "worker": "Run a worker: your handler, for every job of a queue.",
    "workers": "Who works on a queue: list consumers, remove the dead, free what they hold.",
    "check": "Judge a queue for a monitor: Nagios exit codes and performance data.",
    "doctor": "Examine the server and its queues; each finding comes with what mends it.",
    "metrics": "Numbers for Prometheus, once or served on a port.",
    "pipeline": "Keep what happened, report on it, and move jobs by the million, on Spark.",
    "log": "What was changed from here: by whom, when, by which command, and what of it can be undone.",
    "undo": "Take a change back: restore what it deleted, take away what it put there, each once.",
    "context": "Servers by name: list them, choose one, see and set what is kept of each.",
    "rsmq": "RSMQ queues: all that rsmqctl does; peek, purge, move, sweep, expire, hold, carry, mend.",
    "joblist": "List job queues of Redis' guide: overview, reclaim, retry, cancel, move, purge, mend, work.",
    "migrate": "Move an RSMQ or list queue to one of ours, while both are in use.",
    "decode": "Show what bytes from Redis mean: envelope, delayed member, repeat spec, result.",
    "server": "Look at the server behind a URL; start and stop the embedded one.",
    "demo": "A short tour on a private throw-away server: jobs that succeed, fail, retry, wait and repeat.",
}


class ExitCode(IntEnum):
    """What the shell is told. `check` alone speaks Nagios instead."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    PARTLY = 3
    NOT_FOUND = 4
    REFUSED = 5
    INTERRUPTED = 130


NAGIOS_UNKNOWN = 3


class LazyCommandGroup(TyperGroup):
    """A group that knows its words by heart and imports a verb's module when it is called."""

    def list_commands(self, ctx: typer.Context) -> list[str]:  # type: ignore[override]  # Typer's public Context
        """The words, in the order of the table."""
        return list(VERBS)

    def get_command(self, ctx: typer.Context, cmd_name: str) -> Any:  # type: ignore[override]  # Typer's public Context
        """The verb behind a word, imported now."""
        if cmd_name not in VERBS:
            return None
        verb = typer.main.get_command(import_module(f"chasqui_cli.commands.{cmd_name}").app)
        verb.name = cmd_name
        return verb

    def format_commands(self, ctx: typer.Context, formatter: Any) -> None:  # type: ignore[override]  # Typer's public Context
        """The list of verbs, without importing one of them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(VERBS.items()))


app = typer.Typer(
    cls=LazyCommandGroup,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"chasqui {version('chasqui-cli')}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def root(
    ctx: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Say which version this is."),
    ] = False,
) -> None:
    """See every Redis job queue, understand why a job is where it is, mend it safely."""
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())


def exit_code_for(error: BaseException) -> ExitCode:
    """The exit code an engine error stands for."""
    from chasqui.errors import ChangeRefused, ConfigError, NotFound

    if isinstance(error, ConfigError):
        return ExitCode.USAGE
    if isinstance(error, NotFound):
        return ExitCode.NOT_FOUND
    if isinstance(error, ChangeRefused):
        return ExitCode.REFUSED
    return ExitCode.FAILED


def print_error(message: str, hint: str | None = None) -> None:
    """One line of error and one of hint, on stderr, harmless whatever Redis put into them."""
    print_stderr(f"error: {message}")
    if hint:
        print_stderr(f"hint: {hint}")


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and say how it ended. A bug is a traceback; everything foreseen is not."""
    from chasqui.errors import ChasquiError

    command = typer.main.get_command(app)
    try:
        code = command.main(arguments, prog_name="chasqui", standalone_mode=False)
        sys.stdout.flush()
    except ChasquiError as error:
        print_error(str(error), error.hint or _default_hint(error, arguments))
        return exit_code_for(error)
    except typer.Abort:
        print_error("interrupted")
        return ExitCode.INTERRUPTED
    except typer.exceptions.TyperException as error:
        print_error(error.format_message(), _usage_hint(error))
        return _usage_exit_code(error)
    except SystemExit as end:
        # Typer's own way to end on a broken pipe, but then as a failure.
        if not isinstance(end.__context__, BrokenPipeError):
            raise
        return _handle_broken_pipe()
    except BrokenPipeError:
        return _handle_broken_pipe()
    except OSError as error:
        redirect_to_devnull(sys.stdout)
        where = f"{error.filename}: " if error.filename else ""
        print_error(f"{where}{error.strerror or error}", _os_error_hint(error))
        return ExitCode.FAILED
    return code if isinstance(code, int) else ExitCode.DONE


def _handle_broken_pipe() -> ExitCode:
    """As with `| head`: leave quietly, and let nothing flush into the closed pipe."""
    redirect_to_devnull(sys.stdout)
    return ExitCode.DONE


def _os_error_hint(error: OSError) -> str:
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return "is the path spelled right? `-` stands for standard input and output where a file is asked for"
    if isinstance(error, IsADirectoryError):
        return "it is a directory; name a file in it"
    return "the system refused; is a disk full, or a file closed to you?"


def _default_hint(error: ChasquiError, arguments: Sequence[str] | None) -> str:
    """For an error that knows no better."""
    from chasqui.errors import ServerError, WireError

    if isinstance(error, WireError):
        return "nothing was changed; `chasqui decode --kind auto` tries every kind of bytes there is"
    if isinstance(error, ServerError):
        return "is it a Redis server, and what does its log say? --redis-url names another"
    said = sys.argv[1:] if arguments is None else list(arguments)
    return f"see `chasqui {said[0]} --help`" if said and said[0] in VERBS else "see `chasqui --help`"


def _usage_exit_code(error: Exception) -> int:
    """A monitor would take our code for usage as critical; to it, not knowing is 3."""
    context = getattr(error, "ctx", None)
    asked_by_monitor = context is not None and context.command_path == "chasqui check"
    return NAGIOS_UNKNOWN if asked_by_monitor else ExitCode.USAGE


def _usage_hint(error: Exception) -> str:
    context = getattr(error, "ctx", None)
    return f"see `{context.command_path if context else 'chasqui'} --help`"


def main() -> None:
    """The console script."""
    prepare_stdio()
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _exit_on_signal)
    sys.exit(run())


def _exit_on_signal(number: int, _: object) -> None:
    """Asked to go: clean up on the way out, then tell the shell which signal it was."""
    sys.exit(128 + number)
