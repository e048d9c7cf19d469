"""What the shell offers when Tab is pressed: queue names of any kind, schedule keys and contexts, live but within 300 ms.

Whatever goes wrong, the shell is offered what was found before, or nothing: nobody reads an error while typing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from chasqui import Link
    from chasqui_cli.desk import Desk

PATIENCE_S = 0.3
MOST_KEYS = 20_000
"""How many keys a look may pass in that time; what it does not reach, an earlier search may have found."""


def queue_names(ctx: typer.Context, incomplete: str) -> Iterator[str]:
    """Queues of the server that the command line, so far as it is typed, means."""
    yield from _offered(ctx, incomplete, _queues)


def place_names(ctx: typer.Context, incomplete: str) -> Iterator[str]:
    """Queues of every kind: ours, `rsmq:NAME` and `list:NAME`."""
    yield from _offered(ctx, incomplete, lambda desk: [*_queues(desk), *_others(desk)])


def rsmq_names(ctx: typer.Context, incomplete: str) -> Iterator[str]:
    """RSMQ queues of the namespace that was typed, or of its own, by their bare names."""
    prefix = "rsmq:" if (space := ctx.params.get("ns") or "rsmq") == "rsmq" else f"rsmq:{space}:"
    yield from _offered(ctx, incomplete, lambda desk: _bare(_others(desk), prefix))


def list_names(ctx: typer.Context, incomplete: str) -> Iterator[str]:
    """List job queues by their bare names."""
    yield from _offered(
        ctx, incomplete, lambda desk: [name[5:] for name in _others(desk) if name.startswith("list:")]
    )


def schedule_keys(ctx: typer.Context, incomplete: str) -> Iterator[str]:
    """Keys of repeatable jobs of the queue that was typed before."""
    yield from _offered(ctx, incomplete, lambda desk: _schedules(desk, ctx.params.get("queue")))


def context_names(incomplete: str) -> Iterator[str]:
    """Contexts of the configuration file."""
    from chasqui_cli.settings import contexts

    with suppress(Exception):
        yield from (name for name in contexts()[1] if name.startswith(incomplete))


def _offered(ctx: typer.Context, incomplete: str, find: Callable[[Desk], list[str]]) -> Iterator[str]:
    from chasqui_cli.safe import safe

    found: list[str] = []
    with suppress(Exception):
        found = find(_desk(ctx))
    # A name that a terminal would act upon cannot be typed either.
    yield from (name for name in found if name.startswith(incomplete) and safe(name) == name)


def _desk(ctx: typer.Context) -> Desk:
    from chasqui_cli.desk import Desk
    from chasqui_cli.settings import Given

    given: dict[str, Any] = {
        name: ctx.params.get(name) for name in ("redis_url", "url_file", "context", "password_file")
    }
    return Desk(given=Given(**given, read_only=True), quiet=True)


def _queues(desk: Desk) -> list[str]:
    from chasqui import discovery

    cache = desk.name_cache()
    kept = cache.read()
    known = set(kept.queues) if kept else set[str]()
    with suppress(Exception), _quick(desk) as link:
        found = discovery.discover(link, most_keys=MOST_KEYS)
        return sorted(set(found.queues) if found.complete else known | set(found.queues))
    return sorted(known)


def _others(desk: Desk) -> list[str]:
    """Queues of other systems, as they are called where several kinds are meant."""
    from chasqui import foreign
    from chasqui_cli.places import name_of

    kept = desk.name_cache().read()
    known = set(kept.others or ()) if kept else set[str]()
    with suppress(Exception), _quick(desk) as link:
        found = foreign.discover(link, most_keys=MOST_KEYS)
        names = {*map(name_of, found.rsmq), *map(name_of, found.joblists)}
        return sorted(names if found.complete else known | names)
    return sorted(known)


def _bare(names: list[str], prefix: str) -> list[str]:
    """Those that begin so, without it; a queue of RSMQ has no colon in its name."""
    return [
        bare for name in names if name.startswith(prefix) and ":" not in (bare := name.removeprefix(prefix))
    ]


def _schedules(desk: Desk, queue: str | None) -> list[str]:
    from chasqui import Keys, repeatable
    from chasqui_cli.session import Session

    if not queue:
        return []
    with _quick(desk) as link:
        return [one.key for one in Session(link).look(repeatable.listing, Keys(queue), 200)]


def _quick(desk: Desk) -> Link:
    from chasqui import Link

    address = desk.address()
    if address.kind == "embedded":
        return desk.link(address)
    return Link.open(address, read_only=True, connect_timeout=PATIENCE_S, timeout=PATIENCE_S)
