"""The limit: the same commands from a loop without an engine. One socket, packed by hand, answers read by hiredis.

What the engine leaves out this leaves out too: only the first event of a turn asks the server to trim, and reads
claim nothing. No retries, no leases, no reconnects, one turn at a time; it is here to be compared with, not to be used.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import hiredis
import msgpack

from benchmarks.meter import Meter
from chasqui.wire.job_id import new_job_ids

BATCH = 256
CHUNK = 500
GROUP, CONSUMER = b"default", b"raw"

Handler = Callable[[Any], None]
Encoder = Callable[[bytes, int | None, bool], bytes]
"""An event of this job, packed: `active` without a duration, `completed` with one; and whether it trims."""


class Wire:
    """A socket and a parser."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._socket = socket.create_connection((parts.hostname or "127.0.0.1", parts.port or 6379))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._reader = hiredis.Reader()

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def replies(self, count: int) -> list[Any]:
        found: list[Any] = []
        while len(found) < count:
            reply = self._reader.gets()
            if reply is False:
                self._reader.feed(self._socket.recv(1 << 16))
            else:
                found.append(reply)
        return found


def produce(url: str, queue: str, jobs: int, meter: Meter) -> None:
    """Adds with ids of their own, 500 to a write, as an engine would; the first job only warms it up."""
    wire = Wire(url)
    head = _command_head(11, b"XADD", _stream(queue), b"IDMP", b"raw-producer")
    _add_chunk(wire, head, range(1))
    meter.mark()
    for start in range(1, jobs, CHUNK):
        _add_chunk(wire, head, range(start, min(start + CHUNK, jobs)))
    meter.jobs = jobs - 1
    meter.mark()


def _add_chunk(wire: Wire, head: bytes, numbers: range) -> None:
    wire.send(b"".join(_additions(head, numbers)))
    wire.replies(len(numbers))


def _additions(head: bytes, numbers: range) -> Iterator[bytes]:
    pack = msgpack.Packer().pack
    now_ms = time.time_ns() // 1_000_000
    for number, job_id in zip(numbers, new_job_ids(len(numbers), now_ms), strict=True):
        body = pack([job_id, pack({"i": number, "to": "ada@example.com"}), now_ms, 0])
        yield (
            b"%b$26\r\n%b\r\n$6\r\nMAXLEN\r\n$1\r\n~\r\n$7\r\n1000000\r\n$1\r\n*\r\n$1\r\nd\r\n$%d\r\n%b\r\n"
            % (
                head,
                job_id.encode(),
                len(body),
                body,
            )
        )


def add(url: str, queue: str) -> Callable[[Any], None]:
    """A way to add one job at a time over one connection."""
    wire = Wire(url)
    pack = msgpack.Packer().pack

    def add_one(data: Any) -> None:
        now_ms = time.time_ns() // 1_000_000
        [job_id] = new_job_ids(1, now_ms)
        words = ("XADD", _stream(queue), "IDMP", "raw-producer", job_id, "*")
        wire.send(_packed(*words, "d", pack([job_id, pack(data), now_ms, 0])))
        wire.replies(1)

    return add_one


def consume(url: str, queue: str, handler: Handler, *, events: bool) -> None:
    """Read, handle, emit, settle: everything of one turn and the next read leave in one write."""
    wire = Wire(url)
    stream = _stream(queue)
    wire.send(_packed("XGROUP", "CREATE", stream, GROUP, "0", "MKSTREAM"))
    wire.replies(1)
    words = ("COUNT", BATCH, "BLOCK", 1000, "STREAMS", stream, ">")
    read = _packed("XREADGROUP", "GROUP", GROUP, CONSUMER, *words)
    encode = _event_encoder(queue) if events else None
    wire.send(read)
    expected = 1
    while True:
        rows = wire.replies(expected)[-1]
        entries = rows[0][1] if rows else []
        parts: list[bytes] = []
        for entry in entries:
            _handle(entry[1][1], handler, encode, parts)
        event_count = len(parts)
        if entries:
            parts.append(_packed("XACKDEL", stream, GROUP, "IDS", len(entries), *[row[0] for row in entries]))
        parts.append(read)
        wire.send(b"".join(parts))
        expected = event_count + (2 if entries else 1)


def _handle(
    body: bytes,
    handler: Handler,
    encode: Encoder | None,
    parts: list[bytes],
) -> None:
    job_id, payload, _, _ = msgpack.unpackb(body)
    data = msgpack.unpackb(payload)
    if encode is None:
        handler(data)
        return
    raw_id = job_id.encode()
    parts.append(encode(raw_id, None, not parts))
    begin = time.perf_counter_ns()
    handler(data)
    parts.append(encode(raw_id, (time.perf_counter_ns() - begin) // 1000, False))


def _event_encoder(queue: str) -> Encoder:
    key = b"{chasqui:%b}:events" % queue.encode()
    trimming = _command_head(14, b"XADD", key, b"MAXLEN", b"~", b"100000", b"*", b"e", b"active", b"id")
    active = _command_head(11, b"XADD", key, b"*", b"e", b"active", b"id")
    completed = _command_head(13, b"XADD", key, b"*", b"e", b"completed", b"id")

    def encode(job_id: bytes, duration_us: int | None, trims: bool) -> bytes:
        ts = b"%d" % (time.time_ns() // 1_000_000)
        middle = b"$%d\r\n%b\r\n$2\r\nts\r\n$%d\r\n%b\r\n$7\r\nattempt\r\n$1\r\n1\r\n" % (
            len(job_id),
            job_id,
            len(ts),
            ts,
        )
        if duration_us is None:
            return (trimming if trims else active) + middle
        took = b"%d" % duration_us
        return b"%b%b$11\r\nduration_us\r\n$%d\r\n%b\r\n" % (completed, middle, len(took), took)

    return encode


def _stream(queue: str) -> bytes:
    return b"{chasqui:%b}:stream" % queue.encode()


def _command_head(words: int, *first: bytes) -> bytes:
    return b"*%d\r\n" % words + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in first)


def _packed(*words: Any) -> bytes:
    pack: Any = hiredis.pack_command
    packed: bytes = pack(words)
    return packed
