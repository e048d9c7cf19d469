"""A verb's connection: the link it was given, and the engine's asks run over it."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from chasqui import Commands, Flow, Link
    from chasqui_cli.queues.queue_names import AnySnapshot, QueueRef

T = TypeVar("T")
P = ParamSpec("P")


class Session:
    """Runs asks. `run` first finds out, once, what the server can do; `look` is for asks that need not know."""

    def __init__(self, link: Link) -> None:
        self.link = link

    @cached_property
    def commands(self) -> Commands:
        """How to say things to this server."""
        from chasqui import Commands

        return Commands(self.link.features())

    def run(self, flow: Callable[Concatenate[Commands, P], Flow[T]], *args: P.args, **named: P.kwargs) -> T:
        """Ask, and return the answer."""
        return self.link.run(flow(self.commands, *args, **named))

    def query(self, ask: Callable[Concatenate[Commands, P], Flow[T]], *args: P.args, **named: P.kwargs) -> T:
        """Ask what is said alike to every server, without finding out first what this one can do."""
        from chasqui import Commands, no_features

        return self.link.run(ask(Commands(no_features()), *args, **named))

    def snapshots(self, places: Sequence[QueueRef], visibility_ms: int | None = None) -> list[AnySnapshot]:
        """Snapshots of queues of any kinds, in one round trip per node."""
        from chasqui import foreign

        cluster = self.link.address.kind == "cluster"
        return self.query(foreign.snapshots, places, visibility_ms=visibility_ms, cluster=cluster)

    def server_now_ms(self) -> int:
        """The server's time."""
        from chasqui.inspect import snapshot

        return self.query(snapshot.server_time_ms)
