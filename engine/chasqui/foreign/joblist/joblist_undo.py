"""What a journal keeps of a job that is about to be deleted, and the flow that brings such jobs back, each once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from chasqui.foreign.decoding import to_bytes, to_text
from chasqui.foreign.joblist import joblist_calls as calls
from chasqui.foreign.joblist.joblist_values import parse_hash
from chasqui.foreign.joblist.keys import JobListKeys

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chasqui.foreign.joblist.keys import ListName
    from chasqui.server.commands import Commands
    from chasqui.server.flow import Flow
    from chasqui.wire.keys import Keys

JournalItem = Mapping[str, Any]


def journal_items(keys: JobListKeys, which: ListName, job_ids: Sequence[str]) -> Flow[list[dict[str, Any]]]:
    """Jobs of a list, whole, names and bytes in hex, in one round trip."""
    replies = yield [
        call for job_id in job_ids for call in (calls.job_fields(keys, job_id), calls.job_ttl(keys, job_id))
    ]
    return [
        {
            "kind": "joblist",
            "queue": to_bytes(keys.queue).hex(),
            "list": which,
            "id": job_id,
            "id_hex": to_bytes(job_id).hex(),
            "expires_ms": ttl_ms if ttl_ms >= 0 else None,
            "fields": [[to_bytes(name).hex(), value.hex()] for name, value in parse_hash(fields).items()],
        }
        for job_id, fields, ttl_ms in zip(job_ids, replies[::2], replies[1::2], strict=True)
    ]


def revert(commands: Commands, _: Keys, op: str, items: Sequence[JournalItem]) -> Flow[list[str]]:
    """Bring deleted jobs back to the end of the list they were in: "restored" or "already"."""
    replies = yield [_restore_call(op, one) for one in items]
    return ["restored" if back else "already" for back in replies]


def _restore_call(op: str, one: JournalItem) -> Any:
    keys = JobListKeys(to_text(bytes.fromhex(one["queue"])))
    expires_ms = one["expires_ms"]
    return calls.restore(
        keys,
        op,
        keys.list_key(one["list"]),
        to_text(bytes.fromhex(one["id_hex"])),
        [bytes.fromhex(word) for pair in one["fields"] for word in pair],
        expires_ms="" if expires_ms is None else expires_ms,
    )
