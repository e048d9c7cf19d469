"""Journal kind `delayed`: delayed jobs that were cancelled, moved to another time, or run at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from chasqui.server.flow import batches, call_in_batches
from chasqui.undo.stream_search import find_jobs
from chasqui.wire.delayed_member import job_stamp
from chasqui.wire.envelope import JobStamp

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chasqui.inspect.job_search import DelayedJob
    from chasqui.server.commands import Commands
    from chasqui.server.flow import Call, Flow
    from chasqui.undo.stream_search import StreamEnd
    from chasqui.undo.undo_items import JournalItem
    from chasqui.wire.keys import Keys

DelayedAction = Literal["cancelled", "moved", "run"]


class SavedDelayedJob(NamedTuple):
    """A delayed job and its id's index and marker: for how many ms each is kept, 0 if it is not there."""

    job: DelayedJob
    index_ms: int = 0
    marker_ms: int = 0


def read_saved_jobs(commands: Commands, keys: Keys, jobs: Sequence[DelayedJob]) -> Flow[list[SavedDelayedJob]]:
    """The jobs with all that is needed to put them back; one round trip for each few hundred."""
    found: list[SavedDelayedJob] = []
    for some in batches(jobs):
        replies = yield [call for job in some for call in commands.read_delayed_index(keys, job.job_id)]
        for job, at in zip(some, range(0, len(replies), 3), strict=True):
            data, index_ms, marker_ms = replies[at : at + 3]
            saved = SavedDelayedJob(job)
            found.append(
                saved._replace(index_ms=max(0, index_ms), marker_ms=max(0, marker_ms)) if data == job.member else saved
            )
    return found


def items(
    jobs: Sequence[SavedDelayedJob], action: DelayedAction, *, end: StreamEnd, times: Sequence[int] = ()
) -> list[JournalItem]:
    """The jobs before they are changed. times: where each will be moved to."""
    moved = {nth: {"moved_to_ms": at} for nth, at in enumerate(times)}
    return [
        {
            "kind": "delayed",
            "action": action,
            "id": one.job.job_id,
            "member": one.job.member.hex(),
            "run_at_ms": one.job.run_at_ms,
            "index_ms": one.index_ms,
            "marker_ms": one.marker_ms,
            "after": end.last_id,
        }
        | moved.get(nth, {})
        for nth, one in enumerate(jobs)
    ]


def revert(commands: Commands, keys: Keys, op: str, items: Sequence[JournalItem]) -> Flow[list[str]]:
    """Returns for each job "restored", "already", "gone" (it has run, or runs) or "changed".

    What was cancelled is put back once per operation; what was moved, if it is still where it was moved to; what was
    run, while no worker has read it, out of the stream and back in one step.
    """
    outcomes = ["gone"] * len(items)
    run = [at for at, item in enumerate(items) if item["action"] == "run"]
    rest = [at for at, item in enumerate(items) if item["action"] != "run"]
    replies = yield from call_in_batches(rest, lambda at: _restore_call(commands, keys, op, items[at]))
    for at, reply in zip(rest, replies, strict=True):
        outcomes[at] = reply.decode()
    yield from _withdraw_started(commands, keys, items, run, outcomes)
    return outcomes


def _restore_call(commands: Commands, keys: Keys, op: str, item: JournalItem) -> Call:
    return commands.restore_delayed(
        keys,
        op,
        item["id"],
        bytes.fromhex(item["member"]),
        item["run_at_ms"],
        moved_to_ms=item.get("moved_to_ms"),
        index_ms=item["index_ms"],
        marker_ms=item["marker_ms"],
    )


def _withdraw_started(
    commands: Commands, keys: Keys, items: Sequence[JournalItem], places: Sequence[int], outcomes: list[str]
) -> Flow[None]:
    members = {at: bytes.fromhex(items[at]["member"]) for at in places}
    stamps = [(job_stamp(members[at]) or JobStamp("", 0), items[at]["after"]) for at in places]
    found = yield from find_jobs(commands, keys, stamps)
    for some in batches(list(zip(places, found, strict=True))):
        entries = [(entry_id or "0-0", members[at], items[at]["run_at_ms"]) for at, entry_id in some]
        [replies] = yield [commands.remove_unread(keys, entries)]
        for (at, _), reply in zip(some, replies, strict=True):
            outcomes[at] = ("gone", "restored", "already")[reply]
        back = [at for (at, _), reply in zip(some, replies, strict=True) if reply == 1]
        if indexed := [at for at in back if items[at]["index_ms"]]:
            yield [
                commands.set_delayed_index(keys, items[at]["id"], members[at], items[at]["index_ms"]) for at in indexed
            ]
