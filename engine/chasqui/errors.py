"""Every error the engine raises on purpose. Redis faults become these in `server/link.py` only.

ChasquiError                 (a RuntimeError, as callers of the reference package expect)
├── ConfigError              what was asked for cannot be right: URL, option, cron text
│   └── ArgumentError        the same, and also a ValueError: one argument of one call
├── ServerError              Redis said no, or nothing; `.transient` tells whether waiting may help
│   ├── Unreachable          no connection, or it broke; the reply may be lost
│   ├── AuthRefused          wrong or missing password, or a right is missing
│   ├── NoGroup              the stream or its consumer group is gone
│   └── WrongType            a key holds something else than this operation expects
├── WireError                bytes that cannot be read; keeps them in `.data`
├── NotFound                 there is no such queue, job, entry or profile
├── Conflict                 somebody else changed it first
└── Refused                  allowed by nobody: a write on a read-only link, a declined question
"""


class ChasquiError(RuntimeError):
    """Root of the tree. `hint` says what the user can do about it, when we know."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


class ConfigError(ChasquiError):
    """What was asked for cannot be right, whatever the server holds."""


class ArgumentError(ConfigError, ValueError):
    """One argument of one call is out of bounds."""


class ServerError(ChasquiError):
    """Redis answered with an error. `transient` is true when the same call may succeed later.

    `code` is the first word of the error reply (`BUSYGROUP`, `OOM`), or None when no reply was involved.
    """

    def __init__(
        self, message: str, *, hint: str | None = None, transient: bool = False, code: str | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.transient = transient
        self.code = code


class Unreachable(ServerError):
    """There is no connection, or it broke: a reply, if there was one, is lost."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint, transient=True)


class AuthRefused(ServerError):
    """The server knows us not, or not well enough."""


class NoGroup(ServerError):
    """The stream or its consumer group does not exist; who reads should create it again, from the start."""


class WrongType(ServerError):
    """A key holds another type than this operation works on."""


class WireError(ChasquiError):
    """Bytes that cannot be read as what they should be. They are kept, whole, in `data`."""

    def __init__(self, message: str, data: bytes, *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.data = data


class NotFound(ChasquiError):
    """No such queue, job, entry or profile."""


class Conflict(ChasquiError):
    """Somebody else got there first."""


class Refused(ChasquiError):
    """A change that may not happen here: the link is read-only, or the operator said no."""
