"""The only place where text becomes something Textual draws: made harmless first, and never through a markup parser.

Styles are words (`crit`, `dim`); what colour they are is the theme's business.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rich.cells import cell_len, set_cell_size
from rich.text import Text
from textual.theme import Theme

from chasqui_cli.output.escape_text import safe

if TYPE_CHECKING:
    from collections.abc import Iterable

DARK, LIGHT = "chasqui-dark", "chasqui-light"

_STYLES = {
    DARK: {
        "crit": "bold #ff7b72",
        "warn": "#e3b341",
        "ok": "#56d364",
        "idle": "#8b949e",
        "dim": "#8b949e",
        "strong": "bold",
        "accent": "#79c0ff",
        "mark": "bold #d2a8ff",
        "key": "bold #79c0ff",
    },
    LIGHT: {
        "crit": "bold #b3141f",
        "warn": "#7a4d00",
        "ok": "#116329",
        "idle": "#57606a",
        "dim": "#57606a",
        "strong": "bold",
        "accent": "#0550ae",
        "mark": "bold #6639ba",
        "key": "bold #0550ae",
    },
}

THEMES = (
    Theme(
        name=DARK,
        primary="#79c0ff",
        secondary="#d2a8ff",
        accent="#79c0ff",
        warning="#e3b341",
        error="#ff7b72",
        success="#56d364",
        foreground="#e6edf3",
        background="#0d1117",
        surface="#0d1117",
        panel="#161b22",
        dark=True,
        variables={"block-cursor-background": "#1f3a5f", "block-cursor-foreground": "#ffffff"},
    ),
    Theme(
        name=LIGHT,
        primary="#0550ae",
        secondary="#6639ba",
        accent="#0550ae",
        warning="#7a4d00",
        error="#b3141f",
        success="#116329",
        foreground="#1f2328",
        background="#ffffff",
        surface="#ffffff",
        panel="#eaeef2",
        dark=False,
        variables={"block-cursor-background": "#cfe2ff", "block-cursor-foreground": "#0b1f3a"},
    ),
)


class Cell(NamedTuple):
    """What stands in a table: a text, and a word for how it looks. `order` sorts, where the text would not."""

    text: str
    style: str = ""
    order: float | None = None


def style_of(theme: str, word: str) -> str:
    """The colour a word has in a theme; a theme of Textual's own gets the dark ones."""
    return _STYLES.get(theme, _STYLES[DARK]).get(word, "")


def safe_text(value: object, style: str = "", *, theme: str = DARK) -> Text:
    return Text(safe(value), style=style_of(theme, style), no_wrap=False, end="")


def styled_text(parts: Iterable[tuple[object, str]], *, theme: str) -> Text:
    """Several texts in a row, each in its style, each harmless. A line feed that stands alone ends a line."""
    whole = Text(end="")
    for value, style in parts:
        whole.append("\n" if value == "\n" else safe(value), style=style_of(theme, style))
    return whole


def fit_width(text: str, width: int, align: str = "left") -> str:
    """The text in exactly `width` cells, cut with an ellipsis where it is too long."""
    size = cell_len(text)
    if size > width:
        return set_cell_size(text, max(0, width - 1)) + "…" if width > 0 else ""
    return " " * (width - size) + text if align == "right" else text + " " * (width - size)
