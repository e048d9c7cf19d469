"""A TCP proxy in front of a real server that counts, falls silent, loses replies, is slow or narrow, as networks are."""

from __future__ import annotations

import random
import socket
import struct
import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from chasqui.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

CLOCK = SystemClock()
PACKET = 1400


@dataclass(slots=True)
class CutReply:
    """A reply that breaks off after that many bytes, together with its connection, once.

    aim: which reply, by the last request and the reply itself; without it all that the server sends is one reply.
    passed: how much of it came through. happened: whether it was longer than that. over: whether it is cut or gone by.
    """

    after: int
    aim: Callable[[bytes, bytes], bool] | None = None
    passed: int = 0
    happened: bool = False
    over: bool = False

    def last_words(self, request: bytes, reply: bytes) -> bytes | None:
        """What still passes of the reply; None when it passes whole."""
        if self.over or (self.aim and not self.aim(request, reply)):
            return None
        rest = reply[: self.after - self.passed]
        self.passed += len(rest)
        self.happened = len(rest) < len(reply)
        self.over = self.happened or self.aim is not None
        return rest if self.happened else None


@dataclass(slots=True)
class NetworkConditions:
    """What a network does to everybody: each way takes so long, so much fits through, and now and then a connection is
    reset, with what was on its way. resets: how many there were.
    """

    latency_s: float = 0.0
    bytes_per_s: float | None = None
    reset_chance: float = 0.0
    luck: random.Random = field(default_factory=lambda: random.Random(21))
    resets: int = 0

    def hits(self) -> bool:
        hit = self.luck.random() < self.reset_chance
        self.resets += hit
        return hit

    def pass_on(self, data: bytes, sink: socket.socket) -> None:
        if self.latency_s:
            CLOCK.sleep_sync(self.latency_s)
        if self.bytes_per_s is None:
            sink.sendall(data)
            return
        for start in range(0, len(data), PACKET):
            packet = data[start : start + PACKET]
            CLOCK.sleep_sync(len(packet) / self.bytes_per_s)
            sink.sendall(packet)


@dataclass(slots=True)
class Proxy:
    """What passed, and what shall happen next.

    turns: how often the client spoke after the server had, over all connections. replied: bytes that came back.
    silent: connections open now go quiet, new ones work. lose_replies: that many replies are cut off together with their connections. let_through: how
    much of a reply passes before it is cut off. mischief: asked at every reply whether to lose it. cut: a reply that
    shall break off at some byte. weather: how what passes fares, from now on.
    """

    target: Path
    listener: socket.socket
    turns: int = 0
    requests: bytearray = field(default_factory=bytearray)
    replied: int = 0
    connections: int = 0
    lose_replies: int = 0
    let_through: int = 0
    mischief: Callable[[], bool] = lambda: False
    cut: CutReply | None = None
    weather: NetworkConditions = field(default_factory=NetworkConditions)
    _pairs: list[_Pair] = field(default_factory=list)
    _address: tuple[str, int] = ("127.0.0.1", 0)
    _acceptor: threading.Thread = field(init=False)

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self._address[1]}"

    def go_silent(self) -> None:
        """From now on nothing passes on open connections, and neither end learns of it."""
        for pair in self._pairs:
            pair.is_silent = True

    def listen(self) -> None:
        """Take connections, from now on or again."""
        if self.listener.fileno() < 0:
            self.listener = socket.create_server(self._address)
        self._address = self.listener.getsockname()
        self._acceptor = threading.Thread(target=self._accept, args=(self.listener,), daemon=True)
        self._acceptor.start()

    def refuse(self) -> None:
        """Close every connection and accept no new one."""
        with suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self._acceptor.join()
        for pair in self._pairs:
            pair.close()
        self._pairs.clear()

    def _accept(self, listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                self.connections += 1
                pair = _Pair(self, client)
                self._pairs.append(pair)
                pair.start()


class _Pair:
    """One client's connection and the one made for it."""

    def __init__(self, proxy: Proxy, client: socket.socket) -> None:
        self.proxy = proxy
        self.client = client
        self.server = socket.socket(socket.AF_UNIX)
        self.server.connect(str(proxy.target))
        self.is_silent = False
        self._is_clients_turn = True
        self._request = b""
        self._threads = [
            threading.Thread(target=self._pump, args=(client, self.server), daemon=True),
            threading.Thread(target=self._pump, args=(self.server, client), daemon=True),
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        self._cut()
        for thread in self._threads:
            thread.join()
        self.client.close()
        self.server.close()

    def _cut(self) -> None:
        for end in (self.client, self.server):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 20):
                if self.is_silent:
                    continue
                if source is self.server and self._is_lost():
                    sink.sendall(data[: self.proxy.let_through])
                    break
                if source is self.server and (rest := self._last_words(data)) is not None:
                    sink.sendall(rest)
                    break
                if self.proxy.weather.hits():
                    self._reset()
                    break
                self._count(data, from_client=source is self.client)
                self.proxy.weather.pass_on(data, sink)
        self._cut()

    def _reset(self) -> None:
        """The client gets an RST: not the end of the stream but an error. The thread that reads here must have stopped before."""
        self.client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        with suppress(OSError):
            self.client.shutdown(socket.SHUT_RD)
        self.client.close()

    def _last_words(self, reply: bytes) -> bytes | None:
        return self.proxy.cut.last_words(self._request, reply) if self.proxy.cut else None

    def _is_lost(self) -> bool:
        if self.proxy.lose_replies:
            self.proxy.lose_replies -= 1
            return True
        return self.proxy.mischief()

    def _count(self, data: bytes, *, from_client: bool) -> None:
        if from_client:
            self.proxy.turns += self._is_clients_turn
            self.proxy.requests += data
            self._request = data
        else:
            self.proxy.replied += len(data)
        self._is_clients_turn = not from_client


@contextmanager
def proxy_to(target: Path) -> Iterator[Proxy]:
    """A proxy to the server behind this unix socket."""
    proxy = Proxy(target, socket.create_server(("127.0.0.1", 0)))
    proxy.listen()
    try:
        yield proxy
    finally:
        proxy.refuse()
