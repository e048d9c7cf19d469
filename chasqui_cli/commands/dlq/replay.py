"""`chasqui dlq replay`: dead letters become jobs again; exactly those that were shown, at a pace, after a canary."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from chasqui_cli.changes.confirm import ChangePlan
from chasqui_cli.commands.dlq._record import OUTCOME_SCHEMA, PREVIEW_COLUMNS, DeadLetterIdsArgument, QueueName
from chasqui_cli.commands.dlq._replay import Replayer, ReplayOptions, check_stream_cap, outcome_record, run_canary
from chasqui_cli.commands.dlq._search import DeadLetterSelection, print_unreadable, require_found, select_dead_letters
from chasqui_cli.context.command_context import CommandContext, command
from chasqui_cli.output.columns import column
from chasqui_cli.output.times import format_duration, parse_duration_ms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chasqui import Keys
    from chasqui.inspect.snapshot import Snapshot
    from chasqui_cli.context.session import Session
    from chasqui_cli.output.columns import Record

REPLAY_SCHEMA = OUTCOME_SCHEMA | {"entry_id": "str?", "error": "str?"}
COLUMNS = [column("dlq_id"), column("id"), column("name"), column("reason"), column("outcome")]
COLUMNS += [column("entry_id"), column("error")]
CapOption = Annotated[
    int | None,
    typer.Option(
        min=1, metavar="N", help="How many jobs the stream may hold; producers of the reference trim at 1,000,000."
    ),
]


@command(
    "dlq replay",
    schema=REPLAY_SCHEMA,
    chooses=True,
    by_reason=True,
    changes=True,
    undoable=True,
    failed=("gone", "full", "failed", "no word", "held back", "not found", "undecodable"),
    hint="--rps 10  --canary 3  --note TEXT",
)
def replay(
    ctx: CommandContext,
    queue: QueueName,
    ids: DeadLetterIdsArgument = None,
    limit: Annotated[int, typer.Option(min=0, metavar="N", help="Replay so many at most, oldest first.")] = 100,
    rps: Annotated[
        float | None, typer.Option("--rps", min=0.01, metavar="N", help="So many a second, and no more.")
    ] = None,
    canary: Annotated[
        int, typer.Option(min=0, metavar="N", help="Replay N first, and the rest only if all of them complete.")
    ] = 0,
    canary_timeout: Annotated[
        str, typer.Option(metavar="TIME", help="How long to wait for the canary's jobs: 30s, 5m.")
    ] = "60s",
    cap: CapOption = None,
) -> None:
    """Put dead letters back to work: attempt 0, everything else as it was, and nothing else than what was shown.

    Each letter is deleted in the very step that writes its job, so it can be interrupted and run again. Letters that
    cannot be decoded are reported, stay, and do not use up the limit. It refuses to fill the stream beyond its cap,
    where producers of the released engine would trim jobs nobody has read.

    chasqui dlq replay emails --reason retries_exhausted --where "data.to == 'x'" --canary 3 --rps 50
    """
    from chasqui import Keys
    from chasqui.inspect import snapshot

    patience_ms = parse_duration_ms(canary_timeout)
    keys = Keys(queue)
    with ctx.session() as session:
        seen = session.query(snapshot.take_snapshot, keys)
        now_ms = seen.server_time_ms
        caught = select_dead_letters(ctx, session, keys, ids, now_ms=now_ms, limit=limit, jobs_only=True)
        require_found(caught, ids, queue)
        print_unreadable(ctx, caught, queue)
        most = cap or seen.caps.stream
        check_stream_cap(seen, len(caught.records), most)
        plan = ChangePlan(
            "replay",
            queue,
            "dead letters",
            caught.records,
            PREVIEW_COLUMNS,
            chosen_by=str(ctx.filters) if not ids else "ids",
            effects=_effects(seen, caught, most, limit=None if ids else limit, rps=rps, canary=canary),
        )
        if not ctx.confirm(plan, now_ms=now_ms):
            outcomes = [outcome_record(one, "would replay") for one in caught.records]
        else:
            outcomes = _replay(ctx, session, keys, caught, ReplayOptions(most, rps, canary, patience_ms))
    if ids:
        outcomes += [outcome_record(one, "undecodable") for one in caught.unreadable]
        outcomes += [
            outcome_record({"dlq_id": one, "id": None, "name": "", "reason": ""}, "not found") for one in caught.missing
        ]
    ctx.write_outcomes(outcomes, COLUMNS)


def _effects(
    seen: Snapshot, caught: DeadLetterSelection, cap: int, *, limit: int | None, rps: float | None, canary: int
) -> list[str]:
    count = len(caught.records)
    effects = [
        f"the stream holds {seen.stream_depth:,} jobs, then {seen.stream_depth + count:,} of at most {cap:,}",
        "each starts at attempt 0 and keeps its id, its payload and its retry rule",
    ]
    if limit is not None and count == limit:
        effects.append(f"there may be more: --limit is {limit:,}")
    if not seen.consumers:
        effects.append("no consumer is known: nobody may be there to run them")
    if canary:
        effects.append(f"the first {min(canary, count):,} go ahead, the rest only when all of those have completed")
    if rps:
        effects.append(f"at {rps:g} a second that takes {format_duration(round(count / rps * 1000))}")
    return effects


def _replay(
    ctx: CommandContext, session: Session, keys: Keys, caught: DeadLetterSelection, terms: ReplayOptions
) -> list[Record]:
    from chasqui import SystemClock

    first, rest = caught.records[: terms.canary], caught.records[terms.canary :]
    with ctx.journal_operation(keys.queue) as pen, ctx.progress("replaying", len(caught.records)) as advance:
        mover = Replayer(session, keys, pen, terms, caught.chunk_size, SystemClock(), advance)
        outcomes: list[Record] = []
        if first:
            outcomes, well = run_canary(ctx, mover, first)
            if not well:
                outcomes += [outcome_record(one, "held back") for one in rest]
                rest = []
        outcomes += mover.replay(rest)
        count = _count_outcomes(outcomes)
        pen.done = sum("-" in (one["entry_id"] or "") for one in outcomes)
        pen.set_result(**count)
    ctx.info("  ".join(f"{name} {number:,}" for name, number in count.items()))
    return outcomes


def _count_outcomes(outcomes: Sequence[Record]) -> dict[str, int]:
    from collections import Counter

    return dict(Counter(one["outcome"] for one in outcomes))
