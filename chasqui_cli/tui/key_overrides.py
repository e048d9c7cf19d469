"""Keys as users configure them: `[keys]` in the configuration, checked before the dashboard opens, and listed by `?`."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING, Any

from textual.binding import Binding
from textual.keys import Keys

from chasqui.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from textual.binding import BindingType


def check_key_overrides(wanted: Mapping[str, Any], known: Collection[str]) -> dict[str, str]:
    """The configured keys, by the name of what they do. A name that is not among the known ones, or an invalid key,
    is an error.
    """
    for name, keys in wanted.items():
        if name not in known:
            raise ConfigError(f"[keys]: there is no {name!r}", hint=f"there are: {', '.join(sorted(known))}")
        if not isinstance(keys, str) or not all(map(_is_a_key, keys.split(","))):
            raise ConfigError(
                f"[keys]: {name} = {keys!r} is no key", hint='write it as "x", "X", "ctrl+x", "f5" or "x,f5"'
            )
    return dict(wanted)


def describe_bindings(bindings: Iterable[BindingType], chosen: Mapping[str, str]) -> list[tuple[str, str]]:
    """Keys and what they do, for people."""
    return [
        ((chosen.get(one.id or "") or one.key_display or one.key).replace(",", " "), one.description)
        for one in bindings
        if isinstance(one, Binding) and one.description
    ]


def _is_a_key(text: str) -> bool:
    """`x`, `ctrl+x`, `f5`, `slash`: one character, or a name that Textual or Unicode has for one."""
    name = text.strip().rpartition("+")[2] or text.strip()
    return len(name) == 1 or name in {key.value for key in Keys} or _is_unicode_name(name)


def _is_unicode_name(name: str) -> bool:
    try:
        return bool(unicodedata.lookup(name.replace("_", " ")))
    except KeyError:
        return False
