"""Journal items as people may read them: hex decoded, secrets redacted.

Each kind of item is read as the verb that wrote it would show the thing; how it is put back is the engine's business.
"""

from __future__ import annotations

import hashlib
import json
import shlex
from typing import TYPE_CHECKING, Any

from chasqui_cli.output.redaction import PLACEHOLDER, has_secrets, redacted
from chasqui_cli.output.tagged_json import json_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from chasqui_cli.changes.journal import JournalItem
    from chasqui_cli.context.command_context import CommandContext
    from chasqui_cli.output.columns import Record


def readable_item(ctx: CommandContext, item: JournalItem) -> Record:
    """An item as people may see it: texts for hex, payloads decoded, secrets covered unless they were asked for."""
    reader = _READER_BY_KIND.get(item.get("kind", ""), _unreadable_item)
    try:
        return reader(ctx, item)
    except (ValueError, TypeError, KeyError, IndexError, AttributeError):
        return _unreadable_item(ctx, item)  # another version wrote it, or a hand


def item_label(item: JournalItem) -> str:
    """The one word by which an item is known: an id, a key, or a digest of what has neither."""
    try:
        if item.get("kind") == "spec":
            return _decode_hex(item.get("key", ""))
        if known := item.get("dead_id") or item.get("id"):
            return str(known)
        member = item.get("member")
        return "~" + hashlib.sha256(bytes.fromhex(member)).hexdigest()[:12] if member else ""
    except (ValueError, TypeError):
        return ""  # damaged


def redacted_command(ctx: CommandContext, command: str) -> str:
    """A command line that was written down. A word of it may be a payload, and hold what payloads hold."""
    try:
        words = shlex.split(command)
    except ValueError:
        words = [command]
    return command if ctx.show_secrets else str(redacted(shlex.join(map(_redacted_word, words))))


def _redacted_word(word: str) -> str:
    if word[:1] not in ("{", "["):
        return word
    try:
        data = json.loads(word)
    except (ValueError, RecursionError):
        return word
    return json_text(redacted(data)) if has_secrets(data) else word


def _dead_letter_item(ctx: CommandContext, item: JournalItem) -> Record:
    """`dead`, `replayed`: the dead letter, and its job's new bytes where these differ."""
    from chasqui.operate.dead_letters import DeadLetter

    letter = DeadLetter(item["dead_id"], [bytes.fromhex(word) for word in item["fields"]])
    decoded = letter.decoded()
    record = _without_fields(item, "fields", "d") | {
        "name": decoded.name,
        "reason": decoded.reason,
        "detail": ctx.redacted(decoded.detail),
        "job": _envelope_record(ctx, decoded.d),
    }
    becomes = _envelope_record(ctx, bytes.fromhex(item["d"])) if "d" in item else record["job"]
    return record if becomes == record["job"] else record | {"becomes": becomes}


def _delayed_item(ctx: CommandContext, item: JournalItem) -> Record:
    """`delayed`, `added`: the member of the delayed set, where there is one."""
    from chasqui import decode_delayed_member
    from chasqui.errors import WireError

    record = _without_fields(item, "member")
    if not item.get("member"):
        return record
    data = bytes.fromhex(item["member"])
    try:
        member = decode_delayed_member(data, len(data))
    except WireError as fault:
        return record | {"job": _undecodable_record(ctx, data, str(fault))}
    return record | {"name": member.name, "job": _job_record(ctx, member.envelope)}


def _schedule_item(ctx: CommandContext, item: JournalItem) -> Record:
    """`spec`: the schedule that stood there, and the one that took its place."""
    before, after = (bytes.fromhex(item[name] or "") for name in ("spec", "left"))
    return {
        "kind": item["kind"],
        "key": _decode_hex(item["key"]),
        "before": _schedule_record(ctx, before) if before else None,
        "after": _schedule_record(ctx, after) if after else None,
        "next_ms": item["next_ms"],
        "fired": None if item["fired"] is None else _decode_hex(item["fired"]),
    }


def _rsmq_item(ctx: CommandContext, item: JournalItem) -> Record:
    """`rsmq`: a message, or the attributes of a queue."""
    from chasqui_cli.output.records import body_value

    record = _without_fields(item, "body", "id_hex", "attributes") | _queue_fields(item)
    if "to" in item:
        record["to"] = _queue_fields(item["to"])
    if "attributes" in item:
        return record | {"attributes": {name: _decode_hex(value) for name, value in item["attributes"].items()}}
    body = None if item.get("body") is None else body_value(bytes.fromhex(item["body"]))
    return record | {"data": _readable_value(ctx, body)}


def _joblist_item(ctx: CommandContext, item: JournalItem) -> Record:
    """`joblist`: a job's hash."""
    from chasqui_cli.output.records import body_value

    fields = {_decode_hex(name): body_value(bytes.fromhex(value)) for name, value in item["fields"]}
    shown = {name: _readable_value(ctx, value) for name, value in ctx.redacted(fields).items()}
    return _without_fields(item, "fields", "id_hex") | _queue_fields(item) | {"fields": shown}


def _unreadable_item(ctx: CommandContext, item: JournalItem) -> Record:
    """An item that cannot be decoded may hold anything: all but its kind is redacted."""
    if ctx.show_secrets:
        return item
    return {name: value if name == "kind" or value is None else PLACEHOLDER for name, value in item.items()}


def _item_unchanged(_: CommandContext, item: JournalItem) -> Record:
    return item


def _envelope_record(ctx: CommandContext, data: bytes) -> Record:
    from chasqui import decode_envelope
    from chasqui.errors import WireError

    try:
        return _job_record(ctx, decode_envelope(data, len(data)))
    except WireError as fault:
        return _undecodable_record(ctx, data, str(fault))


def _job_record(ctx: CommandContext, envelope: Any) -> Record:
    from chasqui_cli.output.records import envelope_record

    record = envelope_record(envelope)
    payload = record.pop("payload")
    known = {name: record[name] for name in ("id", "created_at_ms", "attempt", "retry")}
    return known | _payload_fields(ctx, payload)


def _schedule_record(ctx: CommandContext, data: bytes) -> Record:
    from chasqui import decode_repeat_spec
    from chasqui.errors import WireError
    from chasqui_cli.output.records import spec_record

    try:
        record = spec_record(decode_repeat_spec(data, len(data)))
    except WireError as fault:
        return _undecodable_record(ctx, data, str(fault))
    payload = record.pop("payload")
    return {name: value for name, value in record.items() if name not in ("kind", "next_fire_ms")} | _payload_fields(
        ctx, payload
    )


def _payload_fields(ctx: CommandContext, payload: Record) -> Record:
    if "undecodable" in payload:
        return _undecodable_record(ctx, bytes.fromhex(payload["hex"]), payload["undecodable"])
    return {"data": ctx.redacted(payload["data"])}


def _undecodable_record(ctx: CommandContext, data: bytes, why: str) -> Record:
    """Undecodable bytes may still hold a secret as plain text."""
    return {"undecodable": why, "bytes": len(data)} | ({"data": data} if ctx.show_secrets else {})


def _readable_value(ctx: CommandContext, value: Any) -> Any:
    return _undecodable_record(ctx, value, "no text") if isinstance(value, bytes) else ctx.redacted(value)


def _without_fields(item: JournalItem, *opened: str) -> Record:
    return {name: value for name, value in item.items() if name not in opened}


def _queue_fields(place: JournalItem) -> Record:
    return {name: _decode_hex(place[name]) for name in ("namespace", "queue") if name in place}


def _decode_hex(data: str) -> str:
    return bytes.fromhex(data).decode("utf-8", "surrogateescape")


_READER_BY_KIND: dict[str, Callable[[CommandContext, JournalItem], Record]] = {
    "dead": _dead_letter_item,
    "replayed": _dead_letter_item,
    "imported": _item_unchanged,
    "delayed": _delayed_item,
    "added": _delayed_item,
    "spec": _schedule_item,
    "rsmq": _rsmq_item,
    "joblist": _joblist_item,
}
