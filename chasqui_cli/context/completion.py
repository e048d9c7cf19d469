"""What the shell offers when Tab is pressed: queue names of any kind, schedule keys and contexts, live but within 300 ms.

On any error the shell is offered what was found before, or nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from chasqui import Link
    from chasqui_cli.context.command_context import CommandContext

TIMEOUT_S = 0.3
MAX_KEYS_SCANNED = 20_000
"""How many keys a look may pass in that time; what it does not reach, an earlier search may have found."""


def complete_queues(ctx: typer.Context, incomplete: str) -> Iterator[str]:
    """Queues of the server that the command line, so far as it is typed, means."""
    yield from _matching(ctx, incomplete, _native_queues)


def complete_any_queue(ctx: typer.Context, incomplete: str) -> Iterator[str]:
    """Queues of every kind: ours, `rsmq:NAME` and `list:NAME`."""
    from chasqui import Keys
    from chasqui_cli.queues.queue_names import format_queue_ref

    yield from _matching(
        ctx,
        incomplete,
        lambda context: [
            *(format_queue_ref(Keys(name)) for name in _native_queues(context)),
            *_foreign_queues(context),
        ],
    )


def complete_rsmq_queues(ctx: typer.Context, incomplete: str) -> Iterator[str]:
    """RSMQ queues of the namespace that was typed, or of its own, by their bare names."""
    prefix = "rsmq:" if (space := ctx.params.get("ns") or "rsmq") == "rsmq" else f"rsmq:{space}:"
    yield from _matching(ctx, incomplete, lambda context: _without_prefix(_foreign_queues(context), prefix))


def complete_joblist_queues(ctx: typer.Context, incomplete: str) -> Iterator[str]:
    """List job queues by their bare names."""
    yield from _matching(
        ctx, incomplete, lambda context: [name[5:] for name in _foreign_queues(context) if name.startswith("list:")]
    )


def complete_schedule_keys(ctx: typer.Context, incomplete: str) -> Iterator[str]:
    """Keys of repeatable jobs of the queue that was typed before."""
    yield from _matching(ctx, incomplete, lambda context: _schedule_keys(context, ctx.params.get("queue")))


def complete_contexts(incomplete: str) -> Iterator[str]:
    """Contexts of the configuration file."""
    from chasqui_cli.context.settings import read_contexts

    with suppress(Exception):
        yield from (name for name in read_contexts()[1] if name.startswith(incomplete))


def _matching(ctx: typer.Context, incomplete: str, find: Callable[[CommandContext], list[str]]) -> Iterator[str]:
    from chasqui_cli.output.escape_text import safe

    found: list[str] = []
    with suppress(Exception):
        found = find(_completion_context(ctx))
    # A name that a terminal would act upon cannot be typed either.
    yield from (name for name in found if name.startswith(incomplete) and safe(name) == name)


def _completion_context(ctx: typer.Context) -> CommandContext:
    from chasqui_cli.context.command_context import CommandContext
    from chasqui_cli.context.settings import ConnectionOptions

    given: dict[str, Any] = {
        name: ctx.params.get(name) for name in ("redis_url", "url_file", "context", "password_file")
    }
    return CommandContext(connection=ConnectionOptions(**given, read_only=True), quiet=True)


def _native_queues(context: CommandContext) -> list[str]:
    from chasqui.inspect import discovery

    cache = context.name_cache()
    cached = cache.read()
    known = set(cached.queues) if cached else set[str]()
    with suppress(Exception), _open_with_timeout(context) as link:
        found = discovery.discover_queues(link, most_keys=MAX_KEYS_SCANNED)
        return sorted(set(found.queues) if found.complete else known | set(found.queues))
    return sorted(known)


def _foreign_queues(context: CommandContext) -> list[str]:
    """Queues of other systems, as they are called where several kinds are meant."""
    from chasqui import foreign
    from chasqui_cli.queues.queue_names import format_queue_ref

    cached = context.name_cache().read()
    known = set(cached.others or ()) if cached else set[str]()
    with suppress(Exception), _open_with_timeout(context) as link:
        found = foreign.discover(link, most_keys=MAX_KEYS_SCANNED)
        names = {*map(format_queue_ref, found.rsmq), *map(format_queue_ref, found.joblists)}
        return sorted(names if found.complete else known | names)
    return sorted(known)


def _without_prefix(names: list[str], prefix: str) -> list[str]:
    """Those that begin so, without it; a queue of RSMQ has no colon in its name."""
    return [bare for name in names if name.startswith(prefix) and ":" not in (bare := name.removeprefix(prefix))]


def _schedule_keys(context: CommandContext, queue: str | None) -> list[str]:
    from chasqui import Keys
    from chasqui.schedule import repeatable
    from chasqui_cli.context.session import Session

    if not queue:
        return []
    with _open_with_timeout(context) as link:
        return [one.key for one in Session(link).query(repeatable.list_specs, Keys(queue), 200)]


def _open_with_timeout(context: CommandContext) -> Link:
    from chasqui import Link

    address = context.address
    if address.kind == "embedded":
        return context.link(address)
    return Link.open(address, read_only=True, connect_timeout=TIMEOUT_S, timeout=TIMEOUT_S)
