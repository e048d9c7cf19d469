"""Pictures of every tab, made from the app itself on fixed data: `python -m tests.tui.screenshots` renews them.

Their text is stored next to the tests, where a difference can be read, with a digest of each picture for what
text does not show; the pictures themselves are in docs/top/, for people.
"""

from __future__ import annotations

import asyncio
import hashlib
import html
import json
import re
import sys
from itertools import accumulate
from pathlib import Path

from rich.cells import cell_len

from chasqui_cli.tui.widgets.styled_text import DARK, LIGHT
from tests.support.tui.driver import DashboardDriver, wait_until_drawn
from tests.support.tui.fixed_views import VIEWS, fixed_dashboard

CELL = 12.2
"""The width of a character in Rich's pictures."""
ROOT = Path(__file__).parents[2]
SAVED = Path(__file__).with_name("pictures")
SHOWN = ROOT / "docs" / "top"
SIZES = ((120, 40), (80, 24))
THEMES = {"dark": DARK, "light": LIGHT}


async def render_tabs(size: tuple[int, int], theme: str) -> dict[str, tuple[str, str]]:
    """Every tab in this size and theme: its text, and its picture as SVG."""
    app, made = fixed_dashboard(THEMES[theme]), {}
    async with app.run_test(size=size) as pilot:
        person = DashboardDriver(app, pilot)
        for number, tab in enumerate(VIEWS, 1):
            await person.press(str(number))
            await wait_until_drawn(app)
            made[tab] = f"{person.screen()}\n", app.export_screenshot(simplify=True)
    return made


def digest(svg: str) -> str:
    """Of what is drawn: names that Rich makes up for each picture left aside."""
    return hashlib.sha256(re.sub(r"terminal-\d+", "terminal", svg).encode()).hexdigest()[:16]


def _letter_by_letter(text: re.Match[str]) -> str:
    """A text with a place for each character: a font whose characters are not as wide as the cells bends columns."""
    letters = html.unescape(text[4])
    columns = accumulate((cell_len(letter) for letter in letters[:-1]), initial=0)
    places = " ".join(f"{float(text[1]) + column * CELL:g}" for column in columns)
    return f'x="{places}" {text[2]} {text[3]}>{text[4]}<'


def png(svg: str, width: int) -> bytes:
    """As people see it. The font is one that every Debian has, with all our glyphs."""
    from io import BytesIO

    import cairosvg
    from PIL import Image

    local = re.sub(r"@font-face \{.*?\}", "", svg, flags=re.DOTALL).replace("Fira Code", "DejaVu Sans Mono")
    local = re.sub(r'x="([\d.]+)" (y="[\d.]+") textLength="[\d.]+" ([^>]*)>([^<]*)<', _letter_by_letter, local)
    whole = cairosvg.svg2png(bytestring=local.encode(), output_width=width)
    small = BytesIO()
    Image.open(BytesIO(whole)).convert("RGB").quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(
        small, "PNG", optimize=True
    )
    return small.getvalue()


async def update_all() -> None:
    """Renew all of them."""
    SAVED.mkdir(exist_ok=True)
    SHOWN.mkdir(parents=True, exist_ok=True)
    digests: dict[str, str] = {}
    for size in SIZES:
        for theme in THEMES:
            for tab, (text, svg) in (await render_tabs(size, theme)).items():
                name = f"{tab}-{size[0]}x{size[1]}"
                digests[f"{name}-{theme}"] = digest(svg)
                (SAVED / f"{name}.txt").write_text(text)
                (SHOWN / f"{name}-{theme}.png").write_bytes(png(svg, size[0] * 10))
    (SAVED / "digests.json").write_text(json.dumps(digests, indent=1) + "\n")
    sys.stdout.write(f"→ {SHOWN.relative_to(ROOT)}\n")


if __name__ == "__main__":
    asyncio.run(update_all())
