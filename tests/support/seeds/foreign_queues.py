"""Queues of other systems in every state, sound and damaged, under names of their own for each test."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from chasqui.foreign import joblist, rsmq
from chasqui.foreign.joblist.keys import JobListKeys
from chasqui.foreign.rsmq.keys import RsmqKeys
from chasqui.server.link import Link
from tests.support.links import PlainCommands

READY, TRIED, DELAYED, HELD = (f"gqll7vywlc{letter * 22}" for letter in "abcd")
PENDING, CLAIMED, FAILED, BROKEN, ORPHAN = "p1", "c1", "f1", "b1", "o1"


@dataclass(frozen=True, slots=True)
class ForeignQueues(PlainCommands):
    """An RSMQ queue `orders` in a namespace, and a list job queue, both called after the test."""

    link: Link
    name: str

    @property
    def orders(self) -> RsmqKeys:
        return RsmqKeys("orders", self.name)

    @property
    def other(self) -> RsmqKeys:
        return RsmqKeys("other", self.name)

    @property
    def jobs(self) -> JobListKeys:
        return JobListKeys(self.name)

    def run(self, flow: Any) -> Any:
        return self.link.run(flow)


def seed_both(scene: ForeignQueues) -> None:
    """Both queues; the RSMQ one has a stray field, the list an id without a job and a claim that cannot be judged."""
    seed_rsmq(scene)
    scene.command("HSET", scene.orders.hash, "gone:rc", 3)
    seed_list(scene)


def seed_rsmq(scene: ForeignQueues) -> None:
    scene.run(rsmq.create_queue(scene.orders))
    scene.run(rsmq.create_queue(scene.other))
    scene.run(rsmq.send_many(scene.orders, [rsmq.Draft('{"to": "held"}', id=HELD)]))
    scene.run(rsmq.receive(scene.orders, vt_ms=600_000))
    scene.run(rsmq.send_many(scene.orders, [rsmq.Draft("tried", id=TRIED)]))
    scene.run(rsmq.receive(scene.orders, vt_ms=0))
    drafts = [rsmq.Draft('{"password": "hush"}', id=READY), rsmq.Draft("later", 3_600_000, DELAYED)]
    scene.run(rsmq.send_many(scene.orders, drafts))


def seed_list(scene: ForeignQueues) -> None:
    now_ms = scene.now_ms()
    for job_id, end in ((FAILED, True), (CLAIMED, False)):
        scene.run(joblist.enqueue(scene.jobs, {"job": job_id}, now_ms=now_ms - 60_000, job_id=job_id))
        claim = scene.run(joblist.claim(scene.jobs, block_ms=100, now_ms=now_ms - 60_000))
        if end:
            scene.run(joblist.fail(scene.jobs, job_id, claim.token, "boom", attempts=9, now_ms=now_ms))
    scene.command("LPUSH", scene.jobs.processing, BROKEN, ORPHAN)
    scene.command("HSET", scene.jobs.job(BROKEN), "id", BROKEN, "claimed_at_ms", "soon", "claim_token", "t")
    scene.run(joblist.enqueue(scene.jobs, {"job": PENDING}, now_ms=now_ms, job_id=PENDING))
