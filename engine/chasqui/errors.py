"""Every error the engine raises on purpose. Redis faults become these in `server/link.py` only.

ChasquiError                 (a RuntimeError, as callers of the reference package expect)
├── ConfigError              what was asked for cannot be right: URL, option, cron text
│   └── ArgumentError        the same, and also a ValueError: one argument of one call
├── ServerError              Redis refused, or gave no reply; `.transient`: whether waiting may help
│   ├── Unreachable          no connection, or it broke; the reply may be lost
│   ├── AuthRefused          wrong or missing password, or a right is missing
│   ├── NoGroup              the stream or its consumer group is gone
│   ├── WrongType            a key holds something else than this operation expects
│   ├── QueueFull            as many jobs wait as may; nothing was added
│   └── Unconfirmed          some jobs of a call are not known to be added; it can be finished
├── WireError                bytes that cannot be read; keeps them in `.data`
├── NotFound                 the queue, job, entry or profile does not exist
├── Conflict                 another process changed it first
├── Refused                  not allowed: a write on a read-only link, a declined question
└── NotSupportedError        a feature of the reference that is left out on purpose

What RSMQ's own client would refuse has errors of its own in `foreign/rsmq/rules.py`, each under one of these.
UnrecoverableError is outside the tree: handlers raise it to state that trying again is useless.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class ChasquiError(RuntimeError):
    """Root of the tree. `hint` is what the user can do about it, if known."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


class ConfigError(ChasquiError):
    """The request is invalid, whatever the server holds."""


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
    """No connection, or it broke: a reply, if there was one, is lost.

    `sent` is false when nothing can have reached the server, so that nothing can have come of it.
    """

    def __init__(self, message: str, *, hint: str | None = None, sent: bool = False) -> None:
        super().__init__(message, hint=hint, transient=True)
        self.sent = sent


class AuthRefused(ServerError):
    """Authentication failed, or the user lacks a right."""


class NoGroup(ServerError):
    """The stream or its consumer group does not exist; who reads should create it again, from the start."""


class WrongType(ServerError):
    """A key holds another type than this operation works on."""


class QueueFull(ServerError):
    """The queue holds as many jobs as it may, so nothing of this call was added; it helps to wait for workers."""

    def __init__(self, queue: str, *, depth: int, cap: int, asked: int) -> None:
        super().__init__(
            f"queue {queue!r} is full: it holds {depth} jobs, and {asked} more would exceed its cap of {cap}",
            hint="wait for the workers, raise max_stream_len, or let it grow with on_full='grow'",
            transient=True,
        )
        self.depth = depth
        self.cap = cap
        self.adding = asked


class Unconfirmed(ServerError):
    """Not all jobs of a call are known to be added; `retry` sends those again, and none of them can come twice.

    jobs: all jobs of the call, with their ids. written: for each of them True when it is added, False when it is
    not, None when the answer was lost. retry: finishes the call; it answers what the call would have answered (to be
    awaited where the call was), and raises again if it must. Use it soon: servers remember for 100 seconds.
    """

    def __init__(
        self, cause: ServerError, jobs: Sequence[Any], written: Sequence[bool | None], retry: Callable[[], Any]
    ) -> None:
        unsure = sum(known is not True for known in written)
        super().__init__(
            f"{unsure} of {len(jobs)} jobs are not known to be added: {cause}",
            hint="finish the call with the retry() of this error; a new call would add jobs twice",
            transient=cause.transient,
            code=cause.code,
        )
        self.jobs = jobs
        self.written = written
        self.retry = retry


class WireError(ChasquiError):
    """Bytes that cannot be read as what they should be. They are kept, whole, in `data`."""

    def __init__(self, message: str, data: bytes, *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.data = data


class NotFound(ChasquiError):
    """No such queue, job, entry or profile."""


class Conflict(ChasquiError):
    """Another process was first."""


class ChangeRefused(ChasquiError):
    """A change that may not happen here: the link is read-only, or the operator said no."""


class NotSupportedError(ChasquiError):
    """A feature of the reference that is left out on purpose."""


class UnrecoverableError(RuntimeError):
    """For handlers to raise, or a subclass of it: the job becomes a dead letter at once, whatever attempts it has left."""
