"""`chasqui rsmq purge`, `move`, `sweep`, `expire`, `release` and `hold`: shown first, written down next, then done to
messages that are still as they were seen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chasqui_cli.changes import Plan
from chasqui_cli.columns import column
from chasqui_cli.commands.rsmq.finding import Found, Wanted, check_queue, found_messages, wanting
from chasqui_cli.commands.rsmq.naming import COLUMNS, MESSAGE, RSMQ, Namespace, QueueName, keys_of
from chasqui_cli.deeds import Deed, carry_out
from chasqui_cli.desk import Desk, at_desk
from chasqui_cli.times import iso, moment_ms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chasqui.foreign import RsmqKeys
    from chasqui.foreign.rsmq import Message
    from chasqui_cli.columns import Record
    from chasqui_cli.session import Session

CHANGED: dict[str, Any] = {**MESSAGE, "outcome": "str"}
CHANGED_COLUMNS = [*COLUMNS[:5], column("outcome")]
To = Annotated[str, typer.Option("--to", metavar="QUEUE", help="The other queue; it must be there.")]
ToNamespace = Annotated[
    str | None, typer.Option("--to-ns", metavar="NS", help="Its namespace; the same by itself.")
]
Kept = dict[str, Any]
OTHERS = ("ids", "state", "older_than", "min_rc", "grep", "every")
"""What is not asked where the verb itself says which messages."""


@dataclass(frozen=True, slots=True)
class Way:
    """One way to change messages: its word before, after, what follows; what is written down, and how it is done."""

    verb: str
    done: str
    effect: str
    kept: Callable[[Message], Kept]
    act: Callable[[Session, Sequence[Message]], Sequence[str]]
    target: RsmqKeys | None = None


@at_desk(shape=CHANGED, chooses=True, named=False, payloads=True, changes=True)
@wanting()
def purge(
    desk: Desk,
    queue: QueueName,
    wanted: Wanted,
    ns: Namespace = RSMQ,
) -> None:
    """Delete messages; attributes and totals of the queue stay. `chasqui undo` brings them back."""
    keys = keys_of(queue, ns)
    _change(desk, keys, wanted, _purge(keys))


@at_desk(shape=CHANGED, chooses=True, named=False, payloads=True, changes=True)
@wanting()
def move(
    desk: Desk,
    queue: QueueName,
    to: To,
    wanted: Wanted,
    to_ns: ToNamespace = None,
    ns: Namespace = RSMQ,
) -> None:
    """Move messages to another queue, with id, body, counters and time. `chasqui undo` moves them back."""
    keys = keys_of(queue, ns)
    _change(desk, keys, wanted, _move(keys, keys_of(to, to_ns or ns)))


@at_desk(shape=CHANGED, chooses=True, named=False, payloads=True, changes=True)
@wanting(without=OTHERS)
def sweep(
    desk: Desk,
    queue: QueueName,
    to: To,
    max_rc: Annotated[
        int, typer.Option("--max-rc", min=1, metavar="N", help="Messages that were received so often.")
    ],
    wanted: Wanted,
    to_ns: ToNamespace = None,
    ns: Namespace = RSMQ,
) -> None:
    """Move messages that were received too often to a queue for the dead. `chasqui undo` moves them back."""
    keys = keys_of(queue, ns)
    wanted = replace(wanted, min_rc=max_rc)
    _change(desk, keys, wanted, _move(keys, keys_of(to, to_ns or ns), "sweep"))


@at_desk(shape=CHANGED, chooses=True, named=False, payloads=True, changes=True)
@wanting(without=OTHERS)
def expire(
    desk: Desk,
    queue: QueueName,
    older_than: Annotated[
        str, typer.Option("--older-than", metavar="TIME", help="Sent longer ago than this, as in 7d.")
    ],
    wanted: Wanted,
    to: Annotated[
        str | None, typer.Option("--to", metavar="QUEUE", help="Move them there instead of deleting them.")
    ] = None,
    to_ns: ToNamespace = None,
    ns: Namespace = RSMQ,
) -> None:
    """Delete messages by age, or move them; ids that tell no time stay. `chasqui undo` takes it back."""
    keys = keys_of(queue, ns)
    wanted = replace(wanted, older_than=older_than)
    way = _purge(keys, "expire") if to is None else _move(keys, keys_of(to, to_ns or ns), "expire")
    _change(desk, keys, wanted, way)


@at_desk(shape=CHANGED, chooses=True, named=False, payloads=True, changes=True)
@wanting(without=("held", "every"), state="in-flight")
def release(
    desk: Desk,
    queue: QueueName,
    wanted: Wanted,
    ns: Namespace = RSMQ,
) -> None:
    """Make hidden messages visible now: those of a consumer that is gone, or with --state delayed those that wait."""
    keys = keys_of(queue, ns)
    wanted = replace(wanted, state=None if wanted.ids else wanted.state, held=True, every=True)
    effect = "any consumer may receive them now; one that still holds a message will not know"
    _change(desk, keys, wanted, lambda now_ms: _reschedule(keys, now_ms, "release", "released", effect))


@at_desk(shape=CHANGED, chooses=True, named=False, payloads=True, changes=True)
@wanting()
def hold(
    desk: Desk,
    queue: QueueName,
    until: Annotated[str, typer.Option("--for", metavar="TIME", help="1h from now, or ISO-8601.")],
    wanted: Wanted,
    ns: Namespace = RSMQ,
) -> None:
    """Hide messages until a time, or reschedule delayed ones to it. `chasqui undo` takes it back."""
    keys = keys_of(queue, ns)

    def way(now_ms: int) -> Way:
        at_ms = moment_ms(until, now_ms, "future")
        return _reschedule(keys, at_ms, "hold", "held", f"nobody can receive them before {iso(at_ms)}")

    _change(desk, keys, wanted, way)


def _purge(keys: RsmqKeys, verb: str = "purge") -> Way:
    from chasqui.foreign import rsmq

    return Way(
        verb,
        "purged" if verb == "purge" else "expired",
        "nobody will receive them; `chasqui undo` brings them back",
        lambda message: rsmq.item(keys, "purged", message),
        lambda session, messages: session.link.run(rsmq.purge_seen(keys, messages)),
    )


def _move(keys: RsmqKeys, target: RsmqKeys, verb: str = "move") -> Way:
    from chasqui.errors import ArgumentError
    from chasqui.foreign import rsmq

    if keys == target:
        raise ArgumentError(f"{keys.queue!r} cannot be moved to itself", hint="--to names another queue")
    return Way(
        verb,
        "moved",
        f"they go to {target.queue}; `chasqui undo` moves those back that nobody has received by then",
        lambda message: rsmq.moved_item(keys, target, message),
        lambda session, messages: session.link.run(rsmq.move_seen(keys, target, messages)),
        target,
    )


def _reschedule(keys: RsmqKeys, at_ms: int, verb: str, done: str, effect: str) -> Way:
    from chasqui.foreign import rsmq

    return Way(
        verb,
        done,
        effect,
        lambda message: rsmq.item(keys, "rescheduled", message, new_score=str(at_ms)),
        lambda session, messages: session.link.run(rsmq.reschedule_seen(keys, messages, at_ms)),
    )


def _change(
    desk: Desk,
    keys: RsmqKeys,
    wanted: Wanted,
    way: Way | Callable[[int], Way],
) -> None:
    """Find what is meant, show it, change it if that is agreed to, and tell what came of each."""
    from chasqui.errors import ArgumentError
    from chasqui.foreign import check_together

    if not wanted.every and wanted.is_everything and desk.choice.is_everything:
        raise ArgumentError("that would be every message", hint="name ids, give a filter, or say --all")
    with desk.session() as session:
        check_together(session.link, keys)
        check_queue(session, keys)
        found = found_messages(desk, session, keys, wanted)
        how = way if isinstance(way, Way) else way(found.now_ms)
        if how.target:
            check_together(session.link, keys, how.target)
            check_queue(session, how.target)
        chosen = " ".join(filter(None, [str(wanted), str(desk.choice)]))
        effects = [
            how.effect,
            *([] if wanted.filter().held else ["what consumers hold is left alone; --held means it too"]),
        ]
        plan = Plan(how.verb, keys.queue, "messages", found.records, CHANGED_COLUMNS[:3], chosen, effects)
        told = carry_out(desk, plan, found.messages, _deed(session, keys, how), now_ms=found.now_ms)
    _tell(desk, found, told)


def _deed(session: Session, keys: RsmqKeys, way: Way) -> Deed[Message]:
    words = {"done": way.done, "changed": "changed", "there": "there already"}
    return Deed(
        f"rsmq {way.verb}",
        way.done,
        lambda some: [words[answer] for answer in way.act(session, some)],
        lambda some: [way.kept(message) for message in _whole(session, keys, some)],
    )


def _whole(session: Session, keys: RsmqKeys, messages: Sequence[Message]) -> list[Message]:
    """As they were seen, with all of their bodies; those that are gone by now as far as they are known."""
    from chasqui.foreign import rsmq

    now = {one.id: one for one in session.link.run(rsmq.those(keys, [one.id for one in messages])).messages}
    return [replace(one, body=now[one.id].body) if one.id in now else one for one in messages]


def _tell(desk: Desk, found: Found, told: Sequence[str]) -> None:
    rows: list[Record] = [
        record | {"outcome": word} for record, word in zip(found.records, told, strict=True)
    ]
    rows += [record | {"outcome": "in flight"} for record in found.held]
    nothing = {**dict.fromkeys(MESSAGE), "state": "", "visible_at_ms": 0}
    rows += [{**nothing, "id": one, "outcome": "not found"} for one in found.missing]
    desk.emit(rows, CHANGED_COLUMNS, now_ms=found.now_ms)
    if any(row["outcome"] in ("changed", "there already", "in flight", "not found") for row in rows):
        raise typer.Exit(3)
