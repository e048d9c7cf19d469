"""`chasqui dlq edit`: edit a dead job's payload, show the difference, and replay it."""

from __future__ import annotations

import difflib
import json
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chasqui_cli.changes.confirm import ChangePlan
from chasqui_cli.commands.dlq._json_path import apply_assignments
from chasqui_cli.commands.dlq._record import OUTCOME_SCHEMA, QueueName
from chasqui_cli.commands.dlq._replay import check_stream_cap
from chasqui_cli.commands.dlq._search import require_found, select_dead_letters
from chasqui_cli.commands.dlq.replay import CapOption
from chasqui_cli.context.command_context import CommandContext, command
from chasqui_cli.context.settings import editor_command
from chasqui_cli.output.columns import column
from chasqui_cli.output.stdio import print_stderr
from chasqui_cli.output.tagged_json import json_text, untagged

if TYPE_CHECKING:
    from chasqui import Keys
    from chasqui.operate.dead_letters import DeadLetter
    from chasqui_cli.context.session import Session
    from chasqui_cli.output.columns import Record

EDIT_SCHEMA = OUTCOME_SCHEMA | {"entry_id": "str?", "new_dlq_id": "str?"}
COLUMNS = [column(name) for name in EDIT_SCHEMA]


@command(
    "dlq edit",
    schema=EDIT_SCHEMA,
    many=False,
    payloads=True,
    changes=True,
    undoable=True,
    failed=("gone", "full"),
    hint='--set to="someone else"',
)
def edit(
    ctx: CommandContext,
    queue: QueueName,
    letter_id: Annotated[str, typer.Argument(metavar="ID", help="The letter's id, or its job's.")],
    assign: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="PATH=VALUE", help="Set a value: JSON, or else text. As in to=x, items[0].price=3."
        ),
    ] = None,
    unset: Annotated[list[str] | None, typer.Option("--unset", metavar="PATH", help="Remove a key or an item.")] = None,
    replay: Annotated[
        bool, typer.Option("--replay/--no-replay", help="Put it back to work; otherwise it stays dead, edited.")
    ] = True,
    cap: CapOption = None,
) -> None:
    """Edit a dead letter's payload: in $VISUAL or $EDITOR as JSON, or with --set and --unset; then replay it.

    What JSON cannot carry is tagged, as in {"$bin": "c0ffee"}. What is not touched keeps its very bytes. The editor shows
    everything; the difference on the screen has secrets covered. The old letter goes in the step that writes the new.
    """
    from chasqui import Keys
    from chasqui.inspect import snapshot
    from chasqui.operate import dead_letters

    keys = Keys(queue)
    with ctx.session() as session:
        seen = session.query(snapshot.take_snapshot, keys)
        letter, record = _find_dead_letter(ctx, session, keys, letter_id, seen.server_time_ms)
        before = _decode_payload(letter)
        after = apply_assignments(before, assign or [], unset or []) if assign or unset else _edit_in_editor(before)
        data = dead_letters.envelope_with_data(letter, after)
        if data == letter.field(b"d"):
            ctx.info("nothing to do: the payload is as it was")
            return
        if replay:
            check_stream_cap(seen, 1, cap or seen.caps.stream)
        verb = "edit and replay" if replay else "edit"
        plan = ChangePlan(verb, queue, "dead letters", [record], effects=_payload_diff(ctx, before, after))
        if not ctx.confirm(plan):
            outcome = record | {"outcome": f"would {verb}", "entry_id": None, "new_dlq_id": None}
        else:
            outcome = record | _apply_edit(ctx, session, keys, letter, data, cap or seen.caps.stream, replay=replay)
    ctx.write_record(outcome, COLUMNS)
    ctx.exit_if_failed([outcome])


def _find_dead_letter(
    ctx: CommandContext, session: Session, keys: Keys, letter_id: str, now_ms: int
) -> tuple[DeadLetter, Record]:
    from chasqui.errors import ArgumentError, NotFound
    from chasqui.operate import dead_letters

    caught = select_dead_letters(ctx, session, keys, [letter_id], now_ms=now_ms, limit=None, jobs_only=False)
    require_found(caught, [letter_id], keys.queue)
    if len(caught.records) > 1:
        raise ArgumentError(
            f"{len(caught.records)} dead letters are of job {letter_id}",
            hint=f"name one of them: {', '.join(caught.ids[:5])}",
        )
    [record] = caught.records
    [letter] = session.query(dead_letters.dead_letters_by_id, keys, [record["dlq_id"]])
    if letter is None:
        raise NotFound(f"{letter_id} has just left the dead letters", hint="look again with dlq peek")
    return letter, record


def _decode_payload(letter: DeadLetter) -> Any:
    """The job's payload, if it can be decoded."""
    from chasqui import Undecodable
    from chasqui.errors import ChangeRefused

    job = letter.job()
    data = job if isinstance(job, Undecodable) else job.payload.data_or_bytes(len(job.payload.raw))
    if isinstance(data, Undecodable):
        raise ChangeRefused(
            f"{letter.dead_id} cannot be decoded, so it cannot be edited: {data.reason}",
            hint="export it with `dlq export`, or remove it with `dlq purge`",
        )
    return data


def _payload_diff(ctx: CommandContext, before: Any, after: Any) -> list[str]:
    """A unified diff, secrets covered; if nothing else changed than those, that is said."""
    old, new = (json_text(ctx.redacted(one), indent=2).splitlines() for one in (before, after))
    lines = list(difflib.unified_diff(old, new, "before", "after", lineterm=""))
    return lines or ["only covered values differ; --show-secrets shows them"]


def _apply_edit(
    ctx: CommandContext, session: Session, keys: Keys, letter: DeadLetter, data: bytes, cap: int, *, replay: bool
) -> Record:
    from chasqui import decode_envelope
    from chasqui.operate import dead_letters
    from chasqui.undo import deleted_dead_letters, replayed_dead_letters

    fresh = dead_letters.reset_attempts(decode_envelope(data, len(data))) if replay else data
    with ctx.journal_operation(keys.queue) as pen:
        kind = replayed_dead_letters if replay else deleted_dead_letters
        pen.write_items([kind.item(letter.dead_id, letter.fields, fresh)])
        if replay:
            [answer] = session.run(dead_letters.replay_dead_letters, keys, [(letter, fresh)], cap=cap)
            done = "-" in answer
            outcome = {"outcome": "replayed" if done else answer, "entry_id": answer if done else None}
        else:
            new_id = session.run(dead_letters.replace_envelope, keys, letter, data)
            outcome = {"outcome": "edited" if new_id else "gone", "new_dlq_id": new_id}
        learned = outcome.get("entry_id") or outcome.get("new_dlq_id")
        fact = {"entry_id" if replay else "instead": learned} if learned else {"untouched": outcome["outcome"]}
        pen.add_facts({0: fact})
        pen.done = int(bool(learned))
        pen.set_result(outcome=outcome["outcome"])
    return {"outcome": "", "entry_id": None, "new_dlq_id": None} | outcome


def _edit_in_editor(before: Any) -> Any:
    """The payload after editing. A file that is not JSON stays, so that no work is lost."""
    from chasqui.errors import ArgumentError

    place = Path(tempfile.mkdtemp(prefix="chasqui-edit-"))
    file = place / "payload.json"
    file.touch(mode=0o600)
    file.write_text(json_text(before, indent=2) + "\n")
    while True:
        try:
            _run_editor(file)
        except BaseException:
            # It was not edited, and a payload must not stay on disk.
            shutil.rmtree(place)
            raise
        try:
            after = untagged(json.loads(file.read_text()))
            break
        except (ValueError, RecursionError) as error:
            if not sys.stdin.isatty():
                raise ArgumentError(
                    f"that is no JSON: {error}", hint=f"nothing was changed; your text is in {file}"
                ) from None
            print_stderr(f"that is no JSON: {error}; press Enter to edit it again, Ctrl-C to leave it in {file}")
            sys.stdin.readline()
    shutil.rmtree(place)
    return after


def _run_editor(file: Path) -> None:
    from chasqui.errors import ChangeRefused

    program = editor_command() or ("vi" if sys.stdin.isatty() else None)
    if program is None:
        raise ChangeRefused(
            "there is no editor and nobody to use it", hint="set EDITOR, or change values with --set PATH=VALUE"
        )
    try:
        code = subprocess.run([*shlex.split(program), str(file)], check=False).returncode
    except OSError as error:
        raise ChangeRefused(f"{program}: {error.strerror}", hint="set EDITOR to a program that is there") from None
    if code:
        raise ChangeRefused(f"{program} ended with code {code}", hint="nothing was changed")
