"""Snapshots of any mix of queues, ours and others', in one round trip per node, without one byte of a message.

A `ForeignSnapshot` has the fields of our `Snapshot` that a table shows, by the same names, and None where that system
has no such idea; what only it has comes after them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from chasqui.errors import ServerError
from chasqui.foreign.cluster_slots import are_split
from chasqui.foreign.decoding import to_int, to_text
from chasqui.foreign.joblist import joblist_calls
from chasqui.foreign.joblist import keys as joblist_keys
from chasqui.foreign.joblist import stale_claims as stale
from chasqui.foreign.joblist.joblist_values import ClaimState
from chasqui.foreign.joblist.keys import JobListKeys
from chasqui.foreign.rsmq import rsmq_calls
from chasqui.foreign.rsmq.keys import KEY_TYPES, RsmqKeys
from chasqui.foreign.rsmq.message_values import QueueAttributes
from chasqui.inspect import snapshot
from chasqui.inspect.snapshot import Snapshot, SnapshotFailure, WrongTypeKey
from chasqui.server.commands.replies import score_to_ms
from chasqui.wire.keys import Keys

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chasqui.server.commands import Commands
    from chasqui.server.flow import Call, Flow, Reply

QueueKeys: TypeAlias = Keys | RsmqKeys | JobListKeys
"""A queue of any kind, by its keys."""


@dataclass(frozen=True, slots=True)
class ForeignSnapshot:
    """A queue of another system at `server_time_ms`.

    stream_depth: everything that is not over: RSMQ's messages, a list's pending and processing jobs. dlq_depth: a
    list's failed jobs. pending and delayed_depth: None when RSMQ hides more messages than a look goes through; hidden
    is both. stale: claims older than the visibility that was given. split: its keys lie apart on a cluster, where it
    can be looked at and nothing else.
    """

    queue: str
    keys: RsmqKeys | JobListKeys
    server_time_ms: int
    stream_depth: int
    waiting: int
    pending: int | None
    oldest_waiting_ms: int
    longest_idle_ms: int | None
    dlq_depth: int | None = None
    delayed_depth: int | None = None
    delayed_due: int | None = None
    oldest_delayed_lag_ms: int | None = None
    next_delayed_ms: int | None = None
    consumers: int | None = None
    repeatable_count: int | None = None
    repeatable_overdue: int | None = None
    next_repeat_ms: int | None = None
    events_depth: int | None = None
    promoter_lock: None = None
    scheduler_lock: None = None
    hidden: int | None = None
    completed: int | None = None
    stale: int | None = None
    parked: int = 0
    listed: bool | None = None
    attributes: QueueAttributes | None = None
    wrong: tuple[WrongTypeKey, ...] = ()
    split: bool = False

    @property
    def kind(self) -> Literal["rsmq", "joblist"]:
        return "rsmq" if isinstance(self.keys, RsmqKeys) else "joblist"

    @property
    def namespace(self) -> str | None:
        return self.keys.namespace if isinstance(self.keys, RsmqKeys) else None

    @property
    def exists(self) -> bool:
        """Whether there is anything of this queue at all, be it a name on a list."""
        depths = self.stream_depth or self.completed or self.dlq_depth or self.parked
        return bool(depths or self.attributes or self.listed or self.wrong)

    def or_raise(self) -> ForeignSnapshot:
        """The snapshot itself; see `Unseen`."""
        return self


AnySnapshot: TypeAlias = Snapshot | ForeignSnapshot | SnapshotFailure


def snapshots(
    commands: Commands, places: Sequence[QueueKeys], *, visibility_ms: int | None = None, cluster: bool = False
) -> Flow[list[AnySnapshot]]:
    """Any number of queues of any kinds, in one round trip per node, in the order asked.

    visibility_ms: how old a list queue's claim may become; only its workers know, so without it nothing is stale.
    cluster: whether the server is one. Other systems' keys may lie apart there, and are looked at one by one.
    """
    if not places:
        return []
    calls = [_snapshot_calls(commands, place, cluster=cluster) for place in places]
    replies = iter((yield [call for some in calls for call in some]))
    results = [[next(replies) for _ in some] for some in calls]
    return [
        _to_snapshot(
            place, some[0] if len(some) == 1 else _merge_split_replies(place, some), visibility_ms, split=len(some) > 1
        )
        for place, some in zip(places, results, strict=True)
    ]


def _snapshot_calls(commands: Commands, place: QueueKeys, *, cluster: bool) -> list[Call]:
    if isinstance(place, Keys):
        return [commands.read_snapshot(place)]
    calls = rsmq_calls if isinstance(place, RsmqKeys) else joblist_calls
    whole: Call = calls.read_snapshot(place)
    return calls.snapshot_by_key(place) if cluster and are_split(whole.keys) else [whole]


def _merge_split_replies(place: QueueKeys, looks: Sequence[Reply]) -> Reply:
    """One reply from those about each key; what takes several keys to know is missing."""
    if refused := next((look for look in looks if isinstance(look, Exception)), None):
        return refused
    now_ms = max(look[0] for look in looks)
    types = [look[1][at] for at, look in enumerate(looks)]
    if isinstance(place, RsmqKeys):
        (messages, hidden, _, _, first), fields = looks[0][2], looks[1][3]
        return [now_ms, types, [messages, hidden, 0, 0, first], fields, looks[2][4], looks[3][5]]
    return [now_ms, types, [look[2][at] for at, look in enumerate(looks)], None, []]


def _to_snapshot(place: QueueKeys, reply: Reply, visibility_ms: int | None, *, split: bool) -> AnySnapshot:
    if isinstance(place, Keys):
        return snapshot.snapshot_from_reply(place, reply)
    if isinstance(reply, ServerError):
        return SnapshotFailure(place.queue, reply)
    if isinstance(place, RsmqKeys):
        return replace(_rsmq_snapshot(place, reply), split=split)
    seen = _joblist_snapshot(place, reply, visibility_ms)
    return replace(seen, longest_idle_ms=None, stale=None, split=True) if split else seen


def _rsmq_snapshot(keys: RsmqKeys, reply: Reply) -> ForeignSnapshot:
    now_ms, types, (messages, hidden, in_flight, looked, first), fields, listed, parked = reply
    counted_all = looked >= hidden
    oldest_ms = now_ms if first is None else score_to_ms(first)
    known = any(field is not None for field in fields)
    return ForeignSnapshot(
        queue=keys.queue,
        keys=keys,
        server_time_ms=now_ms,
        stream_depth=messages,
        waiting=messages - hidden,
        pending=in_flight if counted_all else None,
        delayed_depth=hidden - in_flight if counted_all else None,
        hidden=hidden,
        oldest_waiting_ms=max(0, now_ms - oldest_ms),
        longest_idle_ms=None,
        parked=parked,
        listed=bool(listed),
        attributes=QueueAttributes.from_fields(fields) if known else None,
        wrong=_wrong_keys(keys.all_keys, types, KEY_TYPES),
    )


def _joblist_snapshot(keys: JobListKeys, reply: Reply, visibility_ms: int | None) -> ForeignSnapshot:
    now_ms, types, (pending, processing, completed, failed, parked), oldest, rows = reply
    held = [ClaimState.from_fields(to_text(job_id), fields) for job_id, *fields in rows]
    claims = [claimed for one in held if (claimed := to_int(one.claimed or None))]
    enqueued = to_int(oldest)
    return ForeignSnapshot(
        queue=keys.queue,
        keys=keys,
        server_time_ms=now_ms,
        stream_depth=pending + processing,
        waiting=pending,
        pending=processing,
        dlq_depth=failed,
        completed=completed,
        oldest_waiting_ms=0 if enqueued is None else max(0, now_ms - enqueued),
        longest_idle_ms=max(0, now_ms - min(claims)) if claims else 0,
        stale=None if visibility_ms is None else _count_stale(held, now_ms, visibility_ms),
        parked=parked,
        wrong=_wrong_keys(keys.all_lists, types, joblist_keys.KEY_TYPES),
    )


def _count_stale(held: Sequence[ClaimState], now_ms: int, visibility_ms: int) -> int:
    return sum(stale.guide_rule(one, now_ms, visibility_ms) == "stale" for one in held)


def _wrong_keys(names: Sequence[str], types: Sequence[Any], expected: Sequence[str]) -> tuple[WrongTypeKey, ...]:
    return tuple(
        WrongTypeKey(name, found.decode(), wanted)
        for name, found, wanted in zip(names, types, expected, strict=True)
        if found.decode() not in {wanted, "none"}
    )
