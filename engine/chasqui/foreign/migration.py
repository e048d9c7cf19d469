"""Moving a queue of another system to one of ours, while producers and consumers of both go on.

On one server each message goes in one step, so a mover may be killed at any moment and started again. To another
server, or a cluster, it goes in three: set aside at the source, taken in once at the target, forgotten at the source;
a mover that is started again first finishes what it finds set aside.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from chasqui.clock import SystemClock
from chasqui.foreign.common_calls import read_time_ms
from chasqui.foreign.conversion import ConversionOptions
from chasqui.foreign.job_import import import_job
from chasqui.foreign.joblist.joblist_transfer import JobListSource
from chasqui.foreign.rsmq.keys import RsmqKeys
from chasqui.foreign.rsmq.rsmq_transfer import RsmqSource
from chasqui.foreign.transfer import SourceCounts, TransferResult, TransferSource
from chasqui.server.flow import Call

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chasqui.clock import Clock
    from chasqui.defaults import StreamCaps
    from chasqui.foreign.job_import import ImportedJob
    from chasqui.foreign.joblist.keys import JobListKeys
    from chasqui.foreign.transfer import Cursor
    from chasqui.server.flow import Flow
    from chasqui.server.link import Link
    from chasqui.wire.keys import Keys

RETRIED_NEXT_PASS = ("held", "full")
"""What may go in a later pass, and is counted again in each."""
MOVED = ("stream", "delayed", "dlq")
POLL_S = 0.5


@dataclass(slots=True)
class MigrationReport:
    """How a migration stands, or stood in the end.

    before, after: what the source held. counts: what came of messages, by where they went or why not. failures: by id,
    why a message cannot be a job; those stay. passes: how often the source was gone through.
    """

    kind: str
    source: str
    target: str
    dry_run: bool
    before: SourceCounts = field(default_factory=SourceCounts)
    after: SourceCounts = field(default_factory=SourceCounts)
    counts: dict[str, int] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    passes: int = 0

    @property
    def moved(self) -> int:
        """How many messages are jobs of ours now."""
        return sum(self.counts.get(where, 0) for where in MOVED)

    @property
    def is_full(self) -> bool:
        """Whether the last pass ended because the target holds as many jobs as it may."""
        return bool(self.counts.get("full"))

    def add(self, crossed: TransferResult) -> None:
        """After one more page. What stays is counted again in each pass."""
        for what, many in crossed.counts.items():
            self.counts[what] = self.counts.get(what, 0) + many
        self.failures |= crossed.failures


MigrationProgress: TypeAlias = Callable[[MigrationReport], None]
ContinueCheck: TypeAlias = Callable[[MigrationReport], bool]


def single_pass(_: MigrationReport) -> bool:
    """Go through the source once."""
    return False


class Migration:
    """A way from one queue to another. Without a `target_link` both are on the same server.

    visibility_ms: for a list queue, after how long a claim is stale; without it nothing that is claimed is touched.
    """

    def __init__(
        self,
        source_link: Link,
        source: RsmqKeys | JobListKeys,
        target: Keys,
        *,
        target_link: Link | None = None,
        conversion: ConversionOptions | None = None,
        visibility_ms: int | None = None,
        clock: Clock | None = None,
    ) -> None:
        conversion = conversion or ConversionOptions()
        self._link = source_link
        self._source: TransferSource = (
            RsmqSource(source, conversion)
            if isinstance(source, RsmqKeys)
            else JobListSource(source, conversion, visibility_ms=visibility_ms)
        )
        self._target = target
        self._caps = conversion.caps
        # the keys of two systems never share a slot, so within a cluster it is as far as to another server
        self._far = target_link or (source_link if source_link.address.kind == "cluster" else None)
        self._clock = clock or SystemClock()

    def run(
        self,
        *,
        dry_run: bool = False,
        progress: MigrationProgress | None = None,
        should_continue: ContinueCheck = single_pass,
        poll_s: float = POLL_S,
    ) -> MigrationReport:
        """Move everything that may be moved. After each pass `keep_on` is asked whether to go through again, for what
        was held, was sent meanwhile or will be; after a pass that moved nothing it waits a little first.
        """
        source = self._source
        report = MigrationReport(source.kind, source.keys.queue, self._target.queue, dry_run)
        report.before = report.after = self._link.run(source.count())
        while not dry_run:
            moved = report.moved
            report.counts = {what: many for what, many in report.counts.items() if what not in RETRIED_NEXT_PASS}
            self._run_pass(report, progress)
            report.passes += 1
            report.after = self._link.run(source.count())
            if not should_continue(report):
                break
            if report.moved == moved:
                self._clock.sleep_sync(poll_s)
        return report

    def _run_pass(self, report: MigrationReport, progress: MigrationProgress | None) -> None:
        """Go through the source from its beginning to its end, or until the target is full."""
        if self._far:
            self._import_parked(self._far, report, progress)
        cursor: Cursor = None
        while not report.is_full:
            if self._far:
                room, dead_room = self._far.run(has_room(self._target, self._caps))
                if not room:
                    report.counts["full"] = report.counts.get("full", 0) + 1
                    return
                crossed, cursor = self._link.run(self._source.park(cursor, dead_letters=dead_room))
                report.add(crossed)
                self._import_parked(self._far, report, progress)
            else:
                crossed, cursor = self._link.run(self._source.forward(self._target, cursor))
                report.add(crossed)
                _report_progress(report, progress)
            if cursor is None:
                return

    def _import_parked(self, far: Link, report: MigrationReport, progress: MigrationProgress | None) -> None:
        """Take everything that is set aside to the target, and forget it here only then."""
        while True:
            load = self._link.run(self._source.read_parked())
            arrived = [*load.done]
            if load.jobs:
                crossed, taken = far.run(_import_page(self._target, load.jobs, self._caps))
                report.add(crossed)
                arrived += taken
            if arrived:
                self._link.run(self._source.delete_parked(arrived))
            report.failures |= load.failures
            _report_progress(report, progress)
            if not arrived or report.is_full:
                return


def migrate(
    source_link: Link,
    source: RsmqKeys | JobListKeys,
    target: Keys,
    *,
    target_link: Link | None = None,
    terms: ConversionOptions | None = None,
    visibility_ms: int | None = None,
    dry_run: bool = False,
    progress: MigrationProgress | None = None,
    keep_on: ContinueCheck = single_pass,
    clock: Clock | None = None,
) -> MigrationReport:
    """Move a queue; see `Migration`."""
    way = Migration(
        source_link, source, target, target_link=target_link, conversion=terms, visibility_ms=visibility_ms, clock=clock
    )
    return way.run(dry_run=dry_run, progress=progress, should_continue=keep_on)


def return_parked(link: Link, source: RsmqKeys | JobListKeys) -> int:
    """Return what a mover that will not come again has set aside to its queue; answers how many.

    Only what has not arrived: run the migration once more if in doubt, for what has would then come twice.
    """
    way = (
        RsmqSource(source, ConversionOptions())
        if isinstance(source, RsmqKeys)
        else JobListSource(source, ConversionOptions())
    )
    return link.run(way.return_parked())


def has_room(target: Keys, caps: StreamCaps) -> Flow[tuple[bool, bool]]:
    """Whether one more job fits, and one more dead letter; so that nothing is set aside that cannot be taken in."""
    jobs, letters = yield [Call(("XLEN", key), keys=(key,)) for key in (target.stream, target.dlq)]
    return jobs < caps.stream, letters < caps.dlq


def _import_page(
    target: Keys, imported_jobs: Sequence[ImportedJob], caps: StreamCaps
) -> Flow[tuple[TransferResult, list[str]]]:
    """One round trip to ask the time and one for all of them; what had arrived before is counted apart, and what
    finds no room is not among the ids that have arrived.
    """
    now_ms = yield from read_time_ms()
    replies = yield [import_job(target, imported, now_ms=now_ms, caps=caps) for imported in imported_jobs]
    crossed, arrived = TransferResult(), list[str]()
    for imported, answer in zip(imported_jobs, replies, strict=True):
        crossed.add({1: imported.destination(now_ms), 0: "arrived before"}.get(answer, "full"))
        if answer >= 0:
            arrived.append(imported.job_id)
    return crossed, arrived


def _report_progress(report: MigrationReport, progress: MigrationProgress | None) -> None:
    if progress:
        progress(report)
