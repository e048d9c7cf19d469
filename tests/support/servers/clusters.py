"""Deployments of several servers on this machine: a cluster, and a master with a replica under a sentinel."""

from __future__ import annotations

import shutil
import socket
import tempfile
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from chasqui.server.cluster import slot_of
from chasqui.server.link import Link
from tests.support.links import command
from tests.support.servers.server import Server, start_server, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from chasqui.server.flow import Arg, Reply
    from tests.support.servers.binaries import Kind

SLOTS = 16384
SYNC_AT_ONCE = ("--repl-diskless-sync-delay", "0")


@dataclass(slots=True)
class ClusterNode:
    """One node of a cluster, with a line of its own to it."""

    server: Server
    link: Link
    id: str

    @property
    def url(self) -> str:
        return f"127.0.0.1:{self.server.port}"

    def send(self, *words: Arg) -> Reply:
        """Past all routing, straight to this node."""
        return self.link.run(command(*words))


@dataclass(slots=True)
class ClusterServers:
    """Masters that share the slots evenly, in order."""

    __test__ = False

    masters: list[ClusterNode]

    @property
    def url(self) -> str:
        return "redis+cluster://" + ",".join(member.url for member in self.masters)

    def owner(self, key: str) -> ClusterNode:
        """Who held the key's slot when the cluster was made."""
        return self.masters[slot_of(key) * len(self.masters) // SLOTS]

    def others(self, member: ClusterNode) -> list[ClusterNode]:
        return [other for other in self.masters if other is not member]


@contextmanager
def cluster_servers(kind: Kind, size: int = 3) -> Iterator[ClusterServers]:
    """A cluster, once it reports itself as healthy."""
    with ExitStack() as stack:
        members = [_member(stack, kind) for _ in range(size)]
        for number, member in enumerate(members):
            first, last = -(-number * SLOTS // size), -(-(number + 1) * SLOTS // size) - 1
            member.send("CLUSTER", "ADDSLOTSRANGE", first, last)
            member.send("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
            join_nodes(members[0], member)
        for member in members:
            wait(member, partial(_is_well, member, size))
        yield ClusterServers(members)


@contextmanager
def replica(kind: Kind, master: ClusterNode) -> Iterator[ClusterNode]:
    """A replica of one member, in step with it."""
    with ExitStack() as stack:
        member = _member(stack, kind)
        join_nodes(master, member)
        wait(member, lambda: master.id.encode() in member.send("CLUSTER", "NODES"))
        member.send("CLUSTER", "REPLICATE", master.id)
        wait(member, lambda: b"master_link_status:up" in member.send("INFO", "replication"))
        yield member


def join_nodes(one: ClusterNode, other: ClusterNode) -> None:
    bus = one.link.run(command("CONFIG", "GET", "cluster-port"))[1]
    other.send("CLUSTER", "MEET", "127.0.0.1", one.server.port or 0, bus)


def move_slot(
    trio: ClusterServers,
    slot: int,
    source: ClusterNode,
    target: ClusterNode,
    halfway: Callable[[], None] = lambda: None,
) -> None:
    """Move a slot with every key in it, as a cluster's own tool does; a key of any other test would forbid the move.

    `halfway` is called when half of the keys are moved.
    """
    target.send("CLUSTER", "SETSLOT", slot, "IMPORTING", source.id)
    source.send("CLUSTER", "SETSLOT", slot, "MIGRATING", target.id)
    keys = source.send("CLUSTER", "GETKEYSINSLOT", slot, 10_000)
    for number, key in enumerate(keys):
        if number == len(keys) // 2:
            halfway()
        _migrate(source, target, key)
    while keys := source.send("CLUSTER", "GETKEYSINSLOT", slot, 100):
        for key in keys:
            _migrate(source, target, key)
    for member in (target, source, *trio.others(target)):
        member.send("CLUSTER", "SETSLOT", slot, "NODE", target.id)


def _migrate(source: ClusterNode, target: ClusterNode, key: bytes) -> None:
    source.send("MIGRATE", "127.0.0.1", target.server.port or 0, key, 0, 5000)


def wait(member: ClusterNode, holds: Callable[[], bool]) -> None:
    wait_until(holds, member.server.process, member.server.log)


@dataclass(slots=True)
class SentinelServers:
    """A master and its replica, and a sentinel that watches them."""

    master: Server
    replica: Server
    sentinel: Server
    service: str = "mail"

    @property
    def url(self) -> str:
        return f"redis+sentinel://127.0.0.1:{self.sentinel.port}/{self.service}"


@contextmanager
def sentinel_servers(kind: Kind) -> Iterator[SentinelServers]:
    """Ready for a failover: the sentinel knows the replica, and the replica is in step."""
    with ExitStack() as stack:
        master = stack.enter_context(start_server(kind, tcp=True, args=SYNC_AT_ONCE))
        follow = ("--replicaof", "127.0.0.1", str(master.port), *SYNC_AT_ONCE)
        replica = stack.enter_context(start_server(kind, tcp=True, args=follow))
        sentinel = stack.enter_context(_sentinel(master, "mail"))
        watch = stack.enter_context(Link.open(f"unix://{sentinel.socket}"))
        ready = partial(_knows_a_good_replica, watch, "mail")
        wait_until(ready, sentinel.process, sentinel.log)
        yield SentinelServers(master, replica, sentinel)


@contextmanager
def _sentinel(master: Server, service: str) -> Iterator[Server]:
    """The same program, started as a Sentinel. It insists on a configuration file of its own."""
    place, port = Path(tempfile.mkdtemp(prefix="cq-")), _free_port()
    file = place / "sentinel.conf"
    file.write_text(
        f"port {port}\ndir {place}\nunixsocket {place / 's'}\nprotected-mode no\n"
        f"sentinel monitor {service} 127.0.0.1 {master.port} 1\n"
        f"sentinel down-after-milliseconds {service} 500\n"
        f"sentinel failover-timeout {service} 3000\n"
    )
    server = Server(master.binary, place, [str(master.binary.path), str(file), "--sentinel"], port, None, None)
    try:
        server.start()
        yield server
    finally:
        server.kill()
        shutil.rmtree(place)


def _knows_a_good_replica(watch: Link, service: str) -> bool:
    replicas = watch.run(command("SENTINEL", "REPLICAS", service))
    found = [dict(zip(row[::2], row[1::2], strict=True)) for row in replicas]
    return any(row[b"master-link-status"] == b"ok" and row[b"flags"] == b"slave" for row in found)


def _member(stack: ExitStack, kind: Kind) -> ClusterNode:
    settings = [
        "--cluster-enabled",
        "yes",
        "--cluster-port",
        str(_free_port()),
        "--cluster-node-timeout",
        "1500",
    ]
    server = stack.enter_context(start_server(kind, tcp=True, args=[*settings, *SYNC_AT_ONCE]))
    link = stack.enter_context(Link.open(f"unix://{server.socket}"))
    return ClusterNode(server, link, link.run(command("CLUSTER", "MYID")).decode())


def _is_well(member: ClusterNode, size: int) -> bool:
    info = member.send("CLUSTER", "INFO").decode()
    return "cluster_state:ok" in info and f"cluster_size:{size}" in info and f"slots_ok:{SLOTS}" in info


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port
