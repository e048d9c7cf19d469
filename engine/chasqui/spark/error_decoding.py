"""Errors out of Spark, in our own words: what went wrong, not where in Java it was noticed.

Errors of the data source come marked (`pyspark_chasqui.plainly`) and become what they were. Spark's own are reported by
their first line; those that have an everyday cause say what to do.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

from chasqui import errors
from chasqui.errors import ArgumentError, ChasquiError, ConfigError, NotFound, ServerError

if TYPE_CHECKING:
    from collections.abc import Iterator

_PYTHON_ERROR_LINE = re.compile(r"(?:[\w.]+\.)?\w*(?:Error|Exception|Exit|Interrupt)\b(?!.*\.java:)")


class SparkBusy(ServerError):
    """Spark failed for a moment only: a process did not come up within the ten seconds that Spark grants it."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint, transient=True)


_KNOWN_ERRORS: tuple[tuple[str, type[ChasquiError], str, str], ...] = (
    (r"PATH_NOT_FOUND\].*?(?:Path does not exist: )(\S+?)\.?\s", NotFound, "there is nothing at {0}",
     "`chasqui pipeline archive` fills an archive; --archive names another one"),
    (r"UNABLE_TO_INFER_SCHEMA", NotFound, "there is nothing to read there yet",
     "`chasqui pipeline archive` fills an archive"),
    (r"(?:Mkdirs failed to create|Permission denied:?|Parent path is not a directory:?) *(?:file:)?(\S*)", ConfigError,
     "cannot write there: {0}", "give a directory that is yours and has room"),
    (r"No space left on device", ConfigError, "the disk is full", "make room; what was written before is whole"),
    (r"reading file (\S+?)\.\s(?=.*(?:MALFORMED_CSV_RECORD|MALFORMED_RECORD_IN_PARSING|CSV header does not conform))",
     ArgumentError, "{0} is no CSV with as many fields in each row as in its header, or its columns are not the first file's",
     "nothing was written; mend the file"),
    (r"JAVA_GATEWAY_EXITED", ConfigError, "Java did not start", "`chasqui pipeline doctor` says what is missing"),
    (r"OutOfMemoryError", ConfigError, "Spark ran out of memory", "give it more with --heap, as in --heap 4g"),
    (r"Python worker failed to connect back", SparkBusy,
     "a Python worker did not start in time", "this machine is too busy; try again"),
    (r"Illegal size \d+ of collection, expected", ServerError,
     "two threads of Spark got into each other's way", "nothing is lost; start it again"),
    (r"(?:failed to connect to all addresses|Connection refused|StatusCode\.UNAVAILABLE)", ServerError,
     "no Spark answers there", "`chasqui pipeline up` starts one; or leave out --remote and --master"),
    (r"StatusCode\.UNAUTHENTICATED", ServerError,
     "that Spark does not let us in", "give its token: --remote 'sc://host:15002/;token=…'"),
    (r"All masters are unresponsive|Could not parse Master URL", ConfigError,
     "no Spark master answers there", "give --master as spark://host:7077 or local[2]"),
)  # fmt: skip


class PipelineError(ChasquiError):
    """Spark failed for a reason that is not ours."""


@contextmanager
def decoded_errors(log: str | None = None) -> Iterator[None]:
    """Let what Spark throws leave as an error of ours; `log`: where the whole story is."""
    try:
        yield
    except (ChasquiError, KeyboardInterrupt):
        raise
    except Exception as fault:
        if not _is_spark_error(fault):
            raise
        found: ChasquiError = decode_error(str(fault), log)
    else:
        return
    raise found


def decode_error(text: str, log: str | None = None) -> ChasquiError:
    """The error that a Java trace stands for."""
    from pyspark_chasqui.error_marks import MARKED  # the package imports pyspark

    marked = MARKED.search(text)
    if marked:
        kind, passing, message, hint = marked.groups()
        error = _error_class(kind)(message, hint=hint or None)
        if passing and isinstance(error, ServerError):
            error.transient = True
        return error
    for pattern, kind_, message, hint in _KNOWN_ERRORS:
        match = re.search(pattern, text, re.DOTALL)
        if match:
            return kind_(message.format(*match.groups()), hint=hint)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    pythons = [line for line in lines if _PYTHON_ERROR_LINE.match(line)]
    if "Traceback (most recent call last)" in text and pythons:
        lines = pythons[-1:]
    first = next((line for line in lines if not line.startswith(("at ", "JVM stacktrace", "Traceback"))), "no reason")
    where = f"the whole story is in {log}" if log else "`chasqui pipeline doctor` tries the parts one by one"
    return PipelineError(f"Spark failed: {first[:300]}", hint=where)


def _error_class(name: str) -> type[ChasquiError]:
    kind = getattr(errors, name, None)
    if (
        isinstance(kind, type)
        and issubclass(kind, ChasquiError)
        and name not in ("WireError", "QueueFull", "Unconfirmed")
    ):
        return kind
    return ServerError


def _is_spark_error(fault: BaseException) -> bool:
    home = type(fault).__module__.partition(".")[0]
    return home in ("py4j", "pyspark", "grpc") or "JAVA" in str(fault)
