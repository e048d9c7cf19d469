"""`chasqui rsmq export`: messages as JSON lines, byte for byte."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from chasqui_cli.commands.rsmq._options import DEFAULT_NAMESPACE, NamespaceOption, QueueArgument, rsmq_keys
from chasqui_cli.commands.rsmq._search import PAGE_SIZE, require_queue
from chasqui_cli.context.command_context import CommandContext, command
from chasqui_cli.output.columns import column
from chasqui_cli.output.json_schema import OptionalKey
from chasqui_cli.output.records import body_value
from chasqui_cli.output.tagged_json import json_text
from chasqui_cli.output.writer import Format, print_line

if TYPE_CHECKING:
    from chasqui.foreign.rsmq import Message

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
COLUMNS = [column("id"), column("line"), column("outcome"), column("error")]


@command("rsmq export", Format.JSONL, schema=EXPORT_SCHEMA, payloads=True)
def export(ctx: CommandContext, queue: QueueArgument, ns: NamespaceOption = DEFAULT_NAMESPACE) -> None:
    """Write every message as a JSON line, whole, for `rsmq import`; nothing is received.

    A body that holds secrets is left out and marked `redacted`; --show-secrets exports all of them.
    """
    from chasqui.foreign import rsmq
    from chasqui_cli.output.redaction import has_secrets

    if ctx.output is not Format.JSONL:
        raise typer.BadParameter("an export is JSON lines; `rsmq peek` knows the other formats")
    keys, count, covered = rsmq_keys(queue, ns), 0, 0
    after: Message | None = None
    with ctx.session() as session:
        require_queue(session, keys)
        while True:
            page = session.link.run(rsmq.read_page(keys, after=after, count=PAGE_SIZE))
            for message in page.messages:
                row = rsmq.to_row(message)
                if not ctx.show_secrets and has_secrets(body_value(message.body)):
                    row = {name: row[name] for name in row if not name.startswith("body")} | {"redacted": True}
                    covered += 1
                print_line(json_text(row))
            count, after = count + len(page.messages), page.after
            if after is None:
                break
    ctx.info(f"exported {count:,} messages")
    if covered:
        ctx.info(f"{covered:,} of them hold secrets and have no body; --show-secrets exports them whole")
