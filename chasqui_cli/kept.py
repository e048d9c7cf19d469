"""What the journal keeps of a change, opened: hex is for machines, and hides secrets from nobody.

Each kind of item is read as the verb that wrote it would show the thing; how it is put back is the engine's business.
"""

from __future__ import annotations

import hashlib
import json
import shlex
from typing import TYPE_CHECKING, Any

from chasqui_cli.redaction import COVER, holds_secrets, redacted
from chasqui_cli.tagged import json_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from chasqui_cli.columns import Record
    from chasqui_cli.desk import Desk
    from chasqui_cli.journal import Item


def opened(desk: Desk, item: Item) -> Record:
    """An item as people may see it: texts for hex, payloads decoded, secrets covered unless they were asked for."""
    reader = _READERS.get(item.get("kind", ""), _unknown)
    try:
        return reader(desk, item)
    except (ValueError, TypeError, KeyError, IndexError, AttributeError):
        return _unknown(desk, item)  # another version wrote it, or a hand


def what(item: Item) -> str:
    """The one word by which an item is known: an id, a key, or a digest of what has neither."""
    if item.get("kind") == "spec":
        return _text(item.get("key", ""))
    if known := item.get("dead_id") or item.get("id"):
        return str(known)
    member = item.get("member")
    return "~" + hashlib.sha256(bytes.fromhex(member)).hexdigest()[:12] if member else ""


def command_line(desk: Desk, command: str) -> str:
    """A command line that was written down. A word of it may be a payload, and hold what payloads hold."""
    try:
        words = shlex.split(command)
    except ValueError:
        words = [command]
    return command if desk.show_secrets else str(redacted(shlex.join(map(_covered_word, words))))


def _covered_word(word: str) -> str:
    if word[:1] not in ("{", "["):
        return word
    try:
        data = json.loads(word)
    except (ValueError, RecursionError):
        return word
    return json_text(redacted(data)) if holds_secrets(data) else word


def _letter(desk: Desk, item: Item) -> Record:
    """`dead`, `replayed`: the letter, and the bytes its job has become where these differ."""
    from chasqui.dlq import DeadLetter

    letter = DeadLetter(item["dead_id"], [bytes.fromhex(word) for word in item["fields"]])
    told = letter.opened()
    record = _rest(item, "fields", "d") | {
        "name": told.name,
        "reason": told.reason,
        "detail": desk.shown(told.detail),
        "job": _envelope(desk, told.d),
    }
    becomes = _envelope(desk, bytes.fromhex(item["d"])) if "d" in item else record["job"]
    return record if becomes == record["job"] else record | {"becomes": becomes}


def _delayed(desk: Desk, item: Item) -> Record:
    """`delayed`, `added`: the member of the delayed set, where there is one."""
    from chasqui import decode_delayed_member
    from chasqui.errors import WireError

    record = _rest(item, "member")
    if not item.get("member"):
        return record
    data = bytes.fromhex(item["member"])
    try:
        member = decode_delayed_member(data, len(data))
    except WireError as fault:
        return record | {"job": _unreadable(desk, data, str(fault))}
    return record | {"name": member.name, "job": _job(desk, member.envelope)}


def _spec(desk: Desk, item: Item) -> Record:
    """`spec`: the schedule that stood there, and the one that took its place."""
    before, after = (bytes.fromhex(item[name] or "") for name in ("spec", "left"))
    return {
        "kind": item["kind"],
        "key": _text(item["key"]),
        "before": _schedule(desk, before) if before else None,
        "after": _schedule(desk, after) if after else None,
        "next_ms": item["next_ms"],
        "fired": None if item["fired"] is None else _text(item["fired"]),
    }


def _rsmq(desk: Desk, item: Item) -> Record:
    """`rsmq`: a message, or the attributes of a queue."""
    from chasqui_cli.commands.rsmq.naming import body_data

    record = _rest(item, "body", "id_hex", "attributes") | _named(item)
    if "to" in item:
        record["to"] = _named(item["to"])
    if "attributes" in item:
        return record | {"attributes": {name: _text(value) for name, value in item["attributes"].items()}}
    body = None if item.get("body") is None else body_data(bytes.fromhex(item["body"]))
    return record | {"data": _readable(desk, body)}


def _joblist(desk: Desk, item: Item) -> Record:
    """`joblist`: a job's hash."""
    from chasqui_cli.commands.rsmq.naming import body_data

    fields = {_text(name): body_data(bytes.fromhex(value)) for name, value in item["fields"]}
    shown = {name: _readable(desk, value) for name, value in desk.shown(fields).items()}
    return _rest(item, "fields", "id_hex") | _named(item) | {"fields": shown}


def _unknown(desk: Desk, item: Item) -> Record:
    """What cannot be opened may hold anything: its texts are covered, all but what kind it says it is."""
    if desk.show_secrets:
        return item
    return {name: value if name == "kind" or value is None else COVER for name, value in item.items()}


def _plain(_: Desk, item: Item) -> Record:
    return item


def _envelope(desk: Desk, data: bytes) -> Record:
    from chasqui import decode_envelope
    from chasqui.errors import WireError

    try:
        return _job(desk, decode_envelope(data, len(data)))
    except WireError as fault:
        return _unreadable(desk, data, str(fault))


def _job(desk: Desk, envelope: Any) -> Record:
    from chasqui_cli.records import envelope_record

    record = envelope_record(envelope)
    payload = record.pop("payload")
    known = {name: record[name] for name in ("id", "created_at_ms", "attempt", "retry")}
    return known | _carried(desk, payload)


def _schedule(desk: Desk, data: bytes) -> Record:
    from chasqui import decode_repeat_spec
    from chasqui.errors import WireError
    from chasqui_cli.records import spec_record

    try:
        record = spec_record(decode_repeat_spec(data, len(data)))
    except WireError as fault:
        return _unreadable(desk, data, str(fault))
    payload = record.pop("payload")
    return {name: value for name, value in record.items() if name not in ("kind", "next_fire_ms")} | _carried(
        desk, payload
    )


def _carried(desk: Desk, payload: Record) -> Record:
    if "undecodable" in payload:
        return _unreadable(desk, bytes.fromhex(payload["hex"]), payload["undecodable"])
    return {"data": desk.shown(payload["data"])}


def _unreadable(desk: Desk, data: bytes, why: str) -> Record:
    """Bytes that nobody could open may still hold a secret in plain letters."""
    return {"undecodable": why, "bytes": len(data)} | ({"data": data} if desk.show_secrets else {})


def _readable(desk: Desk, value: Any) -> Any:
    return _unreadable(desk, value, "no text") if isinstance(value, bytes) else desk.shown(value)


def _rest(item: Item, *opened: str) -> Record:
    return {name: value for name, value in item.items() if name not in opened}


def _named(place: Item) -> Record:
    return {name: _text(place[name]) for name in ("namespace", "queue") if name in place}


def _text(data: str) -> str:
    return bytes.fromhex(data).decode("utf-8", "surrogateescape")


_READERS: dict[str, Callable[[Desk, Item], Record]] = {
    "dead": _letter,
    "replayed": _letter,
    "imported": _plain,
    "delayed": _delayed,
    "added": _delayed,
    "spec": _spec,
    "rsmq": _rsmq,
    "joblist": _joblist,
}
