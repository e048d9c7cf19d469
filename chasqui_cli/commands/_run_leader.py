"""Run a promoter or scheduler in the foreground, and remove a lock that never expires.

What a leader does is the engine's business. Only one of many leads; the others stand by until its lease ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from chasqui_cli.changes.confirm import ChangePlan
from chasqui_cli.commands._run_until_signal import Runner, run_until_signal
from chasqui_cli.output.columns import column
from chasqui_cli.output.escape_text import safe
from chasqui_cli.output.times import format_duration

if TYPE_CHECKING:
    from collections.abc import Callable

    from chasqui import AsyncLink
    from chasqui.supervision.supervisor import LoopState
    from chasqui_cli.context.command_context import CommandContext
    from chasqui_cli.context.session import Session


class Leader(Runner, Protocol):
    """A promoter or a scheduler."""

    @property
    def state(self) -> LoopState:
        """Its role and counts."""
        ...


def confirm_leading(
    ctx: CommandContext, queue: str, role: str, count: Callable[[], ChangePlan], *, forever: bool
) -> bool:
    """In a protected context ask first; whether to go on. count: what is due, for one that is not to stay."""
    if not ctx.settings.protected:
        return True
    return ctx.confirm(ChangePlan("run", queue, f"{role}s", [{}]) if forever else count())


def run_leader(ctx: CommandContext, queue: str, make: Callable[[AsyncLink], Leader]) -> LoopState:
    """Lead or stand by until SIGTERM or Ctrl-C; returns its state at the end."""
    leader = run_until_signal(
        ctx,
        make,
        lambda leader, now_ms: _status_texts(queue, leader.state, now_ms),
        lambda leader: f"{queue}: {_counts_text(leader.state)}",
    )
    return leader.state


def _status_texts(queue: str, state: LoopState, now_ms: int) -> tuple[str, str]:
    role = "starting" if state.role == "stopped" else state.role
    headline = f"{queue}: {state.name} {role}"
    if state.role == "failing":
        headline += f": {state.last_error}"
    elif state.notes:
        headline += f" ({state.notes[0]})"
    return (headline, f"for {format_duration(max(0, now_ms - state.since_ms) // 1000 * 1000)} · {_counts_text(state)}")


def _counts_text(state: LoopState) -> str:
    shown = {name: count for name, count in state.counts.items() if count or name in ("promoted", "fired")}
    return ", ".join(f"{count:,} {name}" for name, count in shown.items()) or "nothing yet"


def force_unlock(ctx: CommandContext, session: Session, queue: str, lock: str, what: str) -> None:
    """Take a lock away that never expires, after a look at it; one that lives is left alone."""
    import chasqui
    from chasqui.errors import ChangeRefused

    found = session.run(chasqui.read_lock, lock)
    if found is None:
        ctx.info(f"nobody holds the {what}'s lock of {queue}")
        return
    holder = found.holder.decode(errors="backslashreplace")
    if found.ttl_ms is not None:
        raise ChangeRefused(
            f"the {what}'s lock of {queue} lives: {safe(holder)} has it for {format_duration(found.ttl_ms)} more",
            hint="it ends by itself when its holder is gone; only a lock without an end needs force",
        )
    effects = ["another leader takes it within seconds; this cannot be undone"]
    plan = ChangePlan("unlock", queue, f"{what}'s lock", [{"holder": holder}], [column("holder")], "no end", effects)
    if ctx.confirm(plan, always=True):
        with ctx.journal_operation(queue) as pen:
            taken = session.run(chasqui.force_unlock, lock, seen=found.holder)
            pen.done = int(taken is not None)
            pen.set_result(holder=holder, unlocked=taken is not None)
        ctx.info(f"unlocked: {safe(holder)} does not lead {queue} any more" if taken else "it was gone already")
