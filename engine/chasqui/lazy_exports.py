"""Names of a package that are imported on first use, so that importing the package costs nothing."""

from __future__ import annotations

import re
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

_IMPORT = re.compile(r"^    from ([\w.]+) import (\w+) as (\w+)$", re.MULTILINE)


def lazy_exports(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` for a package.

    The names are those that the package's source imports, one to a line, under `if TYPE_CHECKING`: the one list
    serves type checkers and the running program alike.
    """
    module = sys.modules[package]
    source = module.__spec__.loader.get_source(package)  # type: ignore[union-attr]  # every importer of source has it
    homes = {name: (home, attribute) for home, attribute, name in _IMPORT.findall(source)}

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home, attribute = homes[name]
        value = import_module(f"{home}.{attribute}") if home == package else getattr(import_module(home), attribute)
        setattr(module, name, value)  # the next lookup does not come here
        return value

    return find, lambda: sorted(homes)
