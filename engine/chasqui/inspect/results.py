"""Reads what jobs returned. Results are stored by `consume/`, when a job is settled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chasqui.server.flow import batches
from chasqui.wire import result_value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chasqui.server.commands import Commands
    from chasqui.server.flow import Flow
    from chasqui.wire.keys import Keys
    from chasqui.wire.msgpack_codec import Value


def read_results(commands: Commands, keys: Keys, job_ids: Sequence[str]) -> Flow[list[Value]]:
    """What each of these jobs returned, in one round trip; None for one that is not done, unknown or expired.

    A job that returned None leaves nothing behind either. Bytes that cannot be decoded raise `WireError`, which has them.
    """
    if not job_ids:
        return []
    replies = yield [commands.stored_results(keys, page) for page in batches(job_ids)]
    stored = [data for reply in replies for data in reply]
    return [None if data is None else result_value.decode(data, len(data)) for data in stored]
