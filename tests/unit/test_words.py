"""No file uses the words that `tests/support/words.py` replaces."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.words import find_words

ROOT = Path(__file__).parents[2]
PARENTS = ("engine/chasqui", "engine", "chasqui_cli", "tests", ".")
# Rooms that still have some.
OPEN = {
    "benchmarks", "chasqui_cli/app.py", "chasqui_cli/changes", "chasqui_cli/commands", "chasqui_cli/context",
    "chasqui_cli/input", "chasqui_cli/output", "chasqui_cli/queues", "chasqui_cli/tui", "engine/chasqui/clock.py",
    "engine/chasqui/consume", "engine/chasqui/cron", "engine/chasqui/defaults.py", "engine/chasqui/errors.py",
    "engine/chasqui/foreign", "engine/chasqui/health", "engine/chasqui/inspect", "engine/chasqui/models.py",
    "engine/chasqui/operate", "engine/chasqui/produce", "engine/chasqui/queue.py", "engine/chasqui/queue_events.py",
    "engine/chasqui/schedule", "engine/chasqui/server", "engine/chasqui/spark", "engine/chasqui/supervision",
    "engine/chasqui/sync_queue.py", "engine/chasqui/undo", "engine/chasqui/wire", "engine/chasqui/worker.py",
    "engine/chasqui/worker_fleet.py", "engine/pyspark_chasqui", "tests/cli", "tests/conftest.py", "tests/faults",
    "tests/flows", "tests/foreign", "tests/golden", "tests/interop", "tests/live", "tests/scale", "tests/spark",
    "tests/support", "tests/tui", "tests/unit", "tests/wire",
}  # fmt: skip


def rooms() -> list[str]:
    found = {
        path.relative_to(ROOT).as_posix()
        for parent in PARENTS
        for path in (ROOT / parent).iterdir()
        if path.suffix == ".py" or any(path.glob("[!.]*.py"))
    }
    return sorted(found - set(PARENTS) - OPEN)


@pytest.mark.parametrize("room", rooms())
def test_a_room_is_written_in_plain_words(room: str) -> None:
    hits = find_words(ROOT / room)
    assert not hits, f"{len(hits)} words to replace:\n" + "\n".join(map(str, hits[:50]))


def test_rooms_with_such_words_exist() -> None:
    gone = sorted(room for room in OPEN if not (ROOT / room).exists())
    assert not gone, f"remove from OPEN of this file: {gone}"


def test_words_are_found_in_docstrings_comments_and_names(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(
        'def bury(x):\n    """Nobody is\n    told anew."""\n    kept_jobs = 1  # as it was\n    return "somebody"\n'
    )
    (tmp_path / "b.lua").write_text("local told = 1 -- tells ARGV\nreturn 1 -- a dead letter\n")
    assert [(hit.path.name, hit.line, hit.word) for hit in find_words(tmp_path)] == [
        ("a.py", 1, "bury"),
        ("a.py", 2, "Nobody"),
        ("a.py", 3, "anew"),
        ("a.py", 3, "told"),
        ("a.py", 4, "as it was"),
        ("a.py", 4, "kept"),
        ("b.lua", 1, "tells"),
    ]
