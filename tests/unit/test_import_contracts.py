"""The import contracts of pyproject.toml forget no module. That they hold is checked by `make lint`."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PLACES = {"chasqui": ROOT / "engine/chasqui", "pyspark_chasqui": ROOT / "engine/pyspark_chasqui"}
CONTRACTS: list[dict[str, Any]] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"][
    "contracts"
]
EVERYWHERE = ("chasqui", "chasqui_cli", "pyspark_chasqui")

# Per contract: the packages of which every module must be forbidden to import, but these.
ALLOWED: dict[str, tuple[tuple[str, ...], set[str]]] = {
    "of the dashboard, only the feed asks the engine": (("chasqui_cli.tui",), {"chasqui_cli.tui.feed"}),
    "the command line uses the engine's public rooms only": (("chasqui_cli",), set()),
    "only the server room imports redis": (EVERYWHERE, {"chasqui.server"}),
    "only the wire room imports msgpack": (EVERYWHERE, {"chasqui.wire"}),
    "only the dashboard imports Textual": (EVERYWHERE, {"chasqui_cli.tui"}),
    "only the pipeline imports Spark": (("chasqui", "chasqui_cli"), {"chasqui.spark"}),
}
PUBLIC = {
    "chasqui.clock", "chasqui.cron", "chasqui.defaults", "chasqui.errors", "chasqui.foreign", "chasqui.health",
    "chasqui.inspect", "chasqui.lazy_exports", "chasqui.models", "chasqui.operate", "chasqui.produce", "chasqui.queue",
    "chasqui.queue_events", "chasqui.schedule", "chasqui.spark", "chasqui.sync_queue", "chasqui.undo", "chasqui.worker",
    "chasqui.worker_fleet",
}  # fmt: skip


def modules_in(package: str) -> set[str]:
    top, *inner = package.split(".")
    place = PLACES.get(top, ROOT / top).joinpath(*inner)
    names = {path.stem for path in place.glob("*.py") if path.stem not in ("__init__", "__main__")}
    return {f"{package}.{name}" for name in names | {path.parent.name for path in place.glob("*/__init__.py")}}


def forgotten(listed: list[str], packages: tuple[str, ...]) -> set[str]:
    """The packages' modules that neither are listed nor lie in one that is."""
    found = set().union(*map(modules_in, packages))
    return {name for name in found if not any(f"{name}.".startswith(f"{one}.") for one in listed)}


def test_layers_in_a_package_name_every_module_of_it() -> None:
    open_ = [one["name"] for one in CONTRACTS if "containers" in one and one.get("exhaustive") is not True]
    assert open_ == [], f"add `exhaustive = true` to these contracts in pyproject.toml: {open_}"


@pytest.mark.parametrize(
    "contract", [one for one in CONTRACTS if one["type"] == "forbidden"], ids=lambda one: one["name"]
)
def test_what_is_forbidden_is_forbidden_to_every_other_module(contract: dict[str, Any]) -> None:
    name = contract["name"]
    assert name in ALLOWED, f"a new contract: name the modules that {name!r} does not hold for, in ALLOWED of this file"
    packages, allowed = ALLOWED[name]
    missing = forgotten(contract["source_modules"], packages)
    assert missing <= allowed, f"add to source_modules of {name!r} in pyproject.toml: {sorted(missing - allowed)}"
    assert allowed <= missing, (
        f"{sorted(allowed - missing)} may do what {name!r} forbids them: remove them from ALLOWED"
    )


def test_every_room_of_the_engine_is_public_or_closed_to_the_command_line() -> None:
    [contract] = [one for one in CONTRACTS if one["name"] == "the command line uses the engine's public rooms only"]
    undecided = modules_in("chasqui") - PUBLIC - set(contract["forbidden_modules"])
    assert not undecided, f"add to PUBLIC of this file, or to forbidden_modules in pyproject.toml: {sorted(undecided)}"
