"""Which records a verb is about: `--where`, `--name`, `--reason`, `--since`, `--until`, together.

A record is judged as JSON shows it, so what is written in an expression is what was read on the screen.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from fnmatch import translate
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from chasqui_cli.output.tagged_json import tagged
from chasqui_cli.output.times import parse_time_ms

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from chasqui_cli.output.columns import Record


@dataclass(frozen=True, slots=True)
class FilterOptions:
    """What the command line asked for. `scan` bounds how many entries may be looked at to find it."""

    where: Annotated[
        str | None,
        typer.Option(
            "--where",
            metavar="EXPR",
            help="Keep records for which this JMESPath expression is true, as in \"data.to == 'x'\".",
        ),
    ] = None
    name: Annotated[
        str | None, typer.Option("--name", metavar="GLOB", help="Keep jobs of this name; * and ? allowed.")
    ] = None
    reason: Annotated[
        str | None, typer.Option("--reason", metavar="R", help="Keep what died of this: retries_exhausted, …")
    ] = None
    since: Annotated[
        str | None, typer.Option("--since", metavar="TIME", help="From then on: 5m (ago), ISO-8601, @<stream id>.")
    ] = None
    until: Annotated[str | None, typer.Option("--until", metavar="TIME", help="Up to then; written as --since.")] = None
    scan: Annotated[
        int,
        typer.Option("--scan", min=1, metavar="N", help="Look at so many entries at most, and say how far that was."),
    ] = 100_000

    @property
    def matches_everything(self) -> bool:
        """Whether nothing is left out."""
        return not (self.where or self.name or self.reason or self.since or self.until)

    def __str__(self) -> str:
        """As it would be written on a command line."""
        import shlex

        named = ("where", "name", "reason", "since", "until")
        return " ".join(f"--{one} {shlex.quote(getattr(self, one))}" for one in named if getattr(self, one))

    def compile(
        self, now_ms: int, time_field: str | None = None, towards: Literal["past", "future"] = "past"
    ) -> RecordFilter:
        """The rules, ready to be applied; what cannot be right is refused here, before anything is read.

        time_field: the field of a record that is compared with --since and --until; None: they only bound what is read.
        towards: whether `1h` means ago or from now.
        """
        where = _compile_expression(self.where) if self.where else None
        return RecordFilter(
            where=where.found if where else None,
            required_texts=where.needles if where else (),
            fields_used=where.fields if where else frozenset(),
            name=re.compile(translate(self.name)) if self.name else None,
            reason=self.reason,
            since_ms=parse_time_ms(self.since, now_ms, towards) if self.since else None,
            until_ms=parse_time_ms(self.until, now_ms, towards) if self.until else None,
            time_field=time_field,
        )


@dataclass(frozen=True, slots=True)
class RecordFilter:
    """Whether a record matches. `since_ms` and `until_ms` also bound what has to be read.

    needles: texts without which no bytes can hold a wanted record: most are passed over without being decoded.
    asks_for: the fields an expression mentions, so that what is costly to find is found only for those who ask.
    """

    where: Callable[[Any], Any] | None = field(default=None, repr=False)
    required_texts: tuple[bytes, ...] = ()
    fields_used: frozenset[str] = frozenset()
    name: re.Pattern[str] | None = None
    reason: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    time_field: str | None = None

    def __call__(self, record: Record) -> bool:
        """Whether all rules hold."""
        if self.name and not self.name.fullmatch(record.get("name") or ""):
            return False
        if self.reason is not None and record.get("reason") != self.reason:
            return False
        at_ms = record.get(self.time_field) if self.time_field else None
        if isinstance(at_ms, int) and not self._is_within(at_ms):
            return False
        return self.where is None or _is_truthy(self.where(self._visible_fields(record)))

    def _visible_fields(self, record: Record) -> Any:
        """The record as JSON shows it, or as much of it as the expression can see: most of one is never asked for."""
        if "@" in self.fields_used:
            return tagged(record)
        return {name: tagged(record[name], 1) for name in self.fields_used if name in record}

    def _is_within(self, at_ms: int) -> bool:
        return (self.since_ms is None or at_ms >= self.since_ms) and (self.until_ms is None or at_ms <= self.until_ms)


@dataclass(frozen=True, slots=True)
class _CompiledExpression:
    found: Callable[[Any], Any]
    needles: tuple[bytes, ...]
    fields: frozenset[str]


def _compile_expression(text: str) -> _CompiledExpression:
    """A JMESPath expression. A record it cannot be applied to (a number compared with a text) is not wanted."""
    import jmespath
    from jmespath.exceptions import JMESPathError
    from jmespath.visitor import TreeInterpreter

    from chasqui.errors import ArgumentError

    try:
        compiled = jmespath.compile(text)
    except JMESPathError as error:
        problem = " ".join(str(error).split())
        raise ArgumentError(
            f"--where: {problem}", hint="JMESPath: data.to == 'x' && attempt > `2`; texts in '…', numbers in `…`"
        ) from None

    visit, parsed = TreeInterpreter().visit, compiled.parsed

    def found(record: Any) -> Any:
        try:
            return visit(parsed, record)
        except JMESPathError:
            return None

    return _CompiledExpression(found, tuple(_required_texts(compiled.parsed)), frozenset(_fields_used(compiled.parsed)))


_VERBATIM_FIELDS = ("data", "name", "id", "reason", "detail")
"""What a record shows as it stands in the bytes it was read from."""


def _required_texts(node: Any) -> Iterator[bytes]:
    """Texts that must be in the bytes: those some field of theirs is equal to, if all conditions must hold."""
    if node["type"] == "and_expression":
        for child in node["children"]:
            yield from _required_texts(child)
    elif node["type"] == "comparator" and node["value"] == "eq":
        sides = node["children"]
        texts = [one["value"] for one in sides if one["type"] == "literal" and isinstance(one["value"], str)]
        paths = [_path(one) for one in sides if one["type"] in ("field", "subexpression")]
        # Beyond ASCII a text may have been written in other ways than the one it is compared with.
        if texts and texts[0].isascii() and paths and paths[0] and paths[0][0] in _VERBATIM_FIELDS:
            yield texts[0].encode()


def _path(node: Any) -> list[str]:
    """The names along a.b.c; none for anything else, nor where a tag stands in: its text is not that of the bytes."""
    if node["type"] == "field":
        return [] if node["value"].startswith("$") else [node["value"]]
    steps = [_path(child) for child in node["children"]] if node["type"] == "subexpression" else [[]]
    return [name for step in steps for name in step] if all(steps) else []


def _fields_used(node: Any) -> Iterator[str]:
    """Every name an expression mentions; `@`, the whole record, is one, also where it is meant and not said, as in `*`."""
    if node["type"] in ("current", "identity"):
        yield "@"
    elif node["type"] == "field":
        yield node["value"]
    for child in node["children"]:
        if isinstance(child, dict):
            yield from _fields_used(child)


def _is_truthy(value: Any) -> bool:
    """As JMESPath has it: false, null, and what is empty is not true; zero is."""
    return not (value is None or value is False or value == "" or value == [] or value == {})
