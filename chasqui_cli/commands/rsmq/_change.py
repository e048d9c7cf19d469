"""Changing RSMQ messages, for all verbs that do: shown and confirmed, journaled, then applied to those messages that
are unchanged since they were read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chasqui_cli.changes.apply import BatchChange, apply_change
from chasqui_cli.changes.confirm import ChangePlan
from chasqui_cli.commands.rsmq._options import COLUMNS
from chasqui_cli.commands.rsmq._record import MESSAGE_SCHEMA
from chasqui_cli.commands.rsmq._search import FoundMessages, MessageFilterOptions, find_messages, require_queue
from chasqui_cli.context.command_context import CommandContext, command
from chasqui_cli.output.columns import column

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chasqui import Flow
    from chasqui.foreign import RsmqKeys, rsmq
    from chasqui.foreign.rsmq import Message
    from chasqui_cli.context.session import Session
    from chasqui_cli.output.columns import Record

CHANGE_SCHEMA: dict[str, Any] = {**MESSAGE_SCHEMA, "outcome": "str"}
CHANGE_COLUMNS = [*COLUMNS[:5], column("outcome")]
TargetOption = Annotated[str, typer.Option("--to", metavar="QUEUE", help="The other queue; it must be there.")]
TargetNamespaceOption = Annotated[
    str | None, typer.Option("--to-ns", metavar="NS", help="Its namespace; the same by itself.")
]
FILTERS_OF_OWN = ("ids", "state", "older_than", "min_rc", "grep", "every")
"""Filters that verbs with a rule of their own do not take."""

change_command = partial(
    command,
    schema=CHANGE_SCHEMA,
    chooses=True,
    named=False,
    payloads=True,
    changes=True,
    undoable=True,
    failed=("changed", "there already", "in flight", "not found"),
)
"""Declares a verb that changes messages."""


@dataclass(frozen=True, slots=True)
class MessageChange:
    """One way to change messages.

    success_word: the outcome of those that were changed. effect: the consequences, as the preview shows them.
    journal_item: what is journaled of a message first. apply: the flow that changes messages.
    """

    verb: str
    success_word: str
    effect: str
    journal_item: Callable[[Message], dict[str, Any]]
    apply: Callable[[Sequence[Message]], Flow[list[rsmq.ChangeOutcome]]]
    target: RsmqKeys | None = None


def purge_change(keys: RsmqKeys, verb: str = "purge") -> MessageChange:
    from chasqui.foreign import rsmq

    return MessageChange(
        verb,
        "purged" if verb == "purge" else "expired",
        "nobody will receive them; `chasqui undo` brings them back",
        lambda message: rsmq.message_item(keys, "purged", message),
        lambda messages: rsmq.purge(keys, messages),
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
        lambda messages: rsmq.move(keys, target, messages),
        target,
    )


def reschedule_change(keys: RsmqKeys, at_ms: int, verb: str, done: str, effect: str) -> MessageChange:
    from chasqui.foreign import rsmq

    return MessageChange(
        verb,
        done,
        effect,
        lambda message: rsmq.message_item(keys, "rescheduled", message, new_score=str(at_ms)),
        lambda messages: rsmq.reschedule(keys, messages, at_ms),
    )


def change_messages(
    ctx: CommandContext,
    keys: RsmqKeys,
    wanted: MessageFilterOptions,
    change: MessageChange | Callable[[int], MessageChange],
) -> None:
    """Find the selected messages, show them, change them if that is confirmed, and write the outcome of each."""
    from chasqui.errors import ArgumentError
    from chasqui.foreign import check_same_slot

    if not wanted.every and wanted.matches_everything and ctx.filters.matches_everything:
        raise ArgumentError("that would be every message", hint="name ids, give a filter, or say --all")
    with ctx.session() as session:
        check_same_slot(session.link, keys)
        require_queue(session, keys)
        found = find_messages(ctx, session, keys, wanted)
        if not isinstance(change, MessageChange):
            change = change(found.now_ms)
        if change.target:
            check_same_slot(session.link, keys, change.target)
            require_queue(session, change.target)
        chosen = " ".join(filter(None, [str(wanted), str(ctx.filters)]))
        effects = [
            change.effect,
            *([] if wanted.filter().include_in_flight else ["what consumers hold is left alone; --held means it too"]),
        ]
        plan = ChangePlan(change.verb, keys.queue, "messages", found.records, CHANGE_COLUMNS[:3], chosen, effects)
        outcomes = apply_change(ctx, plan, found.messages, _batch_change(session, keys, change), now_ms=found.now_ms)
    _write_outcomes(ctx, found, outcomes)


def _batch_change(session: Session, keys: RsmqKeys, change: MessageChange) -> BatchChange[Message]:
    words = {"done": change.success_word, "changed": "changed", "there": "there already"}
    return BatchChange(
        change.success_word,
        lambda page: [{"outcome": words[outcome]} for outcome in session.link.run(change.apply(page))],
        lambda page: [change.journal_item(message) for message in _with_full_bodies(session, keys, page)],
    )


def _with_full_bodies(session: Session, keys: RsmqKeys, messages: Sequence[Message]) -> list[Message]:
    """The messages as read, with whole bodies; those deleted since keep the part that was read."""
    from chasqui.foreign import rsmq

    now = {one.id: one for one in session.link.run(rsmq.messages_by_id(keys, [one.id for one in messages])).messages}
    return [replace(one, body=now[one.id].body) if one.id in now else one for one in messages]


def _write_outcomes(ctx: CommandContext, found: FoundMessages, outcomes: Sequence[Record]) -> None:
    rows: list[Record] = [record | one for record, one in zip(found.records, outcomes, strict=True)]
    rows += [record | {"outcome": "in flight"} for record in found.held]
    nothing = {**dict.fromkeys(MESSAGE_SCHEMA), "state": "", "visible_at_ms": 0}
    rows += [{**nothing, "id": one, "outcome": "not found"} for one in found.missing]
    ctx.write_outcomes(rows, CHANGE_COLUMNS, now_ms=found.now_ms)
