"""A queue of another system: the facts of its snapshot, and the command lines that look closer or act on it."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from chasqui import foreign
from chasqui.errors import ServerError
from chasqui.inspect.snapshot import SnapshotFailure
from chasqui_cli.output.times import format_duration, format_iso
from chasqui_cli.queues.queue_names import parse_queue_ref, with_ref_name
from chasqui_cli.tui.views import ForeignQueueView

if TYPE_CHECKING:
    from chasqui.foreign import ForeignSnapshot
    from chasqui_cli.tui.feed.tab_reader import FeedContext

_RSMQ_COMMANDS = (
    ("peek", "the next messages, without receiving them"),
    ("counts", "messages by state"),
    ("release", "make hidden messages visible now"),
    ("sweep", "move messages that were received too often"),
    ("purge", "delete messages"),
    ("doctor", "what is wrong, and --repair"),
)
_JOBLIST_COMMANDS = (
    ("list", "the jobs of a list; --list failed"),
    ("overview", "depths, ages, attempts"),
    ("reclaim", "put jobs back whose workers are gone"),
    ("retry", "put failed jobs back to work"),
    ("purge", "delete the jobs of one list"),
    ("doctor", "what is wrong, and --repair"),
)


async def read_foreign_snapshot(place: FeedContext, queue: str) -> ForeignSnapshot:
    """The queue, in one round trip; a refusal is raised."""
    where = parse_queue_ref(queue)
    cluster = place.link.address.kind == "cluster"
    [seen] = await place.link.run(foreign.snapshots(place.commands, [where], cluster=cluster))
    if isinstance(seen, SnapshotFailure):
        raise seen.error if isinstance(seen.error, ServerError) else ServerError(str(seen.error))
    other: ForeignSnapshot = with_ref_name(seen, where)  # type: ignore[assignment]  # only queues of ours have the other kind
    return other


async def read_foreign_view(place: FeedContext, queue: str) -> tuple[ForeignQueueView, int]:
    """What there is to say."""
    seen = await read_foreign_snapshot(place, queue)
    row = place.memory.queue_row(queue, seen)
    return ForeignQueueView(row, _facts(seen), _command_lines(seen)), seen.server_time_ms


def _facts(seen: ForeignSnapshot) -> tuple[tuple[str, str], ...]:
    facts: list[tuple[str, object]] = [
        ("system", "RSMQ" if seen.kind == "rsmq" else "list job queue"),
        ("waiting", f"{seen.waiting:,}"),
        ("oldest", format_duration(seen.oldest_waiting_ms) if seen.waiting else None),
        ("in flight", seen.pending),
        ("delayed", seen.delayed_depth),
        ("hidden", seen.hidden),
        ("failed", seen.dlq_depth),
        ("completed", seen.completed),
        ("longest run", format_duration(seen.longest_idle_ms) if seen.longest_idle_ms else None),
        ("on the way", seen.parked or None),
        ("namespace", seen.namespace),
    ]
    if has := seen.attributes:
        facts += [
            ("visible", None if has.vt_s is None else f"again after {has.vt_s:g} s"),
            ("delay", None if has.delay_s is None else f"{has.delay_s:g} s"),
            ("max size", has.maxsize),
            ("sent", f"{has.sent:,}"),
            ("received", f"{has.received:,}"),
            ("created", None if has.created_s is None else format_iso(has.created_s * 1000)[:19]),
        ]
    return tuple((name, str(value)) for name, value in facts if value is not None)


def _command_lines(seen: ForeignSnapshot) -> tuple[tuple[str, str], ...]:
    name = seen.keys.queue
    space = ["--ns", seen.namespace] if seen.namespace not in (None, "rsmq") and seen.namespace else []
    return tuple(
        (shlex.join(["chasqui", seen.kind, verb, *space, *(["--"] * name.startswith("-")), name]), what)
        for verb, what in (_RSMQ_COMMANDS if seen.kind == "rsmq" else _JOBLIST_COMMANDS)
    )
