"""Which queues a verb without a name is about: found by looking through the server's keys, or known from before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chasqui_cli.times import span

if TYPE_CHECKING:
    from chasqui.discovery import Discovered
    from chasqui.snapshot import Snapshot, Unseen
    from chasqui_cli.desk import Desk
    from chasqui_cli.session import Session

WORTH_KEEPING = 50_000
"""Among fewer keys a new look costs next to nothing, and nothing is missed."""
KEPT_MS = 10 * 60_000


def found_queues(desk: Desk, session: Session, *, anew: bool = False) -> list[str]:
    """Every queue, in alphabetical order. Among very many keys the names of the last ten minutes are believed, and
    that is said; `anew` looks again.
    """
    from chasqui import discovery

    cache, now_ms = desk.name_cache(), session.now_ms()
    kept = cache.read()
    if kept and not anew and kept.keys >= WORTH_KEEPING and 0 <= now_ms - kept.at_ms < KEPT_MS:
        desk.say(
            f"{len(kept.queues)} queues known from {span(now_ms - kept.at_ms)} ago; --rescan looks again"
        )
        return list(kept.queues)
    with desk.progress("looking through the keys", None) as advance:

        def told(so_far: Discovered) -> None:
            advance(so_far.looked, so_far.total)

        found = discovery.discover(session.link, progress=told)
    if found.total >= WORTH_KEEPING:
        desk.say(f"looked through {found.total:,} keys: {len(found.queues)} queues")
    cache.write(now_ms, found.total, found.queues)
    return list(found.queues)


def seen_queues(
    desk: Desk, session: Session, names: list[str] | None, *, anew: bool = False
) -> list[Snapshot | Unseen]:
    """Snapshots of the queues named, or of all there are, in one round trip once their names are known.

    A named one that does not exist is shown as empty, with a warning; one that was found and is gone is left out.
    """
    from chasqui import Keys, snapshot

    seen = session.look(
        snapshot.many, [Keys(name) for name in names or found_queues(desk, session, anew=anew)]
    )
    if not names:
        return [one for one in seen if isinstance(one, snapshot.Unseen) or one.exists]
    for one in seen:
        if isinstance(one, snapshot.Snapshot) and not one.exists:
            desk.say(f"warning: there is nothing of a queue named {one.queue!r} on this server")
    return seen
