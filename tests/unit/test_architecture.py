"""The rules of the house that a program can check."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import chasqui
from chasqui_cli import generate
from chasqui_cli.generate import VERBS

ROOT = Path(__file__).parents[2]
TOP_LEVEL = {
    "benchmarks", "chasqui_cli", "CHANGELOG.md", "completions", "docs", "engine", "LICENSE", "Makefile",
    "pyproject.toml", "README.md", "tests",
}  # fmt: skip
HEAVY = ("redis", "textual", "pyspark")


def _modules_after(*words: str, **variables: str) -> set[str]:
    """The modules a fresh interpreter has loaded once this command line has run."""
    code = (
        "import sys; from chasqui_cli.app import run\n"
        f"try: run({list(words)!r})\n"
        "except SystemExit: pass\n"
        "sys.stderr.write('|'.join(sys.modules))"
    )
    paths = {"PYTHONPATH": f"{ROOT}:{ROOT / 'engine'}", "PATH": "/usr/bin:/bin", "HOME": "/nonexistent"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=paths | variables, check=True
    )
    return set(done.stderr.rpartition("\n")[2].split("|"))


@pytest.mark.parametrize(
    ("words", "variables"),
    [
        (("--help",), {}),
        (("decode", "--hex", "94a161c40481a16101cf000001a1e23c61d600"), {}),
        (("server", "--help"), {}),
        (("dlq", "replay", "--help"), {}),
        (("undo", "--help"), {}),
        (("context", "set", "--help"), {}),
        ((), {"_CHASQUI_COMPLETE": "complete_bash", "COMP_WORDS": "chasqui ", "COMP_CWORD": "1"}),
        ((), {"_CHASQUI_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": "chasqui decode --"}),
    ],
    ids=[
        "help",
        "decode",
        "verb help",
        "dlq help",
        "undo help",
        "context help",
        "bash completion",
        "zsh completion",
    ],
)
def test_what_needs_no_server_imports_nothing_heavy(words: tuple[str, ...], variables: dict[str, str]) -> None:
    loaded = _modules_after(*words, **variables)
    assert "chasqui_cli.app" in loaded
    assert loaded.isdisjoint(HEAVY)


@pytest.mark.parametrize("verb", ["", *VERBS])
def test_help_does_not_even_import_rich(verb: str) -> None:
    loaded = _modules_after(*filter(None, [verb]), "--help")
    assert loaded.isdisjoint({*HEAVY, "rich", "jmespath", "prometheus_client"})


def test_completion_offers_the_verbs() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "chasqui_cli"],
        capture_output=True,
        text=True,
        env={
            "PYTHONPATH": f"{ROOT}:{ROOT / 'engine'}",
            "_CHASQUI_COMPLETE": "complete_bash",
            "COMP_WORDS": "chasqui ",
            "COMP_CWORD": "1",
        },
    )
    assert done.stdout.split() == list(VERBS)


@pytest.mark.parametrize("path", generate.generated_files(), ids=str)
def test_generated_files_are_fresh(path: Path) -> None:
    assert (ROOT / path).read_text() == generate.generated_files()[path], f"{path} is stale: run `make docs`"


def test_every_verb_has_help_and_stands_in_the_reference() -> None:
    reference = (ROOT / "docs" / "cli.md").read_text()
    for verb in VERBS:
        assert f"## `chasqui {verb}`" in reference


def test_the_top_level_is_exactly_the_house() -> None:
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    found = {line.split("/")[0] for line in tracked.splitlines()}
    assert {name for name in found if not name.startswith(".")} <= TOP_LEVEL


def test_every_exported_name_resolves() -> None:
    for name in dir(chasqui):
        assert getattr(chasqui, name) is not None
