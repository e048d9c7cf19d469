"""Selecting RSMQ messages by ids, or by filters and an expression within a bound."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from chasqui_cli.commands.rsmq._options import MessageIdsArgument, no_such_queue
from chasqui_cli.commands.rsmq._record import message_record
from chasqui_cli.output.times import parse_duration_ms

if TYPE_CHECKING:
    from chasqui.foreign import RsmqKeys
    from chasqui.foreign.rsmq import Message, MessageFilter
    from chasqui_cli.context.command_context import CommandContext
    from chasqui_cli.context.session import Session
    from chasqui_cli.output.columns import Record

PREVIEW_BYTES = 4096
PAGE_SIZE = 200
StateName = Literal["ready", "delayed", "in-flight"]


@dataclass(frozen=True, slots=True)
class MessageFilterOptions:
    """Options that select messages."""

    ids: MessageIdsArgument = None
    state: Annotated[StateName | None, typer.Option("--state", help="Messages in this state only.")] = None
    older_than: Annotated[
        str | None, typer.Option("--older-than", metavar="TIME", help="Sent longer ago than this, as in 7d.")
    ] = None
    min_rc: Annotated[int | None, typer.Option("--min-rc", min=0, metavar="N", help="Received at least so often.")] = (
        None
    )
    grep: Annotated[str | None, typer.Option("--grep", metavar="REGEX", help="With this somewhere in the body.")] = None
    held: Annotated[
        bool, typer.Option("--held", help="Also what consumers hold right now: they may still delete it.")
    ] = False
    every: Annotated[bool, typer.Option("--all", help="Every message, if neither ids nor a filter say which.")] = False
    limit: Annotated[int | None, typer.Option("--limit", min=1, metavar="N", help="The first N that match only.")] = (
        None
    )

    @property
    def matches_everything(self) -> bool:
        """Whether no option leaves anything out."""
        return not (self.ids or self.state or self.older_than or self.grep or self.limit) and self.min_rc is None

    def filter(self) -> MessageFilter:
        """The same as a filter of the engine."""
        from chasqui.errors import ArgumentError
        from chasqui.foreign.rsmq import MessageFilter

        try:
            body = re.compile(self.grep.encode("utf-8", "surrogateescape")) if self.grep else None
        except re.error as error:
            raise ArgumentError(f"--grep: {error}", hint="a regular expression, as Python has it") from None
        return MessageFilter(
            state=self.state,
            older_than_ms=parse_duration_ms(self.older_than) if self.older_than else None,
            least_receives=self.min_rc,
            body=body,
            include_in_flight=self.held or self.state == "in-flight",
        )

    def __str__(self) -> str:
        """The options as typed, for a preview."""
        import shlex

        given = {
            "--state": self.state,
            "--older-than": self.older_than,
            "--min-rc": self.min_rc,
            "--grep": self.grep,
            "--limit": self.limit,
        }
        words = [f"{name} {shlex.quote(str(value))}" for name, value in given.items() if value is not None]
        return " ".join([*(["ids"] if self.ids else []), *words, *(["--held"] if self.held else [])])


@dataclass(slots=True)
class FoundMessages:
    """Messages as read at `now_ms`, each with its record. held: selected by id, and held by a consumer at that time."""

    now_ms: int = 0
    messages: list[Message] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)
    held: list[Record] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)


def find_messages(ctx: CommandContext, session: Session, keys: RsmqKeys, wanted: MessageFilterOptions) -> FoundMessages:
    """The selected messages, next visible first, with a remark where `--scan` ended the search. Nothing is received."""
    if wanted.ids:
        return _find_by_ids(ctx, session, keys, wanted)
    from chasqui.foreign import rsmq

    found, looked = FoundMessages(session.server_now_ms()), 0
    judge = ctx.filters.compile(found.now_ms, "sent_ms")
    rule = wanted.filter()
    whole = bool(rule.body or ctx.filters.where)
    after: Message | None = None
    while looked < ctx.filters.scan:
        count = min(PAGE_SIZE, ctx.filters.scan - looked)
        page = session.link.run(
            rsmq.read_page(keys, after=after, count=count, preview=None if whole else PREVIEW_BYTES)
        )
        looked, after = looked + len(page.messages), page.after
        for message in page.messages:
            if not rule.matches(message, page.now_ms):
                continue
            record = message_record(ctx, message, page.now_ms)
            seen = record if ctx.show_secrets else message_record(_unredacted(ctx), message, page.now_ms)
            if judge(seen):
                found.messages.append(message)
                found.records.append(record)
                if wanted.limit and len(found.messages) >= wanted.limit:
                    return found
        if after is None:
            return found
    ctx.info(f"looked at {looked:,} messages and no further; --scan N looks at more")
    return found


def _unredacted(ctx: CommandContext) -> CommandContext:
    """For expressions: they are compared with the real values, also where these are redacted on output."""
    from dataclasses import replace

    return replace(ctx, show_secrets=True)


def _find_by_ids(ctx: CommandContext, session: Session, keys: RsmqKeys, wanted: MessageFilterOptions) -> FoundMessages:
    from chasqui.foreign import rsmq

    if not ctx.filters.matches_everything:
        raise typer.BadParameter("give ids or filters, not both")
    ids = list(dict.fromkeys(wanted.ids or ()))
    found, rule = FoundMessages(session.server_now_ms()), wanted.filter()
    for start in range(0, len(ids), PAGE_SIZE):
        page = session.link.run(rsmq.messages_by_id(keys, ids[start : start + PAGE_SIZE]))
        for message in page.messages:
            record = message_record(ctx, message, page.now_ms)
            if rule.matches(message, page.now_ms):
                found.messages.append(message)
                found.records.append(record)
            elif message.state(page.now_ms) == "in-flight" and not rule.include_in_flight:
                found.held.append(record)
    known = {record["id"] for record in (*found.records, *found.held)}
    found.missing = [one for one in ids if one not in known]
    return found


def require_queue(session: Session, keys: RsmqKeys) -> None:
    """Raise `NotFound` for a queue that has neither attributes nor messages."""
    from chasqui.foreign import rsmq

    _, stored = session.link.run(rsmq.read_attributes(keys))
    if not any(stored) and not session.link.run(rsmq.read_page(keys, count=1, preview=0)).messages:
        raise no_such_queue(keys.queue)
