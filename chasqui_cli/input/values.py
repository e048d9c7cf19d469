"""Values as people type them on a command line or write them into a file: JSON data, backoffs, counts of catching up.

What they mean for a job is the engine's business; times are in `times.py`.
"""

from __future__ import annotations

import json
import sys
from math import isinf
from typing import IO, TYPE_CHECKING, Any

from chasqui_cli.output.tagged_json import untagged

if TYPE_CHECKING:
    from pathlib import Path

_BACKOFF_HINT = "write 250, fixed:250, or exponential:100:30000 (first, longest; then multiplier and jitter if wanted)"


def parse_json_argument(text: str, what: str) -> Any:
    """The value in a JSON text, its tags read; `-` reads it from stdin."""
    from chasqui.errors import ArgumentError

    try:
        return untagged(parse_json(sys.stdin.read() if text == "-" else text))
    except (ValueError, RecursionError) as error:
        if isinstance(error, ArgumentError):
            raise
        raise ArgumentError(f"{what} is no JSON: {error}", hint="""text is quoted twice: '"hello"'""") from None


def parse_json(text: str) -> Any:
    """JSON as the standard has it: Python would also take NaN and Infinity, which are written as tags here."""
    return _DECODER.decode(text)


def _reject_constant(word: str) -> Any:
    raise ValueError(f'{word} is no JSON; write {{"$float": "{word.lower()}"}}')


def _parse_finite_float(text: str) -> float:
    number = float(text)
    if isinf(number):
        raise ValueError(f"{text} is beyond what a number can hold")
    return number


_DECODER = json.JSONDecoder(parse_constant=_reject_constant, parse_float=_parse_finite_float)


def parse_backoff(given: Any) -> Any:
    """`250`, `fixed:250[:jitter]`, `exponential:100[:longest[:multiplier[:jitter]]]`, or a mapping of its fields."""
    if not isinstance(given, str):
        return given
    from chasqui import BackoffSpec
    from chasqui.errors import ArgumentError

    kind, *numbers = given.split(":") if ":" in given else ("fixed", given)
    try:
        if kind == "fixed" and 1 <= len(numbers) <= 2:
            return BackoffSpec.fixed(*map(int, numbers))
        if kind == "exponential" and 1 <= len(numbers) <= 4:
            first, longest, multiplier, jitter = [*numbers, *[""] * (4 - len(numbers))]
            return BackoffSpec.exponential(
                int(first),
                max_ms=int(longest) if longest else None,
                multiplier=float(multiplier) if multiplier else 2.0,
                jitter_ms=int(jitter) if jitter else None,
            )
    except ValueError:
        pass
    raise ArgumentError(f"{given!r} is no backoff", hint=_BACKOFF_HINT)


def parse_missed_fires(text: str) -> dict[str, Any]:
    """`skip`, `fire-once`, `fire-all:N`."""
    from chasqui.errors import ArgumentError

    kind, colon, most = text.partition(":")
    if kind == "fire-all" and most.isdigit() and int(most):
        return {"kind": kind, "max_catchup": int(most)}
    if kind in ("skip", "fire-once") and not colon:
        return {"kind": kind}
    raise ArgumentError(f"{text!r} is no rule for missed fires", hint="write skip, fire-once or fire-all:100")


def open_input(file: Path, hint: str = "name what `dlq export` wrote, or - for stdin") -> IO[str]:
    from chasqui.errors import NotFound

    if str(file) == "-":
        return sys.stdin
    try:
        return file.open(encoding="utf-8", errors="surrogateescape")
    except OSError as error:
        raise NotFound(f"{file}: {error.strerror}", hint=hint) from None
