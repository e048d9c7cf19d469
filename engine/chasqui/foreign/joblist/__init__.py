"""The list job queue of Redis' guide, as its nine versions have it. Names are resolved on first use.

Functions are flows, `link.run(joblist.enqueue(joblist.JobListKeys("jobs"), {"a": 1}, now_ms=…))`, but for `tail`,
which takes a link, and the worker, which has loops.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chasqui.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from chasqui.foreign.joblist.job_operations import JobChanges as JobChanges
    from chasqui.foreign.joblist.job_operations import ListOverview as ListOverview
    from chasqui.foreign.joblist.job_operations import cancel as cancel
    from chasqui.foreign.joblist.job_operations import complete_for_worker as complete_for_worker
    from chasqui.foreign.joblist.job_operations import delete_jobs as delete_jobs
    from chasqui.foreign.joblist.job_operations import fail_for_worker as fail_for_worker
    from chasqui.foreign.joblist.job_operations import move as move
    from chasqui.foreign.joblist.job_operations import move_to_front as move_to_front
    from chasqui.foreign.joblist.job_operations import purge as purge
    from chasqui.foreign.joblist.job_operations import read_overview as read_overview
    from chasqui.foreign.joblist.job_operations import retry as retry
    from chasqui.foreign.joblist.joblist_doctor import REPAIRABLE as REPAIRABLE
    from chasqui.foreign.joblist.joblist_doctor import JobListDoctor as JobListDoctor
    from chasqui.foreign.joblist.joblist_doctor import JobListProblem as JobListProblem
    from chasqui.foreign.joblist.joblist_doctor import examine as examine
    from chasqui.foreign.joblist.joblist_doctor import repair as repair
    from chasqui.foreign.joblist.joblist_events import ListJobEvent as ListJobEvent
    from chasqui.foreign.joblist.joblist_events import follow_events as follow_events
    from chasqui.foreign.joblist.joblist_events import follow_events_async as follow_events_async
    from chasqui.foreign.joblist.joblist_undo import journal_items as journal_items
    from chasqui.foreign.joblist.joblist_values import ClaimState as ClaimState
    from chasqui.foreign.joblist.joblist_values import JobClaim as JobClaim
    from chasqui.foreign.joblist.joblist_values import JobListOptions as JobListOptions
    from chasqui.foreign.joblist.joblist_values import ListDepths as ListDepths
    from chasqui.foreign.joblist.joblist_values import ListJob as ListJob
    from chasqui.foreign.joblist.joblist_worker import JobListWorker as JobListWorker
    from chasqui.foreign.joblist.keys import JobListKeys as JobListKeys
    from chasqui.foreign.joblist.lifecycle import claim as claim
    from chasqui.foreign.joblist.lifecycle import complete as complete
    from chasqui.foreign.joblist.lifecycle import enqueue as enqueue
    from chasqui.foreign.joblist.lifecycle import enqueue_many as enqueue_many
    from chasqui.foreign.joblist.lifecycle import fail as fail
    from chasqui.foreign.joblist.lifecycle import list_ids as list_ids
    from chasqui.foreign.joblist.lifecycle import purge_all as purge_all
    from chasqui.foreign.joblist.lifecycle import read_depths as read_depths
    from chasqui.foreign.joblist.lifecycle import read_job as read_job
    from chasqui.foreign.joblist.lifecycle import renew as renew
    from chasqui.foreign.joblist.stale_claims import JudgedClaim as JudgedClaim
    from chasqui.foreign.joblist.stale_claims import ReclaimResult as ReclaimResult
    from chasqui.foreign.joblist.stale_claims import guide_rule as guide_rule
    from chasqui.foreign.joblist.stale_claims import judge_claims as judge_claims
    from chasqui.foreign.joblist.stale_claims import patient_rule as patient_rule
    from chasqui.foreign.joblist.stale_claims import reclaim as reclaim

if not TYPE_CHECKING:  # so that type checkers report a name that is not there
    __getattr__, __dir__ = lazy_exports(__name__)
