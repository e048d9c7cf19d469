"""Redis error replies and network trouble, in our own words: the one place that turns them into `errors.py`.

Nothing here decides what to do about them, and nothing quoted here can hold a password or a payload.
"""

from __future__ import annotations

import re
import socket
import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING

import redis.exceptions

from chasqui.errors import AuthRefused, NoGroup, ServerError, Unreachable, WrongType
from chasqui.server import scripts
from chasqui.server.secret import redact

if TYPE_CHECKING:
    from chasqui.server.address import Tls
    from chasqui.server.flow import Call

OTHER_SERVER_HINT = "name another server with --redis-url, or use a private one: embedded://"
CLIENT_CERTIFICATE_HINT = "the server may want a certificate from us: --tls-cert and --tls-key"
SERVER_CHANGED_HINT = "another server may have taken over since this link asked what it can; open a new link"

INVALID_CA = 79
NO_CA = (
    "the CA certificate does not state that it is one: re-issue it with basicConstraints=critical,CA:TRUE"
    " and keyUsage=critical,keyCertSign,cRLSign"
)
# OpenSSL's errors of strict verification, by number: what is missing, and what to change.
STRICT_ERRORS = range(80, 95)
STRICT_PROBLEMS: dict[int, tuple[str, str]] = {
    85: (
        "the server's certificate has no authorityKeyIdentifier extension",
        "re-issue it with authorityKeyIdentifier=keyid, by a CA that has subjectKeyIdentifier=hash",
    ),
    86: ("the CA certificate has no subjectKeyIdentifier extension", "re-issue the CA with subjectKeyIdentifier=hash"),
    89: (
        "the CA certificate does not mark its basicConstraints as critical",
        "re-issue the CA with basicConstraints=critical,CA:TRUE",
    ),
    92: ("the CA certificate has no keyUsage extension", "re-issue the CA with keyUsage=critical,keyCertSign,cRLSign"),
}
OTHER_STRICT_PROBLEM = ("the certificate or its CA breaks a rule of RFC 5280", "`openssl verify -x509_strict` names it")

_ROOT_ERRORS = (OSError, redis.exceptions.AuthenticationError, redis.exceptions.ResponseError)
_QUOTED_ARGUMENTS = re.compile(r",? with args beginning with:.*", re.DOTALL)
_FORBIDDEN_COMMAND = re.compile(r"no permissions to run the '([^']+)' command")
_FORBIDDEN_IN_SCRIPT = ("ACL failure in script", "The user executing the script can't")
_SCRIPT_LINE = re.compile(r"@user_script:(\d+)")
_SCRIPT_COMMAND = re.compile(r"redis\.p?call\('((?:XGROUP|XINFO)', '\w+|\w+)'")


class ErrorReply(Exception):
    """What the server said with a minus sign, while it is still only a value among replies."""

    @property
    def code(self) -> str:
        """Its first word: OOM, NOSCRIPT, ERR."""
        return str(self).partition(" ")[0]


@dataclass(frozen=True, slots=True)
class ErrorMeaning:
    """What a code means to us: a class of the tree, whether waiting helps, and what to do."""

    hint: str | None = None
    transient: bool = False
    kind: type[ServerError] = ServerError


ERROR_MEANINGS: dict[str, ErrorMeaning] = {
    "OOM": ErrorMeaning("the server is full: raise maxmemory or delete something; reading still works", transient=True),
    "READONLY": ErrorMeaning("this is a replica now, a failover is under way; try again", transient=True),
    "UNBLOCKED": ErrorMeaning("the server changed its role while we waited; try again", transient=True),
    "LOADING": ErrorMeaning("the server is reading its data from disk; try again", transient=True),
    "MASTERDOWN": ErrorMeaning("the replica has lost its master; try again", transient=True),
    "CLUSTERDOWN": ErrorMeaning("part of the cluster has no master; see CLUSTER INFO", transient=True),
    "TRYAGAIN": ErrorMeaning("the keys are moving to another node; try again", transient=True),
    "BUSY": ErrorMeaning("a script runs too long; SCRIPT KILL ends one that has written nothing", transient=True),
    "UNKILLABLE": ErrorMeaning("the running script has written already; wait for it"),
    "MISCONF": ErrorMeaning("the server cannot save to its disk and refuses writes; see its log", transient=True),
    "NOREPLICAS": ErrorMeaning("too few replicas are connected for a write", transient=True),
    "NOAUTH": ErrorMeaning("give a password: in the URL, by file or by environment", kind=AuthRefused),
    "WRONGPASS": ErrorMeaning("the user name or the password is wrong, or the user is disabled", kind=AuthRefused),
    "DENIED": ErrorMeaning(
        "the server runs in protected mode: it wants a password or a local caller", kind=AuthRefused
    ),
    "WRONGTYPE": ErrorMeaning(
        "something else wrote this key; `chasqui doctor QUEUE` names it and what mends it", kind=WrongType
    ),
    "NOGROUP": ErrorMeaning("the stream or its group was deleted; a starting worker creates it again", kind=NoGroup),
    "BUSYGROUP": ErrorMeaning("the group exists already"),
    "EXECABORT": ErrorMeaning("one command of the transaction was refused, so none was run"),
    "CROSSSLOT": ErrorMeaning(
        "one step may only touch keys of one hash slot: a tag, as in {jobs}, holds the keys of a queue together"
    ),
    "MOVED": ErrorMeaning("this server is part of a cluster: use redis+cluster://"),
    "ASK": ErrorMeaning("this server is part of a cluster: use redis+cluster://"),
    "NOSCRIPT": ErrorMeaning("the server forgot the script even as it was loaded; try again", transient=True),
}


def error_from_reply(reply: ErrorReply, call: Call, where: str) -> ServerError:
    """The error a reply means, with the command that it belongs to."""
    text, code = _redact_reply(str(reply)), reply.code
    command = _as_text(call.args[0]).upper()
    if _is_permission_error(code, text):
        hint = _permission_hint(text, command, call)
        return AuthRefused(f"{where}: {command}: {text}", hint=hint, code="NOPERM")
    if text.lower().startswith("err unknown command"):
        return ServerError(f"{where} does not know {command}", hint=SERVER_CHANGED_HINT, code=code)
    if "max number of clients" in text:
        return ServerError(f"{where} takes no more connections: {text}", transient=True, code=code)
    meaning = ERROR_MEANINGS.get(code, ErrorMeaning(_new_syntax_hint(call)))
    message = f"{where}: {command}: {text}"
    return meaning.kind(message, hint=meaning.hint, transient=meaning.transient, code=code)


def error_from_exception(problem: BaseException, where: str, tls: Tls | None = None) -> ServerError:
    """The error a failed connection means: no answer was read, and perhaps nothing was sent."""
    cause = _root_cause(problem)
    match cause:
        case redis.exceptions.AuthenticationError():
            return AuthRefused(
                f"{where} refused the login: {_error_text(cause)}", hint=ERROR_MEANINGS["WRONGPASS"].hint
            )
        case redis.exceptions.NoPermissionError():
            return AuthRefused(
                f"{where} refused the login: {_error_text(cause)}", hint="the user lacks a right it needs"
            )
        case redis.exceptions.ResponseError():
            return ServerError(f"{where} refused to open the connection: {_error_text(cause)}")
        case ssl.SSLError() if not isinstance(cause, ssl.SSLEOFError):  # that one is a connection that broke
            return _tls_error(cause, where)
        case _:
            message, hint = _unreachable_text(cause, where, tls)
            return Unreachable(message, hint=hint)


def _unreachable_text(cause: BaseException, where: str, tls: Tls | None) -> tuple[str, str | None]:
    match cause:
        case ConnectionRefusedError():
            return f"nothing listens at {where}", f"is the server running? {OTHER_SERVER_HINT}"
        case FileNotFoundError():
            return f"there is no socket {where}", f"is the server running? {OTHER_SERVER_HINT}"
        case PermissionError():
            return (f"may not open {where}: permission denied", "run as a user who may, or change the socket's rights")
        case socket.gaierror() | UnicodeError():
            return (
                f"cannot find the host of {where}",
                "is the name spelled right, and does name resolution work here?",
            )
        case TimeoutError() | redis.exceptions.TimeoutError() if tls:
            return (f"no answer from {where} in time", "does the server speak TLS at this port? If not, use redis://")
        case TimeoutError() | redis.exceptions.TimeoutError():
            return f"no answer from {where} in time", "the server is busy or the network is silent"
        case _:
            reason = getattr(cause, "strerror", None) or _error_text(cause)
            # the server's alert that it wants a certificate may be lost to the reset that follows it
            return (
                f"the connection to {where} broke: {reason}",
                CLIENT_CERTIFICATE_HINT if tls and not tls.cert else None,
            )


def _tls_error(cause: ssl.SSLError, where: str) -> ServerError:
    """TLS errors do not go away on their own, so none is transient."""
    reason = cause.reason or ""
    if isinstance(cause, ssl.SSLCertVerificationError):
        text = f"{where} shows a certificate that cannot be trusted: {cause.verify_message}"
        if "mismatch" in cause.verify_message:
            return ServerError(text, hint="say whose certificate it should be with --tls-server-name")
        hint = _strict_hint(cause.verify_code) or "name the authority that signed it with --tls-ca"
        return ServerError(text, hint=hint)
    if reason in {"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE"}:
        return ServerError(f"{where} does not speak TLS", hint="use redis:// instead of rediss://")
    if "CERTIFICATE" in reason or "HANDSHAKE_FAILURE" in reason:
        return AuthRefused(f"{where} wants another certificate of ours: {reason}", hint=CLIENT_CERTIFICATE_HINT)
    return ServerError(f"TLS with {where} failed: {reason or cause.strerror}")


def _strict_hint(code: int) -> str | None:
    """What to change in a certificate that older Pythons trust: since 3.13, Python verifies strictly."""
    if code == INVALID_CA:
        return NO_CA
    if code not in STRICT_ERRORS:
        return None
    problem, remedy = STRICT_PROBLEMS.get(code, OTHER_STRICT_PROBLEM)
    return f"{problem}, and Python 3.13 and newer refuse that: {remedy}"


def _root_cause(problem: BaseException) -> BaseException:
    """The server's or the system's own word behind a library's."""
    behind: BaseException | None = problem
    while behind is not None and not isinstance(behind, _ROOT_ERRORS):
        behind = behind.__cause__ or behind.__context__
    return behind or problem


def _is_permission_error(code: str, text: str) -> bool:
    """For a script that lacks a permission, the server reports a plain ERR."""
    inside = _FORBIDDEN_COMMAND.search(text) or any(words in text for words in _FORBIDDEN_IN_SCRIPT)
    return code == "NOPERM" or (code == "ERR" and bool(inside))


def _permission_hint(text: str, command: str, call: Call) -> str:
    """Which ACL rule would have let the call through."""
    if forbidden := _FORBIDDEN_COMMAND.search(text) or _command_at_error_line(text, call):
        return "the user needs +" + forbidden[1].lower().replace("', '", "|")
    if "key" in text and call.keys:
        keys = " ".join(f"~{_as_text(key)}" for key in call.keys)
        return f"the user needs {command} on the keys {keys}"
    return f"the user may not do what {command} does; ACL LOG tells which right was missing"


def _command_at_error_line(text: str, call: Call) -> re.Match[str] | None:
    """Servers before 7.2 do not say which command of a script was refused, but in which line it stands."""
    line = _SCRIPT_LINE.search(text)
    if not line or not call.script:
        return None
    return _SCRIPT_COMMAND.search(scripts.script_text(call.script).splitlines()[int(line[1]) - 1])


def _new_syntax_hint(call: Call) -> str | None:
    """A refusal of words that only newer servers know most likely means that the server is not the one we asked."""
    return SERVER_CHANGED_HINT if {"IDMP", "CLAIM"} & {_as_text(word).upper() for word in call.args[:9]} else None


def _error_text(problem: BaseException) -> str:
    return _redact_reply(str(problem))


def _redact_reply(text: str) -> str:
    """Server text without the arguments it repeats, which are payloads or passwords."""
    return redact(_QUOTED_ARGUMENTS.sub("", text))


def _as_text(word: object) -> str:
    return word.decode(errors="backslashreplace") if isinstance(word, bytes) else str(word)
