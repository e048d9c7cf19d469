"""Messages as rows for JSON lines, and back, without losing a byte: text as text, other bytes as base64."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Any

from chasqui.errors import ArgumentError
from chasqui.foreign.rsmq.message_values import Message
from chasqui.foreign.rsmq.rsmq_messages import Draft

if TYPE_CHECKING:
    from collections.abc import Mapping


def to_row(message: Message) -> dict[str, Any]:
    """A message, whole, as `of_row` reads it."""
    return {
        "id": message.id,
        **_body_fields(message.body),
        "receives": message.receives,
        "first_received_ms": message.first_received_ms,
        "visible_at_ms": message.visible_at_ms,
        "sent_us": message.sent_us,
    }


def parse_row(row: Mapping[str, Any]) -> Message | Draft:
    """A message to be restored, when the row has an id and a time; else one to be sent."""
    body = _parse_body(row)
    visible_at_ms, receives = row.get("visible_at_ms"), row.get("receives")
    if row.get("id") and visible_at_ms is not None:
        return Message(
            id=str(row["id"]),
            body=body,
            receives=receives,
            first_received_ms=row.get("first_received_ms"),
            score=str(int(visible_at_ms)),
            size=None if body is None else len(body),
            receives_seen="" if receives is None else str(int(receives)),
        )
    if body is None:
        raise ArgumentError("a message needs a body: give `body` or `body_b64`")
    return Draft(body, delay_ms=row.get("delay_ms"), id=row.get("id"))


def _body_fields(body: bytes | None) -> dict[str, Any]:
    if body is None:
        return {"body": None}
    try:
        return {"body": body.decode()}
    except UnicodeDecodeError:
        return {"body_b64": base64.b64encode(body).decode()}


def _parse_body(row: Mapping[str, Any]) -> bytes | None:
    if "body_b64" in row:
        try:
            return base64.b64decode(row["body_b64"], validate=True)
        except (binascii.Error, TypeError, ValueError) as fault:
            raise ArgumentError(f"body_b64 is no base64: {fault}") from fault
    body = row.get("body")
    if body is not None and not isinstance(body, str):
        raise ArgumentError(f"body must be text, not {type(body).__name__}; bytes go into body_b64")
    return None if body is None else body.encode("utf-8", "surrogatepass")
