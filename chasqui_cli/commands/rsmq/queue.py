"""Queues, in the words of rsmqctl."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from chasqui_cli.commands.rsmq._options import DEFAULT_NAMESPACE, NamespaceOption, rsmq_keys
from chasqui_cli.commands.rsmq._rsmqctl import (
    OutputOption,
    QueueNameOption,
    full_access_session,
    rsmqctl_errors,
    write_record,
)
from chasqui_cli.context.command_context import CommandContext, command
from chasqui_cli.context.command_spec import Effect

if TYPE_CHECKING:
    from chasqui.foreign import RsmqKeys
    from chasqui.foreign.rsmq import Message, QueueStats
    from chasqui_cli.context.session import Session
    from chasqui_cli.output.columns import Record

QUEUE_SCHEMA: dict[str, Any] = {
    "vt": "float",
    "delay": "float",
    "maxsize": "int",
    "totalrecv": "int",
    "totalsent": "int",
    "created": "int",
    "modified": "int",
    "msgs": "int",
    "hiddenmsgs": "int",
}


PAGE_SIZE = 200


@command("rsmq queue list")
def list_queues(ctx: CommandContext, ns: NamespaceOption = DEFAULT_NAMESPACE, output: OutputOption = None) -> None:
    """The names of all queues, as a JSON array, sorted."""
    from chasqui.foreign import rsmq

    with ctx.session() as session:
        write_record(ctx, output, session.link.run(rsmq.list_queues(ns)))


@command("rsmq queue create", effect=Effect.CHANGES)
def create(
    ctx: CommandContext,
    name: QueueNameOption,
    vt: Annotated[int, typer.Option("--visibility-timeout", "-t", metavar="S", help="Seconds.")] = 30,
    delay: Annotated[int, typer.Option("--delay", "-d", metavar="S", help="Seconds.")] = 0,
    maxsize: Annotated[
        int, typer.Option("--maxsize", "-m", metavar="N", help="Longest body: 1024 to 65536, -1 for any.")
    ] = 65535,
    ns: NamespaceOption = DEFAULT_NAMESPACE,
) -> None:
    """Create a queue."""
    from chasqui.foreign import rsmq

    with full_access_session(ctx, rsmq_keys(name, ns), listed=True) as session, rsmqctl_errors(name):
        session.link.run(rsmq.create_queue(rsmq_keys(name, ns), vt_s=vt, delay_s=delay, maxsize=maxsize))


@command("rsmq queue describe", schema=QUEUE_SCHEMA, many=False)
def describe(
    ctx: CommandContext, name: QueueNameOption, ns: NamespaceOption = DEFAULT_NAMESPACE, output: OutputOption = None
) -> None:
    """A queue's attributes, totals, and how many messages it has and hides."""
    from chasqui.foreign import rsmq

    with ctx.session() as session, rsmqctl_errors(name):
        write_record(ctx, output, _queue_record(session.link.run(rsmq.queue_stats(rsmq_keys(name, ns)))))


@command("rsmq queue set", schema=QUEUE_SCHEMA, many=False, effect=Effect.CHANGES)
def set_attributes(
    ctx: CommandContext,
    name: QueueNameOption,
    vt: Annotated[int | None, typer.Option("--visibility-timeout", "-t", metavar="S", help="Seconds.")] = None,
    delay: Annotated[int | None, typer.Option("--delay", "-d", metavar="S", help="Seconds.")] = None,
    maxsize: Annotated[
        int | None, typer.Option("--maxsize", "-m", metavar="N", help="1024 to 65536, -1 for any.")
    ] = None,
    ns: NamespaceOption = DEFAULT_NAMESPACE,
    output: OutputOption = None,
) -> None:
    """Change a queue's attributes, and show them; messages that are there keep their times."""
    from chasqui.foreign import rsmq

    with ctx.session() as session, rsmqctl_errors(name):
        keys = rsmq_keys(name, ns)
        stats = session.link.run(rsmq.set_attributes(keys, vt_s=vt, delay_s=delay, maxsize=maxsize))
        write_record(ctx, output, _queue_record(stats))


@command("rsmq queue delete", effect=Effect.CHANGES)
def delete(ctx: CommandContext, name: QueueNameOption, ns: NamespaceOption = DEFAULT_NAMESPACE) -> None:
    """Delete a queue with all its messages; they are in the journal first, so `chasqui undo` brings them back."""
    from chasqui.foreign import rsmq

    ctx.require_writable("delete a queue")
    keys = rsmq_keys(name, ns)
    with full_access_session(ctx, keys, listed=True) as session, rsmqctl_errors(name):
        _, stored = session.link.run(rsmq.read_attributes(keys))
        if not any(stored) and not session.link.run(rsmq.read_page(keys, count=1, preview=0)).messages:
            # a name without a queue is taken off the list all the same
            session.link.run(rsmq.drop_queue(keys))
            return
        with ctx.journal_operation(name) as journal:
            journal.write_items([rsmq.queue_item(keys, stored)])
            _journal_messages(session, keys, journal)
            session.link.run(rsmq.drop_queue(keys))
            journal.done = 1


def _journal_messages(session: Session, keys: RsmqKeys, journal: Any) -> None:
    from chasqui.foreign import rsmq

    after: Message | None = None
    while True:
        page = session.link.run(rsmq.read_page(keys, after=after, count=PAGE_SIZE))
        journal.write_items([rsmq.message_item(keys, "purged", message) for message in page.messages])
        after = page.after
        if after is None:
            return


def _queue_record(stats: QueueStats) -> Record:
    attributes = stats.attributes
    return {
        "vt": attributes.vt_s,
        "delay": attributes.delay_s,
        "maxsize": attributes.maxsize,
        "totalrecv": attributes.received,
        "totalsent": attributes.sent,
        "created": attributes.created_s,
        "modified": attributes.modified_s,
        "msgs": stats.messages,
        "hiddenmsgs": stats.hidden_now,
    }
