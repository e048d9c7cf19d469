"""No file uses the words that `tests/support/words.py` replaces."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.words import find_words

ROOT = Path(__file__).parents[2]
# Files and folders that still use some of them.
OPEN = ("engine/chasqui/server/lua/replay_dead.lua",)


@pytest.mark.parametrize("root", ["benchmarks", "chasqui_cli", "engine", "tests"])
def test_plain_words_are_used(root: str) -> None:
    still = [ROOT / path for path in OPEN]
    hits = [hit for hit in find_words(ROOT / root) if not any(hit.path.is_relative_to(path) for path in still)]
    assert not hits, f"{len(hits)} words to replace:\n" + "\n".join(map(str, hits[:50]))


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
