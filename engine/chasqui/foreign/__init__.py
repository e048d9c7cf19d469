"""Other systems' queues, seen and managed next to ours, and moved to ours. Names are resolved on first use.

`rsmq` and `joblist` hold what can be asked of each system; everything else here is about all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chasqui.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from chasqui.foreign import joblist as joblist
    from chasqui.foreign import rsmq as rsmq
    from chasqui.foreign.cluster_slots import check_same_slot as check_same_slot
    from chasqui.foreign.conversion import ConversionOptions as ConversionOptions
    from chasqui.foreign.diagnosis import Doctor as Doctor
    from chasqui.foreign.diagnosis import DoctorFinding as DoctorFinding
    from chasqui.foreign.diagnosis import QueueDiagnosis as QueueDiagnosis
    from chasqui.foreign.diagnosis import diagnose as diagnose
    from chasqui.foreign.diagnosis import repair_each as repair_each
    from chasqui.foreign.foreign_discovery import ForeignQueues as ForeignQueues
    from chasqui.foreign.foreign_discovery import discover as discover
    from chasqui.foreign.foreign_discovery import discover_async as discover_async
    from chasqui.foreign.foreign_snapshots import ForeignSnapshot as ForeignSnapshot
    from chasqui.foreign.foreign_snapshots import snapshots as snapshots
    from chasqui.foreign.joblist.keys import JobListKeys as JobListKeys
    from chasqui.foreign.migration import Migration as Migration
    from chasqui.foreign.migration import MigrationReport as MigrationReport
    from chasqui.foreign.migration import migrate as migrate
    from chasqui.foreign.migration import return_parked as return_parked
    from chasqui.foreign.revert_by_kind import REVERT_BY_KIND as REVERT_BY_KIND
    from chasqui.foreign.rsmq.keys import RsmqKeys as RsmqKeys

if not TYPE_CHECKING:  # so that type checkers report a name that is not there
    __getattr__, __dir__ = lazy_exports(__name__)
