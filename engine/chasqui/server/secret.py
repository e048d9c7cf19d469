"""Passwords in memory and passwords in text: a `Secret` no repr shows, and the redaction of anything that may hold a URL.

Where a password comes from (flag, environment, prompt) is the caller's business; only the password file is read here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from chasqui.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

HIDDEN = "***"

# Over-redaction is the wanted mistake: a password may itself hold @, / or blanks, so all up to the last @ goes.
_USERINFO = re.compile(r"(://)(?:(?!://)[^\n])*@")
_QUERY = re.compile(r"([?&;][\w-]*(?:passw|pwd|secret|token|auth)[\w-]*=)[^&\s#'\"]*", re.IGNORECASE)


@dataclass(frozen=True, slots=True, repr=False)
class Secret:
    """A text that shows itself only when asked by name: not in repr, str, logs or tracebacks with locals."""

    _text: str

    @classmethod
    def wrap(cls, value: str | Secret | None) -> Secret | None:
        """The value, wrapped if it is not; nothing stays nothing."""
        return value if value is None or isinstance(value, Secret) else cls(value)

    def reveal(self) -> str:
        """The text itself. Hand it on; do not keep it."""
        return self._text

    def __repr__(self) -> str:
        return HIDDEN

    __str__ = __repr__


def redact(text: str) -> str:
    """The text with every URL's user part and every password-like query value hidden."""
    return _QUERY.sub(rf"\1{HIDDEN}", _USERINFO.sub(rf"\1{HIDDEN}@", text))


def read_password_file(path: Path) -> Secret:
    """The file's first and only line. A file others could read is refused, as ssh refuses such keys."""
    try:
        mode = path.stat().st_mode
        text = path.read_text(encoding="utf-8").rstrip("\r\n") if not mode & 0o077 else ""
    except (OSError, UnicodeDecodeError) as problem:
        reason = getattr(problem, "strerror", None) or "it is not UTF-8 text"
        raise ConfigError(f"cannot read the password file {path}: {reason}") from None
    if mode & 0o077:
        raise ConfigError(f"the password file {path} can be read by others", hint=f"chmod 600 {path}")
    if not text or "\n" in text:
        raise ConfigError(f"the password file {path} should hold one line: the password")
    return Secret(text)
