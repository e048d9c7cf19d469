"""`chasqui rsmq export` and `rsmq import`: messages out to JSON lines and in from them, byte for byte."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

import typer

from chasqui_cli.changes.confirm import ChangePlan
from chasqui_cli.commands.rsmq._options import (
    DEFAULT_NAMESPACE,
    NamespaceOption,
    QueueArgument,
    body_value,
    rsmq_keys,
)
from chasqui_cli.commands.rsmq._search import PAGE_SIZE, require_queue
from chasqui_cli.context.command_context import CommandContext, command
from chasqui_cli.output.columns import column
from chasqui_cli.output.json_schema import OptionalKey
from chasqui_cli.output.tagged_json import json_text
from chasqui_cli.output.writer import Format, print_line

if TYPE_CHECKING:
    from chasqui.foreign import RsmqKeys
    from chasqui.foreign.rsmq import Draft, Message
    from chasqui_cli.context.session import Session
    from chasqui_cli.output.columns import Record

EXPORT_SCHEMA: dict[str, Any] = {
    "id": "str",
    "body": OptionalKey("str?"),
    "body_b64": OptionalKey("str"),
    "receives": "int?",
    "first_received_ms": "int?",
    "visible_at_ms": "int",
    "sent_us": "int?",
    "redacted": OptionalKey("bool"),
}
IMPORT_SCHEMA = {"line": "int", "id": "str?", "outcome": "str", "error": "str?"}
COLUMNS = [column("id"), column("line"), column("outcome"), column("error")]


@command(Format.JSONL, shape=EXPORT_SCHEMA, payloads=True)
def export(desk: CommandContext, queue: QueueArgument, ns: NamespaceOption = DEFAULT_NAMESPACE) -> None:
    """Write every message as a JSON line, whole, for `rsmq import`; nothing is received.

    A body that holds secrets is left out and marked `redacted`; --show-secrets exports all of them.
    """
    from chasqui.foreign import rsmq
    from chasqui_cli.output.redaction import has_secrets

    if desk.output is not Format.JSONL:
        raise typer.BadParameter("an export is JSON lines; `rsmq peek` knows the other formats")
    keys, count, covered = rsmq_keys(queue, ns), 0, 0
    after: Message | None = None
    with desk.session() as session:
        require_queue(session, keys)
        while True:
            page = session.link.run(rsmq.read_page(keys, after=after, count=PAGE_SIZE))
            for message in page.messages:
                row = rsmq.to_row(message)
                if not desk.show_secrets and has_secrets(body_value(message.body)):
                    row = {name: row[name] for name in row if not name.startswith("body")} | {"redacted": True}
                    covered += 1
                print_line(json_text(row))
            count, after = count + len(page.messages), page.after
            if after is None:
                break
    desk.info(f"exported {count:,} messages")
    if covered:
        desk.info(f"{covered:,} of them hold secrets and have no body; --show-secrets exports them whole")


@command(shape=IMPORT_SCHEMA, changes=True)
def import_(
    desk: CommandContext,
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
    with _source(file) as source:
        rows = [_parse_line(number, text) for number, text in enumerate(source, 1) if text.strip()]
    good = [(record, found) for record, found in rows if found is not None]
    with desk.session() as session:
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
        if desk.confirm(plan):
            _import_messages(desk, session, keys, good)
    told = [record for record, _ in rows]
    desk.write_records(told, COLUMNS)
    if any(record["outcome"] in ("unreadable", "redacted") for record in told):
        raise typer.Exit(3)


def _source(file: Path) -> IO[str]:
    from chasqui.errors import NotFound

    if str(file) == "-":
        return sys.stdin
    try:
        return file.open(encoding="utf-8", errors="surrogateescape")
    except OSError as error:
        raise NotFound(f"{file}: {error.strerror}", hint="name a file, or - for stdin") from None


def _parse_line(number: int, text: str) -> tuple[Record, Message | Draft | None]:
    """The message in a line; or why there is none, in the record."""
    from chasqui.errors import ArgumentError
    from chasqui.foreign import rsmq
    from chasqui_cli.output.tagged_json import untagged

    record: Record = {"line": number, "id": None, "outcome": "unreadable", "error": None}
    try:
        row = json.loads(text)
        if row.get("redacted"):
            return record | {
                "id": row.get("id"),
                "outcome": "redacted",
                "error": "its body was left out",
            }, None
        found = rsmq.parse_row({name: untagged(value) for name, value in row.items()})
    except (ValueError, TypeError, AttributeError, RecursionError, ArgumentError) as error:
        return record | {"error": f"{type(error).__name__}: {error}"}, None
    return record | {"id": found.id, "outcome": "would import"}, found


def _import_messages(
    desk: CommandContext, session: Session, keys: RsmqKeys, good: list[tuple[Record, Message | Draft]]
) -> None:
    from chasqui.foreign import rsmq

    with (
        desk.journal_operation("rsmq import", keys.queue) as pen,
        desk.progress("importing", len(good)) as advance,
    ):
        added = 0
        for start in range(0, len(good), PAGE_SIZE):
            some = good[start : start + PAGE_SIZE]
            ids = [found.id for _, found in some if found.id]
            there = {one.id for one in session.link.run(rsmq.messages_by_id(keys, ids)).messages} if ids else set[str]()
            whole = [found for _, found in some if isinstance(found, rsmq.Message) and found.id not in there]
            pen.write_items([rsmq.message_item(keys, "sent", message) for message in whole])
            if whole:
                session.link.run(rsmq.import_messages(keys, whole))
            drafts = [
                (record, found) for record, found in some if isinstance(found, rsmq.Draft) and found.id not in there
            ]
            sent = session.link.run(rsmq.send_many(keys, [draft for _, draft in drafts])) if drafts else []
            for (record, _), message_id in zip(drafts, sent, strict=True):
                record["id"] = message_id
            fresh = session.link.run(rsmq.messages_by_id(keys, sent)).messages if sent else ()
            pen.write_items([rsmq.message_item(keys, "sent", message) for message in fresh])
            for record, _ in some:
                record["outcome"] = "there already" if record["id"] in there else "imported"
            added += len(whole) + len(sent)
            advance(start + len(some))
        pen.set_result(imported=added, skipped=len(good) - added)
