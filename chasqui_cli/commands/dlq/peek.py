"""`chasqui dlq peek` and `dlq groups`: which jobs died, of what, and how many of each kind."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from chasqui_cli.commands.dlq._record import (
    DEAD_LETTER_SCHEMA,
    DIED_COLUMN,
    DeadLetterMatch,
    FoundErrors,
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
    from collections.abc import Sequence

    from chasqui import Keys
    from chasqui.inspect.snapshot import Snapshot
    from chasqui_cli.context.session import Session
    from chasqui_cli.output.columns import Record

COLUMNS = [
    column("dlq_id"),
    DIED_COLUMN,
    column("name"),
    column("id"),
    column("reason"),
    column("attempt", kind="count"),
    column("error"),
    column("data"),
    column("created", "created_at_ms", kind="moment", wide=True),
    column("bytes", "payload_bytes", kind="bytes", wide=True),
    column("source_id", wide=True),
    column("retry", wide=True),
    column("undecodable", wide=True),
]
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
MAX_REASONS_READ = 1000


@command(shape=DEAD_LETTER_SCHEMA, chooses=True, by_reason=True, payloads=True)
def peek(
    desk: CommandContext,
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
    with desk.session() as session:
        seen = session.query(snapshot.take_snapshot, keys)
        judge = desk.filters.compile(seen.server_time_ms, "")
        search = DeadLetterSearch(session, keys, judge, desk.filters.scan, newest=not oldest)
        matches = list(islice(search, limit))
        failures = load_failure_reasons(session, keys, matches)
        records = [redacted_record(desk, match.record(failures)) for match in matches]
        desk.write_records(records, COLUMNS, now_ms=seen.server_time_ms)
        if len(records) < limit:
            print_search_extent(desk, search)
        if desk.output in (Format.TABLE, Format.WIDE):
            _print_reasons(desk, session, keys, seen, newest=not oldest)


def _print_reasons(desk: CommandContext, session: Session, keys: Keys, seen: Snapshot, *, newest: bool) -> None:
    """How many died of what, among the letters at this end: of all of them where they are few."""
    from chasqui.operate import dead_letters

    if not seen.exists:
        warn_if_missing(desk, session, seen.queue)
    if not seen.dlq_depth or desk.quiet:
        return
    letters = session.query(dead_letters.dead_letter_page, keys, 20, newest=newest)
    more = min(MAX_REASONS_READ, page_size_for(letters) if letters else 0)
    if len(letters) == 20 and more > 20:
        letters = session.query(dead_letters.dead_letter_page, keys, more, newest=newest)
    counts = Counter(letter.field(b"reason").decode("utf-8", "replace") or "–" for letter in letters)
    told = " · ".join(f"{reason} {count:,}" for reason, count in counts.most_common())
    among = f"the {'newest' if newest else 'oldest'} {len(letters):,} of " if len(letters) < seen.dlq_depth else ""
    desk.info(f"reasons of {among}{seen.dlq_depth:,} dead letters: {told}")


@dataclass(slots=True)
class _Group:
    """Letters of one name, reason and kind of error."""

    sample: DeadLetterMatch
    first_ms: int
    last_ms: int
    count: int = 0


@command(shape=GROUP_SCHEMA, chooses=True, by_reason=True)
def groups(
    desk: CommandContext,
    queue: QueueName,
    limit: Annotated[int, typer.Option(min=0, metavar="N", help="Show so many groups at most.")] = 50,
) -> None:
    """Group dead letters by name, reason and kind of error, the largest group first.

    Errors are compared without what varies: numbers, ids, addresses, quoted texts. Looks at the newest 100,000
    letters and events unless `--scan` says otherwise.
    """
    from chasqui import Keys
    from chasqui.inspect import snapshot

    keys = Keys(queue)
    with desk.session() as session:
        now_ms = session.query(snapshot.server_time_ms)
        search = DeadLetterSearch(session, keys, desk.filters.compile(now_ms, ""), desk.filters.scan, newest=True)
        with desk.progress("looking through the dead letters", None) as advance:
            found = _grouped(session, keys, search)
            advance(search.scanned)
        if not search.scanned:
            warn_if_missing(desk, session, queue)
    records = sorted((_group_record(desk, key, group) for key, group in found.items()), key=_largest_first)
    desk.write_records(records[:limit], GROUP_COLUMNS, now_ms=now_ms)
    print_search_extent(desk, search)
    desk.info(f"{sum(record['count'] for record in records):,} dead letters in {len(records):,} groups")


def _grouped(session: Session, keys: Keys, search: DeadLetterSearch) -> dict[tuple[str, str, str], _Group]:
    from chasqui.inspect.error_fingerprint import fingerprint

    found: dict[tuple[str, str, str], _Group] = {}
    failures = FoundErrors(session, keys)
    for match in search:
        letter = match.letter
        error = letter.field(b"detail").decode("utf-8", "replace")
        if not error and (job_id := getattr(match.job, "id", None)):
            error = failures.reason_of(job_id) or ""
        reason = letter.field(b"reason").decode("utf-8", "replace")
        died = letter.died_at_ms
        key = (letter.name, reason, fingerprint(error))
        group = found.setdefault(key, _Group(match, died, died))
        group.count += 1
        group.first_ms, group.last_ms = min(group.first_ms, died), max(group.last_ms, died)
    return found


def _group_record(desk: CommandContext, key: Sequence[str], group: _Group) -> Record:
    name, reason, error = key
    return {
        "count": group.count,
        "name": name,
        "reason": reason,
        "error": desk.redacted(error),
        "first_seen_ms": group.first_ms,
        "last_seen_ms": group.last_ms,
        "sample_dlq_id": group.sample.letter.dead_id,
        "sample_id": getattr(group.sample.job, "id", None),
    }


def _largest_first(record: Record) -> tuple[int, int]:
    return -record["count"], -record["last_seen_ms"]
