"""Every tab looks like its stored picture, in both sizes and themes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.tui.screenshots import SAVED, SHOWN, SIZES, THEMES, digest, render_tabs

RENEW = "look at the picture; if it is right: make screenshots"


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
async def test_every_tab_looks_as_before(size: tuple[int, int], theme: str, tmp_path: Path) -> None:
    digests = json.loads((SAVED / "digests.json").read_text())
    for tab, (text, svg) in (await render_tabs(size, theme)).items():
        name = f"{tab}-{size[0]}x{size[1]}"
        found = tmp_path / f"{name}-{theme}.svg"
        found.write_text(svg)
        assert text == (SAVED / f"{name}.txt").read_text(), f"{name} says something else ({found}); {RENEW}"
        assert digest(svg) == digests[f"{name}-{theme}"], f"{name} has other colours ({found}); {RENEW}"
        assert (SHOWN / f"{name}-{theme}.png").exists(), RENEW
