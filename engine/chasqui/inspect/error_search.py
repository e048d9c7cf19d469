"""Finds the error a job failed with, among the events: the released engine writes it nowhere else.

For a few jobs the server searches around the time of their death and returns ids; for many jobs all events are read,
up to a limit. The last failure counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from chasqui.server.commands import EntrySearchResult, IdRange, RawEntry, SearchBudget, SearchTerm
from chasqui.wire import event_entry
from chasqui.wire.entry_id import sort_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from chasqui.server.commands import Commands
    from chasqui.server.flow import Flow
    from chasqui.wire.keys import Keys

MAX_SINGLE_SEARCHES = 100
"""More jobs than these are not worth a search each."""
SEARCH_SLICE = SearchBudget(entries=1000)
PAGE_SIZE = 2000
MAX_EVENTS = 100_000
_AFTER_MS = 20
"""The `failed` event is written before the dead letter, or with it."""


@dataclass(frozen=True, slots=True)
class FoundErrors:
    """Error texts by job id, and how many events were read for them (None: only those around each death)."""

    texts: Mapping[str, str]
    scanned: int | None = None


def find_errors(commands: Commands, keys: Keys, died_ms: Mapping[str, int]) -> Flow[FoundErrors]:
    """Why these jobs failed, by when they died; two round trips for few of them."""
    if not died_ms:
        return FoundErrors({})
    if len(died_ms) > MAX_SINGLE_SEARCHES:
        return (yield from find_recent_errors(commands, keys))
    spans = [(job_id, span) for job_id, at_ms in died_ms.items() for span in _spans_around(at_ms)]
    replies = yield [
        commands.find_entries(keys.events, SearchTerm("id", job_id.encode(), whole=True), span, bound=SEARCH_SLICE)
        for job_id, span in spans
    ]
    found = {entry_id for reply in replies for entry_id in EntrySearchResult.from_reply(reply).entry_ids}
    if not found:
        return FoundErrors({})
    rows = yield [commands.entries_between(keys.events, entry_id, entry_id, 1) for entry_id in found]
    entries = sorted(
        (entry for row in rows for entry in RawEntry.list_from_reply(row)), key=lambda entry: sort_key(entry.entry_id)
    )
    return FoundErrors(_reasons_by_job(entries))


def find_recent_errors(commands: Commands, keys: Keys, most: int = MAX_EVENTS) -> Flow[FoundErrors]:
    """Why jobs failed, from the newest `most` events."""
    texts: dict[str, str] = {}
    looked, span = 0, IdRange(backwards=True)
    while looked < most:
        count = min(PAGE_SIZE, most - looked)
        [rows] = yield [commands.entries_in_range(keys.events, span, count)]
        looked += len(rows)
        # Newest first: what is known already happened later.
        texts = _reasons_by_job(reversed(RawEntry.list_from_reply(rows))) | texts
        if len(rows) < count:
            break
        span = span.after(rows[-1][0].decode())
    return FoundErrors(texts, looked)


def _spans_around(at_ms: int) -> Sequence[IdRange]:
    middle = at_ms + _AFTER_MS
    return IdRange(last=str(middle), backwards=True), IdRange(first=str(middle + 1))


def _reasons_by_job(entries: Iterable[RawEntry]) -> dict[str, str]:
    return {job_id: text for job_id, text in map(_failed_job_and_reason, entries) if text}


def _failed_job_and_reason(entry: RawEntry) -> tuple[str, str]:
    fields = entry.fields
    if len(fields) < 2 or (fields[0] == b"e" and fields[1] != b"failed"):
        return "", ""
    event = event_entry.decode(fields)
    return (event.job_id or "", event.reason or "") if event.kind == event_entry.FAILED else ("", "")
