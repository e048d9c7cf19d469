"""Which records a verb is about: `--where`, `--name`, `--reason`, `--since`, `--until`, together.

A record is judged as JSON shows it, so what is written in an expression is what was read on the screen.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from fnmatch import translate
from typing import TYPE_CHECKING, Any, Literal

from chasqui_cli.tagged import tagged
from chasqui_cli.times import moment_ms

if TYPE_CHECKING:
    from collections.abc import Callable

    from chasqui_cli.columns import Record


@dataclass(frozen=True, slots=True)
class Choice:
    """What the command line asked for. `scan` bounds how many entries may be looked at to find it."""

    where: str | None = None
    name: str | None = None
    reason: str | None = None
    since: str | None = None
    until: str | None = None
    scan: int = 100_000

    @property
    def is_everything(self) -> bool:
        """Whether nothing is left out."""
        return not (self.where or self.name or self.reason or self.since or self.until)

    def __str__(self) -> str:
        """As it would be written on a command line."""
        import shlex

        named = ("where", "name", "reason", "since", "until")
        return " ".join(f"--{one} {shlex.quote(getattr(self, one))}" for one in named if getattr(self, one))

    def judge(self, now_ms: int, moment_key: str, towards: Literal["past", "future"] = "past") -> Judge:
        """The rules, ready to be applied; what cannot be right is refused here, before anything is read.

        moment_key: which field of a record says when it happened, or will: then `1h` is counted `towards` the future.
        """
        return Judge(
            where=_expression(self.where) if self.where else None,
            name=re.compile(translate(self.name)) if self.name else None,
            reason=self.reason,
            since_ms=moment_ms(self.since, now_ms, towards) if self.since else None,
            until_ms=moment_ms(self.until, now_ms, towards) if self.until else None,
            moment_key=moment_key,
        )


@dataclass(frozen=True, slots=True)
class Judge:
    """Says of a record whether it is wanted. `since_ms` and `until_ms` also bound what has to be read."""

    where: Callable[[Any], Any] | None = field(default=None, repr=False)
    name: re.Pattern[str] | None = None
    reason: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    moment_key: str = ""

    def __call__(self, record: Record) -> bool:
        """Whether all rules hold."""
        if self.name and not self.name.fullmatch(record.get("name") or ""):
            return False
        if self.reason is not None and record.get("reason") != self.reason:
            return False
        at_ms = record.get(self.moment_key)
        if isinstance(at_ms, int) and not self._is_within(at_ms):
            return False
        return self.where is None or _is_true(self.where(tagged(record)))

    def _is_within(self, at_ms: int) -> bool:
        return (self.since_ms is None or at_ms >= self.since_ms) and (
            self.until_ms is None or at_ms <= self.until_ms
        )


def _expression(text: str) -> Callable[[Any], Any]:
    """A JMESPath expression. A record it cannot be applied to (a number compared with a text) is not wanted."""
    import jmespath
    from jmespath.exceptions import JMESPathError

    from chasqui.errors import ArgumentError

    try:
        compiled = jmespath.compile(text)
    except JMESPathError as error:
        told = " ".join(str(error).split())
        raise ArgumentError(
            f"--where: {told}",
            hint="JMESPath: data.to == 'x' && attempt > `2`; texts in '…', numbers in `…`",
        ) from None

    def found(record: Any) -> Any:
        try:
            return compiled.search(record)
        except JMESPathError:
            return None

    return found


def _is_true(value: Any) -> bool:
    """As JMESPath has it: false, null, and what is empty is not true; zero is."""
    return not (value is None or value is False or value == "" or value == [] or value == {})
