import pytest

from chasqui.server.flow import Call, Flow
from tests.support.flow_player import run_flow


def two_rounds() -> Flow[int]:
    [first] = yield [Call(("PING",))]
    second, third = yield [Call(("PING",)), Call(("PING",))]
    return int(first + second + third)


def test_play_returns_the_value_and_counts_the_rounds() -> None:
    assert run_flow(two_rounds(), [[1], [2, 3]]) == (6, 2)


def test_play_refuses_replies_that_do_not_fit_the_batch() -> None:
    with pytest.raises(AssertionError, match="round 2 asks 2, told 1"):
        run_flow(two_rounds(), [[1], [2]])


def test_play_refuses_unrequested_replies() -> None:
    with pytest.raises(AssertionError, match="ended before"):
        run_flow(two_rounds(), [[1], [2, 3], [4]])
