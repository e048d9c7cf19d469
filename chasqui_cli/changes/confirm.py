"""The plan of a change: its preview, and the confirmation it needs.

A verb makes the plan from the very records it will change, so what was shown is what happens;
`CommandContext.confirm` asks.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

import typer

from chasqui_cli.output.escape_text import safe
from chasqui_cli.output.stdio import print_stderr
from chasqui_cli.output.writer import OutputStyle, cell_text, should_color

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chasqui_cli.output.columns import Column, Record

TYPE_NAME_ABOVE = 100
"""Above this many records the queue's name has to be typed."""
PREVIEW_ROWS = 5


@dataclass(frozen=True, slots=True)
class ChangeOptions:
    """What the command line said about changing things."""

    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done to which ids, and do nothing.")] = (
        False
    )
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False
    confirm: Annotated[
        str | None,
        typer.Option("--confirm", metavar="QUEUE", help="The queue's name, where a protected context wants it typed."),
    ] = None
    note: Annotated[
        str | None, typer.Option("--note", "--reason", metavar="TEXT", help="Why you do it; kept in `chasqui log`.")
    ] = None


def plural(count: int, noun: str) -> str:
    """A number of things; `noun` is their plural."""
    many, *rest = noun.split(" of ", 1)
    if count == 1 and " and " not in many:
        many = f"{many[:-3]}y" if many.endswith("ies") else many.removesuffix("s")
    return f"{count:,} {' of '.join([many, *rest])}"


@dataclass(frozen=True, slots=True)
class ChangePlan:
    """What is about to be done: `verb` (replay) to `records`, which are `noun` (dead letters) of `queue`.

    chosen: the filter that found them, in words. effects: what follows, a sentence each; also what stands in the way
    of none of it but should be known. link: the word before the queue's name.
    """

    verb: str
    queue: str
    noun: str
    records: Sequence[Record]
    columns: Sequence[Column] = ()
    chosen_by: str = ""
    effects: Sequence[str] = field(default=())
    preposition: str = "of"

    @property
    def headline(self) -> str:
        """The plan in one line."""
        return f"{self.verb} {plural(len(self.records), self.noun)} {self.preposition} {self.queue}"

    def print_preview(
        self, look: OutputStyle, *, place: str = "", tint: str | None = None, dry_run: bool = False
    ) -> None:
        """The preview, on stderr: where, how many, chosen how, five of them, and what follows.

        place: the context, which also has its colour (`tint`) where colours are seen.
        """
        colored = tint if should_color(look.color, sys.stderr.isatty()) else None
        print_stderr(f"{place}{'would ' if dry_run else ''}{self.headline}", color=colored)
        if self.chosen_by:
            print_stderr(f"  chosen by: {self.chosen_by}")
        for record in self.records[:PREVIEW_ROWS] if self.columns else ():
            shown = (cell_text(one, record, look) for one in self.columns if not one.wide)
            print_stderr("  · " + "  ".join(safe(text, 80) for text in shown))
        if self.columns and len(self.records) > PREVIEW_ROWS:
            print_stderr(f"  … and {len(self.records) - PREVIEW_ROWS:,} more")
        for effect in self.effects:
            print_stderr(f"  {effect}")


def require_confirmation(plan: ChangePlan, change: ChangeOptions, *, protected: bool) -> None:
    """Return if the user confirms; else raise `ChangeRefused`, and nothing has happened."""
    from chasqui.errors import ChangeRefused

    if protected and change.confirm != plan.queue:
        if change.yes or not _is_interactive():
            raise ChangeRefused(
                "this context is protected: the queue's name has to be typed", hint=f"add --confirm {plan.queue}"
            )
        _require_typed_name(plan)
    elif change.yes or change.confirm == plan.queue:
        return
    elif not _is_interactive():
        raise ChangeRefused(
            f"nobody is there to be asked whether to {plan.headline}",
            hint="add --yes, or --dry-run to see what would be done",
        )
    elif len(plan.records) > TYPE_NAME_ABOVE:
        _require_typed_name(plan)
    elif _prompt("go on? [y/N] ").lower() not in ("y", "yes"):
        raise ChangeRefused("declined", hint="nothing was changed")


def _require_typed_name(plan: ChangePlan) -> None:
    from chasqui.errors import ChangeRefused

    if _prompt(f"type the queue's name to {safe(plan.verb)}: ") != plan.queue:
        raise ChangeRefused("that is not the queue's name", hint="nothing was changed")


def _is_interactive() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def _prompt(question: str) -> str:
    sys.stderr.write(question)
    sys.stderr.flush()
    return sys.stdin.readline().strip()
