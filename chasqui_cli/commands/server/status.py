from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from chasqui_cli.commands.server._embedded import embedded_record, embedded_server
from chasqui_cli.context.command_context import CommandContext, command

if TYPE_CHECKING:
    from chasqui import Features, Link
    from chasqui_cli.output.columns import Record


@command("server status")
def status(ctx: CommandContext) -> None:
    """Say who answers at the URL: kind, version, native words, memory, eviction and persistence.

    An embedded server (`-u embedded://`) is not started for the question.
    """
    address = ctx.address
    if address.kind == "embedded":
        name = address.name or "default"
        ctx.write_record(embedded_record(embedded_server(name), f"embedded://{name}"))
        return
    with ctx.link(address) as link:
        ctx.write_record(_server_record(link))


def _server_record(link: Link) -> Record:
    """Kind and native commands as probed, the rest as the server reports it."""
    from chasqui import server_info

    features = link.features()
    return {
        "url": str(link.address),
        "kind": features.kind,
        "version": features.version,
        "native_words": [word for word, known in _native_commands(features).items() if known],
        **asdict(link.run(server_info())),
    }


def _native_commands(features: Features) -> dict[str, bool]:
    return {"XADD IDMP": features.idmp, "XACKDEL": features.ackdel, "XREADGROUP CLAIM": features.claim}
