from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from chasqui_cli.commands.dlq._record import FoundErrors, QueueName
from chasqui_cli.commands.dlq._search import DeadLetterSearch, print_search_extent
from chasqui_cli.context.command_context import CommandContext, command
from chasqui_cli.output.columns import column
from chasqui_cli.queues.targets import warn_if_missing

if TYPE_CHECKING:
    from chasqui.inspect.dead_letter_groups import DeadLetterGroup
    from chasqui_cli.commands.dlq._record import DeadLetterMatch
    from chasqui_cli.output.columns import Record

GROUP_SCHEMA = {
    "count": "int",
    "name": "str",
    "reason": "str",
    "error": "str",
    "first_seen_ms": "int",
    "last_seen_ms": "int",
    "sample_dlq_id": "str",
    "sample_id": "str?",
}


GROUP_COLUMNS = [
    column("sample_dlq_id"),
    column("count", kind="count"),
    column("name"),
    column("reason"),
    column("error"),
    column("first seen", "first_seen_ms", kind="moment"),
    column("last seen", "last_seen_ms", kind="moment"),
    column("sample_id", wide=True),
]


@command("dlq groups", schema=GROUP_SCHEMA, chooses=True, by_reason=True)
def groups(
    ctx: CommandContext,
    queue: QueueName,
    limit: Annotated[int, typer.Option(min=0, metavar="N", help="Show so many groups at most.")] = 50,
) -> None:
    """Group dead letters by name, reason and kind of error, the largest group first.

    Errors are compared without what varies: numbers, ids, addresses, quoted texts. Looks at the newest 100,000
    letters and events unless `--scan` says otherwise.
    """
    from chasqui import Keys
    from chasqui.inspect import snapshot
    from chasqui.inspect.dead_letter_groups import group_dead_letters

    keys = Keys(queue)
    with ctx.session() as session:
        now_ms = session.query(snapshot.server_time_ms)
        search = DeadLetterSearch(session, keys, ctx.filters.compile(now_ms), ctx.filters.scan, newest=True)
        with ctx.progress("looking through the dead letters", None) as advance:
            errors = FoundErrors(session, keys)
            found = group_dead_letters(_grouping_values(match, errors) for match in search)
            advance(search.scanned)
        if not search.scanned:
            warn_if_missing(ctx, session, queue)
    records = sorted((_group_record(ctx, group) for group in found), key=_largest_first)
    ctx.write_records(records[:limit], GROUP_COLUMNS, now_ms=now_ms)
    print_search_extent(ctx, search)
    ctx.info(f"{sum(record['count'] for record in records):,} dead letters in {len(records):,} groups")


def _grouping_values(match: DeadLetterMatch, errors: FoundErrors) -> tuple[str, str, str, int, DeadLetterMatch]:
    letter = match.letter
    error = letter.field(b"detail").decode("utf-8", "replace")
    if not error and (job_id := getattr(match.job, "id", None)):
        error = errors.reason_of(job_id) or ""
    return letter.name, letter.field(b"reason").decode("utf-8", "replace"), error, letter.died_at_ms, match


def _group_record(ctx: CommandContext, group: DeadLetterGroup[DeadLetterMatch]) -> Record:
    return {
        "count": group.count,
        "name": group.name,
        "reason": group.reason,
        "error": ctx.redacted(group.error),
        "first_seen_ms": group.first_ms,
        "last_seen_ms": group.last_ms,
        "sample_dlq_id": group.sample.letter.dead_id,
        "sample_id": getattr(group.sample.job, "id", None),
    }


def _largest_first(record: Record) -> tuple[int, int]:
    return -record["count"], -record["last_seen_ms"]
