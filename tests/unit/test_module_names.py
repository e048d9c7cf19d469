"""A name is an address: few modules at the top, and no name of a class or module twice."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[2]
ENGINE = [ROOT / "engine/chasqui", ROOT / "engine/pyspark_chasqui"]
COMMAND_LINE = ROOT / "chasqui_cli"
AT_MOST = {ENGINE[0]: 14, COMMAND_LINE: 6}

# Names that may stand in several places, and why.
CLASSES = {
    "DoctorFinding": "the finding of each other system's doctor",
}
MODULES = {
    "keys": "the keys of each system in its own package",
}


def files(*roots: Path) -> list[Path]:
    return sorted(path for root in roots for path in root.rglob("*.py"))


def repeated(places: dict[str, list[str]], allowed: dict[str, str]) -> dict[str, list[str]]:
    return {name: found for name, found in places.items() if len(found) > 1 and name not in allowed}


def test_there_are_few_modules_at_the_top() -> None:
    for root, most in AT_MOST.items():
        found = sorted(path.name for path in root.glob("*.py"))
        assert len(found) <= most, f"move one of these into a package of {root.name}: {found}"


def test_no_class_name_stands_for_two_things() -> None:
    places = defaultdict(list)
    for path in files(*ENGINE):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(f"{path.relative_to(ROOT)}:{node.lineno}")
    twice = repeated(places, CLASSES)
    assert not twice, f"name one of each pair after what it is, or add the name to CLASSES with a reason: {twice}"


def test_no_module_name_stands_for_two_things() -> None:
    places = defaultdict(list)
    for path in files(*ENGINE, COMMAND_LINE):
        if path.stem != "__init__" and COMMAND_LINE / "commands" not in path.parents:
            places[path.stem].append(str(path.relative_to(ROOT)))
    twice = repeated(places, MODULES)
    assert not twice, f"name one of each pair after what it does, or add the name to MODULES with a reason: {twice}"
