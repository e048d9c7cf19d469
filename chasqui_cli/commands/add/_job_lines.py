"""Jobs as they are described: on the command line, or one per line of a file. Reading them writes nothing anywhere."""

from __future__ import annotations

import shutil
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from chasqui_cli.input.values import parse_backoff, parse_json
from chasqui_cli.output.tagged_json import untagged
from chasqui_cli.output.times import parse_duration_ms, parse_time_ms

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from chasqui import ProducerOptions
    from chasqui.produce.prepared_batch import JobRequest

CHECK_BATCH = 1000
KNOWN_FIELDS = ("name", "data", "id", "delay_ms", "at", "attempts", "backoff")


@dataclass(frozen=True, slots=True)
class JobDefaults:
    """The command line's options for every job; a line may override them."""

    name: str = ""
    job_id: str | None = None
    unique: bool = False
    delay: str | None = None
    at: str | None = None
    attempts: int | None = None
    backoff: str | None = None

    def build_job(self, described: dict[str, Any], now_ms: int) -> JobRequest:
        """The job; raises `ArgumentError` if it is invalid."""
        from chasqui.errors import ArgumentError
        from chasqui.produce.prepared_batch import tool_job_request

        for key in described:
            if key not in KNOWN_FIELDS:
                raise ArgumentError(f"there is no {key!r} in a job", hint=f"known: {', '.join(KNOWN_FIELDS)}")
        name, job_id = described.get("name", self.name), described.get("id", self.job_id)
        if not isinstance(name, str):
            raise ArgumentError("name is no text")
        if job_id is not None and not isinstance(job_id, str):
            raise ArgumentError("id is no text")
        delay_ms, at_ms = self._due_time(described, now_ms)
        data, attempts = untagged(described.get("data")), described.get("attempts", self.attempts)
        backoff = parse_backoff(described.get("backoff", self.backoff))
        if self.unique and job_id is None:
            raise ArgumentError("a unique job needs an id", hint="give it one: --id, or `id` in its line")
        return tool_job_request(
            name,
            data,
            job_id=job_id,
            unique=self.unique,
            delay_ms=delay_ms,
            at_ms=at_ms,
            attempts=attempts,
            backoff=backoff,
        )

    def _due_time(self, described: dict[str, Any], now_ms: int) -> tuple[int | None, int | None]:
        """A delay for the server to count, or a moment; those of a line replace both defaults."""
        from chasqui.errors import ArgumentError

        delay_ms, at = described.get("delay_ms"), described.get("at")
        if delay_ms is not None and (not isinstance(delay_ms, int) or isinstance(delay_ms, bool) or delay_ms < 0):
            raise ArgumentError("delay_ms is no number of milliseconds")
        if delay_ms is None and at is None:
            delay_ms, at = parse_duration_ms(self.delay) if self.delay else None, self.at
        if at is None or (isinstance(at, int) and not isinstance(at, bool)):
            return delay_ms, at
        if not isinstance(at, str):
            raise ArgumentError("at is neither a time nor milliseconds since 1970")
        return delay_ms, parse_time_ms(at, now_ms, "future")


class BadLine(NamedTuple):
    """A line that is not a job, and why."""

    line: int
    why: str


class JobLine(NamedTuple):
    """A job, and the line it stood in."""

    number: int
    job: JobRequest


@contextmanager
def open_rereadable(path: str) -> Iterator[IO[bytes]]:
    """The file, to be read twice; what cannot be, such as stdin, is laid aside on disk first."""
    if path != "-":
        with Path(path).open("rb") as file:
            if file.seekable():
                yield file
                return
            with _spooled_copy(file) as copy:
                yield copy
    else:
        with _spooled_copy(sys.stdin.buffer) as copy:
            yield copy


@contextmanager
def _spooled_copy(file: IO[bytes]) -> Iterator[IO[bytes]]:
    with tempfile.SpooledTemporaryFile(max_size=32 << 20, prefix="chasqui-add-") as copy:
        shutil.copyfileobj(file, copy)
        copy.seek(0)
        yield copy


def read_lines(file: IO[bytes], usual: JobDefaults, now_ms: int, *, first: int = 1) -> Iterator[JobLine | BadLine]:
    """Every job of a file from a line on, and every line that is none."""
    file.seek(0)
    for number, raw in enumerate(file, 1):
        if number >= first and raw.strip():
            yield _parse_line(number, raw, usual, now_ms)


def _parse_line(number: int, raw: bytes, usual: JobDefaults, now_ms: int) -> JobLine | BadLine:
    try:
        described = parse_json(raw.decode())
        if not isinstance(described, dict):
            return BadLine(number, 'no object: write {"name": …, "data": …}')
        return JobLine(number, usual.build_job(described, now_ms))
    except (ValueError, TypeError, RecursionError) as error:
        return BadLine(number, str(error) or type(error).__name__)


def good_lines(
    file: IO[bytes], usual: JobDefaults, now_ms: int, *, first: int, bad: Collection[int]
) -> Iterator[JobLine]:
    """The jobs of a file that was looked through, and in which these lines are bad."""
    for one in read_lines(file, usual, now_ms, first=first):
        if isinstance(one, JobLine) and one.number not in bad:
            yield one


def check_lines(
    lines: Iterator[JobLine | BadLine], options: ProducerOptions, now_ms: int
) -> Iterator[JobLine | BadLine]:
    """The same, and what could not be packed is bad too. Many are looked at together: hardly any is bad."""
    held: list[JobLine | BadLine] = []
    for one in lines:
        held.append(one)
        if len(held) == CHECK_BATCH:
            yield from _check_batch(held, options, now_ms)
            held = []
    yield from _check_batch(held, options, now_ms)


def _check_batch(lines: list[JobLine | BadLine], options: ProducerOptions, now_ms: int) -> Iterator[JobLine | BadLine]:
    looked_at = iter(_check_packable([one for one in lines if isinstance(one, JobLine)], options, now_ms))
    for one in lines:
        yield next(looked_at) if isinstance(one, JobLine) else one


def _check_packable(lines: list[JobLine], options: ProducerOptions, now_ms: int) -> list[JobLine | BadLine]:
    from chasqui.produce import prepared_batch

    try:
        prepared_batch.prepare_batch([one.job for one in lines], now_ms, options)
    except (ValueError, TypeError, RecursionError, OverflowError) as error:
        if len(lines) == 1:
            return [BadLine(lines[0].number, str(error) or type(error).__name__)]
        middle = len(lines) // 2
        return [*_check_packable(lines[:middle], options, now_ms), *_check_packable(lines[middle:], options, now_ms)]
    return list(lines)
