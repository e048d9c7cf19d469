from __future__ import annotations

import json
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from chasqui.errors import NotFound
from chasqui_cli.changes.journal import Journal, JournalWriter


def begin(journal: Journal, queue: str = "q", note: str | None = None) -> AbstractContextManager[JournalWriter]:
    return journal.begin(
        at_ms=1_794_962_085_399, verb="dlq purge", queue=queue, url="redis://h", context=None, note=note, command="chasqui …"
    )  # fmt: skip


def test_what_was_recorded_is_on_disk_before_the_change_and_only_its_owner_reads_it(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal")
    with begin(journal) as pen:
        pen.write_items([{"kind": "dead", "d": "00"}])
        [found] = journal.entries()
        assert (found.items, found.result) == (1, None)
        assert found.path.stat().st_mode & 0o777 == 0o600
        assert found.path.parent.stat().st_mode & 0o777 == 0o700
        pen.set_result(purged=1)
    [found] = journal.entries()
    assert found.result == {"purged": 1, "ended": "done"}
    assert list(journal.items(found)) == [{"kind": "dead", "d": "00"}]


def test_an_operation_that_fails_is_recorded_as_failed(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    with pytest.raises(ValueError), begin(journal):
        raise ValueError("the server went away")
    [found] = journal.entries()
    assert found.result == {"ended": "failed", "error": "ValueError('the server went away')"}


def test_operations_are_found_by_the_beginning_of_their_id(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    with begin(journal) as one, begin(journal) as two:
        pass
    op = one.operation.op
    assert op.startswith("20261118-003445-")
    assert journal.entry(op).operation == one.operation
    assert one.operation.op != two.operation.op
    with pytest.raises(NotFound, match="several"):
        journal.entry("20261118")
    with pytest.raises(NotFound, match="no operation"):
        journal.entry("1999")
    with pytest.raises(NotFound):
        journal.entry("")


def test_a_line_cut_off_by_a_power_failure_spoils_nothing(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    with begin(journal, note="because\x1b[2J") as pen:
        pen.write_items([{"kind": "dead"}])
    [found] = journal.entries()
    whole = found.path.read_text()
    assert "\x1b" not in whole
    found.path.write_text(whole + '{"item": {"ki')
    (tmp_path / "other.jsonl").write_text("not json\n")
    [again] = journal.entries()
    assert (again.items, again.operation.note) == (1, "because\x1b[2J")


def test_a_queue_whose_name_is_no_text_is_found_again_under_it(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    with begin(journal, queue="q\udcff", note="\udcff") as pen:
        pen.write_items([{"kind": "added", "id": "\udcfe"}])
    [entry] = journal.entries()
    assert (entry.operation.queue, entry.operation.note) == ("q\udcff", "\udcff")
    assert list(journal.items(entry)) == [{"kind": "added", "id": "\udcfe"}]


def test_what_was_undone_is_marked(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    with begin(journal):
        pass
    [entry] = journal.entries()
    assert not entry.undone
    journal.mark_undone(entry, "20261119-000000-aaaa")
    [entry] = journal.entries()
    assert entry.undone
    assert json.loads(entry.path.read_text().splitlines()[-1]) == {"undone": "20261119-000000-aaaa"}
