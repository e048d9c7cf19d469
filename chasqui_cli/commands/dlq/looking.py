"""`chasqui dlq peek` and `dlq groups`: which jobs died, of what, and how many of each kind."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from chasqui_cli.columns import column
from chasqui_cli.commands.dlq.capturing import Search, fitting, say_how_far
from chasqui_cli.commands.dlq.letters import DIED, LETTER, Failures, Match, QueueName, failures_of, shown
from chasqui_cli.desk import Desk, at_desk
from chasqui_cli.finding import warn_where_there_is_no
from chasqui_cli.output import Format

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chasqui import Keys
    from chasqui.snapshot import Snapshot
    from chasqui_cli.columns import Record
    from chasqui_cli.session import Session

COLUMNS = [
    column("dlq_id"),
    DIED,
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
GROUP = {
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
HISTOGRAM_OF = 1000


@at_desk(shape=LETTER, chooses=True, by_reason=True, payloads=True)
def peek(
    desk: Desk,
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
    from chasqui import Keys, snapshot

    keys = Keys(queue)
    with desk.session() as session:
        seen = session.look(snapshot.one, keys)
        judge = desk.choice.judge(seen.server_time_ms, "")
        search = Search(session, keys, judge, desk.choice.scan, newest=not oldest)
        matches = list(islice(search, limit))
        failures = failures_of(session, keys, matches)
        records = [shown(desk, match.record(failures)) for match in matches]
        desk.emit(records, COLUMNS, now_ms=seen.server_time_ms)
        if len(records) < limit:
            say_how_far(desk, search)
        if desk.output in (Format.TABLE, Format.WIDE):
            _tell_reasons(desk, session, keys, seen, newest=not oldest)


def _tell_reasons(desk: Desk, session: Session, keys: Keys, seen: Snapshot, *, newest: bool) -> None:
    """How many died of what, among the letters at this end: of all of them where they are few."""
    from chasqui import dlq

    if not seen.exists:
        warn_where_there_is_no(desk, session, seen.queue)
    if not seen.dlq_depth or desk.quiet:
        return
    letters = session.look(dlq.page, keys, 20, newest=newest)
    more = min(HISTOGRAM_OF, fitting(letters) if letters else 0)
    if len(letters) == 20 and more > 20:
        letters = session.look(dlq.page, keys, more, newest=newest)
    counts = Counter(letter.raw(b"reason").decode("utf-8", "replace") or "–" for letter in letters)
    told = " · ".join(f"{reason} {count:,}" for reason, count in counts.most_common())
    among = (
        f"the {'newest' if newest else 'oldest'} {len(letters):,} of "
        if len(letters) < seen.dlq_depth
        else ""
    )
    desk.say(f"reasons of {among}{seen.dlq_depth:,} dead letters: {told}")


@dataclass(slots=True)
class _Group:
    """Letters of one name, reason and kind of error."""

    sample: Match
    first_ms: int
    last_ms: int
    count: int = 0


@at_desk(shape=GROUP, chooses=True, by_reason=True)
def groups(
    desk: Desk,
    queue: QueueName,
    limit: Annotated[int, typer.Option(min=0, metavar="N", help="Show so many groups at most.")] = 50,
) -> None:
    """Group dead letters by name, reason and kind of error, the largest group first.

    Errors are compared without what varies: numbers, ids, addresses, quoted texts. Looks at the newest 100,000
    letters and events unless `--scan` says otherwise.
    """
    from chasqui import Keys, snapshot

    keys = Keys(queue)
    with desk.session() as session:
        now_ms = session.look(snapshot.now)
        search = Search(session, keys, desk.choice.judge(now_ms, ""), desk.choice.scan, newest=True)
        with desk.progress("looking through the dead letters", None) as advance:
            found = _grouped(session, keys, search)
            advance(search.looked)
        if not search.looked:
            warn_where_there_is_no(desk, session, queue)
    records = sorted((_group_record(desk, key, group) for key, group in found.items()), key=_largest_first)
    desk.emit(records[:limit], GROUP_COLUMNS, now_ms=now_ms)
    say_how_far(desk, search)
    desk.say(f"{sum(record['count'] for record in records):,} dead letters in {len(records):,} groups")


def _grouped(session: Session, keys: Keys, search: Search) -> dict[tuple[str, str, str], _Group]:
    from chasqui.fingerprint import fingerprint

    found: dict[tuple[str, str, str], _Group] = {}
    failures = Failures(session, keys)
    for match in search:
        letter = match.letter
        error = letter.raw(b"detail").decode("utf-8", "replace")
        if not error and (job_id := getattr(match.job, "id", None)):
            error = failures.get(job_id) or ""
        reason = letter.raw(b"reason").decode("utf-8", "replace")
        died = letter.died_ms
        key = (letter.name, reason, fingerprint(error))
        group = found.setdefault(key, _Group(match, died, died))
        group.count += 1
        group.first_ms, group.last_ms = min(group.first_ms, died), max(group.last_ms, died)
    return found


def _group_record(desk: Desk, key: Sequence[str], group: _Group) -> Record:
    name, reason, error = key
    return {
        "count": group.count,
        "name": name,
        "reason": reason,
        "error": desk.shown(error),
        "first_seen_ms": group.first_ms,
        "last_seen_ms": group.last_ms,
        "sample_dlq_id": group.sample.letter.dead_id,
        "sample_id": getattr(group.sample.job, "id", None),
    }


def _largest_first(record: Record) -> tuple[int, int]:
    return -record["count"], -record["last_seen_ms"]
