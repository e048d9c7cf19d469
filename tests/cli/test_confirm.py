"""A change asks for confirmation on a real terminal; without a terminal, nothing happens without a flag."""

from __future__ import annotations

import io
import os
import pty
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from chasqui.errors import ChangeRefused
from chasqui_cli.changes.confirm import ChangeOptions, ChangePlan, require_confirmation
from chasqui_cli.output.columns import column

FEW = ChangePlan("purge", "emails", "dead letters", [{"id": "a\x1b[2J"}], [column("id")], "--name x", ["gone for good"])
MANY = ChangePlan("purge", "emails", "dead letters", [{"id": str(n)} for n in range(101)], [column("id")])

Typed = Callable[[str], None]


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Typed]:
    """Give the process a terminal and type on it. Opened for each test: pytest restores the streams between phases."""
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "r+b", buffering=0) as raw, io.TextIOWrapper(raw, write_through=True) as both:

        def typed(text: str) -> None:
            monkeypatch.setattr(sys, "stdin", both)
            monkeypatch.setattr(sys, "stderr", both)
            os.write(ours, text.encode())

        yield typed
    os.close(ours)


def test_without_a_terminal_nothing_is_done_without_yes() -> None:
    with pytest.raises(ChangeRefused) as refused:
        require_confirmation(FEW, ChangeOptions(), protected=False)
    assert "--yes" in (refused.value.hint or "")
    require_confirmation(FEW, ChangeOptions(yes=True), protected=False)
    require_confirmation(MANY, ChangeOptions(yes=True), protected=False)


def test_few_want_a_yes_and_many_the_queues_name(terminal: Typed) -> None:
    terminal("y\n")
    require_confirmation(FEW, ChangeOptions(), protected=False)
    terminal("\n")
    with pytest.raises(ChangeRefused, match="declined"):
        require_confirmation(FEW, ChangeOptions(), protected=False)
    terminal("y\n")
    with pytest.raises(ChangeRefused, match="not the queue's name"):
        require_confirmation(MANY, ChangeOptions(), protected=False)
    terminal("emails\n")
    require_confirmation(MANY, ChangeOptions(), protected=False)


def test_a_protected_context_requires_the_name_whatever_else_is_given(terminal: Typed) -> None:
    with pytest.raises(ChangeRefused) as refused:
        require_confirmation(FEW, ChangeOptions(yes=True), protected=True)
    assert "--confirm emails" in (refused.value.hint or "")
    require_confirmation(FEW, ChangeOptions(confirm="emails"), protected=True)
    terminal("emails\n")
    require_confirmation(FEW, ChangeOptions(), protected=True)


def test_the_preview_prints_how_many_why_and_what_follows(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    from chasqui_cli.output.writer import OutputStyle

    FEW.print_preview(OutputStyle())
    preview = capsys.readouterr().err
    assert preview.splitlines() == [
        "purge 1 dead letter of emails",
        "  chosen by: --name x",
        "  · a\\x1b[2J",
        "  gone for good",
    ]
    MANY.print_preview(OutputStyle())
    assert "… and 96 more" in capsys.readouterr().err
