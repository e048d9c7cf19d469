"""Files on their way into Spark: every one of them, and what is in them as it is written.

Spark passes over some files without a word, takes names for patterns, and reads CSV in its own way. So what is on this
machine is looked at before Spark is started, and its CSV is read by Python; what a URL names only Spark can see.
"""

from __future__ import annotations

import csv
import json
import os
import re
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NoReturn

from chasqui.errors import ArgumentError, ConfigError, NotFound
from chasqui.spark.layout import escape_glob

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

FIX_FILE_HINT = "nothing was written; mend the file"
RENAME_HINT = "rename it, or give it through a link of another name"
MAX_FIELD_CHARS = 1 << 26
"""Characters: a quote that is never closed must end in an error before it ends in all of the memory."""
BATCH_ROWS, BATCH_BYTES = 4096, 8 << 20
MAX_TASKS = 1000
_MARKER_FILE = re.compile(r"_SUCCESS|_committed.*|_started.*|_(common_)?metadata|\..*\.crc")
_NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file, and what the folders between it and the directory that was given say: `dt=2026-11-18`."""

    path: Path
    folders: tuple[tuple[str, str], ...] = ()


def is_local_path(path: str) -> bool:
    """Whether a path is one of this machine, and no URL."""
    return "://" not in path


def spark_path(path: str) -> str:
    """A path as Spark expects it: one of this machine is taken literally, while a URL may be a pattern."""
    return escape_glob(path) if is_local_path(path) else path


def local_files(paths: Iterable[str]) -> list[InputFile]:
    """The files of this machine that are meant, those in directories too."""
    found: list[InputFile] = []
    for path in map(Path, filter(is_local_path, paths)):
        found += _files_in_folder(path) if path.is_dir() else [InputFile(path)]
    return found


def check_files(paths: Sequence[str], kind: str) -> None:
    """Refuse what Spark would leave out, what it would load otherwise than it is written, and what it cannot open."""
    given = [Path(path) for path in paths if is_local_path(path)]
    folders = set(given)
    for path in given:
        if not path.is_dir() and _is_ignored_by_spark(path.name):
            raise ArgumentError(f"Spark passes over files with such a name: {path}", hint=RENAME_HINT)
        if outer := folders.intersection(path.parents):
            raise ArgumentError(f"{path} lies in {outer.pop()}, which is given too", hint="give one of them")
    found = local_files(paths)
    for file in found:
        _check_readable(file.path, kind)
    if kind == "parquet":
        _check_same_columns([file.path for file in found])


def csv_lines(spark: Any, paths: Sequence[str]) -> Any:
    """Every row as a JSON line of texts. A file is read in one piece, for a quoted field may hold the end of a line;
    what is made of its rows is shared out again.
    """
    found = local_files(paths)
    if not found:
        raise NotFound("there is nothing to read there yet", hint="give JSON lines, CSV or Parquet files")
    first = next((one for one in found if _csv_columns(one)), found[0])
    pieces = int(spark.conf.get("spark.sql.shuffle.partitions"))
    numbers = spark.range(0, len(found), 1, min(len(found), MAX_TASKS))
    read = partial(_read_csv_files, found, first.path, _csv_columns(first))
    return numbers.mapInArrow(read, "line STRING").repartition(pieces)


def _files_in_folder(folder: Path) -> list[InputFile]:
    found: list[InputFile] = []
    left_out: list[Path] = []
    for path in _walk(folder):
        *folders, name = path.relative_to(folder).parts
        if any("=" not in one or _is_ignored_by_spark(one) for one in folders) or _is_ignored_by_spark(name):
            left_out += [] if _MARKER_FILE.fullmatch(name) else [path]
        else:
            found.append(InputFile(path, tuple(_parse_partition(one) for one in folders)))
    if any(one.folders for one in found):
        left_out += [one.path for one in found if not one.folders]
    if left_out:
        more = f" and {len(left_out) - 1:,} more" if len(left_out) > 1 else ""
        raise ArgumentError(
            f"Spark would leave out {left_out[0]}{more}",
            hint="it passes over names that begin with _ or ., and over folders whose names are not like column=value; "
            "move them, or give the files by name",
        )
    return found


def _walk(folder: Path) -> Iterator[Path]:
    for place, folders, names in os.walk(folder, onerror=_raise_unreadable, followlinks=True):
        real = Path(place).resolve()
        folders[:] = sorted(one for one in folders if not real.is_relative_to(Path(place, one).resolve()))
        yield from (Path(place, name) for name in sorted(names))


def _raise_unreadable(fault: OSError) -> NoReturn:
    raise ConfigError(f"may not read {fault.filename}", hint="give files that you may read")


def _parse_partition(folder: str) -> tuple[str, str]:
    from urllib.parse import unquote  # Spark escapes as URLs do

    column, _, value = folder.partition("=")
    return unquote(column), "" if value == _NULL_PARTITION else unquote(value)


def _is_ignored_by_spark(name: str) -> bool:
    """As Spark's own `HadoopFSUtils.shouldFilterOutPathName` and `PartitioningAwareFileIndex.isDataPath` have it."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name) or name.endswith("._COPYING_")


def _check_readable(path: Path, kind: str) -> None:
    if not os.access(path, os.R_OK):
        raise ConfigError(f"may not read {path}", hint="give files that you may read")
    if not path.is_file():
        raise ArgumentError(f"{path} is no file", hint="write what comes from there to a file, and give that")
    if ":" in path.name and kind != "csv":
        raise ArgumentError(f"Spark cannot open a file with a colon in its name: {path}", hint=RENAME_HINT)


def _check_same_columns(paths: Sequence[Path]) -> None:
    """Spark reads all files with the columns of one, and drops the other columns of the rest."""
    found = [_parquet_columns(path) for path in paths]
    for path, columns in zip(paths, found, strict=True):
        if columns != found[0]:
            name = min(name for name, _ in columns.items() ^ found[0].items())
            raise ArgumentError(
                f"{path} has other columns than {paths[0]}: {name} differs",
                hint="nothing was written; load files of different columns one after the other",
            )


def _parquet_columns(path: Path) -> dict[str, tuple[str, str, int, int]]:
    """What is in a Parquet file: names and types, whether or not a value may be missing."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        schema = pq.read_metadata(path).schema
    except (pa.ArrowException, OSError):
        raise ArgumentError(f"{path} is no Parquet file", hint=FIX_FILE_HINT) from None
    leaves = (schema.column(number) for number in range(len(schema)))
    return {
        one.path: (
            one.physical_type,
            str(one.logical_type).partition(", is_from_converted_type")[0],
            one.length,
            one.max_repetition_level,
        )
        for one in leaves
    }


def _read_csv_files(
    files: Sequence[InputFile], first: Path, columns: list[str], batches: Iterator[Any]
) -> Iterator[Any]:
    import pyarrow as pa

    from pyspark_chasqui.error_marks import marked_errors

    with marked_errors():
        for number in (number for batch in batches for number in batch.column(0).to_pylist()):
            for lines in _batched(_csv_to_json_lines(files[number], first, columns)):
                yield pa.RecordBatch.from_arrays([pa.array(lines, pa.string())], names=["line"])


def _batched(lines: Iterator[bytes]) -> Iterator[list[bytes]]:
    held: list[bytes] = []
    size = 0
    for line in lines:
        held.append(line)
        size += len(line)
        if len(held) == BATCH_ROWS or size >= BATCH_BYTES:
            yield held
            held, size = [], 0
    if held:
        yield held


def _csv_to_json_lines(file: InputFile, first: Path, columns: list[str]) -> Iterator[bytes]:
    found = _csv_columns(file)
    if not found:
        return
    if found != columns:
        raise ArgumentError(
            f"{file.path} is no CSV with the columns of {first}: {', '.join(found)} instead of {', '.join(columns)}",
            hint=FIX_FILE_HINT,
        )
    rows = _csv_rows(file.path)
    next(rows)
    fields = len(columns) - len(file.folders)
    folder_values = [value for _, value in file.folders]
    for number, row in rows:
        if len(row) != fields:
            raise _invalid_csv(file.path, number, f"fields: {len(row)} instead of {fields}")
        record = dict(zip(columns, row + folder_values, strict=True))
        text = json.dumps(record, ensure_ascii=False, separators=(",", ":"))
        yield _encode_line(file.path, number, text)


def _csv_columns(file: InputFile) -> list[str]:
    """The names in a CSV file's first row, and of its folders; none, if nothing is in it."""
    number, row = next(_csv_rows(file.path), (0, []))
    if not row:
        return []
    _encode_line(file.path, number, "".join(row))
    names = [*row, *(name for name, _ in file.folders)]
    for place, name in enumerate(names):
        if not name:
            raise _invalid_csv(file.path, number, f"no name for column {place + 1}")
        if name in names[:place]:
            raise _invalid_csv(file.path, number, f"more than one column {name}")
    return names


def _csv_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """The rows that are not blank, each with its number."""
    from zlib import error as Damaged  # noqa: N812 - an exception, though it is not written like one

    csv.field_size_limit(MAX_FIELD_CHARS)
    number = 0
    try:
        with _open_text(path) as file:
            for number, row in enumerate(csv.reader(file, strict=True), 1):
                if row:
                    yield number, row
    except csv.Error as fault:
        why = str(fault).replace("unexpected end of data", "a quote that is never closed")
        raise _invalid_csv(path, number + 1, why) from None
    except (EOFError, Damaged, OSError) as fault:
        raise ConfigError(
            f"cannot read {path} after row {number:,}: {getattr(fault, 'strerror', None) or fault}",
            hint="it must be whole, and under this path on every machine that Spark runs on",
        ) from None


def _open_text(path: Path) -> IO[str]:
    """The text of a file; invalid bytes are let through, so that they can be reported with their row."""
    import bz2
    import gzip

    how: Any = {".gz": gzip.open, ".bz2": bz2.open}.get(path.suffix, open)
    file: IO[str] = how(path, "rt", encoding="utf-8-sig", errors="surrogateescape", newline="")
    return file


def _encode_line(path: Path, number: int, text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as fault:
        byte = ord(text[fault.start]) & 0xFF
        raise _invalid_csv(path, number, f"the byte 0x{byte:02x}, which is no UTF-8") from None


def _invalid_csv(path: Path, number: int, why: str) -> ArgumentError:
    return ArgumentError(f"{path} is no CSV, in row {number:,}: {why}", hint=FIX_FILE_HINT)
