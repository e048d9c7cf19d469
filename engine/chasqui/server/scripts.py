"""The Lua files in `lua/`, their headers and digests, and how to call one by the names its header gives.

What a script does to a queue is said in its own file; who calls it, and when, is the business of `commands/`.

A file begins with comment lines: what it is for, `KEYS:`, `ARGV:` (a last name with `...` stands for a list) and
`Returns:`. A shebang before them carries flags for the server; `no-writes` marks a script that only reads.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from chasqui.server.flow import Call

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from chasqui.server.flow import Arg

_FILES = Path(__file__).parent / "lua"
_HEADER = re.compile(
    r"(?:#!lua flags=(?P<flags>\S+)\n)?"
    r"(?P<purpose>(?:-- (?!KEYS:).+\n)+)"
    r"-- KEYS: (?P<keys>.+)\n"
    r"-- ARGV:(?P<args>.*)\n"
    r"-- Returns: (?P<returns>.+)\n"
)


FOREIGN_FOLDERS = ("joblist", "rsmq")
"""Folders of scripts that work on other systems' layouts; a script there is called `folder/name`."""


@dataclass(frozen=True, slots=True)
class Script:
    """One Lua file: its text as loaded, and the contents of its header."""

    name: str
    text: str
    flags: tuple[str, ...]
    purpose: str
    keys: tuple[str, ...]
    args: tuple[str, ...]
    list_arg: str | None
    returns: str

    @property
    def sha(self) -> str:
        """What the server calls it once it is loaded."""
        return hashlib.sha1(self.text.encode(), usedforsecurity=False).hexdigest()


def parse_header(name: str, text: str) -> Script:
    """Read the header of a Lua file; a file without a complete one is refused."""
    header = _HEADER.match(text)
    if not header:
        raise ValueError(f"{name}.lua needs a header: purpose, KEYS:, ARGV:, Returns:")
    args = header["args"].split()
    rest = args.pop().removesuffix("...") if args and args[-1].endswith("...") else None
    return Script(
        name=name,
        text=text,
        flags=tuple((header["flags"] or "").split(",")) if header["flags"] else (),
        purpose=" ".join(line.removeprefix("-- ") for line in header["purpose"].splitlines()),
        keys=tuple(header["keys"].split()),
        args=tuple(args),
        list_arg=rest,
        returns=header["returns"],
    )


@cache
def load_script(name: str) -> Script:
    """The script of this name, read once."""
    return parse_header(name, (_FILES / f"{name}.lua").read_text("utf-8"))


def script_names() -> list[str]:
    """Every script there is, ours first, then those for other systems' queues, by folder."""
    folders = {"": _FILES} | {f"{folder}/": _FILES / folder for folder in FOREIGN_FOLDERS}
    return [
        f"{prefix}{name}"
        for prefix, folder in folders.items()
        for name in sorted(file.stem for file in folder.glob("*.lua"))
    ]


def script_text(name: str) -> str:
    """The script as the server must be given it."""
    return load_script(name).text


@cache
def script_sha(name: str) -> str:
    """The digest that EVALSHA wants."""
    return load_script(name).sha


def is_read_only_script(name: str) -> bool:
    """Whether the script promises to write nothing."""
    return "no-writes" in load_script(name).flags


def script_call(name: str, /, *, tolerant: bool = False, rest: Sequence[Arg] = (), **named: Arg) -> Call:
    """A call of this script, with its keys and arguments by the names of its header.

    A name too many or too few is a `TypeError` here, before anything is sent.
    """
    spec = load_script(name)
    _check_names(spec, named, rest)
    keys = tuple(_check_key(named[key]) for key in spec.keys)
    args = tuple(named[arg] for arg in spec.args)
    return Call(("EVALSHA", script_sha(name), len(keys), *keys, *args, *rest), keys, name, tolerant=tolerant)


def _check_names(spec: Script, named: Iterable[str], rest: Sequence[Arg]) -> None:
    wanted, given = {*spec.keys, *spec.args}, set(named)
    if wanted != given:
        raise TypeError(f"{spec.name}.lua: missing {sorted(wanted - given)}, unexpected {sorted(given - wanted)}")
    if rest and spec.list_arg is None:
        raise TypeError(f"{spec.name}.lua takes no list after its arguments")


def _check_key(word: Arg) -> str | bytes:
    if isinstance(word, str | bytes):
        return word
    raise TypeError(f"a key is text, not {word!r}")


def lua_reference() -> str:
    """The reference page of all scripts, made from their headers."""
    return _INTRODUCTION + "".join(_reference_section(load_script(name)) for name in script_names())


_INTRODUCTION = """\
# The Lua scripts

Made from the headers in `engine/chasqui/server/lua/`; renew it with `make docs`.

Every script checks first, writes next and acknowledges last, so a refused write leaves the job where it was.
Running one twice is running it once. All keys are passed and lie in one cluster slot. A `cap` is an approximate
`MAXLEN`. Scripts flagged `allow-oom` move or settle jobs, so that a full server can still be drained.

Those named `rsmq/…` and `joblist/…` work on other systems' layouts (`docs/foreign.md`), and do what those systems do
also where that is not the same twice.
"""


def _reference_section(spec: Script) -> str:
    args = [f"`{arg}`" for arg in spec.args] + ([f"`{spec.list_arg}` …"] if spec.list_arg else [])
    lines = [
        f"\n## {spec.name}\n\n{spec.purpose}\n",
        f"* keys: {', '.join(f'`{key}`' for key in spec.keys)}",
        f"* arguments: {', '.join(args) or 'none'}",
        f"* returns: {spec.returns}",
        *([f"* flags: {', '.join(f'`{flag}`' for flag in spec.flags)}"] if spec.flags else []),
    ]
    return "\n".join(lines) + "\n"
