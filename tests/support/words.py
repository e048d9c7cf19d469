"""Words that the project does not use, where they occur, and what to write instead.

`python -m tests.support.words PATH…` lists them: in docstrings, comments and identifiers of Python files, in comments
of Lua files. Docstrings of commands are help text and not searched, nor are strings.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

IN_PROSE = {
    r"tells?|told|telling|says": "return, report, print, log, mean",
    r"anew": "again",
    r"whoever|whomever|somebody|nobody": "the caller, the user, a worker, another process, no worker",
    r"mend(?:s|ed|ing)?|tend(?:s|ed|ing)": "fix, repair, manage",
    r"muster(?:s|ed|ing)?": "list",
    r"bury|buried|buries|burying": "move to the dead letters",
    r"deeds?": "change, operation",
    r"so many(?! as)": "at most N, that many",
    r"by itself": "by default, alone, without being asked",
    r"beside": "next to, besides, during",
    r"knows? us not": "authentication failed",
    r"as it was|as they were": "unchanged",
    r"ailments?": "problem, finding",
    r"letters?": "dead letter",
    r"(?<!there )(?:is|are) no (?!longer\b|more\b|other\b)[a-z]+": "is not a, is invalid",
}
IN_NAMES = {
    "told|tells?|says?|said|saying|teller|tidings": "result, reply, events, text",
    "anew": "again",
    "whoever|somebody|nobody": "caller, user, worker",
    "mends?|mended|mending|tend|tending": "fix, repair, manage",
    "muster|mustered": "list",
    "bury|buried": "move to the dead letters",
    "deeds?|taking|errand": "change, operation, parse",
    "kept": "saved, stored",
    "crew|clerk|office|haunting|footing": "consumers, workers, identity",
    "goods|parcels?": "batch, chunk, request",
    "doors?|desk": "queue, context",
    "ailment": "problem, finding",
    "verdicts?": "status, settlement, state",
    "ledger_of|hear|heard": "record, read, received",
}
# Identifiers that are data or part of another interface: JSON fields, journal words, names in libraries.
DATA_NAMES: frozenset[str] = frozenset()

_PROSE = [(re.compile(rf"\b(?:{words})\b", re.IGNORECASE), advice) for words, advice in IN_PROSE.items()]
_NAMES = [(re.compile(rf"^(?:{words})$"), advice) for words, advice in IN_NAMES.items()]
_NAME_PARTS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_DEAD_LETTERS = re.compile(r"dead[ -]letters?", re.IGNORECASE)


class Hit(NamedTuple):
    path: Path
    line: int
    word: str
    advice: str
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.word!r}: write {self.advice}. {self.text[:100]}"


def find_words(*roots: Path) -> list[Hit]:
    """Every hit in the files and folders, each once per line."""
    return [hit for root in roots for path in _files(root) for hit in sorted(set(_in_file(path)))]


def _files(root: Path) -> list[Path]:
    found = [root] if root.is_file() else [*root.rglob("*.py"), *root.rglob("*.lua")]
    return sorted(path for path in found if ".venv" not in path.parts)


def _in_file(path: Path) -> Iterator[Hit]:
    source = path.read_text()
    if path.suffix == ".lua":
        for number, line in enumerate(source.splitlines(), 1):
            _, dashes, comment = line.partition("--")
            yield from _in_prose(path, number, comment if dashes else "")
        return
    yield from _in_docstrings(path, ast.parse(source))
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield from _in_prose(path, token.start[0], token.string)
        elif token.type == tokenize.NAME and token.string not in DATA_NAMES:
            yield from _in_name(path, token.start[0], token.string)


def _in_docstrings(path: Path, tree: ast.Module) -> Iterator[Hit]:
    commands = "chasqui_cli/commands" in path.as_posix()
    for node in ast.walk(tree):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if commands and isinstance(node, ast.FunctionDef) and node.decorator_list:
            continue
        for statement in node.body:
            value = statement.value if isinstance(statement, ast.Expr) else None
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                for offset, line in enumerate(value.value.splitlines()):
                    yield from _in_prose(path, value.lineno + offset, line)


def _in_prose(path: Path, number: int, text: str) -> Iterator[Hit]:
    searched = _DEAD_LETTERS.sub("", text)
    for pattern, advice in _PROSE:
        for found in pattern.finditer(searched):
            yield Hit(path, number, found[0], advice, text.strip())


def _in_name(path: Path, number: int, name: str) -> Iterator[Hit]:
    for part in _NAME_PARTS.findall(name):
        for pattern, advice in _NAMES:
            if pattern.match(part.lower()):
                yield Hit(path, number, part.lower(), advice, name)


if __name__ == "__main__":
    hits = find_words(*map(Path, sys.argv[1:]))
    print(*hits, f"{len(hits)} words", sep="\n")
