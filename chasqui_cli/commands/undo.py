"""`chasqui undo`: take a change back, item by item. How an item is taken back is the engine's to know, by its kind."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from chasqui_cli.changes.confirm import ChangePlan
from chasqui_cli.changes.journal_items import item_label, redacted_command
from chasqui_cli.context.command_context import CommandContext, command
from chasqui_cli.exit_codes import ExitCode
from chasqui_cli.output.columns import column
from chasqui_cli.output.escape_text import safe

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chasqui import Keys
    from chasqui.undo.undo_items import Revert
    from chasqui_cli.changes.journal import JournalEntry, JournalItem
    from chasqui_cli.context.session import Session
    from chasqui_cli.exit_codes import ExitCode
from chasqui_cli.output.columns import Record

SUCCESS_OUTCOMES = ("restored", "removed", "cancelled", "already", "untouched")
OUTCOME_REASONS = {
    "gone": "it is not where the change put it: a worker has had it, or somebody else changed it",
    "started": "a worker has read it already",
    "changed": "it is not as the change left it; what stands there now is newer, and stays",
    "unknown kind": "another version of chasqui wrote it down",
    "unreadable": "what the journal has of it is damaged",
}
UNDO_SCHEMA = {"number": "int", "kind": "str", "what": "str", "outcome": "str"}
COLUMNS = [column("number"), column("kind"), column("what"), column("outcome")]
PAGE_SIZE = 200
COMMAND_PREVIEW_CHARS = 200
"""Characters of the command line that is shown: it may name thousands of ids."""


@command("undo", schema=UNDO_SCHEMA, changes=True)
def undo(
    ctx: CommandContext,
    op: Annotated[
        str, typer.Argument(metavar="OP", help="Which operation, as `chasqui log` lists it; may be cut short.")
    ],
    here: Annotated[
        bool, typer.Option("--here", help="On this server, though the operation was made at another URL.")
    ] = False,
) -> None:
    """Take an operation back, as far as that is still possible: deleted letters return, replayed jobs that nobody has
    read are dead letters again.

    Each item is restored once, also when an undo is killed and run again. What could not be taken back is told with the
    reason, and the exit code is 3.
    """
    from chasqui import Keys

    entry = ctx.journal().entry(op)
    _require_not_undone(ctx, entry)
    ctx = _with_operation_server(ctx, entry, here=here)
    items = list(enumerate(ctx.journal().items(entry)))
    records = [_item_record(number, item) for number, item in items]
    made = entry.operation
    plan = ChangePlan(
        "undo",
        made.queue,
        f"items of {made.op} ({made.verb})",
        records,
        COLUMNS[:-1],
        effects=[
            f"it was: {safe(redacted_command(ctx, made.command), COMMAND_PREVIEW_CHARS)}",
            "what has moved on in the meantime stays as it is, and is told",
        ],
    )
    if not ctx.confirm(plan):
        ctx.write_records([one | {"outcome": "would undo"} for one in records], COLUMNS)
        return
    with ctx.session() as session, ctx.journal_operation(made.queue) as pen:
        reverted = _undo_items(ctx, session, Keys(made.queue), entry, items)
        counts = Counter(one["outcome"] for one in reverted)
        pen.done = sum(counts[outcome] for outcome in SUCCESS_OUTCOMES)
        pen.set_result(undoes=made.op, **counts)
        if any(one["outcome"] in SUCCESS_OUTCOMES for one in reverted):
            ctx.journal().mark_undone(entry, pen.operation.op)
    ctx.info("  ".join(f"{outcome} {count:,}" for outcome, count in counts.items()))
    for outcome in counts.keys() & OUTCOME_REASONS.keys():
        ctx.info(f"{outcome}: {OUTCOME_REASONS[outcome]}")
    ctx.write_records(reverted, COLUMNS)
    if any(one["outcome"] not in SUCCESS_OUTCOMES for one in reverted):
        raise typer.Exit(ExitCode.PARTLY)


def _require_not_undone(ctx: CommandContext, entry: JournalEntry) -> None:
    from chasqui.errors import ChangeRefused

    if entry.undone:
        command = redacted_command(ctx, entry.operation.command)
        raise ChangeRefused(
            f"{entry.operation.op} was undone already",
            hint=f"`chasqui log {entry.operation.op}` tells more; to change it again, repeat: {command}",
        )


def _with_operation_server(ctx: CommandContext, entry: JournalEntry, *, here: bool) -> CommandContext:
    """The context, at the server the operation was made on: its context is used where no other server was named."""
    from chasqui import redact
    from chasqui.errors import ChangeRefused

    made = entry.operation
    if made.context and not ctx.connection.names_a_server:
        ctx = replace(ctx, connection=replace(ctx.connection, context=made.context))
    url = redact(ctx.settings.url)
    if url != made.url and not here:
        raise ChangeRefused(
            f"{made.op} was made at {made.url}, and this is {url}",
            hint=f"name that server: -u {made.url}; or say --here if it is the same one",
        )
    return ctx


def _item_record(number: int, item: JournalItem) -> Record:
    return {"number": number, "kind": item.get("kind", ""), "what": item_label(item)}


def _undo_items(
    ctx: CommandContext, session: Session, keys: Keys, entry: JournalEntry, items: Sequence[tuple[int, JournalItem]]
) -> list[Record]:
    """What became of each item, in the order they were kept."""
    outcomes = {number: "untouched" for number, item in items if "untouched" in item}
    reverts = revert_by_kind()
    with ctx.progress("undoing", len(items)) as advance:
        for kind in dict.fromkeys(item.get("kind", "") for _, item in items):
            revert = reverts.get(kind)
            mine = [(n, item) for n, item in items if item.get("kind", "") == kind and n not in outcomes]
            for start in range(0, len(mine), PAGE_SIZE):
                some = mine[start : start + PAGE_SIZE]
                answers = (
                    _revert_page(session, revert, keys, entry.operation.op, [item for _, item in some])
                    if revert
                    else ["unknown kind"] * len(some)
                )
                outcomes |= {number: answer for (number, _), answer in zip(some, answers, strict=True)}
                advance(len(outcomes))
    return [_item_record(number, item) | {"outcome": outcomes[number]} for number, item in items]


def _revert_page(session: Session, revert: Revert, keys: Keys, op: str, items: Sequence[JournalItem]) -> Sequence[str]:
    """What became of each. Where a damaged item stops the page, each is tried alone: what was restored stays restored."""
    from chasqui.errors import ChasquiError

    try:
        return session.run(revert, keys, op, items)
    except (ValueError, TypeError, KeyError) as error:
        if isinstance(error, ChasquiError):
            raise
        if len(items) == 1:
            return ["unreadable"]
        return [_revert_page(session, revert, keys, op, [item])[0] for item in items]


def revert_by_kind() -> dict[str, Revert]:
    """How items are taken back, by their kind; another version of chasqui may have written items of other kinds."""
    from chasqui import foreign
    from chasqui.undo import REVERT_BY_KIND

    return REVERT_BY_KIND | foreign.REVERT_BY_KIND
