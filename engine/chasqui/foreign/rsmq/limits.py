"""What RSMQ allows, in the words of npm `rsmq` 0.12.4: limits, defaults, and its errors by name and text.

Only what is written is held to them. Queues that another client named or filled otherwise can be looked at and managed.
"""

from __future__ import annotations

import re

from chasqui.errors import ArgumentError, ChasquiError, Conflict, NotFound

VT_S, DELAY_S, MAXSIZE = 30, 0, 65536
MAX_SECONDS = 9_999_999
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,160}")
_ID = re.compile(r"[a-zA-Z0-9:]{32}")
_LEADING_NUMBER = re.compile(r"\s*([+-]?\d+)")


class RsmqError(ChasquiError):
    """Root of what RSMQ refuses; `name` is what its own client calls it."""

    name = "error"


class QueueNotFound(RsmqError, NotFound):
    """There is no such queue, or not a whole one."""

    name = "queueNotFound"

    def __init__(self) -> None:
        super().__init__("Queue not found")


class QueueExists(RsmqError, Conflict):
    """There is a queue of this name."""

    name = "queueExists"

    def __init__(self) -> None:
        super().__init__("Queue exists")


class MissingParameter(RsmqError, ArgumentError):
    """Something must be given."""

    name = "missingParameter"

    def __init__(self, what: str) -> None:
        super().__init__(f"No {what} supplied")


class InvalidFormat(RsmqError, ArgumentError):
    """A name or an id does not look like one."""

    name = "invalidFormat"

    def __init__(self, what: str) -> None:
        super().__init__(f"Invalid {what} format")


class InvalidValue(RsmqError, ArgumentError):
    """A number is out of bounds."""

    name = "invalidValue"

    def __init__(self, what: str, least: int, most: int) -> None:
        super().__init__(f"{what} must be between {least} and {most}")


class NoAttributeSupplied(RsmqError, ArgumentError):
    """Nothing to be set was given."""

    name = "noAttributeSupplied"

    def __init__(self) -> None:
        super().__init__("No attribute was supplied")


class MessageNotString(RsmqError, ArgumentError):
    """A body is text or bytes."""

    name = "messageNotString"

    def __init__(self) -> None:
        super().__init__("Message must be a string")


class MessageTooLong(RsmqError, ArgumentError):
    """A body is longer than its queue allows."""

    name = "messageTooLong"

    def __init__(self) -> None:
        super().__init__("Message too long")


def check_name(name: object) -> str:
    """A queue's name, as every client can read it."""
    if not name:
        raise MissingParameter("qname")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidFormat("qname")
    return name


def check_id(message_id: object) -> str:
    """A message id, as every client can delete it."""
    if not message_id:
        raise MissingParameter("id")
    if not isinstance(message_id, str) or not _ID.fullmatch(message_id):
        raise InvalidFormat("id")
    return message_id


def parse_seconds(what: str, value: object) -> int:
    """A `vt` or `delay` in whole seconds; text and fractions are read as JavaScript's parseInt reads them."""
    number = parse_int_prefix(value)
    if number is None or not 0 <= number <= MAX_SECONDS:
        raise InvalidValue(what, 0, MAX_SECONDS)
    return number


def check_milliseconds(what: str, value: int) -> int:
    """The same bounds for a single message, where times may be in ms."""
    if not 0 <= value <= MAX_SECONDS * 1000:
        raise InvalidValue(what, 0, MAX_SECONDS)
    return value


def parse_maxsize(value: object) -> int:
    """How long a body may be; -1 for any length."""
    number = parse_int_prefix(value)
    if number is None or (number != -1 and not 1024 <= number <= 65536):
        raise InvalidValue("maxsize", 1024, 65536)
    return number


def parse_int_prefix(value: object) -> int | None:
    """A number as parseInt reads it; None for what is none."""
    found = _LEADING_NUMBER.match(value if isinstance(value, str) else str(value))
    return int(found[1]) if found else None


def encode_body(body: object, most: int = -1) -> bytes:
    """A body as stored. Its length is counted in UTF-16 units, as in JavaScript; that of other bytes, in bytes."""
    if not isinstance(body, str | bytes):
        raise MessageNotString
    raw = body if isinstance(body, bytes) else body.encode("utf-8", "surrogatepass")
    if most != -1 and (len(raw) > most and _utf16_length(raw) > most):
        raise MessageTooLong
    return raw


def _utf16_length(raw: bytes) -> int:
    try:
        return len(raw.decode().encode("utf-16-le")) // 2
    except UnicodeDecodeError:
        return len(raw)
