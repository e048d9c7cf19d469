"""Several flows in the same round trips: what a screen wants to know of a queue is many asks, and one trip is enough.

Which asks belong together is for those who ask; nothing here knows what is asked.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from chasqui.errors import ServerError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chasqui.server.call import Call, Flow, Reply


def run_together(*flows: Flow[Any]) -> Flow[tuple[Any, ...]]:
    """Carry the flows through side by side and return what each returns: as many round trips as the longest takes.

    A flow that the server refuses returns the `ServerError` instead; the others are not concerned. A broken
    connection ends them all.
    """
    results: list[Any] = [None] * len(flows)
    going: dict[int, Sequence[Call]] = {}
    try:
        for place, flow in enumerate(flows):
            _advance(flow, place, None, going, results)
        while going:
            asked = dict(going)
            replies = yield [replace(call, tolerant=True) for calls in asked.values() for call in calls]
            for place, calls in asked.items():
                own, replies = replies[: len(calls)], replies[len(calls) :]
                _advance(flows[place], place, own, going, results)
        return tuple(results)
    finally:
        for flow in flows:
            flow.close()


def _advance(
    flow: Flow[Any],
    place: int,
    replies: list[Reply] | None,
    going: dict[int, Sequence[Call]],
    results: list[Any],
) -> None:
    """Let one flow take its next step with what it was answered, or note down what it came to."""
    calls = going.pop(place, ())
    refused = (
        reply
        for call, reply in zip(calls, replies or (), strict=True)
        if isinstance(reply, ServerError) and not call.tolerant
    )
    try:
        problem = next(refused, None)
        if replies is None:
            going[place] = next(flow)
        else:
            going[place] = flow.throw(problem) if problem else flow.send(replies)
    except StopIteration as end:
        results[place] = end.value
    except ServerError as error:
        results[place] = error


def as_flow(calls: Sequence[Call]) -> Flow[list[Reply]]:
    """A batch of another flow's, to be carried along; its replies are for whoever drives that flow."""
    return (yield calls)
