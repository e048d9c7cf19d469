"""A flow without a server: it is fed canned replies, batch by batch, and its round trips are counted."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chasqui.server.flow import Call, Flow, Reply

T = TypeVar("T")


def run_flow(flow: Flow[T], replies: Sequence[Sequence[Reply]]) -> tuple[T, int]:
    """What the flow returns, and after how many rounds. Each round takes the next list of replies, whole."""
    value, batches = run_flow_recording(flow, replies)
    return value, len(batches)


def run_flow_recording(flow: Flow[T], replies: Sequence[Sequence[Reply]]) -> tuple[T, list[Sequence[Call]]]:
    """What the flow returns, and every batch it sent. Replies left over, or missing, fail the test."""
    batches: list[Sequence[Call]] = []
    canned = iter(replies)
    try:
        batch = next(flow)
        while True:
            batches.append(batch)
            answer = list(next(canned, ()))
            assert len(answer) == len(batch), f"round {len(batches)} asks {len(batch)}, told {len(answer)}"
            batch = flow.send(answer)
    except StopIteration as end:
        assert next(canned, None) is None, "the flow ended before it was told everything"
        return end.value, batches
