"""Everything between a flow and the sockets that needs thought but no I/O, written once for both links.

A pilot turns a flow's batches into steps (`parcel.py`) and the outcomes back into replies: it holds back writes
on a read-only link, splits by node, loads scripts, follows redirects and decodes errors. Only links touch sockets.

A script travels with the first call of it to a node, so that a server that has not seen it costs no round trip more.

A batch is sent in order, per node. Calls that the server did not carry out (script unknown, slot moved, server
still loading) are sent again by themselves, so after such an incident they run later than their neighbours. A train
that shall keep its order brings its scripts along each time, so that none is unknown.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from chasqui.errors import ChasquiError
from chasqui.server import error_kinds, readonly, scripts
from chasqui.server.cluster import redirect_target
from chasqui.server.error_kinds import ErrorReply
from chasqui.server.flow import LazyBatch
from chasqui.server.request import DropConnections, FailedRequest, NodeRequest, Pause, pack_commands

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from chasqui.server.address import Node
    from chasqui.server.cluster_routing import Route
    from chasqui.server.flow import Arg, Call, Flow, Reply
    from chasqui.server.request import RequestResult, Steps

T = TypeVar("T")

# A slot in flight or a server that loads needs a moment, not a minute: what lasts longer is the caller's to know.
RETRY_PAUSES_S = (0.02, 0.05, 0.1, 0.2, 0.4)
RETRYABLE_CODES = frozenset({"LOADING", "TRYAGAIN", "CLUSTERDOWN"})
_EVAL_FOR_EVALSHA: dict[Arg, str] = {"EVALSHA": "EVAL", "EVALSHA_RO": "EVAL_RO"}
DEMOTED_CODES = frozenset({"READONLY", "UNBLOCKED"})


@dataclass(slots=True, eq=False)
class PendingCall:
    """One call on its way: where to, with what commands before it, and what became of it."""

    call: Call
    node: Node | None = None
    prefix: list[tuple[Arg, ...]] = field(default_factory=list)
    reloaded: bool = False
    done: bool = False
    reply: Reply = None
    replied_by: Node | None = None

    @property
    def commands(self) -> list[tuple[Arg, ...]]:
        """What is sent for it; each word list has a reply."""
        return [*self.prefix, self.call.args]

    def send_again(self, *before: tuple[Arg, ...], at: Node | None) -> None:
        """Send it once more, to this node or wherever it belongs by then."""
        self.prefix, self.node = list(before), at


class FlowExecutor:
    """Carries flows through, for one route."""

    def __init__(self, route: Route, *, read_only: bool, silence: float) -> None:
        self.route = route
        self.read_only = read_only
        self.silence = silence
        self._loaded: dict[Node, set[str]] = {}

    def execute(self, flow: Flow[T]) -> Steps[T]:
        """Drive the flow to its end. What went wrong with a batch is thrown into the flow, which may handle it."""
        try:
            batch = next(flow)
            while True:
                replies, problem = yield from self._try_exchange(batch)
                batch = flow.throw(problem) if problem else flow.send(replies)
        except StopIteration as end:
            result: T = end.value
            return result
        finally:
            flow.close()

    def _try_exchange(self, batch: Sequence[Call]) -> Steps[tuple[list[Reply], ChasquiError | None]]:
        """The replies or the problem, as values: what is raised inside an `except` would drag its context along."""
        try:
            return (yield from self.exchange(batch)), None
        except ChasquiError as problem:
            return [], problem

    def exchange(self, batch: Sequence[Call]) -> Steps[list[Reply]]:
        """The replies of one batch. All of them have been read before the first error among them is raised."""
        calls = [readonly.read_only_call(call) for call in batch] if self.read_only else batch
        if not calls:
            return []
        if isinstance(calls, LazyBatch):
            [node] = yield from self.route.nodes_for([calls[0]])
            return (yield from self._exchange_fast(calls, node))
        nodes = yield from self.route.nodes_for(calls)
        if nodes.count(nodes[0]) == len(nodes) and self._knows_scripts(nodes[0], calls):
            return (yield from self._exchange_fast(calls, nodes[0]))
        pending_calls = [self._pending_call(call, node) for call, node in zip(calls, nodes, strict=True)]
        return (yield from self._exchange_with_retries(pending_calls))

    def _knows_scripts(self, node: Node, calls: Sequence[Call]) -> bool:
        return {call.script for call in calls if call.script} <= self._loaded.get(node, set())

    def _pending_call(self, call: Call, node: Node) -> PendingCall:
        """The call, and before it its script, if this node was not sent it yet."""
        loaded = self._loaded.setdefault(node, set())
        if call.script is None or call.script in loaded:
            return PendingCall(call, node)
        loaded.add(call.script)
        return PendingCall(call, node, [script_load_args(call.script)])

    def _exchange_fast(self, calls: Sequence[Call], node: Node) -> Steps[list[Reply]]:
        """The usual way, kept short because every job goes along it: one node, and no error among the replies."""
        request = self._lazy_request(node, calls) if isinstance(calls, LazyBatch) else self._whole_request(node, calls)
        [outcome] = yield [request]
        if isinstance(outcome, list) and ErrorReply not in map(type, outcome):
            return outcome
        pending_calls = [PendingCall(call, node) for call in calls]
        yield from self._handle_results({node: pending_calls}, [outcome])
        return (yield from self._exchange_with_retries(pending_calls))

    def _exchange_with_retries(self, pending_calls: Sequence[PendingCall]) -> Steps[list[Reply]]:
        """Send whatever was not carried out yet, again and again within reason."""
        for pause in RETRY_PAUSES_S:
            waiting = [pending for pending in pending_calls if not pending.done]
            if not waiting:
                break
            if any(error_code(pending.reply) in RETRYABLE_CODES for pending in waiting):
                yield Pause(pause)
            loads = yield from self._group_by_node(waiting)
            yield from self._handle_results(loads, (yield self._requests(loads)))
        yield from self._drop_demoted_nodes(pending_calls)
        return [_reply_or_error(pending) for pending in pending_calls]

    def _group_by_node(self, pending_calls: Sequence[PendingCall]) -> Steps[dict[Node, list[PendingCall]]]:
        homeless = [pending for pending in pending_calls if pending.node is None]
        nodes = (yield from self.route.nodes_for([pending.call for pending in homeless])) if homeless else []
        for pending, node in zip(homeless, nodes, strict=True):
            pending.node = node
        loads: dict[Node, list[PendingCall]] = {}
        for pending in pending_calls:
            if pending.node is not None:
                loads.setdefault(pending.node, []).append(pending)
        return loads

    def _requests(self, loads: Mapping[Node, Sequence[PendingCall]]) -> list[NodeRequest]:
        return [
            self._request(
                node, [pending.call for pending in load], [words for pending in load for words in pending.commands]
            )
            for node, load in loads.items()
        ]

    def _whole_request(self, node: Node, calls: Sequence[Call]) -> NodeRequest:
        return self._request(node, calls, [call.args for call in calls])

    def _lazy_request(self, node: Node, calls: LazyBatch) -> NodeRequest:
        """A parcel that grows while it is written: its calls are made by then, not now."""
        known = set() if calls.ordered else self._loaded.setdefault(node, set())
        packets = (pack_commands([words]) for words in _inline_unknown_scripts(calls, known))
        return NodeRequest(node, next(packets), len(calls), self.silence, packets)

    def _request(self, node: Node, calls: Sequence[Call], commands: Sequence[tuple[Arg, ...]]) -> NodeRequest:
        blocked = sum([call.block_ms or 0 for call in calls])
        return NodeRequest(node, pack_commands(commands), len(commands), self.silence + blocked / 1000)

    def _handle_results(
        self, loads: Mapping[Node, Sequence[PendingCall]], outcomes: Sequence[RequestResult]
    ) -> Steps[None]:
        """See what came of each parcel; a broken one may get a second chance."""
        for (node, load), outcome in zip(loads.items(), outcomes, strict=True):
            if isinstance(outcome, FailedRequest):
                yield from self._resend(node, load, outcome)
            else:
                self._assign_replies(node, load, outcome)

    def _resend(self, node: Node, pending_calls: Sequence[PendingCall], broken: FailedRequest) -> Steps[None]:
        """Send again what surely or harmlessly may be: if it never left and another node is in charge now, or if
        it only reads. Any other lost reply is the caller's to judge. What broke one connection has likely broken those
        that lie idle next to it, and a silent one would cost as long again to be found out: they are given up.
        """
        self.route.invalidate()
        self._loaded.pop(node, None)
        yield DropConnections(node)
        if broken.sent and not all(readonly.is_read_only(pending.call) for pending in pending_calls):
            raise broken.error
        for pending in pending_calls:
            pending.node = None
        loads = yield from self._group_by_node(pending_calls)
        if not broken.sent and list(loads) == [node]:
            raise broken.error
        for (other, load), outcome in zip(loads.items(), (yield self._requests(loads)), strict=True):
            if isinstance(outcome, FailedRequest):
                raise outcome.error
            self._assign_replies(other, load, outcome)

    def _assign_replies(self, node: Node, pending_calls: Sequence[PendingCall], replies: Sequence[Reply]) -> None:
        rest = iter(replies)
        for pending in pending_calls:
            before = [next(rest) for _ in pending.prefix]
            pending.reply, pending.replied_by = next(rest), node
            pending.done = not isinstance(pending.reply, ErrorReply) or not self.should_resend(pending, before)
        again = next((pending for pending in pending_calls if not pending.done), None)
        if again:
            for pending in pending_calls:
                if pending.call.resend_with_batch:
                    pending.done = False
                    pending.send_again(at=again.node)

    def should_resend(self, pending: PendingCall, before: Sequence[Reply]) -> bool:
        """Whether the error means that the call was not carried out and should be sent again."""
        reply, node = pending.reply, pending.replied_by
        if reply.code == "NOSCRIPT" and pending.call.script:
            return _resend_with_script(pending, before)
        if reply.code in {"MOVED", "ASK"} and self.route.follows_redirects and node:
            pending.send_again(*([("ASKING",)] if reply.code == "ASK" else []), at=redirect_target(reply, node))
            self.route.invalidate()
            return True
        if reply.code in RETRYABLE_CODES:
            self.route.invalidate()
            pending.send_again(at=None)
            return True
        return False

    def _drop_demoted_nodes(self, pending_calls: Sequence[PendingCall]) -> Steps[None]:
        """Stop using nodes that reply that they are not a master, so that the next call finds the new one."""
        demoted = {pending.replied_by for pending in pending_calls if error_code(pending.reply) in DEMOTED_CODES}
        for node in demoted:
            self.route.invalidate()
            if node:
                yield DropConnections(node)


def _inline_unknown_scripts(calls: Iterable[Call], known: set[str]) -> Iterator[tuple[Arg, ...]]:
    """The words of each call; where a script is used first, its text instead of its digest. From then on the server
    knows it, so no call has to be sent again behind those that followed it.
    """
    for call in calls:
        words, name = call.args, call.script
        if name and name not in known and words[0] in _EVAL_FOR_EVALSHA:
            known.add(name)
            words = (_EVAL_FOR_EVALSHA[words[0]], scripts.script_text(name), *words[2:])
        yield words


def _resend_with_script(pending: PendingCall, before: Sequence[Reply]) -> bool:
    """Load the script and repeat the call, once. Why it could not be loaded is more useful than that it is missing."""
    if pending.reloaded:
        pending.reply = next((reply for reply in before if isinstance(reply, ErrorReply)), pending.reply)
        return False
    pending.reloaded = True
    pending.send_again(script_load_args(pending.call.script or ""), at=pending.replied_by)
    return True


def script_load_args(script: str) -> tuple[Arg, ...]:
    return ("SCRIPT", "LOAD", scripts.script_text(script))


def _reply_or_error(pending: PendingCall) -> Reply:
    """The reply, or the error it is: raised, or as a value for a call that tolerates errors."""
    if not isinstance(pending.reply, ErrorReply):
        return pending.reply
    error = error_kinds.error_from_reply(pending.reply, pending.call, str(pending.replied_by))
    if pending.call.tolerant:
        return error
    raise error


def error_code(reply: Reply) -> str:
    return reply.code if isinstance(reply, ErrorReply) else ""
