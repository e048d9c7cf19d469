"""The names of the package: what it exports is what its documentation lists, and each name leads somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import chasqui

SOURCE = Path(chasqui.__file__).read_text()
DOCUMENT = Path(__file__, "../../../docs/engine.md").resolve().read_text()
EXPORT = re.compile(r"^    from [\w.]+ import \w+ as (\w+)$", re.MULTILINE)
USERS, TOOLS = (EXPORT.findall(block) for block in SOURCE.split("# for tools"))


def documented() -> list[str]:
    [section] = re.findall(r"^## Names$(.*?)^## ", DOCUMENT, re.MULTILINE | re.DOTALL)
    [code] = re.findall(r"^```python$(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    return re.findall(r"\w+", re.sub(r"#.*|from chasqui import", "", code))


def test_what_is_documented_for_users_is_what_is_exported_for_them() -> None:
    assert sorted(documented()) == sorted(USERS)


def test_each_name_is_exported_once() -> None:
    names = [*USERS, *TOOLS]
    assert sorted(names) == sorted(set(names)) == dir(chasqui)


@pytest.mark.parametrize("name", [*USERS, *TOOLS])
def test_every_name_resolves(name: str) -> None:
    found = getattr(chasqui, name)
    assert getattr(found, "__name__", name)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Quue'"):
        _ = getattr(chasqui, "Quue")  # noqa: B009 - as a misspelt name would
