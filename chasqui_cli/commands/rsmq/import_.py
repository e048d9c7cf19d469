"""`chasqui rsmq import`: messages from JSON lines, as exported or new."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from chasqui_cli.changes.confirm import ChangePlan
from chasqui_cli.commands.rsmq._options import DEFAULT_NAMESPACE, NamespaceOption, QueueArgument, rsmq_keys
from chasqui_cli.commands.rsmq._search import PAGE_SIZE, require_queue
from chasqui_cli.commands.rsmq.export import COLUMNS
from chasqui_cli.context.command_context import CommandContext, command
from chasqui_cli.input.values import open_input
from chasqui_cli.output.columns import column

if TYPE_CHECKING:
    from chasqui.foreign import RsmqKeys
    from chasqui.foreign.rsmq import Draft, Message
    from chasqui_cli.context.session import Session
    from chasqui_cli.output.columns import Record

IMPORT_SCHEMA = {"line": "int", "id": "str?", "outcome": "str", "error": "str?"}


@command(
    "rsmq import",
    schema=IMPORT_SCHEMA,
    changes=True,
    undoable=True,
    failed=("unreadable", "redacted"),
    local_paths=("file",),
)
def import_(
    ctx: CommandContext,
    queue: QueueArgument,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="JSON lines, as exported; - for stdin.")],
    ns: NamespaceOption = DEFAULT_NAMESPACE,
) -> None:
    """Add messages from JSON lines: exported ones with id, time and counters, others (`{"body": …}`) as new.

    What has an id that is there already is skipped, so an import may be run again. `chasqui undo` takes out what nobody
    has received.
    """
    from chasqui.foreign import check_same_slot

    keys = rsmq_keys(queue, ns)
    with open_input(file, "name a file, or - for stdin") as source:
        rows = [_parse_line(number, text) for number, text in enumerate(source, 1) if text.strip()]
    good = [(record, found) for record, found in rows if found is not None]
    with ctx.session() as session:
        check_same_slot(session.link, keys)
        require_queue(session, keys)
        plan = ChangePlan(
            "import",
            queue,
            "messages",
            [record for record, _ in good],
            [column("id"), column("line")],
            chosen_by=str(file),
            effects=[f"unreadable lines: {len(rows) - len(good):,}"] if len(good) < len(rows) else [],
        )
        if ctx.confirm(plan):
            _import_messages(ctx, session, keys, good)
    ctx.write_outcomes([record for record, _ in rows], COLUMNS)


def _parse_line(number: int, text: str) -> tuple[Record, Message | Draft | None]:
    """The message of a line and its record; without a message, the record has the error."""
    from chasqui.errors import ArgumentError
    from chasqui.foreign import rsmq
    from chasqui_cli.output.tagged_json import untagged

    record: Record = {"line": number, "id": None, "outcome": "unreadable", "error": None}
    try:
        row = json.loads(text)
        if row.get("redacted"):
            return record | {"id": row.get("id"), "outcome": "redacted", "error": "its body was left out"}, None
        found = rsmq.parse_row({name: untagged(value) for name, value in row.items()})
    except (ValueError, TypeError, AttributeError, RecursionError, ArgumentError) as error:
        return record | {"error": f"{type(error).__name__}: {error}"}, None
    return record | {"id": found.id, "outcome": "would import"}, found


def _import_messages(
    ctx: CommandContext, session: Session, keys: RsmqKeys, good: list[tuple[Record, Message | Draft]]
) -> None:
    from chasqui.foreign import rsmq

    with ctx.journal_operation(keys.queue) as journal, ctx.progress("importing", len(good)) as advance:
        for start in range(0, len(good), PAGE_SIZE):
            page = good[start : start + PAGE_SIZE]
            ids = [found.id for _, found in page if found.id]
            there = {one.id for one in session.link.run(rsmq.messages_by_id(keys, ids)).messages} if ids else set[str]()
            fresh = [(record, found) for record, found in page if found.id not in there]
            drafts = [(record, found) for record, found in fresh if isinstance(found, rsmq.Draft)]
            prepared = session.link.run(rsmq.prepare_messages(keys, [draft for _, draft in drafts])) if drafts else []
            messages = [found for _, found in fresh if isinstance(found, rsmq.Message)] + prepared
            journal.write_items([rsmq.message_item(keys, "sent", message) for message in messages])
            if messages:
                session.link.run(rsmq.import_messages(keys, messages))
            for (record, _), message in zip(drafts, prepared, strict=True):
                record["id"] = message.id
            for record, _ in page:
                record["outcome"] = "there already" if record["id"] in there else "imported"
            journal.done += len(messages)
            advance(start + len(page))
        journal.set_result(imported=journal.done, skipped=len(good) - journal.done)
