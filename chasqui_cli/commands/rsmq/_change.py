"""`chasqui rsmq purge`, `move`, `sweep`, `expire`, `release` and `hold`: shown first, written down next, then done to
messages that are still as they were seen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chasqui_cli.changes.apply import BatchChange, apply_change
from chasqui_cli.changes.confirm import ChangePlan
from chasqui_cli.commands.rsmq._options import (
    COLUMNS,
    DEFAULT_NAMESPACE,
    MESSAGE_SCHEMA,
    NamespaceOption,
    QueueArgument,
    rsmq_keys,
)
from chasqui_cli.commands.rsmq._search import (
    FoundMessages,
    MessageFilterOptions,
    find_messages,
    message_filters,
    require_queue,
)
from chasqui_cli.context.command_context import CommandContext, command
from chasqui_cli.output.columns import column
from chasqui_cli.output.times import format_iso, parse_time_ms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chasqui.foreign import RsmqKeys
    from chasqui.foreign.rsmq import Message
    from chasqui_cli.context.session import Session
    from chasqui_cli.output.columns import Record

CHANGE_SCHEMA: dict[str, Any] = {**MESSAGE_SCHEMA, "outcome": "str"}
CHANGE_COLUMNS = [*COLUMNS[:5], column("outcome")]
TargetOption = Annotated[str, typer.Option("--to", metavar="QUEUE", help="The other queue; it must be there.")]
TargetNamespaceOption = Annotated[
    str | None, typer.Option("--to-ns", metavar="NS", help="Its namespace; the same by itself.")
]
Kept = dict[str, Any]
FILTERS_OF_OWN = ("ids", "state", "older_than", "min_rc", "grep", "every")
"""What is not asked where the verb itself says which messages."""


@dataclass(frozen=True, slots=True)
class MessageChange:
    """One way to change messages: its word before, after, what follows; what is written down, and how it is done."""

    verb: str
    success_word: str
    effect: str
    journal_item: Callable[[Message], Kept]
    apply: Callable[[Session, Sequence[Message]], Sequence[str]]
    target: RsmqKeys | None = None


@command(shape=CHANGE_SCHEMA, chooses=True, named=False, payloads=True, changes=True)
@message_filters()
def purge(
    desk: CommandContext,
    queue: QueueArgument,
    wanted: MessageFilterOptions,
    ns: NamespaceOption = DEFAULT_NAMESPACE,
) -> None:
    """Delete messages; attributes and totals of the queue stay. `chasqui undo` brings them back."""
    keys = rsmq_keys(queue, ns)
    change_messages(desk, keys, wanted, purge_change(keys))


@command(shape=CHANGE_SCHEMA, chooses=True, named=False, payloads=True, changes=True)
@message_filters()
def move(
    desk: CommandContext,
    queue: QueueArgument,
    to: TargetOption,
    wanted: MessageFilterOptions,
    to_ns: TargetNamespaceOption = None,
    ns: NamespaceOption = DEFAULT_NAMESPACE,
) -> None:
    """Move messages to another queue, with id, body, counters and time. `chasqui undo` moves them back."""
    keys = rsmq_keys(queue, ns)
    change_messages(desk, keys, wanted, move_change(keys, rsmq_keys(to, to_ns or ns)))


@command(shape=CHANGE_SCHEMA, chooses=True, named=False, payloads=True, changes=True)
@message_filters(without=FILTERS_OF_OWN)
def sweep(
    desk: CommandContext,
    queue: QueueArgument,
    to: TargetOption,
    max_rc: Annotated[int, typer.Option("--max-rc", min=1, metavar="N", help="Messages that were received so often.")],
    wanted: MessageFilterOptions,
    to_ns: TargetNamespaceOption = None,
    ns: NamespaceOption = DEFAULT_NAMESPACE,
) -> None:
    """Move messages that were received too often to a queue for the dead. `chasqui undo` moves them back."""
    keys = rsmq_keys(queue, ns)
    wanted = replace(wanted, min_rc=max_rc)
    change_messages(desk, keys, wanted, move_change(keys, rsmq_keys(to, to_ns or ns), "sweep"))


@command(shape=CHANGE_SCHEMA, chooses=True, named=False, payloads=True, changes=True)
@message_filters(without=FILTERS_OF_OWN)
def expire(
    desk: CommandContext,
    queue: QueueArgument,
    older_than: Annotated[
        str, typer.Option("--older-than", metavar="TIME", help="Sent longer ago than this, as in 7d.")
    ],
    wanted: MessageFilterOptions,
    to: Annotated[
        str | None, typer.Option("--to", metavar="QUEUE", help="Move them there instead of deleting them.")
    ] = None,
    to_ns: TargetNamespaceOption = None,
    ns: NamespaceOption = DEFAULT_NAMESPACE,
) -> None:
    """Delete messages by age, or move them; ids that tell no time stay. `chasqui undo` takes it back."""
    keys = rsmq_keys(queue, ns)
    wanted = replace(wanted, older_than=older_than)
    way = purge_change(keys, "expire") if to is None else move_change(keys, rsmq_keys(to, to_ns or ns), "expire")
    change_messages(desk, keys, wanted, way)


@command(shape=CHANGE_SCHEMA, chooses=True, named=False, payloads=True, changes=True)
@message_filters(without=("held", "every"), state="in-flight")
def release(
    desk: CommandContext,
    queue: QueueArgument,
    wanted: MessageFilterOptions,
    ns: NamespaceOption = DEFAULT_NAMESPACE,
) -> None:
    """Make hidden messages visible now: those of a consumer that is gone, or with --state delayed those that wait."""
    keys = rsmq_keys(queue, ns)
    wanted = replace(wanted, state=None if wanted.ids else wanted.state, held=True, every=True)
    effect = "any consumer may receive them now; one that still holds a message will not know"
    change_messages(desk, keys, wanted, lambda now_ms: reschedule_change(keys, now_ms, "release", "released", effect))


@command(shape=CHANGE_SCHEMA, chooses=True, named=False, payloads=True, changes=True)
@message_filters()
def hold(
    desk: CommandContext,
    queue: QueueArgument,
    until: Annotated[str, typer.Option("--for", metavar="TIME", help="1h from now, or ISO-8601.")],
    wanted: MessageFilterOptions,
    ns: NamespaceOption = DEFAULT_NAMESPACE,
) -> None:
    """Hide messages until a time, or reschedule delayed ones to it. `chasqui undo` takes it back."""
    keys = rsmq_keys(queue, ns)

    def way(now_ms: int) -> MessageChange:
        at_ms = parse_time_ms(until, now_ms, "future")
        return reschedule_change(keys, at_ms, "hold", "held", f"nobody can receive them before {format_iso(at_ms)}")

    change_messages(desk, keys, wanted, way)


def purge_change(keys: RsmqKeys, verb: str = "purge") -> MessageChange:
    from chasqui.foreign import rsmq

    return MessageChange(
        verb,
        "purged" if verb == "purge" else "expired",
        "nobody will receive them; `chasqui undo` brings them back",
        lambda message: rsmq.message_item(keys, "purged", message),
        lambda session, messages: session.link.run(rsmq.purge_unchanged(keys, messages)),
    )


def move_change(keys: RsmqKeys, target: RsmqKeys, verb: str = "move") -> MessageChange:
    from chasqui.errors import ArgumentError
    from chasqui.foreign import rsmq

    if keys == target:
        raise ArgumentError(f"{keys.queue!r} cannot be moved to itself", hint="--to names another queue")
    return MessageChange(
        verb,
        "moved",
        f"they go to {target.queue}; `chasqui undo` moves those back that nobody has received by then",
        lambda message: rsmq.moved_item(keys, target, message),
        lambda session, messages: session.link.run(rsmq.move_unchanged(keys, target, messages)),
        target,
    )


def reschedule_change(keys: RsmqKeys, at_ms: int, verb: str, done: str, effect: str) -> MessageChange:
    from chasqui.foreign import rsmq

    return MessageChange(
        verb,
        done,
        effect,
        lambda message: rsmq.message_item(keys, "rescheduled", message, new_score=str(at_ms)),
        lambda session, messages: session.link.run(rsmq.reschedule_unchanged(keys, messages, at_ms)),
    )


def change_messages(
    desk: CommandContext,
    keys: RsmqKeys,
    wanted: MessageFilterOptions,
    way: MessageChange | Callable[[int], MessageChange],
) -> None:
    """Find what is meant, show it, change it if that is agreed to, and tell what came of each."""
    from chasqui.errors import ArgumentError
    from chasqui.foreign import check_same_slot

    if not wanted.every and wanted.matches_everything and desk.filters.matches_everything:
        raise ArgumentError("that would be every message", hint="name ids, give a filter, or say --all")
    with desk.session() as session:
        check_same_slot(session.link, keys)
        require_queue(session, keys)
        found = find_messages(desk, session, keys, wanted)
        how = way if isinstance(way, MessageChange) else way(found.now_ms)
        if how.target:
            check_same_slot(session.link, keys, how.target)
            require_queue(session, how.target)
        chosen = " ".join(filter(None, [str(wanted), str(desk.filters)]))
        effects = [
            how.effect,
            *([] if wanted.filter().include_in_flight else ["what consumers hold is left alone; --held means it too"]),
        ]
        plan = ChangePlan(how.verb, keys.queue, "messages", found.records, CHANGE_COLUMNS[:3], chosen, effects)
        told = apply_change(desk, plan, found.messages, _batch_change(session, keys, how), now_ms=found.now_ms)
    _write_outcomes(desk, found, told)


def _batch_change(session: Session, keys: RsmqKeys, way: MessageChange) -> BatchChange[Message]:
    words = {"done": way.success_word, "changed": "changed", "there": "there already"}
    return BatchChange(
        f"rsmq {way.verb}",
        way.success_word,
        lambda some: [words[answer] for answer in way.apply(session, some)],
        lambda some: [way.journal_item(message) for message in _with_full_bodies(session, keys, some)],
    )


def _with_full_bodies(session: Session, keys: RsmqKeys, messages: Sequence[Message]) -> list[Message]:
    """As they were seen, with all of their bodies; those that are gone by now as far as they are known."""
    from chasqui.foreign import rsmq

    now = {one.id: one for one in session.link.run(rsmq.messages_by_id(keys, [one.id for one in messages])).messages}
    return [replace(one, body=now[one.id].body) if one.id in now else one for one in messages]


def _write_outcomes(desk: CommandContext, found: FoundMessages, told: Sequence[str]) -> None:
    rows: list[Record] = [record | {"outcome": word} for record, word in zip(found.records, told, strict=True)]
    rows += [record | {"outcome": "in flight"} for record in found.held]
    nothing = {**dict.fromkeys(MESSAGE_SCHEMA), "state": "", "visible_at_ms": 0}
    rows += [{**nothing, "id": one, "outcome": "not found"} for one in found.missing]
    desk.write_records(rows, CHANGE_COLUMNS, now_ms=found.now_ms)
    if any(row["outcome"] in ("changed", "there already", "in flight", "not found") for row in rows):
        raise typer.Exit(3)
