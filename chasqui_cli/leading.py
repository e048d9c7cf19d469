"""A promoter or scheduler of its own, in the foreground; and a lock that nobody will ever give up, taken away.

What a leader does is the engine's business. Only one of many leads; the others stand by until its lease ends.
"""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Protocol

from chasqui_cli.changes import Plan
from chasqui_cli.columns import column
from chasqui_cli.safe import safe
from chasqui_cli.times import span

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from chasqui import AsyncLink
    from chasqui.loops import LoopState
    from chasqui_cli.desk import Desk
    from chasqui_cli.session import Session


class Leader(Protocol):
    """A promoter or a scheduler."""

    @property
    def state(self) -> LoopState:
        """How it is."""
        ...

    async def run(self, stop: asyncio.Event) -> None:
        """Lead or stand by until told to stop."""
        ...


def check_may_write(desk: Desk, what: str) -> None:
    """A read-only connection is told so at once, instead of failing again and again."""
    from chasqui.errors import Refused

    if desk.settings().read_only:
        raise Refused(
            f"this connection is read-only: it does not {what}",
            hint="nothing was sent; repeat it without --read-only, or in a context that is not read_only",
        )


def follow(desk: Desk, queue: str, make: Callable[[AsyncLink], Leader]) -> LoopState:
    """Lead or stand by until SIGTERM or Ctrl-C; answers how it was in the end."""
    import asyncio

    return asyncio.run(_follow(desk, queue, make))


async def _follow(desk: Desk, queue: str, make: Callable[[AsyncLink], Leader]) -> LoopState:
    import asyncio

    from chasqui import SystemClock
    from chasqui_cli.status import Status, logged

    clock, stop = SystemClock(), asyncio.Event()
    status, link = Status(clock.mono, quiet=desk.quiet), desk.async_link()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    try:
        await link.features()
        leader = make(link)
        with logged(status):
            running = asyncio.ensure_future(leader.run(stop))
            while not running.done():
                status.show(*_told(queue, leader.state, clock.now_ms()))
                await asyncio.wait([running], timeout=status.pause_s)
            await running
        status.end(f"{queue}: {_counts(leader.state)}")
        return leader.state
    finally:
        status.end()
        await link.close()


def _told(queue: str, state: LoopState, now_ms: int) -> tuple[str, str]:
    role = "starting" if state.role == "stopped" else state.role
    headline = f"{queue}: {state.name} {role}"
    if state.role == "failing":
        headline += f": {state.last_error}"
    elif state.notes:
        headline += f" ({state.notes[0]})"
    return headline, f"for {span(max(0, now_ms - state.since_ms) // 1000 * 1000)} · {_counts(state)}"


def _counts(state: LoopState) -> str:
    told = {name: count for name, count in state.counts.items() if count or name in ("promoted", "fired")}
    return ", ".join(f"{count:,} {name}" for name, count in told.items()) or "nothing yet"


def force_unlock(desk: Desk, session: Session, queue: str, lock: str, what: str) -> None:
    """Take a lock away that never expires, after a look at it; one that lives is left alone."""
    from chasqui import lease
    from chasqui.errors import Refused

    found = session.run(lease.look, lock)
    if found is None:
        desk.say(f"nobody holds the {what}'s lock of {queue}")
        return
    holder = found.holder.decode(errors="backslashreplace")
    if found.ttl_ms is not None:
        raise Refused(
            f"the {what}'s lock of {queue} lives: {safe(holder)} has it for {span(found.ttl_ms)} more",
            hint="it ends by itself when its holder is gone; only a lock without an end needs force",
        )
    effects = ["another leader takes it within seconds; this cannot be undone"]
    plan = Plan(
        "unlock", queue, f"{what}'s lock", [{"holder": holder}], [column("holder")], "no end", effects
    )
    if desk.agrees(plan):
        with desk.written_down(f"{what} unlock", queue) as pen:
            taken = session.run(lease.force_unlock, lock, seen=found.holder)
            pen.tell(holder=holder, unlocked=taken is not None)
        desk.say(
            f"unlocked: {safe(holder)} does not lead {queue} any more" if taken else "it was gone already"
        )
