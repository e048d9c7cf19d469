"""Flows that find the error a job failed with, among the events: the released engine writes it nowhere else.

For a few jobs the server looks around the time of their death and answers ids; for many all events are read, within a
bound. The last failure counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from chasqui.server.commands import Entry, Found, Needle, Slice, Span
from chasqui.wire import event_entry

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from chasqui.server.call import Flow
    from chasqui.server.commands import Commands
    from chasqui.wire.keys import Keys

FEW = 100
"""More jobs than these are not worth a search each."""
NEARBY = Slice(entries=1000)
PAGE = 2000
MOST_EVENTS = 100_000
_AFTER_MS = 20
"""A failure is told before the letter is written, or with it."""


@dataclass(frozen=True, slots=True)
class Failures:
    """Error texts by job id, and among how many events they were looked for (None: only around each death)."""

    texts: Mapping[str, str]
    looked: int | None = None


def of(commands: Commands, keys: Keys, died_ms: Mapping[str, int]) -> Flow[Failures]:
    """Why these jobs failed, by when they died; two round trips for few of them."""
    if not died_ms:
        return Failures({})
    if len(died_ms) > FEW:
        return (yield from every(commands, keys))
    spans = [(job_id, span) for job_id, at_ms in died_ms.items() for span in _around(at_ms)]
    replies = yield [
        commands.find_entry(keys.events, Needle("id", job_id.encode(), whole=True), span, bound=NEARBY)
        for job_id, span in spans
    ]
    found = {entry_id for reply in replies for entry_id in Found.of(reply).entry_ids}
    if not found:
        return Failures({})
    rows = yield [commands.between(keys.events, entry_id, entry_id, 1) for entry_id in found]
    entries = sorted((entry for row in rows for entry in Entry.list_of(row)), key=_order)
    return Failures(_texts(entries))


def every(commands: Commands, keys: Keys, most: int = MOST_EVENTS) -> Flow[Failures]:
    """Why jobs failed, as far back as the newest `most` events tell."""
    texts: dict[str, str] = {}
    looked, span = 0, Span(backwards=True)
    while looked < most:
        count = min(PAGE, most - looked)
        [rows] = yield [commands.part(keys.events, span, count)]
        looked += len(rows)
        # Newest first: what is known already happened later.
        texts = _texts(reversed(Entry.list_of(rows))) | texts
        if len(rows) < count:
            break
        span = span.beyond(rows[-1][0].decode())
    return Failures(texts, looked)


def _around(at_ms: int) -> Sequence[Span]:
    middle = at_ms + _AFTER_MS
    return Span(last=str(middle), backwards=True), Span(first=str(middle + 1))


def _texts(entries: Iterable[Entry]) -> dict[str, str]:
    return {job_id: text for job_id, text in map(_failure, entries) if text}


def _failure(entry: Entry) -> tuple[str, str]:
    fields = entry.fields
    if len(fields) < 2 or (fields[0] == b"e" and fields[1] != b"failed"):
        return "", ""
    told = event_entry.decode(fields)
    return (told.job_id or "", told.reason or "") if told.kind == event_entry.FAILED else ("", "")


def _order(entry: Entry) -> tuple[int, int]:
    ms, _, nth = entry.entry_id.partition(b"-")
    return int(ms), int(nth)
