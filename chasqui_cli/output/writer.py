"""One writer for every verb: seven formats, data on stdout.

A verb hands over records and their columns; this file decides how they look. Every text cell goes through
`safe()`; JSON never loses or shortens anything.
"""

from __future__ import annotations

import csv
import os
import sys
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from chasqui_cli.output.escape_text import safe
from chasqui_cli.output.tagged_json import json_text, tagged
from chasqui_cli.output.times import TimeStyle, format_duration, format_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from chasqui_cli.output.columns import Column, Record


class Format(StrEnum):
    """What `-o` takes."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    JSONL = "jsonl"
    YAML = "yaml"
    CSV = "csv"
    NAME = "name"


class Color(StrEnum):
    """What `--color` takes."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class OutputStyle:
    """How the data shall look. `time` and `now_ms` are for moments in tables: in which style, counted from when."""

    format: Format = Format.TABLE
    color: Color = Color.AUTO
    time: TimeStyle | None = None
    now_ms: int | None = None

    @property
    def effective_time_style(self) -> TimeStyle:
        """As asked for; otherwise ages for someone who watches, dates for a file."""
        return self.time or (TimeStyle.RELATIVE if sys.stdout.isatty() else TimeStyle.ISO)


def write_records(records: Iterable[Record], columns: Sequence[Column], look: OutputStyle) -> None:
    """Write records. `name` prints the first column only; `jsonl`, `csv` and `name` write each one as it comes."""
    how = look.format
    if how is Format.JSON:
        print_line(json_text(list(records), indent=2))
    elif how is Format.JSONL:
        for record in records:
            print_line(json_text(record))
    elif how is Format.YAML:
        _print_yaml(list(records))
    elif how is Format.CSV:
        _print_csv(records, columns)
    elif how is Format.NAME:
        for record in records:
            print_line(format_value(columns[0].value(record)))
    else:
        _print_table(list(records), [c for c in columns if how is Format.WIDE or not c.wide], look)


def write_record(record: Record, look: OutputStyle, columns: Sequence[Column] = ()) -> None:
    """Write one record: an object in JSON and YAML, one line per field in a table.

    columns: how people read its fields, where a plain cell will not do; a table shows these fields only.
    """
    if look.format is Format.JSON:
        print_line(json_text(record, indent=2))
    elif look.format is Format.YAML:
        _print_yaml(record)
    else:
        from chasqui_cli.output.columns import column

        known = columns or [column(name) for name in record]
        if look.format in (Format.JSONL, Format.CSV, Format.NAME):
            write_records([record], known, look)
        else:
            shown = [c for c in known if look.format is Format.WIDE or not c.wide]
            fields = [{"field": c.title, "value": cell_text(c, record, look)} for c in shown]
            write_records(fields, [column("field"), column("value")], look)


class RecordStreamWriter:
    """Records written one by one as they come, for as long as they come. A table grows wider where it must.

    JSON and YAML are whole or nothing: they are held until `end`, and `of` refuses them where there will be none.
    """

    def __init__(self, columns: Sequence[Column], look: OutputStyle) -> None:
        self._look = look
        self._columns = [c for c in columns if look.format in (Format.WIDE, Format.CSV) or not c.wide]
        self._widths = [len(c.title) for c in self._columns]
        self._begun = False
        self._held: list[Record] = []

    @classmethod
    def open(cls, columns: Sequence[Column], look: OutputStyle, *, ends: bool = False) -> RecordStreamWriter:
        """A writer, if the format allows for it."""
        from chasqui.errors import ArgumentError

        if look.format in (Format.JSON, Format.YAML) and not ends:
            raise ArgumentError(
                f"-o {look.format} needs an end, and this has none", hint="use -o jsonl: one object per line"
            )
        return cls(columns, look)

    @property
    def format(self) -> Format:
        """Which it is."""
        return self._look.format

    def write(self, record: Record, now_ms: int | None = None) -> None:
        """One more, at once. now_ms: the server's time by then, for ages."""
        look = replace(self._look, now_ms=now_ms or self._look.now_ms)
        if look.format in (Format.JSON, Format.YAML):
            self._held.append(record)
        elif look.format is Format.JSONL:
            print_line(json_text(record))
        elif look.format is Format.NAME:
            print_line(format_value(self._columns[0].value(record)))
        elif look.format is Format.CSV:
            _csv_rows([c.title for c in self._columns] if not self._begun else None, [record], self._columns)
        else:
            self._row(record, look)
        self._begun = True
        sys.stdout.flush()

    def close(self) -> None:
        """No more will come."""
        if self._look.format in (Format.JSON, Format.YAML):
            write_records(self._held, self._columns, self._look)

    def _row(self, record: Record, look: OutputStyle) -> None:
        texts = [cell_text(c, record, look) for c in self._columns]
        self._widths = [max(len(text), width) for text, width in zip(texts, self._widths, strict=True)]
        if not self._begun:
            self._print([c.title.upper() for c in self._columns])
        self._print(texts)

    def _print(self, texts: Sequence[str]) -> None:
        print_line(_aligned_line(texts, self._widths, self._columns))


def cell_text(column: Column, record: Record, look: OutputStyle) -> str:
    """What stands in a table under a column."""
    value = column.value(record)
    if not isinstance(value, int) or isinstance(value, bool) or column.kind == "plain":
        return format_value(value)
    if column.kind == "moment":
        return format_time(value, look.now_ms, look.effective_time_style)
    if column.kind == "attempt":
        return str(value + 1)
    if look.effective_time_style is TimeStyle.RAW:
        return str(value)
    return {"span": format_duration, "count": format_count, "bytes": format_bytes}[column.kind](value)


def format_value(value: Any) -> str:
    """A value as it stands in a table: a dash for nothing, compact JSON for structure, safe text for the rest."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return safe(value)
    if isinstance(value, dict | list | tuple | bytes):
        return safe(json_text(value))
    return str(value)


def format_count(number: int) -> str:
    return f"{number:,}"


def format_bytes(number: int) -> str:
    """In the largest unit that leaves at least one whole."""
    size = float(number)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(size) < 1024 or unit == "GiB":
            return f"{number} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    raise AssertionError


def print_line(text: str) -> None:
    """One line of data."""
    sys.stdout.write(text + "\n")


def should_color(color: Color, is_tty: bool) -> bool:
    """Whether to colour: the flag, then NO_COLOR, then FORCE_COLOR, then whether someone is watching."""
    if color is not Color.AUTO:
        return color is Color.ALWAYS
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or is_tty


def _print_yaml(value: Any) -> None:
    import yaml

    # Without allow_unicode everything beyond ASCII is escaped: PyYAML would let bidi overrides through.
    print_line(yaml.safe_dump(tagged(value), sort_keys=False, allow_unicode=False).rstrip("\n"))


def _print_csv(records: Iterable[Record], columns: Sequence[Column]) -> None:
    _csv_rows([c.title for c in columns], records, columns)


def _csv_rows(head: Sequence[str] | None, records: Iterable[Record], columns: Sequence[Column]) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    if head:
        writer.writerow(head)
    for record in records:
        writer.writerow([_csv_cell(c.value(record)) for c in columns])


_FORMULA_PREFIXES = tuple("=+-@\uff1d\uff0b\uff0d\uff20")


def _csv_cell(value: Any) -> str:
    """A spreadsheet runs what starts like a formula, so such text gets a quote in front; numbers do not.

    Some take the wide forms of East Asian keyboards for the same signs, and look past blanks.
    """
    if value is None:
        return ""
    text = format_value(value)
    return "'" + text if isinstance(value, str) and text.lstrip()[:1] in _FORMULA_PREFIXES else text


def _print_table(records: Sequence[Record], columns: Sequence[Column], look: OutputStyle) -> None:
    rows = [[cell_text(c, record, look) for c in columns] for record in records]
    is_tty = sys.stdout.isatty()
    colored = should_color(look.color, is_tty)
    if not is_tty:
        return _print_plain(rows, columns, colored)
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for c in columns:
        table.add_column(c.title.upper(), justify=c.align)
    for row in rows:
        table.add_row(*map(Text, row))
    Console(color_system="auto" if colored else None, no_color=not colored, highlight=False).print(table)
    return None


def _print_plain(rows: Sequence[Sequence[str]], columns: Sequence[Column], colored: bool) -> None:
    """Columns padded with blanks: for pipes and files, nothing cut and nothing drawn."""
    titles = [c.title.upper() for c in columns]
    widths = [max(map(len, [title, *texts])) for title, *texts in zip(titles, *rows, strict=True)]
    for number, row in enumerate([titles, *rows]):
        line = _aligned_line(row, widths, columns)
        print_line(f"\x1b[1m{line}\x1b[0m" if colored and number == 0 else line)


def _aligned_line(texts: Sequence[str], widths: Sequence[int], columns: Sequence[Column]) -> str:
    placed = zip(texts, widths, columns, strict=True)
    return "  ".join(t.rjust(w) if c.align == "right" else t.ljust(w) for t, w, c in placed).rstrip()
