"""Which queues a verb without a name is about: found by looking through the server's keys, or known from before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chasqui_cli.output.times import format_duration

if TYPE_CHECKING:
    from collections.abc import Iterable

    from chasqui.foreign import JobListKeys, RsmqKeys
    from chasqui.inspect.discovery import DiscoveredQueues
    from chasqui_cli.context.command_context import CommandContext
    from chasqui_cli.context.session import Session
    from chasqui_cli.queues.queue_names import AnySnapshot, QueueRef

CACHE_ABOVE_KEYS = 50_000
"""Among fewer keys a new look costs next to nothing, and nothing is missed."""
CACHE_TTL_MS = 10 * 60_000


def discover_native_queues(ctx: CommandContext, session: Session, *, rescan: bool = False) -> list[str]:
    """Every queue, in alphabetical order. Among very many keys the names of the last ten minutes are used, with a
    remark; `rescan` looks again.
    """
    from chasqui.inspect import discovery

    cache, now_ms = ctx.name_cache(), session.server_now_ms()
    cached = cache.read()
    if cached and not rescan and cached.keys >= CACHE_ABOVE_KEYS and 0 <= now_ms - cached.at_ms < CACHE_TTL_MS:
        ctx.info(
            f"{len(cached.queues)} queues known from {format_duration(now_ms - cached.at_ms)} ago; --rescan looks again"
        )
        return list(cached.queues)
    with ctx.progress("looking through the keys", None) as advance:

        def report(so_far: DiscoveredQueues) -> None:
            advance(so_far.scanned, so_far.total)

        found = discovery.discover_queues(session.link, progress=report)
    if found.total >= CACHE_ABOVE_KEYS:
        ctx.info(f"looked through {found.total:,} keys: {len(found.queues)} queues")
    others = (cached.others, cached.others_at_ms) if cached else ()
    cache.write(now_ms, found.total, found.queues, *others)
    return list(found.queues)


def discover_all_queues(ctx: CommandContext, session: Session, *, rescan: bool = False) -> list[QueueRef]:
    """Every queue of every kind: ours first, then RSMQ's, then lists."""
    from chasqui import Keys, foreign
    from chasqui_cli.queues.queue_names import format_queue_ref, parse_queue_ref

    ours: list[QueueRef] = [Keys(name) for name in discover_native_queues(ctx, session, rescan=rescan)]
    cache = ctx.name_cache()
    cached = cache.read()
    others_known = cached and cached.keys >= CACHE_ABOVE_KEYS and cached.others_at_ms == cached.at_ms
    if cached and cached.others is not None and others_known and not rescan:
        return [*ours, *map(parse_queue_ref, cached.others)]
    with ctx.progress("looking for other systems' queues", None) as advance:

        def report(so_far: foreign.ForeignQueues) -> None:
            advance(so_far.scanned, so_far.total)

        found = foreign.discover(session.link, progress=report)
    others: list[RsmqKeys | JobListKeys] = [*found.rsmq, *found.joblists]
    if cached:
        cache.write(cached.at_ms, cached.keys, cached.queues, [format_queue_ref(place) for place in others])
    return [*ours, *others]


def warn_if_missing(ctx: CommandContext, session: Session, queue: str) -> None:
    """Nothing was found: where the name is mistyped, or keys hold other things, that has to be said. One round trip."""
    from chasqui import Keys
    from chasqui.inspect import snapshot

    if ctx.quiet:
        return
    seen = session.query(snapshot.take_snapshot, Keys(queue))
    warn_wrong_types(ctx, [seen])
    if not seen.exists:
        ctx.info(f"warning: there is nothing of a queue named {queue!r} on this server; `chasqui queues` lists them")


def warn_wrong_types(ctx: CommandContext, seen: Iterable[AnySnapshot]) -> None:
    """A place that something else has taken counts as empty, and must not look so."""
    for one in seen:
        for wrong in getattr(one, "wrong", ()):
            ctx.info(
                f"warning: {wrong.key} holds a {wrong.found} where a {wrong.expected} belongs; `chasqui doctor` tells more"
            )


def queue_snapshots(
    ctx: CommandContext,
    session: Session,
    names: list[str] | None,
    *,
    rescan: bool = False,
    visibility_ms: int | None = None,
    warns: bool = True,
) -> list[AnySnapshot]:
    """Snapshots of the queues named, or of all there are, in one round trip once their names are known.

    A named one that does not exist is shown as empty, with a warning; one that was found and is gone is left out.
    warns: about keys of a wrong type, for callers that do not report them themselves.
    """
    from chasqui.inspect.snapshot import SnapshotFailure
    from chasqui_cli.queues.queue_names import is_native, parse_queue_ref, with_ref_name

    places = [parse_queue_ref(name) for name in names] if names else discover_all_queues(ctx, session, rescan=rescan)
    snapshots = _read_snapshots(session, places, visibility_ms)
    seen = [with_ref_name(one, place) for one, place in zip(snapshots, places, strict=True)]
    if warns:
        warn_wrong_types(ctx, seen)
    if not names:
        return [one for one in seen if isinstance(one, SnapshotFailure) or one.exists]
    for one in seen:
        if not isinstance(one, SnapshotFailure) and not one.exists:
            others = f"; rsmq:{one.queue} and list:{one.queue} name other systems' queues"
            hint = others if is_native(one.queue) else ""
            ctx.info(f"warning: there is nothing of a queue named {one.queue!r} on this server{hint}")
    return seen


def _read_snapshots(session: Session, places: list[QueueRef], visibility_ms: int | None) -> list[AnySnapshot]:
    """Who only asks for queues of ours does not pay for knowing the others."""
    from chasqui import Keys
    from chasqui.inspect import snapshot

    ours = [place for place in places if isinstance(place, Keys)]
    if len(ours) == len(places):
        return [*session.query(snapshot.take_snapshots, ours)]
    return session.snapshots(places, visibility_ms)


def no_such_queue(queue: str) -> Exception:
    from chasqui.errors import NotFound

    return NotFound(f"there is nothing of a queue named {queue!r} on this server", hint="`chasqui queues` lists them")
