"""Jobs on their way to the server, in pieces, and what is known about each: written, refused, or no answer.

What is in a piece is made by `producer.py`. Here it is sent, in as few round trips as may be, and sent again after a
lost reply: every piece is known to the server by an id or a marker, so that coming twice is coming once.
"""

from __future__ import annotations

import logging
import uuid
from dataclasses import dataclass, field, replace
from itertools import chain, repeat
from typing import TYPE_CHECKING, NamedTuple

from chasqui.errors import ServerError, Unreachable
from chasqui.server.flow import Call, LazyBatch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from chasqui.server.commands import DueTime
    from chasqui.server.flow import Flow, Reply

log = logging.getLogger("chasqui.produce.batch")

MAX_CHUNKS_PER_TRIP = 20
MAX_SINGLE_JOBS_PER_TRIP = 100
"""A server remembers this many ids of one producer: of more at once it could not tell which it has seen."""
MAX_REMEMBERED_IDS = 1000


@dataclass(slots=True)
class ProducerMemory:
    """What one producer remembers between calls: how many jobs it saw waiting, and where its last named jobs went."""

    producer_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    depth: int | None = None
    entries: dict[str, bytes] = field(default_factory=dict)

    def is_new(self, job_id: str, entry_id: bytes) -> bool:
        """Whether the server made this entry just now, or told of the one it made when it first met the id."""
        known = self.entries.pop(job_id, None)
        self.entries[job_id] = entry_id
        if len(self.entries) > MAX_REMEMBERED_IDS:
            self.entries.pop(next(iter(self.entries)), None)
        return known != entry_id

    def update_depth(self, depth: Reply) -> None:
        """Take note of the depth. A user who may only write cannot ask for it: then the queue grows."""
        if not isinstance(depth, ServerError):
            self.depth = depth
        elif depth.code == "NOPERM":
            log.warning("the cap cannot be kept: %s", depth)
        else:
            raise depth

    def update_depth_if_known(self, depth: Reply) -> None:
        """Take note of the depth when the jobs are written already: trouble with it is no trouble of theirs."""
        self.depth = None if isinstance(depth, ServerError) else depth


class JobLocation(NamedTuple):
    """Where a job went: into the stream, or among the delayed."""

    entry_id: str | None = None
    run_at_ms: int | None = None


@dataclass(slots=True)
class Chunk:
    """Part of a shipment: the jobs at these places, in one call. `dues`: when each is due, if they are for later.

    reply: the server's answer, from which it is told where each job went. written: True when the server said so, False when it said no or was not asked, None when its answer was lost.
    created: False when the answer was that this id had been used before.
    """

    indexes: Sequence[int]
    build_call: Callable[[], Call]
    is_new: Callable[[Reply], bool] | None = None
    dues: Sequence[DueTime] | None = None
    reply: Reply = None
    written: bool | None = False
    created: bool = True

    def record_reply(self, reply: Reply) -> ServerError | None:
        """Note down the server's answer. What it calls a repetition after a lost answer was most likely ours."""
        if isinstance(reply, ServerError):
            return reply
        self.created = self.is_new is None or self.is_new(reply) or self.written is None
        self.written, self.reply = True, reply
        return None

    def locations(self) -> Iterator[JobLocation]:
        """Where each of its jobs went. A run of entries has one millisecond, and numbers that follow each other."""
        if not self.written or not self.reply:
            yield from repeat(JobLocation(), len(self.indexes))
        elif self.dues is not None:
            yield from (JobLocation(run_at_ms=_due_ms(due, self.reply)) for due in self.dues)
        else:
            ms, _, first = self.reply.decode().partition("-")
            yield from (JobLocation(f"{ms}-{int(first) + nth}") for nth in range(len(self.indexes)))


@dataclass(slots=True)
class Delivery:
    """The jobs of one call, by their places in it.

    look: what asks for the depth along the way. copied: what waits for replicas, and how many of them there must be.
    problem: why not all of it was written.
    """

    chunks: list[Chunk]
    memory: ProducerMemory
    depth_call: Call | None = None
    replication: tuple[Call, int] | None = None
    error: ServerError | None = None

    @property
    def written(self) -> list[bool | None]:
        """What is known about each job."""
        known = {place: piece.written for piece in self.chunks for place in piece.indexes}
        return [known[place] for place in range(len(known))]

    @property
    def locations(self) -> list[JobLocation]:
        """Where each job went, as far as it is known."""
        known = {
            place: landing
            for piece in self.chunks
            for place, landing in zip(piece.indexes, piece.locations(), strict=True)
        }
        return [known[place] for place in range(len(known))]

    @property
    def duplicates(self) -> set[int]:
        """The places of jobs whose ids had been used before, so that nothing was added for them."""
        return {place for piece in self.chunks if not piece.created for place in piece.indexes}


def _due_ms(due: DueTime, server_ms: int) -> int:
    return due if isinstance(due, int) else server_ms + due.delay_ms


def send_delivery(shipment: Delivery) -> Flow[Delivery]:
    """Send what is not known to be written; at the first trouble the rest stays behind."""
    shipment.error = None
    for load in _round_trips([piece for piece in shipment.chunks if not piece.written]):
        shipment.error = yield from _send_round_trip(load, shipment)
        if shipment.error:
            break
    return shipment


def _round_trips(pieces: Sequence[Chunk]) -> Iterator[list[Chunk]]:
    """What goes into one round trip each: not too long, and not more ids than the server remembers."""
    load: list[Chunk] = []
    named = 0
    for piece in pieces:
        if len(load) - named >= MAX_CHUNKS_PER_TRIP or named >= MAX_SINGLE_JOBS_PER_TRIP:
            yield load
            load, named = [], 0
        load.append(piece)
        named += len(piece.indexes) == 1
    if load:
        yield load


def _send_round_trip(load: Sequence[Chunk], shipment: Delivery) -> Flow[ServerError | None]:
    look = () if shipment.depth_call is None else (shipment.depth_call,)
    besides = look if shipment.replication is None else (*look, shipment.replication[0])
    calls = (replace(call, tolerant=True) for call in chain((piece.build_call() for piece in load), besides))
    # One piece is made before anything can leave, so it may as well leave in one write with what goes along.
    batch = list(calls) if len(load) == 1 else LazyBatch(calls, len(load) + len(besides), ordered=True)
    answer = yield from _send_twice(batch, load)
    if isinstance(answer, ServerError):
        return answer
    refusals = [piece.record_reply(reply) for piece, reply in zip(load, answer, strict=False)]
    problem = next((refusal for refusal in refusals if refusal), None)
    if look and problem is None:
        shipment.memory.update_depth_if_known(answer[len(load)])
    if shipment.replication and problem is None:
        problem = _replication_error(answer[-1], shipment.replication[1])
        for piece in load if problem else ():
            piece.written = None
    return problem


def _replication_error(reply: Reply, wanted: int) -> ServerError | None:
    """The jobs are on the master; until replicas have them too, nobody can tell whether they will stay."""
    if isinstance(reply, ServerError):
        return reply
    if reply >= wanted:
        return None
    return ServerError(
        f"{reply} of {wanted} replicas have the jobs: a failover now would lose them",
        hint="is a replica connected? INFO replication tells",
        code="NOREPLICAS",
    )


def _send_twice(batch: Sequence[Call], load: Sequence[Chunk]) -> Flow[list[Reply] | ServerError]:
    """The replies, or why there are none: a lost reply is asked for once more before that."""
    try:
        return (yield batch)
    except ServerError as problem:
        if not isinstance(problem, Unreachable) or not problem.sent:
            return problem
    for piece in load:
        piece.written = None
    try:
        return (yield batch)
    except ServerError as problem:
        return problem
