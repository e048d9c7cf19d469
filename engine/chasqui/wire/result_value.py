"""What a handler returned, as it waits under the result key: plain msgpack, not wrapped in a bin.

How long it waits is counted here in Redis's whole seconds; storing and asking are flows elsewhere.
"""

from __future__ import annotations

from chasqui.errors import ArgumentError
from chasqui.wire import msgpack_codec
from chasqui.wire.msgpack_codec import MAX_PAYLOAD, Value


def encode(value: Value) -> bytes | None:
    """The bytes to store; None for a handler that returned None, which leaves no key behind."""
    return None if value is None else msgpack_codec.pack(value)


def decode(data: bytes, limit: int = MAX_PAYLOAD) -> Value:
    """What the handler returned."""
    return msgpack_codec.unpack(data, limit)


def ttl_seconds(ttl_ms: int) -> int:
    """A lifetime for SET EX: rounded up, so that nothing expires early."""
    if ttl_ms <= 0:
        raise ArgumentError(f"result_ttl_ms must be positive; got {ttl_ms}")
    return -(-ttl_ms // 1000)
