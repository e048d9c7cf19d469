from __future__ import annotations

import csv
import io
import json

import pytest
import yaml

from chasqui_cli.output.columns import column
from chasqui_cli.output.writer import (
    Color,
    Format,
    OutputStyle,
    format_value,
    should_color,
    write_record,
    write_records,
)

RECORDS = [
    {"queue": "emails", "waiting": 7, "lock": {"holder": "c-1"}, "note": None},
    {"queue": "=cmd|' /C calc'!A0", "waiting": -1, "lock": None, "note": "[red]x[/red]"},
]
COLUMNS = [
    column("queue"),
    column("waiting", align="right"),
    column("holder", "lock", "holder"),
    column("note", wide=True),
]


def written(how: Format, capsys: pytest.CaptureFixture[str]) -> str:
    write_records(RECORDS, COLUMNS, OutputStyle(how))
    return capsys.readouterr().out


def test_a_table_on_a_pipe_is_plain_and_whole(capsys: pytest.CaptureFixture[str]) -> None:
    assert written(Format.TABLE, capsys) == (
        "QUEUE               WAITING  HOLDER\nemails                    7  c-1\n=cmd|' /C calc'!A0       -1  –\n"
    )


def test_wide_shows_the_wide_columns_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert "[red]x[/red]" in written(Format.WIDE, capsys)


def test_a_coloured_table_shows_markup_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    write_records(RECORDS, COLUMNS, OutputStyle(Format.WIDE, Color.ALWAYS))
    assert "[red]x[/red]" in capsys.readouterr().out


def test_colour_on_a_pipe_is_in_the_heading_only_and_nothing_is_cut(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    long = [{"queue": "q" * 300, "waiting": 1, "lock": None, "note": None}]
    write_records(long, COLUMNS, OutputStyle(Format.TABLE, Color.ALWAYS))
    by_flag = capsys.readouterr().out
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("FORCE_COLOR", "1")
    write_records(long, COLUMNS, OutputStyle(Format.TABLE))
    assert capsys.readouterr().out == by_flag
    head, row = by_flag.splitlines()
    assert (head[:9], head[-10:]) == ("\x1b[1mQUEUE", "HOLDER\x1b[0m")
    assert row.split() == ["q" * 300, "1", "–"]


def test_json_is_one_array_of_whole_records(capsys: pytest.CaptureFixture[str]) -> None:
    assert json.loads(written(Format.JSON, capsys)) == RECORDS


def test_jsonl_is_a_record_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert [json.loads(line) for line in written(Format.JSONL, capsys).splitlines()] == RECORDS


def test_yaml_holds_the_same_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert yaml.safe_load(written(Format.YAML, capsys)) == RECORDS


def test_csv_disarms_formulas_and_leaves_numbers_alone(capsys: pytest.CaptureFixture[str]) -> None:
    rows = list(csv.reader(io.StringIO(written(Format.CSV, capsys))))
    assert rows == [
        ["queue", "waiting", "holder", "note"],
        ["emails", "7", "c-1", ""],
        ["'=cmd|' /C calc'!A0", "-1", "", "[red]x[/red]"],
    ]


def test_name_is_the_first_column_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert written(Format.NAME, capsys) == "emails\n=cmd|' /C calc'!A0\n"


def test_no_records_are_an_empty_array_and_a_lone_header(capsys: pytest.CaptureFixture[str]) -> None:
    write_records([], COLUMNS, OutputStyle(Format.JSON))
    write_records([], COLUMNS, OutputStyle(Format.TABLE))
    assert capsys.readouterr().out == "[]\nQUEUE  WAITING  HOLDER\n"


def test_one_record_is_an_object_or_a_line_per_field(capsys: pytest.CaptureFixture[str]) -> None:
    write_record({"a": 1, "b": True}, OutputStyle(Format.JSON))
    assert json.loads(capsys.readouterr().out) == {"a": 1, "b": True}
    write_record({"a": 1, "b": True}, OutputStyle(Format.TABLE))
    assert capsys.readouterr().out == "FIELD  VALUE\na      1\nb      yes\n"


def test_cells_never_hold_a_raw_control() -> None:
    assert format_value({"x": "\x1b[2J"}) == r'{"x": "\u001b[2J"}'
    assert format_value("\x1b[2J") == r"\x1b[2J"


@pytest.mark.parametrize(
    ("color", "variables", "tty", "expected"),
    [
        (Color.AUTO, {}, True, True),
        (Color.AUTO, {}, False, False),
        (Color.AUTO, {"NO_COLOR": "1"}, True, False),
        (Color.AUTO, {"FORCE_COLOR": "1"}, False, True),
        (Color.ALWAYS, {"NO_COLOR": "1"}, False, True),
        (Color.NEVER, {"FORCE_COLOR": "1"}, True, False),
    ],
)
def test_colour_follows_flag_then_environment_then_terminal(
    monkeypatch: pytest.MonkeyPatch, color: Color, variables: dict[str, str], tty: bool, expected: bool
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert should_color(color, tty) is expected
