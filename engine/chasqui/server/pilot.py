"""Everything between a flow and the sockets that needs thought but no I/O, written once for both links.

A pilot turns a flow's batches into steps (`parcel.py`) and the outcomes back into replies: it holds back writes
on a read-only link, splits by node, loads scripts, follows redirects and tells errors. Only links touch sockets.

A script travels with the first call of it to a node, so that a server that has not seen it costs no round trip more.

A batch is sent in order, per node. Calls that the server did not carry out (script unknown, slot moved, server
still loading) are sent again by themselves, so after such an incident they run later than their neighbours. A train
that shall keep its order brings its scripts along each time, so that none is unknown.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from chasqui.errors import ChasquiError
from chasqui.server import faults, readonly, scripts
from chasqui.server.call import Train
from chasqui.server.cluster import redirect_of
from chasqui.server.faults import ErrorReply
from chasqui.server.parcel import Broken, Forget, Parcel, Pause, pack

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from chasqui.server.address import Node
    from chasqui.server.call import Call, Flow, Reply, Word
    from chasqui.server.parcel import Outcome, Steps
    from chasqui.server.routes import Route

T = TypeVar("T")

# A slot in flight or a server that loads needs a moment, not a minute: what lasts longer is the caller's to know.
PATIENCE = (0.02, 0.05, 0.1, 0.2, 0.4)
NOT_YET = frozenset({"LOADING", "TRYAGAIN", "CLUSTERDOWN"})
_BY_TEXT: dict[Word, str] = {"EVALSHA": "EVAL", "EVALSHA_RO": "EVAL_RO"}
LOST_ITS_ROLE = frozenset({"READONLY", "UNBLOCKED"})


@dataclass(slots=True, eq=False)
class Errand:
    """One call on its way: where to, with what commands before it, and what became of it."""

    call: Call
    node: Node | None = None
    before: list[tuple[Word, ...]] = field(default_factory=list)
    reloaded: bool = False
    done: bool = False
    reply: Reply = None
    answered_by: Node | None = None

    @property
    def commands(self) -> list[tuple[Word, ...]]:
        """What is sent for it; each word list has a reply."""
        return [*self.before, self.call.words]

    def again(self, *before: tuple[Word, ...], at: Node | None) -> None:
        """Send it once more, to this node or wherever it belongs by then."""
        self.before, self.node = list(before), at


class Pilot:
    """Carries flows through, for one route."""

    def __init__(self, route: Route, *, read_only: bool, silence: float) -> None:
        self.route = route
        self.read_only = read_only
        self.silence = silence
        self._loaded: dict[Node, set[str]] = {}

    def fly(self, flow: Flow[T]) -> Steps[T]:
        """Drive the flow to its end. What went wrong with a batch is thrown into the flow, which may handle it."""
        try:
            batch = next(flow)
            while True:
                replies, problem = yield from self._attempted(batch)
                batch = flow.throw(problem) if problem else flow.send(replies)
        except StopIteration as end:
            result: T = end.value
            return result
        finally:
            flow.close()

    def _attempted(self, batch: Sequence[Call]) -> Steps[tuple[list[Reply], ChasquiError | None]]:
        """The replies or the problem, as values: what is raised inside an `except` would drag its context along."""
        try:
            return (yield from self.exchange(batch)), None
        except ChasquiError as problem:
            return [], problem

    def exchange(self, batch: Sequence[Call]) -> Steps[list[Reply]]:
        """The replies of one batch. All of them have been read before the first error among them is raised."""
        calls = [readonly.restrained(call) for call in batch] if self.read_only else batch
        if not calls:
            return []
        if isinstance(calls, Train):
            [node] = yield from self.route.place([calls[0]])
            return (yield from self._straight(calls, node))
        nodes = yield from self.route.place(calls)
        if nodes.count(nodes[0]) == len(nodes) and self._knows_scripts(nodes[0], calls):
            return (yield from self._straight(calls, nodes[0]))
        errands = [self._errand(call, node) for call, node in zip(calls, nodes, strict=True)]
        return (yield from self._patiently(errands))

    def _knows_scripts(self, node: Node, calls: Sequence[Call]) -> bool:
        return {call.script for call in calls if call.script} <= self._loaded.get(node, set())

    def _errand(self, call: Call, node: Node) -> Errand:
        """The call, and before it its script, if this node was not sent it yet."""
        loaded = self._loaded.setdefault(node, set())
        if call.script is None or call.script in loaded:
            return Errand(call, node)
        loaded.add(call.script)
        return Errand(call, node, [_load(call.script)])

    def _straight(self, calls: Sequence[Call], node: Node) -> Steps[list[Reply]]:
        """The usual way, kept short because every job goes along it: one node, and no error among the replies."""
        parcel = self._rolling(node, calls) if isinstance(calls, Train) else self._plain(node, calls)
        [outcome] = yield [parcel]
        if isinstance(outcome, list) and ErrorReply not in map(type, outcome):
            return outcome
        errands = [Errand(call, node) for call in calls]
        yield from self._weigh({node: errands}, [outcome])
        return (yield from self._patiently(errands))

    def _patiently(self, errands: Sequence[Errand]) -> Steps[list[Reply]]:
        """Send whatever was not carried out yet, again and again within reason."""
        for pause in PATIENCE:
            waiting = [errand for errand in errands if not errand.done]
            if not waiting:
                break
            if any(_code(errand.reply) in NOT_YET for errand in waiting):
                yield Pause(pause)
            loads = yield from self._grouped(waiting)
            yield from self._weigh(loads, (yield self._parcels(loads)))
        yield from self._leave_demoted(errands)
        return [_told(errand) for errand in errands]

    def _grouped(self, errands: Sequence[Errand]) -> Steps[dict[Node, list[Errand]]]:
        homeless = [errand for errand in errands if errand.node is None]
        nodes = (yield from self.route.place([errand.call for errand in homeless])) if homeless else []
        for errand, node in zip(homeless, nodes, strict=True):
            errand.node = node
        loads: dict[Node, list[Errand]] = {}
        for errand in errands:
            if errand.node is not None:
                loads.setdefault(errand.node, []).append(errand)
        return loads

    def _parcels(self, loads: Mapping[Node, Sequence[Errand]]) -> list[Parcel]:
        return [
            self._parcel(
                node,
                [errand.call for errand in load],
                [words for errand in load for words in errand.commands],
            )
            for node, load in loads.items()
        ]

    def _plain(self, node: Node, calls: Sequence[Call]) -> Parcel:
        return self._parcel(node, calls, [call.words for call in calls])

    def _rolling(self, node: Node, calls: Train) -> Parcel:
        """A parcel that grows while it is written: its calls are made by then, not now."""
        known = set() if calls.ordered else self._loaded.setdefault(node, set())
        packets = (pack([words]) for words in _with_texts(calls, known))
        return Parcel(node, next(packets), len(calls), self.silence, packets)

    def _parcel(self, node: Node, calls: Sequence[Call], commands: Sequence[tuple[Word, ...]]) -> Parcel:
        blocked = sum([call.block_ms or 0 for call in calls])
        return Parcel(node, pack(commands), len(commands), self.silence + blocked / 1000)

    def _weigh(self, loads: Mapping[Node, Sequence[Errand]], outcomes: Sequence[Outcome]) -> Steps[None]:
        """See what came of each parcel; a broken one may get a second chance."""
        for (node, load), outcome in zip(loads.items(), outcomes, strict=True):
            if isinstance(outcome, Broken):
                yield from self._once_more(node, load, outcome)
            else:
                self._judge(node, load, outcome)

    def _once_more(self, node: Node, errands: Sequence[Errand], broken: Broken) -> Steps[None]:
        """Send again what surely or harmlessly may be: if it never left and another node is in charge now, or if
        it only reads. Any other lost reply is the caller's to judge. What broke one connection has likely broken those
        that lie idle beside it, and a silent one would cost as long again to be found out: they are given up.
        """
        self.route.doubt()
        self._loaded.pop(node, None)
        yield Forget(node)
        if broken.sent and not all(readonly.reads_only(errand.call) for errand in errands):
            raise broken.error
        for errand in errands:
            errand.node = None
        loads = yield from self._grouped(errands)
        if not broken.sent and list(loads) == [node]:
            raise broken.error
        for (other, load), outcome in zip(loads.items(), (yield self._parcels(loads)), strict=True):
            if isinstance(outcome, Broken):
                raise outcome.error
            self._judge(other, load, outcome)

    def _judge(self, node: Node, errands: Sequence[Errand], replies: Sequence[Reply]) -> None:
        rest = iter(replies)
        for errand in errands:
            before = [next(rest) for _ in errand.before]
            errand.reply, errand.answered_by = next(rest), node
            errand.done = not isinstance(errand.reply, ErrorReply) or not self._retried(errand, before)
        again = next((errand for errand in errands if not errand.done), None)
        if again:
            for errand in errands:
                if errand.call.about_before:
                    errand.done = False
                    errand.again(at=again.node)

    def _retried(self, errand: Errand, before: Sequence[Reply]) -> bool:
        """Whether the error means that the call was not carried out and should be sent again."""
        reply, node = errand.reply, errand.answered_by
        if reply.code == "NOSCRIPT" and errand.call.script:
            return _reload(errand, before)
        if reply.code in {"MOVED", "ASK"} and self.route.follows_redirects and node:
            errand.again(*([("ASKING",)] if reply.code == "ASK" else []), at=redirect_of(reply, node))
            self.route.doubt()
            return True
        if reply.code in NOT_YET:
            self.route.doubt()
            errand.again(at=None)
            return True
        return False

    def _leave_demoted(self, errands: Sequence[Errand]) -> Steps[None]:
        """A master that says it is none is left, so that the next call finds the new one."""
        demoted = {errand.answered_by for errand in errands if _code(errand.reply) in LOST_ITS_ROLE}
        for node in demoted:
            self.route.doubt()
            if node:
                yield Forget(node)


def _with_texts(calls: Iterable[Call], known: set[str]) -> Iterator[tuple[Word, ...]]:
    """The words of each call; where a script is used first, its text instead of its digest. From then on the server
    knows it, so no call has to be sent again behind those that followed it.
    """
    for call in calls:
        words, name = call.words, call.script
        if name and name not in known and words[0] in _BY_TEXT:
            known.add(name)
            words = (_BY_TEXT[words[0]], scripts.text(name), *words[2:])
        yield words


def _reload(errand: Errand, before: Sequence[Reply]) -> bool:
    """Load the script and repeat the call, once. Why it could not be loaded says more than that it is missing."""
    if errand.reloaded:
        errand.reply = next((reply for reply in before if isinstance(reply, ErrorReply)), errand.reply)
        return False
    errand.reloaded = True
    errand.again(_load(errand.call.script or ""), at=errand.answered_by)
    return True


def _load(script: str) -> tuple[Word, ...]:
    return ("SCRIPT", "LOAD", scripts.text(script))


def _told(errand: Errand) -> Reply:
    """The reply, or the error it is: raised, or as a value for a call that tolerates errors."""
    if not isinstance(errand.reply, ErrorReply):
        return errand.reply
    error = faults.from_reply(errand.reply, errand.call, str(errand.answered_by))
    if errand.call.tolerant:
        return error
    raise error


def _code(reply: Reply) -> str:
    return reply.code if isinstance(reply, ErrorReply) else ""
