"""A message of RSMQ as a record, for tables, JSON and expressions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chasqui_cli.output.records import body_value

if TYPE_CHECKING:
    from chasqui.foreign.rsmq import Message
    from chasqui_cli.context.command_context import CommandContext
    from chasqui_cli.output.columns import Record

MESSAGE_SCHEMA: dict[str, Any] = {
    "id": "str",
    "state": "str",
    "visible_at_ms": "int",
    "receives": "int?",
    "first_received_ms": "int?",
    "sent_ms": "int?",
    "size": "int?",
    "data": "any",
}


def message_record(ctx: CommandContext, message: Message, now_ms: int) -> Record:
    """A message as people and expressions see it, with secrets redacted."""
    return {
        "id": message.id,
        "state": message.state(now_ms),
        "visible_at_ms": message.visible_at_ms,
        "receives": message.receives,
        "first_received_ms": message.first_received_ms,
        "sent_ms": None if message.sent_us is None else message.sent_us // 1000,
        "size": message.size,
        "data": ctx.redacted(body_value(message.body)),
    }
