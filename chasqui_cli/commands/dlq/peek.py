"""`chasqui dlq peek` and `dlq groups`: which jobs died, of what, and how many of each kind."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from chasqui_cli.commands.dlq._record import (
    DEAD_LETTER_SCHEMA,
    DIED_COLUMN,
    QueueName,
    load_failure_reasons,
    redacted_record,
)
from chasqui_cli.commands.dlq._search import DeadLetterSearch, page_size_for, print_search_extent
from chasqui_cli.context.command_context import CommandContext, command
from chasqui_cli.output.columns import column
from chasqui_cli.output.writer import Format
from chasqui_cli.queues.targets import warn_if_missing

if TYPE_CHECKING:
    from chasqui import Keys
    from chasqui.inspect.snapshot import Snapshot
    from chasqui_cli.context.session import Session

COLUMNS = [
    column("dlq_id"),
    DIED_COLUMN,
    column("name"),
    column("id"),
    column("reason"),
    column("attempt", kind="attempt"),
    column("error"),
    column("data"),
    column("created", "created_at_ms", kind="moment", wide=True),
    column("bytes", "payload_bytes", kind="bytes", wide=True),
    column("source_id", wide=True),
    column("retry", wide=True),
    column("undecodable", wide=True),
]
MAX_REASONS_READ = 1000


@command("dlq peek", schema=DEAD_LETTER_SCHEMA, chooses=True, by_reason=True, payloads=True)
def peek(
    ctx: CommandContext,
    queue: QueueName,
    limit: Annotated[int, typer.Option(min=0, metavar="N", help="Show so many at most.")] = 20,
    oldest: Annotated[
        bool, typer.Option("--oldest/--newest", help="From which end; the newest tell what is wrong now.")
    ] = False,
) -> None:
    """Show dead letters, decoded, newest first, each with the error it died of.

    The error is what the letter says, or else what the last `failed` event of the job told. A letter that cannot be
    read is shown with the reason and its bytes. A table is followed by how many died of what.
    """
    from chasqui import Keys
    from chasqui.inspect import snapshot

    keys = Keys(queue)
    with ctx.session() as session:
        seen = session.query(snapshot.take_snapshot, keys)
        judge = ctx.filters.compile(seen.server_time_ms)
        search = DeadLetterSearch(session, keys, judge, ctx.filters.scan, newest=not oldest)
        matches = list(islice(search, limit))
        failures = load_failure_reasons(session, keys, matches)
        records = [redacted_record(ctx, match.record(failures)) for match in matches]
        ctx.write_records(records, COLUMNS, now_ms=seen.server_time_ms)
        if len(records) < limit:
            print_search_extent(ctx, search)
        if ctx.output in (Format.TABLE, Format.WIDE):
            _print_reasons(ctx, session, keys, seen, newest=not oldest)


def _print_reasons(ctx: CommandContext, session: Session, keys: Keys, seen: Snapshot, *, newest: bool) -> None:
    """Counts by reason, among the dead letters at this end: of all of them where they are few."""
    from chasqui.operate import dead_letters

    if not seen.exists:
        warn_if_missing(ctx, session, seen.queue)
    if not seen.dlq_depth or ctx.quiet:
        return
    letters = session.query(dead_letters.dead_letter_page, keys, 20, newest=newest)
    more = min(MAX_REASONS_READ, page_size_for(letters) if letters else 0)
    if len(letters) == 20 and more > 20:
        letters = session.query(dead_letters.dead_letter_page, keys, more, newest=newest)
    counts = Counter(letter.field(b"reason").decode("utf-8", "replace") or "–" for letter in letters)
    reasons = " · ".join(f"{reason} {count:,}" for reason, count in counts.most_common())
    among = f"the {'newest' if newest else 'oldest'} {len(letters):,} of " if len(letters) < seen.dlq_depth else ""
    ctx.info(f"reasons of {among}{seen.dlq_depth:,} dead letters: {reasons}")
