"""Which node a call belongs to: always the same one, or the one the sentinels name. (A cluster: `cluster.py`.)

A route learns by yielding steps, like everything pure here; it never opens a connection itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from chasqui.errors import NotFound, Unreachable
from chasqui.server.address import Node
from chasqui.server.request import FailedRequest, query_node

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chasqui.server.error_kinds import ErrorReply
    from chasqui.server.flow import Call
    from chasqui.server.request import Steps


class Route(Protocol):
    """Where calls go."""

    follows_redirects: bool

    def nodes_for(self, calls: Sequence[Call]) -> Steps[list[Node]]:
        """The node of each call."""
        ...

    def all_nodes(self) -> Steps[list[Node]]:
        """All nodes that hold data, once each."""
        ...

    def invalidate(self) -> None:
        """Something did not fit: ask again before the next call."""
        ...


class DirectRoute:
    """One server, come what may."""

    follows_redirects = False

    def __init__(self, node: Node) -> None:
        self._node = node

    def nodes_for(self, calls: Sequence[Call]) -> Steps[list[Node]]:
        """The one node, for each."""
        yield from ()
        return [self._node] * len(calls)

    def all_nodes(self) -> Steps[list[Node]]:
        """The one node."""
        yield from ()
        return [self._node]

    def invalidate(self) -> None:
        """Does nothing: a single server has no slot map."""


class SentinelRoute:
    """The master the sentinels name, until it turns out to be none."""

    follows_redirects = False

    def __init__(self, sentinels: Sequence[Node], service: str, silence: float) -> None:
        self._sentinels = sentinels
        self._service = service
        self._silence = silence
        self._master: Node | None = None

    def nodes_for(self, calls: Sequence[Call]) -> Steps[list[Node]]:
        """The master, for each."""
        if self._master is None:
            self._master = yield from self._find_master()
        return [self._master] * len(calls)

    def all_nodes(self) -> Steps[list[Node]]:
        """The master: replicas hold nothing else."""
        return (yield from self.nodes_for([]))

    def invalidate(self) -> None:
        """Ask the sentinels again."""
        self._master = None

    def _find_master(self) -> Steps[Node]:
        """The first sentinel with an answer whose node agrees that it is the master.

        A sentinel behind the times names the old master, so the node is asked for its role before it is believed.
        """
        problems: list[str] = []
        for sentinel in self._sentinels:
            named = yield from query_node(
                sentinel, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", self._service, silence=self._silence
            )
            if isinstance(named, list):
                node = Node(named[0].decode(), int(named[1]))
                role = yield from query_node(node, "ROLE", silence=self._silence)
                if isinstance(role, list) and role[0] == b"master":
                    return node
                problems.append(f"{node}, named by {sentinel}, is not a master now")
            elif named is None:
                raise NotFound(f"the sentinel {sentinel} knows no service {self._service!r}")
            else:
                problems.append(_failure_text(named, sentinel))
        raise Unreachable(f"no sentinel could name the master of {self._service!r}: {'; '.join(problems)}")


def _failure_text(answer: FailedRequest | ErrorReply, node: Node) -> str:
    return str(answer.error) if isinstance(answer, FailedRequest) else f"{node}: {answer}"
