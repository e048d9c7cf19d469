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
from tests.links import say
from tests.servers import Server, await_condition, spawn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from chasqui.server.call import Reply, Word
    from tests.server_binaries import Kind

SLOTS = 16384
SYNC_AT_ONCE = ("--repl-diskless-sync-delay", "0")


@dataclass(slots=True)
class Member:
    """One node of a cluster, with a line of its own to it."""

    server: Server
    link: Link
    id: str

    @property
    def url(self) -> str:
        return f"127.0.0.1:{self.server.port}"

    def tell(self, *words: Word) -> Reply:
        """Past all routing, straight to this node."""
        return self.link.run(say(*words))


@dataclass(slots=True)
class TestCluster:
    """Masters that share the slots evenly, in order."""

    __test__ = False

    masters: list[Member]

    @property
    def url(self) -> str:
        return "redis+cluster://" + ",".join(member.url for member in self.masters)

    def owner(self, key: str) -> Member:
        """Who held the key's slot when the cluster was made."""
        return self.masters[slot_of(key) * len(self.masters) // SLOTS]

    def others(self, member: Member) -> list[Member]:
        return [other for other in self.masters if other is not member]


@contextmanager
def cluster(kind: Kind, size: int = 3) -> Iterator[TestCluster]:
    """A cluster that says of itself that it is well."""
    with ExitStack() as stack:
        members = [_member(stack, kind) for _ in range(size)]
        for number, member in enumerate(members):
            first, last = -(-number * SLOTS // size), -(-(number + 1) * SLOTS // size) - 1
            member.tell("CLUSTER", "ADDSLOTSRANGE", first, last)
            member.tell("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
            meet(members[0], member)
        for member in members:
            wait(member, partial(_is_well, member, size))
        yield TestCluster(members)


@contextmanager
def replica(kind: Kind, master: Member) -> Iterator[Member]:
    """A replica of one member, in step with it."""
    with ExitStack() as stack:
        member = _member(stack, kind)
        meet(master, member)
        wait(member, lambda: master.id.encode() in member.tell("CLUSTER", "NODES"))
        member.tell("CLUSTER", "REPLICATE", master.id)
        wait(member, lambda: b"master_link_status:up" in member.tell("INFO", "replication"))
        yield member


def meet(one: Member, other: Member) -> None:
    bus = one.link.run(say("CONFIG", "GET", "cluster-port"))[1]
    other.tell("CLUSTER", "MEET", "127.0.0.1", one.server.port or 0, bus)


def move_slot(
    trio: TestCluster, slot: int, source: Member, target: Member, halfway: Callable[[], None] = lambda: None
) -> None:
    """Move a slot with every key in it, as a cluster's own tool does; a key of any other test would forbid the move.

    `halfway` is called when half of the keys are moved.
    """
    target.tell("CLUSTER", "SETSLOT", slot, "IMPORTING", source.id)
    source.tell("CLUSTER", "SETSLOT", slot, "MIGRATING", target.id)
    keys = source.tell("CLUSTER", "GETKEYSINSLOT", slot, 10_000)
    for number, key in enumerate(keys):
        if number == len(keys) // 2:
            halfway()
        _migrate(source, target, key)
    while keys := source.tell("CLUSTER", "GETKEYSINSLOT", slot, 100):
        for key in keys:
            _migrate(source, target, key)
    for member in (target, source, *trio.others(target)):
        member.tell("CLUSTER", "SETSLOT", slot, "NODE", target.id)


def _migrate(source: Member, target: Member, key: bytes) -> None:
    source.tell("MIGRATE", "127.0.0.1", target.server.port or 0, key, 0, 5000)


def wait(member: Member, holds: Callable[[], bool]) -> None:
    await_condition(holds, member.server.process, member.server.log)


@dataclass(slots=True)
class Guarded:
    """A master and its replica, and a sentinel that watches them."""

    master: Server
    replica: Server
    sentinel: Server
    service: str = "mail"

    @property
    def url(self) -> str:
        return f"redis+sentinel://127.0.0.1:{self.sentinel.port}/{self.service}"


@contextmanager
def guarded(kind: Kind) -> Iterator[Guarded]:
    """Ready for a failover: the sentinel knows the replica, and the replica is in step."""
    with ExitStack() as stack:
        master = stack.enter_context(spawn(kind, tcp=True, args=SYNC_AT_ONCE))
        follow = ("--replicaof", "127.0.0.1", str(master.port), *SYNC_AT_ONCE)
        replica = stack.enter_context(spawn(kind, tcp=True, args=follow))
        sentinel = stack.enter_context(_sentinel(master, "mail"))
        watch = stack.enter_context(Link.open(f"unix://{sentinel.socket}"))
        ready = partial(_knows_a_good_replica, watch, "mail")
        await_condition(ready, sentinel.process, sentinel.log)
        yield Guarded(master, replica, sentinel)


@contextmanager
def _sentinel(master: Server, service: str) -> Iterator[Server]:
    """The same program, told to watch. It insists on a configuration file of its own."""
    place, port = Path(tempfile.mkdtemp(prefix="cq-")), _free_port()
    file = place / "sentinel.conf"
    file.write_text(
        f"port {port}\ndir {place}\nunixsocket {place / 's'}\nprotected-mode no\n"
        f"sentinel monitor {service} 127.0.0.1 {master.port} 1\n"
        f"sentinel down-after-milliseconds {service} 500\n"
        f"sentinel failover-timeout {service} 3000\n"
    )
    server = Server(
        master.binary, place, [str(master.binary.path), str(file), "--sentinel"], port, None, None
    )
    try:
        server.start()
        yield server
    finally:
        server.kill()
        shutil.rmtree(place)


def _knows_a_good_replica(watch: Link, service: str) -> bool:
    replicas = watch.run(say("SENTINEL", "REPLICAS", service))
    told = [dict(zip(row[::2], row[1::2], strict=True)) for row in replicas]
    return any(row[b"master-link-status"] == b"ok" and row[b"flags"] == b"slave" for row in told)


def _member(stack: ExitStack, kind: Kind) -> Member:
    settings = [
        "--cluster-enabled",
        "yes",
        "--cluster-port",
        str(_free_port()),
        "--cluster-node-timeout",
        "1500",
    ]
    server = stack.enter_context(spawn(kind, tcp=True, args=[*settings, *SYNC_AT_ONCE]))
    link = stack.enter_context(Link.open(f"unix://{server.socket}"))
    return Member(server, link, link.run(say("CLUSTER", "MYID")).decode())


def _is_well(member: Member, size: int) -> bool:
    info = member.tell("CLUSTER", "INFO").decode()
    return "cluster_state:ok" in info and f"cluster_size:{size}" in info and f"slots_ok:{SLOTS}" in info


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port
