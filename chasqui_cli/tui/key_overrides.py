"""Keys as people choose them: `[keys]` in the configuration, checked before the dashboard opens, and told by `?`."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING, Any

from textual.binding import Binding
from textual.keys import Keys

from chasqui.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from textual.binding import BindingType


def check_key_overrides(wanted: Mapping[str, Any]) -> dict[str, str]:
    """The keys somebody chose, by the name of what they do; a name or key that nobody knows is told, not ignored."""
    known = _binding_ids() if wanted else set()
    for name, keys in wanted.items():
        if name not in known:
            raise ConfigError(f"[keys]: there is no {name!r}", hint=f"there are: {', '.join(sorted(known))}")
        if not isinstance(keys, str) or not all(map(_is_a_key, keys.split(","))):
            raise ConfigError(
                f"[keys]: {name} = {keys!r} is no key",
                hint='write it as "x", "X", "ctrl+x", "f5" or "x,f5"',
            )
    return dict(wanted)


def describe_bindings(bindings: Iterable[BindingType], chosen: Mapping[str, str]) -> list[tuple[str, str]]:
    """Keys and what they do, for people."""
    return [
        (
            (chosen.get(one.id or "") or one.key_display or one.key).replace(",", " "),
            one.description,
        )
        for one in bindings
        if isinstance(one, Binding) and one.description
    ]


def _binding_ids() -> set[str]:
    """Everything a key can do: on the dashboard, on each tab, in tables and in dialogs."""
    from chasqui_cli.tui.dashboard import DashboardApp
    from chasqui_cli.tui.dialogs import ChangeDialog, Dialog
    from chasqui_cli.tui.tabs import TABS, create_tab
    from chasqui_cli.tui.widgets.record_table import RecordTable

    bound = [*DashboardApp.BINDINGS, *RecordTable.BINDINGS, *Dialog.BINDINGS, *ChangeDialog.BINDINGS]
    bound += [one for tab in TABS for one in create_tab(tab.name).BINDINGS]
    return {one.id for one in bound if isinstance(one, Binding) and one.id}


def _is_a_key(text: str) -> bool:
    """`x`, `ctrl+x`, `f5`, `slash`: one character, or a name that Textual or Unicode has for one."""
    name = text.strip().rpartition("+")[2] or text.strip()
    return len(name) == 1 or name in {key.value for key in Keys} or _is_unicode_name(name)


def _is_unicode_name(name: str) -> bool:
    try:
        return bool(unicodedata.lookup(name.replace("_", " ")))
    except KeyError:
        return False
