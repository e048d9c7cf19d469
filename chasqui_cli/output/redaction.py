"""Values that look like secrets, covered: a payload on a screen or in a file is read by more people than the job was for.

Keys decide, by the words in them; text that carries its own password (a URL, a bearer token) is covered too. Bytes
that cannot be read are left alone: what they are is not known.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise
from typing import Any

PLACEHOLDER = "«redacted»"

_SECRET_WORDS = {
    "password", "passwd", "passphrase", "pwd", "secret", "secrets", "token", "authorization", "auth", "apikey",
    "credential", "credentials", "cookie", "card", "cardnumber", "creditcard", "cvv", "cvc", "pan", "iban", "ssn",
    "pin", "otp", "privatekey", "accesskey", "secretkey", "signature", "jwt", "bearer",
}  # fmt: skip
_SECRET_PAIRS = {("api", "key"), ("private", "key"), ("access", "key"), ("secret", "key"), ("card", "number")}
_WORD_PATTERN = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_SECRETS_IN_TEXT = (
    (re.compile(r"([a-z][a-z0-9+.-]*://[^/\s:@]*:)[^@\s/]+(@)", re.IGNORECASE), rf"\1{PLACEHOLDER}\2"),
    (re.compile(r"\b(bearer|basic)\s+[\w.~+/=-]{8,}", re.IGNORECASE), rf"\1 {PLACEHOLDER}"),
    # As errors quote what they choked on: {'password': 'hunter2'}, token=abc.
    (
        re.compile(
            r"""((?:password|passwd|secret|token|api[_-]?key|authorization|cvv)\w*["']?\s*[:=]\s*)"""
            r"""(?:"[^"]*"|'[^']*'|[^\s,;&"'}\])]+)""",
            re.IGNORECASE,
        ),
        rf"\1{PLACEHOLDER}",
    ),
)


def redacted(value: Any) -> Any:
    """The value with its secrets covered."""
    if isinstance(value, dict):
        return {key: _redacted_item(key, item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [redacted(item) for item in value]
    return _redacted_text(value) if isinstance(value, str) else _redacted_pairs(value)


def has_secrets(value: Any) -> bool:
    """Whether anything in it would be covered."""
    return bool(redacted(value) != value)


def _redacted_item(key: Any, item: Any) -> Any:
    return PLACEHOLDER if item not in (None, "", [], {}) and _is_secret_key(key) else redacted(item)


def _is_secret_key(key: Any) -> bool:
    return isinstance(key, str) and _has_secret_word(key)


@lru_cache(maxsize=4096)
def _has_secret_word(key: str) -> bool:
    words = [word.lower() for word in _WORD_PATTERN.findall(key)]
    pairs = set(pairwise(words))
    return not _SECRET_WORDS.isdisjoint([*words, "".join(words)]) or not _SECRET_PAIRS.isdisjoint(pairs)


def _redacted_text(text: str) -> str:
    # Most texts are one word, and no address.
    if "://" not in text and len(text.split(None, 1)) < 2:
        return text
    for pattern, cover in _SECRETS_IN_TEXT:
        text = pattern.sub(cover, text)
    return text


def _redacted_pairs(value: Any) -> Any:
    """A map with keys that are not plain text is decoded as pairs."""
    pairs = getattr(value, "pairs", None)
    return type(value)(tuple((key, _redacted_item(key, item)) for key, item in pairs)) if pairs is not None else value
