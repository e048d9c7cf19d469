"""Connections of redis-py, set up our way: RESP2, bytes, TLS from one context, no words sent beyond AUTH and SELECT.

RESP2 because every server speaks it, because the reference does, and because it has no push frames: one call, one
reply, in one shape. This file makes pools; `link.py` uses them.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import redis.asyncio.connection as asynchronous
import redis.connection as synchronous
import redis.credentials

from chasqui.errors import ConfigError

if TYPE_CHECKING:
    import socket
    from collections.abc import Awaitable, Callable, Iterator, Mapping

    from chasqui.clock import Clock
    from chasqui.server.address import Address, Node, Tls

# Each running flow holds one connection. This is far above what one process should run at once, and bounded.
MAX_CONNECTIONS = 1024
RECONNECT_PAUSES_S = (0.05, 0.1, 0.2, 0.4)

log = logging.getLogger("chasqui.link")

LoginPair = tuple[str | None, str | None]
Credentials: TypeAlias = "Callable[[str | None], Awaitable[LoginPair] | LoginPair]"
"""Asked with host and port before each login; answers user name and password, or will do so when awaited."""


@dataclass(frozen=True, slots=True)
class PoolFactory:
    """What all pools of one link share."""

    address: Address
    connect_timeout: float
    clock: Clock
    tls_context: ssl.SSLContext | None
    credentials: Credentials | None = None

    @classmethod
    def create(
        cls, address: Address, connect_timeout: float, clock: Clock, credentials: Credentials | None = None
    ) -> PoolFactory:
        """Certificates are read here, once, so that a wrong path is reported before anything is sent."""
        context = tls_context(address.tls) if address.tls else None
        return cls(address, connect_timeout, clock, context, credentials)

    def reconnect_pauses(self) -> Iterator[float]:
        """How long to wait before each new try to connect, as long as there is time for one."""
        end = self.clock.monotonic() + self.connect_timeout
        return (pause for pause in RECONNECT_PAUSES_S if self.clock.monotonic() + pause < end)

    def pool(self, node: Node) -> synchronous.ConnectionPool:
        """A pool of blocking connections to one node."""
        kinds = (synchronous.UnixDomainSocketConnection, synchronous.Connection, TlsConnection)
        return synchronous.ConnectionPool(kinds[self._connection_class(node)], **self._settings(node))

    def async_pool(self, node: Node) -> asynchronous.ConnectionPool:
        """A pool of connections to one node for the running event loop."""
        kinds = (asynchronous.UnixDomainSocketConnection, asynchronous.Connection, AsyncTlsConnection)
        return asynchronous.ConnectionPool(kinds[self._connection_class(node)], **self._settings(node))

    def _connection_class(self, node: Node) -> int:
        return 0 if not node.port else 1 if self.tls_context is None else 2

    def _settings(self, node: Node) -> dict[str, Any]:
        address = self.address
        login = address.sentinel_login if node.is_sentinel else address.login
        settings: dict[str, Any] = {
            "protocol": 2,
            "driver_info": None,  # one round trip less, and a right less that an ACL must grant
            "max_connections": MAX_CONNECTIONS,
            "socket_connect_timeout": self.connect_timeout,
            "socket_timeout": self.connect_timeout,  # of the login; exchanges set their own
            "username": login.username,
            "password": login.password.reveal() if login.password else None,
            "db": 0 if node.is_sentinel else address.db,
        }
        if self.credentials and not node.is_sentinel:
            settings |= {
                "username": None,
                "password": None,
                "credential_provider": _CallbackCredentials(self.credentials, node),
            }
        if not node.port:
            return settings | {"path": node.host}
        settings |= {"host": node.host, "port": node.port}
        if self.tls_context and address.tls:
            settings |= {"tls_context": self.tls_context, "server_name": address.tls.server_name}
        return settings


class _CallbackCredentials(redis.credentials.CredentialProvider):
    """Asks before each login: passwords that change by themselves are fetched when they are needed."""

    def __init__(self, credentials: Credentials, node: Node) -> None:
        self._credentials = credentials
        self._node = node

    def get_credentials(self) -> Any:
        found = self._credentials(str(self._node))
        return _auth_args(asyncio.run(_await(found)) if inspect.isawaitable(found) else found)

    async def get_credentials_async(self) -> Any:
        found = self._credentials(str(self._node))
        return _auth_args(await found if inspect.isawaitable(found) else found)


async def _await(found: Awaitable[LoginPair]) -> LoginPair:
    return await found


def _auth_args(found: LoginPair) -> Any:
    """The words of AUTH: none without a password, and no user name for the default user."""
    username, password = found
    return () if password is None else (username, password) if username else (password,)


class TlsConnection(synchronous.Connection):
    """A connection inside the link's own TLS context, which may expect another name than the host's."""

    def __init__(self, *, tls_context: ssl.SSLContext, server_name: str | None, **settings: Any) -> None:
        prepare: Any = super().__init__
        prepare(**settings)
        self._tls_context = tls_context
        self._server_name = server_name

    def _connect(self) -> socket.socket:
        connect: Callable[[], socket.socket] = super()._connect
        plain = connect()
        try:
            return self._tls_context.wrap_socket(plain, server_hostname=self._server_name or self.host)
        except BaseException:
            plain.close()
            raise

    def can_read(self, timeout: float = 0) -> bool:
        """Whether unrequested data waits, or the connection was closed: then the pool takes a new connection.

        The bytes on the socket do not show it: a TLS 1.3 server sends tickets after the handshake, and a connection
        would look used before it was. So TLS itself is asked; what it finds is lost, but with it the connection.
        """
        wire: Any = self._sock
        if wire is None:
            return bool(super().can_read(timeout))
        wire.settimeout(0)
        try:
            wire.recv(1)
        except ssl.SSLWantReadError:
            return False
        finally:
            wire.settimeout(self.socket_timeout)
        return True


class AsyncTlsConnection(asynchronous.Connection):
    """The same for the event loop."""

    def __init__(self, *, tls_context: ssl.SSLContext, server_name: str | None, **settings: Any) -> None:
        super().__init__(**settings)
        self._tls_context = tls_context
        self._server_name = server_name

    def _connection_arguments(self) -> Mapping[str, Any]:
        name = self._server_name or self.host
        return {**super()._connection_arguments(), "ssl": self._tls_context, "server_hostname": name}


def tls_context(tls: Tls) -> ssl.SSLContext:
    """Verification on, TLS 1.2 at least. A named authority replaces the system's."""
    try:
        context = ssl.create_default_context(cafile=tls.ca)
        if tls.cert:
            context.load_cert_chain(tls.cert, tls.key, password=lambda: "")  # an encrypted key fails, never prompts
    except (OSError, ValueError) as problem:
        files = ", ".join(str(path) for path in (tls.ca, tls.cert, tls.key) if path)
        reason = getattr(problem, "strerror", None) or "not a readable certificate or key"
        raise ConfigError(f"cannot use the TLS files {files}: {reason}", hint="give unencrypted PEM files") from None
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if tls.insecure:
        log.warning("TLS without verification: whoever answers is believed")
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
