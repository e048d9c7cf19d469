"""Which claims of a list job queue are stale, and flows that take them back: carefully, one by one, with a dry run.

The guide's own sweep fails as a whole on one odd field, and in the moment between a worker's move and its signature it
takes a job that waited long from under that worker. Here an odd job is skipped and reported, a claim must still be the
one that was judged, and `patient` gives a worker time to sign.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeAlias

from chasqui.foreign.common_calls import clock
from chasqui.foreign.decoding import to_number, to_text
from chasqui.foreign.joblist import joblist_calls as calls
from chasqui.foreign.joblist.joblist_values import DEFAULTS, ClaimState
from chasqui.foreign.joblist.lifecycle import publish_events
from chasqui.server.commands import parse_server_time

if TYPE_CHECKING:
    from chasqui.foreign.joblist.joblist_values import JobListOptions
    from chasqui.foreign.joblist.keys import JobListKeys
    from chasqui.server.flow import Call, Flow

ClaimStatus: TypeAlias = Literal["live", "stale", "unsigned", "broken", "orphan"]
StaleRule: TypeAlias = Callable[[ClaimState, int, int], ClaimStatus]
"""What a claim is, at a time, for a visibility."""

PAGE = 500
GAVE_UP = "gave up: its workers died too often"


@dataclass(frozen=True, slots=True)
class JudgedClaim:
    """An id in the processing list, what it is, and why."""

    claim: ClaimState
    status: ClaimStatus
    reason: str


@dataclass(frozen=True, slots=True)
class ReclaimResult:
    """What a sweep did, or would do.

    moved: ids back on the pending list. failed: ids that were tried too often. changed: claims that were renewed,
    completed or reclaimed by others meanwhile. skipped: ids that cannot be judged. dropped: ids without a job, removed.
    """

    looked: int = 0
    moved: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    skipped: tuple[JudgedClaim, ...] = ()
    dropped: tuple[str, ...] = ()
    unsigned: tuple[str, ...] = ()


def guide_rule(held: ClaimState, now_ms: int, visibility_ms: int) -> ClaimStatus:
    """As the guide has it: claimed longer ago, or never signed and enqueued twice as long ago."""
    claimed = to_number(held.claimed) if held.claimed else 0.0
    if not held.exists:
        return "orphan"
    if claimed is None:
        return "broken"
    if claimed > 0:
        return "stale" if now_ms - claimed > visibility_ms else "live"
    if not held.enqueued_ms or held.enqueued_ms <= 0:
        return "broken"
    return "stale" if now_ms - held.enqueued_ms > 2 * visibility_ms else "live"


def patient_rule(unsigned_since: Mapping[str, int]) -> StaleRule:
    """The same, but an unsigned claim is stale only when it was seen so for a whole visibility: a job that waited
    long is not taken from a worker that has just moved it.
    """

    def rule(held: ClaimState, now_ms: int, visibility_ms: int) -> ClaimStatus:
        status = guide_rule(held, now_ms, visibility_ms)
        signed = held.claimed not in {"", "0"} or status in {"broken", "orphan"}
        if signed:
            return status
        since = unsigned_since.get(held.id)
        return "stale" if since is not None and now_ms - since > visibility_ms else "unsigned"

    return rule


def judge_claims(
    keys: JobListKeys, *, visibility_ms: int, now_ms: int | None = None, rule: StaleRule = guide_rule
) -> Flow[tuple[list[JudgedClaim], int]]:
    """Every id in the processing list, newest claim first, and the time it was judged by: the server's, unless given."""
    [now, length] = yield [clock(), calls.list_length(keys.processing)]
    at_ms = parse_server_time(now) if now_ms is None else now_ms
    found: list[JudgedClaim] = []
    for start in range(0, length, PAGE):
        [page] = yield [calls.list_range(keys.processing, start, start + PAGE - 1)]
        ids = [to_text(job_id) for job_id in page]
        rows = yield [calls.job_field_values(keys, job_id) for job_id in ids]
        for job_id, fields in zip(ids, rows, strict=True):
            if isinstance(fields, Exception):
                odd = ClaimState(job_id, "", "", None, None, None, exists=True)
                found.append(JudgedClaim(odd, "broken", str(fields)))
                continue
            held = ClaimState.from_fields(job_id, fields)
            status = rule(held, at_ms, visibility_ms)
            found.append(JudgedClaim(held, status, _explain(held, status, at_ms)))
    return found, at_ms


def reclaim(
    keys: JobListKeys,
    *,
    options: JobListOptions = DEFAULTS,
    now_ms: int | None = None,
    rule: StaleRule = guide_rule,
    dry_run: bool = False,
    give_up_at: int | None = None,
    drop_orphans: bool = False,
) -> Flow[ReclaimResult]:
    """Put jobs whose workers are gone back on the pending list, as the guide's sweep does, in its order.

    give_up_at: jobs claimed so often go to the failed list instead, or they would kill workers for ever.
    """
    judged, at_ms = yield from judge_claims(keys, visibility_ms=options.visibility_ms, now_ms=now_ms, rule=rule)
    plan = _plan(judged, give_up_at, drop_orphans=drop_orphans)
    if dry_run:
        return plan
    stale = [one.claim for one in judged if one.status == "stale"]
    failed = frozenset(plan.failed)
    replies = yield [_reclaim_call(keys, held, at_ms, options, give_up=held.id in failed) for held in stale]
    yield [calls.remove_orphan_id(keys, keys.processing, job_id) for job_id in plan.dropped]
    done = _move_to_changed(plan, {held.id for held, moved in zip(stale, replies, strict=True) if not moved})
    yield from publish_events(keys, done.failed, "failed", options)
    return done


def _plan(judged: Sequence[JudgedClaim], give_up_at: int | None, *, drop_orphans: bool) -> ReclaimResult:
    by: dict[ClaimStatus, list[JudgedClaim]] = {}
    for one in judged:
        by.setdefault(one.status, []).append(one)
    stale, orphans = [one.claim for one in by.get("stale", ())], by.get("orphan", [])
    poison = [held.id for held in stale if give_up_at is not None and (held.attempts or 0) >= give_up_at]
    poisonous = frozenset(poison)
    return ReclaimResult(
        looked=len(judged),
        moved=tuple(held.id for held in stale if held.id not in poisonous),
        failed=tuple(poison),
        skipped=(*by.get("broken", ()), *(() if drop_orphans else orphans)),
        dropped=tuple(one.claim.id for one in orphans) if drop_orphans else (),
        unsigned=tuple(one.claim.id for one in by.get("unsigned", ())),
    )


def _reclaim_call(keys: JobListKeys, held: ClaimState, now_ms: int, options: JobListOptions, *, give_up: bool) -> Call:
    if not give_up:
        return calls.reclaim(keys, held.id, token=held.token, claimed=held.claimed, now_ms=now_ms)
    return calls.give_up(
        keys,
        held.id,
        token=held.token,
        claimed=held.claimed,
        now_ms=now_ms,
        error=f"{GAVE_UP} ({held.attempts} attempts)",
        ttl_s=options.ttl_s,
        history=options.history,
    )


def _move_to_changed(plan: ReclaimResult, lost: set[str]) -> ReclaimResult:
    return replace(
        plan,
        moved=tuple(job_id for job_id in plan.moved if job_id not in lost),
        failed=tuple(job_id for job_id in plan.failed if job_id not in lost),
        changed=tuple(job_id for job_id in (*plan.moved, *plan.failed) if job_id in lost),
    )


def _explain(held: ClaimState, status: ClaimStatus, now_ms: int) -> str:
    claimed = to_number(held.claimed) if held.claimed else 0.0
    match status:
        case "orphan":
            return "there is no job of this id"
        case "broken" if claimed is None:
            return f"claimed_at_ms is no number: {held.claimed!r}"
        case "broken":
            return "neither claimed_at_ms nor enqueued_at_ms tells a time"
        case "unsigned":
            return "moved, but nobody has signed for it yet"
        case _ if claimed:
            return f"claimed {now_ms - int(claimed)} ms ago"
        case _:
            return f"never signed for, enqueued {now_ms - int(held.enqueued_ms or 0)} ms ago"
