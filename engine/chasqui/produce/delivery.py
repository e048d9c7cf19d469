"""Jobs on their way to the server, in chunks, and what is known about each: written, refused, or no reply.

`batch.py` makes the chunks. Here they are sent, in as few round trips as possible, and sent again after a lost reply:
the server knows every chunk by an id or a marker, so sending it twice adds it once.
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

log = logging.getLogger("chasqui.producer")

MAX_CHUNKS_PER_TRIP = 20
MAX_SINGLE_JOBS_PER_TRIP = 100
"""A server remembers this many ids of one producer: with more at once it could not recognise repetitions."""
MAX_REMEMBERED_IDS = 1000


@dataclass(slots=True)
class ProducerMemory:
    """What one producer remembers between calls: how many jobs were waiting, and the entries of its last jobs with ids."""

    producer_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    depth: int | None = None
    entries: dict[str, bytes] = field(default_factory=dict)

    def is_new(self, job_id: str, entry_id: bytes) -> bool:
        """Whether the server added this entry just now; if not, it is the one of an earlier job with the same id."""
        known = self.entries.pop(job_id, None)
        self.entries[job_id] = entry_id
        if len(self.entries) > MAX_REMEMBERED_IDS:
            self.entries.pop(next(iter(self.entries)), None)
        return known != entry_id

    def update_depth(self, depth: Reply) -> None:
        """Record the depth. A user who may only write cannot read it: then the queue grows."""
        if not isinstance(depth, ServerError):
            self.depth = depth
        elif depth.code == "NOPERM":
            log.warning("the cap cannot be kept: %s", depth)
        else:
            raise depth

    def update_depth_if_known(self, depth: Reply) -> None:
        """Record the depth when the jobs are written already: an error of it does not affect them."""
        self.depth = None if isinstance(depth, ServerError) else depth


class JobLocation(NamedTuple):
    """Where a job went: into the stream, or among the delayed."""

    entry_id: str | None = None
    run_at_ms: int | None = None


@dataclass(slots=True)
class Chunk:
    """Part of a delivery: the jobs at these places, in one call. `dues`: when each is due, if they are delayed.

    reply: where each job went. written: True when the server confirmed it, False when it refused or was not asked, None
    when its reply was lost. created: False when the reply was that this id had been used before.
    """

    indexes: Sequence[int]
    build_call: Callable[[], Call]
    is_new: Callable[[Reply], bool] | None = None
    dues: Sequence[DueTime] | None = None
    reply: Reply = None
    written: bool | None = False
    created: bool = True

    def record_reply(self, reply: Reply) -> ServerError | None:
        """Record the server's reply. A repetition after a lost reply was most likely our own job."""
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

    depth_call: reads the depth in the same round trip. replication: waits for replicas, and how many there must be.
    error: why not all of it was written.
    """

    chunks: list[Chunk]
    memory: ProducerMemory
    depth_call: Call | None = None
    replication: tuple[Call, int] | None = None
    error: ServerError | None = None

    @property
    def written(self) -> list[bool | None]:
        """What is known about each job."""
        known = {place: chunk.written for chunk in self.chunks for place in chunk.indexes}
        return [known[place] for place in range(len(known))]

    @property
    def locations(self) -> list[JobLocation]:
        """Where each job went, as far as it is known."""
        known = {
            place: location
            for chunk in self.chunks
            for place, location in zip(chunk.indexes, chunk.locations(), strict=True)
        }
        return [known[place] for place in range(len(known))]

    @property
    def duplicates(self) -> set[int]:
        """The places of jobs whose ids had been used before, so that nothing was added for them."""
        return {place for chunk in self.chunks if not chunk.created for place in chunk.indexes}


def _due_ms(due: DueTime, server_ms: int) -> int:
    return due if isinstance(due, int) else server_ms + due.delay_ms


def send_delivery(delivery: Delivery) -> Flow[Delivery]:
    """Send what is not known to be written; after the first error nothing more is sent."""
    delivery.error = None
    for trip in _round_trips([chunk for chunk in delivery.chunks if not chunk.written]):
        delivery.error = yield from _send_round_trip(trip, delivery)
        if delivery.error:
            break
    return delivery


def _round_trips(chunks: Sequence[Chunk]) -> Iterator[list[Chunk]]:
    """What goes into one round trip each: not too long, and not more ids than the server remembers."""
    trip: list[Chunk] = []
    named = 0
    for chunk in chunks:
        if len(trip) - named >= MAX_CHUNKS_PER_TRIP or named >= MAX_SINGLE_JOBS_PER_TRIP:
            yield trip
            trip, named = [], 0
        trip.append(chunk)
        named += len(chunk.indexes) == 1
    if trip:
        yield trip


def _send_round_trip(trip: Sequence[Chunk], delivery: Delivery) -> Flow[ServerError | None]:
    depth_calls = () if delivery.depth_call is None else (delivery.depth_call,)
    extra = depth_calls if delivery.replication is None else (*depth_calls, delivery.replication[0])
    calls = (replace(call, tolerant=True) for call in chain((chunk.build_call() for chunk in trip), extra))
    # One chunk is made before anything can leave, so it may as well leave in one write with what goes along.
    batch = list(calls) if len(trip) == 1 else LazyBatch(calls, len(trip) + len(extra), ordered=True)
    answer = yield from _send_twice(batch, trip)
    if isinstance(answer, ServerError):
        return answer
    refused = [chunk.record_reply(reply) for chunk, reply in zip(trip, answer, strict=False)]
    problem = next((refusal for refusal in refused if refusal), None)
    if depth_calls and problem is None:
        delivery.memory.update_depth_if_known(answer[len(trip)])
    if delivery.replication and problem is None:
        problem = _replication_error(answer[-1], delivery.replication[1])
        for chunk in trip if problem else ():
            chunk.written = None
    return problem


def _replication_error(reply: Reply, wanted: int) -> ServerError | None:
    """The jobs are on the master; until replicas have them too, a failover may lose them."""
    if isinstance(reply, ServerError):
        return reply
    if reply >= wanted:
        return None
    return ServerError(
        f"{reply} of {wanted} replicas have the jobs: a failover now would lose them",
        hint="is a replica connected? INFO replication tells",
        code="NOREPLICAS",
    )


def _send_twice(batch: Sequence[Call], trip: Sequence[Chunk]) -> Flow[list[Reply] | ServerError]:
    """The replies, or why there are none; after a lost reply it is sent once more."""
    try:
        return (yield batch)
    except ServerError as problem:
        if not isinstance(problem, Unreachable) or not problem.sent:
            return problem
    for chunk in trip:
        chunk.written = None
    try:
        return (yield batch)
    except ServerError as problem:
        return problem
