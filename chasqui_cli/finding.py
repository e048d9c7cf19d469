"""Which queues a verb without a name is about: found by looking through the server's keys, or known from before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chasqui_cli.times import span

if TYPE_CHECKING:
    from collections.abc import Iterable

    from chasqui.discovery import Discovered
    from chasqui.foreign import JobListKeys, RsmqKeys
    from chasqui_cli.desk import Desk
    from chasqui_cli.places import Place, Seen
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


def found_places(desk: Desk, session: Session, *, anew: bool = False) -> list[Place]:
    """Every queue of every kind: ours first, then RSMQ's, then lists."""
    from chasqui import Keys, foreign
    from chasqui_cli.places import name_of, place_of

    ours: list[Place] = [Keys(name) for name in found_queues(desk, session, anew=anew)]
    cache = desk.name_cache()
    kept = cache.read()
    if kept and not anew and kept.keys >= WORTH_KEEPING and kept.others is not None:
        return [*ours, *map(place_of, kept.others)]
    with desk.progress("looking for other systems' queues", None) as advance:

        def told(so_far: foreign.ForeignQueues) -> None:
            advance(so_far.looked, so_far.total)

        found = foreign.discover(session.link, progress=told)
    others: list[RsmqKeys | JobListKeys] = [*found.rsmq, *found.joblists]
    if kept:
        cache.write(kept.at_ms, kept.keys, kept.queues, [name_of(place) for place in others])
    return [*ours, *others]


def warn_where_there_is_no(desk: Desk, session: Session, queue: str) -> None:
    """Nothing was found: where the name is mistyped, or keys hold other things, that has to be said. One round trip."""
    from chasqui import Keys, snapshot

    if desk.quiet:
        return
    seen = session.look(snapshot.one, Keys(queue))
    warn_of_wrong_keys(desk, [seen])
    if not seen.exists:
        desk.say(
            f"warning: there is nothing of a queue named {queue!r} on this server; `chasqui queues` lists them"
        )


def warn_of_wrong_keys(desk: Desk, seen: Iterable[Seen]) -> None:
    """A place that something else has taken counts as empty, and must not look so."""
    for one in seen:
        for wrong in getattr(one, "wrong", ()):
            desk.say(
                f"warning: {wrong.key} holds a {wrong.found} where a {wrong.expected} belongs; `chasqui doctor` tells more"
            )


def seen_queues(
    desk: Desk,
    session: Session,
    names: list[str] | None,
    *,
    anew: bool = False,
    visibility_ms: int | None = None,
    warns: bool = True,
) -> list[Seen]:
    """Snapshots of the queues named, or of all there are, in one round trip once their names are known.

    A named one that does not exist is shown as empty, with a warning; one that was found and is gone is left out.
    warns: of keys that hold something else, for who does not tell of them anyway.
    """
    from chasqui.snapshot import Unseen
    from chasqui_cli.places import is_ours, named, place_of

    places = [place_of(name) for name in names] if names else found_places(desk, session, anew=anew)
    told = _snapshots(session, places, visibility_ms)
    seen = [named(one, place) for one, place in zip(told, places, strict=True)]
    if warns:
        warn_of_wrong_keys(desk, seen)
    if not names:
        return [one for one in seen if isinstance(one, Unseen) or one.exists]
    for one in seen:
        if not isinstance(one, Unseen) and not one.exists:
            others = f"; rsmq:{one.queue} and list:{one.queue} name other systems' queues"
            hint = others if is_ours(one.queue) else ""
            desk.say(f"warning: there is nothing of a queue named {one.queue!r} on this server{hint}")
    return seen


def _snapshots(session: Session, places: list[Place], visibility_ms: int | None) -> list[Seen]:
    """Who only asks for queues of ours does not pay for knowing the others."""
    from chasqui import Keys, snapshot

    ours = [place for place in places if isinstance(place, Keys)]
    if len(ours) == len(places):
        return [*session.look(snapshot.many, ours)]
    return session.fleet(places, visibility_ms)
