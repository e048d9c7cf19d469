from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chasqui_cli.changes.apply import PAGE_SIZE, BatchChange, apply_change
from chasqui_cli.changes.confirm import ChangePlan
from chasqui_cli.commands.dlq._record import ENTRY_ID, QueueName, chunked
from chasqui_cli.commands.dlq.export import COLUMNS
from chasqui_cli.context.command_context import CommandContext, command
from chasqui_cli.input.values import open_input
from chasqui_cli.output.columns import column

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chasqui import Keys
    from chasqui.operate.dead_letters import DeadLetter, ImportCheck
    from chasqui_cli.changes.apply import Outcome
    from chasqui_cli.context.session import Session
    from chasqui_cli.output.columns import Record

IMPORT_SCHEMA = {"line": "int", "dlq_id": "str?", "outcome": "str", "new_dlq_id": "str?", "error": "str?"}


SKIP_WORDS = {"there": "there already", "before": "imported before"}


@command(
    "dlq import",
    schema=IMPORT_SCHEMA,
    changes=True,
    undoable=True,
    failed=("redacted", "unreadable"),
    local_paths=("file",),
)
def import_(
    ctx: CommandContext,
    queue: QueueName,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What `dlq export` wrote; - for stdin.")],
    again: Annotated[
        bool, typer.Option("--again", help="Also what was imported before and has left the dead letters since.")
    ] = False,
) -> None:
    """Add dead letters from an export, byte for byte. Importing twice adds nothing twice.

    What is still there, or was imported within 30 days, is skipped and reported. Letters that were exported with their
    secrets covered cannot be imported: exit code 3.
    """
    from chasqui import Keys
    from chasqui.operate import dead_letters

    keys = Keys(queue)
    records, letters = _read_file(file)
    with ctx.session() as session:
        new: list[tuple[Record, DeadLetter]] = []
        for some in chunked(letters, PAGE_SIZE):
            known = session.query(dead_letters.check_imports, keys, [letter for _, letter in some])
            for (record, letter), one in zip(some, known, strict=True):
                record["outcome"] = _skip_reason(one, again=again) or "would import"
                if record["outcome"] == "would import":
                    new.append((record, letter))
        plan = ChangePlan(
            "import",
            queue,
            "dead letters",
            [record for record, _ in new],
            [column("dlq_id"), column("line")],
            chosen_by=str(file),
            effects=_effects(records),
        )
        outcomes = apply_change(ctx, plan, new, _import(session, keys, again=again))
    for (record, _), outcome in zip(new, outcomes, strict=True):
        record |= outcome | {"outcome": SKIP_WORDS.get(outcome["outcome"], outcome["outcome"])}
    ctx.write_outcomes(records, COLUMNS)


def _skip_reason(known: ImportCheck, *, again: bool) -> str | None:
    if known.is_present:
        return "there already"
    return "imported before" if known.imported_as and not again else None


def _effects(records: Sequence[Record]) -> list[str]:
    from collections import Counter

    counts = Counter(one["outcome"] for one in records if one["outcome"] != "would import")
    return [f"skipped, {outcome}: {count:,}" for outcome, count in counts.items()]


def _read_file(file: Path) -> tuple[list[Record], list[tuple[Record, DeadLetter]]]:
    """A record for each line, and the dead letters that can be imported."""
    records: list[Record] = []
    letters: list[tuple[Record, DeadLetter]] = []
    with open_input(file) as source:
        for number, text in enumerate(source, 1):
            if not text.strip():
                continue
            record: Record = {
                "line": number, "dlq_id": None, "outcome": "unreadable", "new_dlq_id": None, "error": None
            }  # fmt: skip
            records.append(record)
            found = _parse_dead_letter(text, record)
            if found:
                letters.append((record, found))
    return records, letters


def _parse_dead_letter(text: str, record: Record) -> DeadLetter | None:
    """The dead letter in a line; or why there is none, in the record."""
    from chasqui.operate.dead_letters import DeadLetter

    try:
        line: Any = json.loads(text)
        record["dlq_id"] = dead_id = line["dlq_id"]
        if line.get("redacted"):
            record |= {"outcome": "redacted", "error": "its bytes were left out because they hold secrets"}
            return None
        fields = [bytes.fromhex(word) for word in line["raw"]]
        if not fields or len(fields) % 2 or not ENTRY_ID.fullmatch(dead_id):
            raise ValueError("it is no dead letter")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        record["error"] = f"{type(error).__name__}: {error}"
        return None
    return DeadLetter(dead_id, fields)


def _import(session: Session, keys: Keys, *, again: bool) -> BatchChange[tuple[Record, DeadLetter]]:
    from chasqui.operate import dead_letters
    from chasqui.undo import imported_dead_letters

    def apply(some: Sequence[tuple[Record, DeadLetter]]) -> list[Outcome]:
        replies = session.run(dead_letters.import_dead_letters, keys, [letter for _, letter in some], again=again)
        return [
            {"outcome": one, "new_dlq_id": None} if one in SKIP_WORDS else {"outcome": "imported", "new_dlq_id": one}
            for one in replies
        ]

    return BatchChange(
        "imported",
        apply,
        lambda some: [imported_dead_letters.item(letter.dead_id, letter.digest) for _, letter in some],
        result=lambda counts: {"imported": counts["imported"], "skipped": counts.total() - counts["imported"]},
        title="importing",
    )
