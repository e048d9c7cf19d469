"""Several flows in the same round trips."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from chasqui.errors import ServerError, Unreachable
from chasqui.server.flow import Call, as_flow, run_together

if TYPE_CHECKING:
    from chasqui.server.flow import Flow


def count(*keys: str) -> Flow[list[int]]:
    """One trip a key."""
    lengths = []
    for key in keys:
        [length] = yield [Call(("XLEN", key), keys=(key,))]
        lengths.append(length)
    return lengths


def nothing() -> Flow[str]:
    """No trip at all."""
    yield from ()
    return "nothing"


def test_it_takes_as_many_trips_as_the_longest() -> None:
    flow = run_together(count("a", "b"), count("c"), nothing(), as_flow([]))
    assert [call.args[1] for call in next(flow)] == ["a", "c"]
    assert [call.args[1] for call in flow.send([1, 3])] == ["b"]
    with pytest.raises(StopIteration) as end:
        flow.send([2])
    assert end.value.value == ([1, 2], [3], "nothing", [])


def test_a_refusal_does_not_affect_other_flows() -> None:
    flow = run_together(count("wrong"), count("right"))
    next(flow)
    refusal = ServerError("WRONGTYPE")
    with pytest.raises(StopIteration) as end:
        flow.send([refusal, 7])
    assert end.value.value == (refusal, [7])


def test_a_flow_may_handle_its_own_refusal() -> None:
    def forgiving() -> Flow[str]:
        try:
            yield from count("wrong")
        except ServerError:
            return "forgiven"
        return "never"

    flow = run_together(forgiving(), count("b"))
    next(flow)
    with pytest.raises(StopIteration) as end:
        flow.send([ServerError("WRONGTYPE"), 1])
    assert end.value.value == ("forgiven", [1])


def test_a_broken_connection_ends_them_all() -> None:
    flow = run_together(count("a"), count("b"))
    next(flow)
    with pytest.raises(Unreachable):
        flow.throw(Unreachable("gone"))
