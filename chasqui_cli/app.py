"""The root command: which word lives in which module, and how an error becomes an exit code.

Nothing heavy is imported here. A verb's module is imported when that verb is called, and the engine
only inside the verb, so `--help` and shell completion stay as cheap as Typer itself.
"""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from chasqui_cli.command_index import COMMANDS, GROUPS
from chasqui_cli.context.command_loader import load_command
from chasqui_cli.exit_codes import NAGIOS_UNKNOWN, ExitCode, exit_code_for
from chasqui_cli.output.stdio import prepare_stdio, print_stderr, redirect_to_devnull

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chasqui.errors import ChasquiError


class LazyCommandGroup(TyperGroup):
    """A group that reads the index, and imports a verb's module when that verb is called.

    `prefix`: the words before its own, as in "rsmq queue".
    """

    prefix = ""

    def list_commands(self, ctx: typer.Context) -> list[str]:  # type: ignore[override]  # Typer's public Context
        """The words, in the order of the index."""
        return [*self._summaries()]

    def get_command(self, ctx: typer.Context, cmd_name: str) -> Any:  # type: ignore[override]  # Typer's public Context
        """The verb or group behind a word, imported now."""
        path = f"{self.prefix} {cmd_name}".strip()
        if path in COMMANDS:
            return load_command(path)
        return _subgroup(path) if path in GROUPS else None

    def format_commands(self, ctx: typer.Context, formatter: Any) -> None:  # type: ignore[override]  # Typer's public Context
        """The list of verbs, without importing one of them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(self._summaries().items()))

    def _summaries(self) -> dict[str, str]:
        before = f"{self.prefix} ".lstrip()
        summaries: dict[str, str] = {}
        for path, spec in COMMANDS.items():
            if path.startswith(before):
                word = path.removeprefix(before).split()[0]
                group = GROUPS.get(before + word, spec.summary)
                summaries.setdefault(word, group.partition("\n")[0].removesuffix("."))
        return summaries


def _subgroup(path: str) -> Any:
    class Subgroup(LazyCommandGroup):
        prefix = path

    group = typer.Typer(cls=Subgroup, add_completion=False, rich_markup_mode=None)
    group.callback(invoke_without_command=True, help=GROUPS[path])(_print_help)
    command = typer.main.get_command(group)
    command.name = path.split()[-1]
    return command


def _print_help(ctx: typer.Context) -> None:
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())


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
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Say which version this is.")
    ] = False,
) -> None:
    """See every Redis job queue, understand why a job is where it is, fix it safely."""
    _print_help(ctx)


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
    words = sys.argv[1:] if arguments is None else list(arguments)
    return (
        f"see `chasqui {words[0]} --help`"
        if words and (words[0] in COMMANDS or words[0] in GROUPS)
        else "see `chasqui --help`"
    )


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
    """End in an orderly way, with the exit code by which a shell knows the signal."""
    sys.exit(128 + number)
