"""Which delayed jobs are meant: by id where there is an index, else by looking through the set, and telling how far."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chasqui_cli.commands.delayed.records import job_id, job_record, reference

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chasqui.delaying import Member
    from chasqui_cli.desk import Desk
    from chasqui_cli.session import Session


def found_jobs(
    desk: Desk, session: Session, queue: str, ids: Sequence[str], now_ms: int, limit: int | None
) -> list[Member]:
    """The jobs, soonest first. Ids that are not found are told; if none of them is, `NotFound` is raised."""
    from chasqui import Keys, delaying
    from chasqui.errors import NotFound

    judge = desk.choice.judge(now_ms, "run_at_ms", "future")
    keys, wanted = Keys(queue), set(ids)
    known = session.look(delaying.by_id, keys, [one for one in ids if not one.startswith("~")]) if ids else {}
    rest = wanted - set(known)

    def is_wanted(member: Member) -> bool:
        if ids and reference(member) not in rest and job_id(member) not in rest:
            return False
        return judge(job_record(desk, queue, member))

    found = [one for one in known.values() if judge(job_record(desk, queue, one))]
    if rest or not ids:
        scanned = session.look(
            delaying.scan,
            keys,
            is_wanted,
            least_ms=judge.since_ms,
            most_ms=judge.until_ms,
            scan=desk.choice.scan,
            enough=len(rest) if ids else limit,
        )
        if not scanned.complete and scanned.looked >= desk.choice.scan:
            desk.say(f"looked at the first {scanned.looked:,} delayed jobs only; --scan looks further")
        found += scanned.found
    missing = wanted - {reference(one) for one in found} - {job_id(one) for one in found}
    if missing and not found:
        raise NotFound(
            f"no delayed job {', '.join(sorted(missing))} in {queue}",
            hint=f"chasqui why {min(missing)} tells",
        )
    for one in sorted(missing):
        desk.say(f"warning: there is no delayed job {one!r}")
    return sorted(found, key=lambda one: one.run_at_ms)[:limit]
