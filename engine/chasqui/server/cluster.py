"""A cluster's slot map: which master holds which keys, as the cluster itself reports it.

Routing only; redirects of single calls are followed in `pilot.py`.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from redis.crc import key_slot

from chasqui.errors import ConfigError, ServerError, Unreachable
from chasqui.server.address import Node
from chasqui.server.error_kinds import ErrorReply
from chasqui.server.request import FailedRequest, query_node

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from chasqui.server.flow import Call
    from chasqui.server.request import Steps


@dataclass(frozen=True, slots=True)
class SlotMap:
    """Ranges of slots and their masters, in order."""

    starts: tuple[int, ...]
    ends: tuple[int, ...]
    masters: tuple[Node, ...]

    @classmethod
    def parse(cls, reply: Iterable[Sequence[Any]], asked: Node) -> SlotMap:
        """From CLUSTER SLOTS. A node that does not know its own name is the one that was asked."""
        rows = sorted((row[0], row[1], _node_from_row(row[2], asked)) for row in reply)
        return cls(tuple(r[0] for r in rows), tuple(r[1] for r in rows), tuple(r[2] for r in rows))

    def master_of(self, slot: int) -> Node | None:
        """Who holds the slot, if anybody does."""
        at = bisect_right(self.starts, slot) - 1
        return self.masters[at] if at >= 0 and slot <= self.ends[at] else None

    @property
    def nodes(self) -> list[Node]:
        """Every master once."""
        return list(dict.fromkeys(self.masters))


class ClusterRoute:
    """Each call to the master of its first key; calls without keys go along with the others."""

    follows_redirects = True

    def __init__(self, seed_nodes: Sequence[Node], silence: float) -> None:
        self._contacts = tuple(seed_nodes)
        self._silence = silence
        self._map = SlotMap((), (), ())
        self._fresh = False

    def nodes_for(self, calls: Sequence[Call]) -> Steps[list[Node]]:
        """The master of each call's first key. Without any key, any master will do."""
        slots = [slot_of(call.keys[0]) if call.keys else None for call in calls]
        known = yield from self._current_map()
        masters = {slot: self._master(known, slot) for slot in slots if slot is not None}
        company = next(iter(masters.values()), known.nodes[0])
        return [company if slot is None else masters[slot] for slot in slots]

    def all_nodes(self) -> Steps[list[Node]]:
        """Every master."""
        known = yield from self._current_map()
        return known.nodes

    def invalidate(self) -> None:
        """Ask for the map again before the next call."""
        self._fresh = False

    def _master(self, known: SlotMap, slot: int) -> Node:
        master = known.master_of(slot)
        if master is None:
            self.invalidate()
            raise ServerError(f"no node of the cluster holds slot {slot}", transient=True, code="CLUSTERDOWN")
        return master

    def _current_map(self) -> Steps[SlotMap]:
        if not self._fresh:
            self._map = yield from self._fetch_map()
            self._fresh = True
        return self._map

    def _fetch_map(self) -> Steps[SlotMap]:
        """The map of the first node that replies: recently used nodes first, then the configured ones."""
        problem: ServerError = Unreachable("the cluster has no nodes")
        for node in dict.fromkeys((*self._map.nodes, *self._contacts)):
            reply = yield from query_node(node, "CLUSTER", "SLOTS", silence=self._silence)
            if isinstance(reply, FailedRequest):
                problem = reply.error
            elif isinstance(reply, ErrorReply):
                raise _not_a_cluster(reply, node)
            elif reply:
                return SlotMap.parse(reply, node)
            else:
                problem = ServerError(f"{node} knows of no slots yet", transient=True, code="CLUSTERDOWN")
        raise problem


def slot_of(key: str | bytes) -> int:
    """The hash slot of a key."""
    slot: int = key_slot(key.encode("utf-8", "surrogateescape") if isinstance(key, str) else key)
    return slot


def redirect_target(reply: ErrorReply, asked: Node) -> Node:
    """The node that MOVED or ASK points to. Without a host it is the one that was asked."""
    host, _, port = str(reply).split(" ")[2].rpartition(":")
    return Node(host.strip("[]") or asked.host, int(port))


def _node_from_row(row: Sequence[Any], asked: Node) -> Node:
    host = row[0].decode() if row[0] else ""
    return Node(asked.host if host in {"", "?"} else host, row[1])


def _not_a_cluster(reply: ErrorReply, node: Node) -> ConfigError | ServerError:
    if "cluster support disabled" in str(reply):
        return ConfigError(f"{node} is no cluster node", hint="use redis:// instead of redis+cluster://")
    return ServerError(f"{node}: CLUSTER SLOTS: {reply}", code=reply.code, transient=reply.code == "LOADING")
