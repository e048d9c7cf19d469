"""Every step that real clients took, taken by us: the same answers and the same database after each, on every server.

The clock and the random source return what they returned to the recorded clients; so no part of a reply is replaced.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from chasqui import foreign as foreign_queues
from chasqui.foreign import RsmqKeys, joblist, rsmq
from chasqui.foreign.rsmq import keys
from chasqui.server.commands import Commands
from tests.foreign.reference_clients import ClientError, GuideClient, NodeRsmq, PyRsmq, RsmqCtl
from tests.foreign.vector_stage import VectorStage, state_difference, vector_argument, vector_stage
from tests.golden import foreign
from tests.support.servers.binaries import KINDS

READ_ON = "valkey-9.1"
"""The server on which every state is looked at as well; looking is the same on all of them."""
Record = Callable[[str, object], None]


@pytest.fixture(scope="module", params=KINDS)
def stage(request: pytest.FixtureRequest, servers: Any) -> Iterator[VectorStage]:
    servers.get(request.param)  # skips the tests if there is no such server
    with vector_stage(request.param) as ready:
        yield ready


@pytest.mark.parametrize("layout", ["rsmq", "jobqueue"])
def test_every_step_ends_as_it_did_for_the_real_client(
    stage: VectorStage, layout: str, monkeypatch: pytest.MonkeyPatch, record_property: Record
) -> None:
    steps, faults = 0, []
    for vector in foreign.vectors(layout):
        stage.empty()
        troupe: dict[str, Any] = {}
        for number, step in enumerate(vector["steps"]):
            steps += 1
            fault = _taken(stage, vector, step, troupe, monkeypatch)
            if fault:
                faults.append(f"{vector['id']} step {number + 1} ({step['call']}): {fault}")
                break
    record_property(f"vectors {layout} steps on {stage.server.kind}", steps)
    assert steps > 100
    assert not faults, f"{len(faults)} vectors:\n" + "\n".join(faults[:20])


def _taken(
    stage: VectorStage,
    vector: dict[str, Any],
    step: dict[str, Any],
    troupe: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> str | None:
    """Take one step; answers what was not as it should be."""
    stage.now_us = step.get("now_us")
    _pin_chance(step, monkeypatch)
    outcome = _played(stage, vector, step, troupe)
    wanted: dict[str, Any] = {
        word: step[word] for word in ("result", "error", "exit", "stdout", "stderr") if word in step
    }
    if not _alike(outcome, wanted):
        return f"answered {json.dumps(outcome, default=str)[:300]}, theirs {json.dumps(wanted)[:300]}"
    published = stage.published_messages()
    if published != step.get("published", []):
        return f"published {published}, theirs {step.get('published')}"
    if stage.server.kind == READ_ON:
        _looked_at(stage, step["state"])
    return state_difference(stage.state(), step["state"])


def _looked_at(stage: VectorStage, state: dict[str, Any]) -> None:
    """Whatever state a client leaves behind can be found, seen and examined; that nothing changes is compared next."""
    found = foreign_queues.discover(stage.link)
    places: list[Any] = [*found.rsmq, *found.joblists]
    seen = stage.link.run(foreign_queues.snapshots(Commands(stage.link.features()), places))
    for place, snapshot in zip(places, seen, strict=True):
        assert isinstance(snapshot, foreign_queues.ForeignSnapshot)
        if isinstance(place, RsmqKeys):
            ids = [member for member, _ in state.get(place.messages, {"value": []})["value"]]
            assert [message.id for message in stage.link.run(rsmq.peek(place, 99))] == ids
            assert stage.link.run(rsmq.count_by_state(place)).messages == snapshot.stream_depth == len(ids)
            stage.link.run(rsmq.examine(place))
        else:
            lengths = [len(state.get(key, {"value": []})["value"]) for key in place.lists]
            overview = stage.link.run(joblist.read_overview(place))
            assert [overview.depths.pending, overview.depths.processing] == lengths[:2]
            assert (snapshot.waiting, snapshot.pending, snapshot.completed, snapshot.dlq_depth) == tuple(lengths)
            stage.link.run(joblist.examine(place))
    ours = {place.queue for place in found.rsmq}
    assert ours >= {name for key in state if key.endswith(":QUEUES") for name in state[key]["value"]}


def _alike(outcome: dict[str, Any], wanted: dict[str, Any]) -> bool:
    """Error texts of a script name its digest: there the gist counts."""
    if "error" in outcome and "error" in wanted:
        ours, theirs = outcome["error"], wanted["error"]
        return bool(ours["name"] == theirs["name"] and ours["message"] in theirs["message"])
    return outcome == wanted


def _played(stage: VectorStage, vector: dict[str, Any], step: dict[str, Any], troupe: dict[str, Any]) -> dict[str, Any]:
    if step["client"] == "redis":
        return {"result": _decoded(stage.command(*step["call"]))}
    if step["client"] == "rsmqctl":
        return RsmqCtl(stage).call(step["call"])
    client = _client(stage, vector, step, troupe)
    args = {name: vector_argument(value) for name, value in step.get("args", {}).items()}
    try:
        return {"result": client.call(step["call"], args)}
    except ClientError as error:
        return {"error": {"name": error.name, "message": str(error)}}


def _client(stage: VectorStage, vector: dict[str, Any], step: dict[str, Any], troupe: dict[str, Any]) -> Any:
    name = step["client"]
    if name.startswith("guide"):
        guide = troupe.setdefault(name, GuideClient.of(stage, name, vector["queue"], vector["options"]))
        guide.now_ms = step["now_ms"]
        return guide
    namespace = step.get("ns", "rsmq")
    if name == "node-rsmq":
        return NodeRsmq(stage, namespace, realtime=step.get("realtime", False))
    return PyRsmq(stage, namespace, raw=name.endswith("-raw"), old="0.4.5" in name)


def _pin_chance(step: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Give our random source what the recorded client's gave."""
    result = step.get("result", step.get("stdout", "").strip())
    if isinstance(result, dict):
        result = result.get("claim_token", "")
    if isinstance(result, str) and len(result) == 32:
        monkeypatch.setattr(keys, "random_letters", lambda count: result[-count:])
    elif isinstance(result, str) and len(result) == 16:
        monkeypatch.setattr("chasqui.foreign.joblist.keys.secrets.token_hex", lambda count: result)


def _decoded(reply: Any) -> Any:
    return reply.decode() if isinstance(reply, bytes) else reply
