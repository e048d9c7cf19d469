"""Exit codes of the program."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """`check` alone uses Nagios codes instead."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    PARTLY = 3
    NOT_FOUND = 4
    REFUSED = 5
    INTERRUPTED = 130


NAGIOS_UNKNOWN = 3


def exit_code_for(error: BaseException) -> ExitCode:
    """The exit code of an engine error."""
    from chasqui.errors import ChangeRefused, ConfigError, NotFound

    if isinstance(error, ConfigError):
        return ExitCode.USAGE
    if isinstance(error, NotFound):
        return ExitCode.NOT_FOUND
    if isinstance(error, ChangeRefused):
        return ExitCode.REFUSED
    return ExitCode.FAILED
