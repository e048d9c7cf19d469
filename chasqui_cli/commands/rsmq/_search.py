"""Which messages a verb is about: ids, or filters that the engine and an expression judge, within a bound."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from chasqui_cli.commands.rsmq._options import MessageIdsArgument, no_such_queue
from chasqui_cli.commands.rsmq._record import message_record
from chasqui_cli.context.shared_options import Verb, signature_parameters
from chasqui_cli.output.times import parse_duration_ms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chasqui.foreign import RsmqKeys
    from chasqui.foreign.rsmq import Message, MessageFilter
    from chasqui_cli.context.command_context import CommandContext
    from chasqui_cli.context.session import Session
    from chasqui_cli.output.columns import Record

PREVIEW_BYTES = 4096
PAGE_SIZE = 200
StateName = Literal["ready", "delayed", "in-flight"]


def message_filter_options(
    ids: MessageIdsArgument = None,
    state: Annotated[StateName | None, typer.Option("--state", help="Messages in this state only.")] = None,
    older_than: Annotated[
        str | None, typer.Option("--older-than", metavar="TIME", help="Sent longer ago than this, as in 7d.")
    ] = None,
    min_rc: Annotated[
        int | None, typer.Option("--min-rc", min=0, metavar="N", help="Received at least so often.")
    ] = None,
    grep: Annotated[
        str | None, typer.Option("--grep", metavar="REGEX", help="With this somewhere in the body.")
    ] = None,
    held: Annotated[
        bool, typer.Option("--held", help="Also what consumers hold right now: they may still delete it.")
    ] = False,
    every: Annotated[bool, typer.Option("--all", help="Every message, if neither ids nor a filter say which.")] = False,
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, metavar="N", help="The first N that match only.")
    ] = None,
) -> None:
    """Which messages."""


def message_filters(*, without: Collection[str] = (), **defaults: Any) -> Callable[[Verb], Verb]:
    """Give a verb the options that say which messages, but for some; it gets them as one `wanted`."""
    asked = [
        p.replace(kind=p.KEYWORD_ONLY, default=defaults.get(p.name, p.default))
        for p in signature_parameters(message_filter_options)
        if p.name not in without
    ]

    def with_options(verb: Verb) -> Verb:
        own = [p.replace(kind=p.KEYWORD_ONLY) for p in signature_parameters(verb)]
        at = next(at for at, p in enumerate(own) if p.name == "wanted")

        def choosing(ctx: CommandContext, **values: Any) -> None:
            said = {p.name: values.pop(p.name) for p in asked}
            verb(ctx=ctx, **values, wanted=MessageFilterOptions(**said | {"ids": said.get("ids") or ()}))

        signature = inspect.Signature([*own[:at], *asked, *own[at + 1 :]])
        choosing.__signature__ = signature  # type: ignore[attr-defined]  # as inspect documents it
        choosing.__doc__, choosing.__name__ = verb.__doc__, verb.__name__
        return choosing

    return with_options


@dataclass(frozen=True, slots=True)
class MessageFilterOptions:
    """What the command line said about which messages."""

    ids: Sequence[str] = ()
    state: StateName | None = None
    older_than: str | None = None
    min_rc: int | None = None
    grep: str | None = None
    held: bool = False
    every: bool = False
    limit: int | None = None

    @property
    def matches_everything(self) -> bool:
        """Whether nothing is left out."""
        return not (self.ids or self.state or self.older_than or self.grep or self.limit) and self.min_rc is None

    def filter(self) -> MessageFilter:
        """For the engine."""
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
        """In words, for a plan."""
        import shlex

        said = {
            "--state": self.state,
            "--older-than": self.older_than,
            "--min-rc": self.min_rc,
            "--grep": self.grep,
            "--limit": self.limit,
        }
        words = [f"{name} {shlex.quote(str(value))}" for name, value in said.items() if value is not None]
        return " ".join([*(["ids"] if self.ids else []), *words, *(["--held"] if self.held else [])])


@dataclass(slots=True)
class FoundMessages:
    """Messages as they were at `now_ms`, each with its record. held: given by id, and a consumer's right now."""

    now_ms: int = 0
    messages: list[Message] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)
    held: list[Record] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)


def find_messages(ctx: CommandContext, session: Session, keys: RsmqKeys, wanted: MessageFilterOptions) -> FoundMessages:
    """What is wanted, next visible first. Says how far it looked where a bound ended it. Nothing is received."""
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
    """An expression is about what is there, covered or not."""
    from dataclasses import replace

    return replace(ctx, show_secrets=True)


def _find_by_ids(ctx: CommandContext, session: Session, keys: RsmqKeys, wanted: MessageFilterOptions) -> FoundMessages:
    from chasqui.foreign import rsmq

    if not ctx.filters.matches_everything:
        raise typer.BadParameter("give ids or filters, not both")
    ids = list(dict.fromkeys(wanted.ids))
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
    """A queue without attributes and without messages is none."""
    from chasqui.foreign import rsmq

    _, stored = session.link.run(rsmq.read_attributes(keys))
    if not any(stored) and not session.link.run(rsmq.read_page(keys, count=1, preview=0)).messages:
        raise no_such_queue(keys.queue)
