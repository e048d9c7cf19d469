"""`chasqui dlq export` and `dlq import`: dead letters out to a file, and in from one, byte for byte."""

from __future__ import annotations

import json
import os
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

import typer

from chasqui_cli.changes.confirm import ChangePlan
from chasqui_cli.commands.dlq._record import (
    DEAD_LETTER_SCHEMA,
    ENTRY_ID,
    DeadLetterMatch,
    FoundErrors,
    QueueName,
    chunked,
    redacted_record,
)
from chasqui_cli.commands.dlq._search import DeadLetterSearch, print_search_extent
from chasqui_cli.context.command_context import CommandContext, command
from chasqui_cli.output.columns import column
from chasqui_cli.output.json_schema import OptionalKey
from chasqui_cli.output.tagged_json import json_text
from chasqui_cli.output.writer import Format

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from chasqui import Keys
    from chasqui.operate.dead_letters import DeadLetter, ImportCheck
    from chasqui_cli.context.session import Session
    from chasqui_cli.output.columns import Record

EXPORT_SCHEMA = DEAD_LETTER_SCHEMA | {"raw": OptionalKey(["str"]), "redacted": OptionalKey("bool")}
IMPORT_SCHEMA = {"line": "int", "dlq_id": "str?", "outcome": "str", "new_dlq_id": "str?", "error": "str?"}
COLUMNS = [column(name) for name in ("new_dlq_id", "line", "dlq_id", "outcome", "error")]
PAGE_SIZE = 200


@command(Format.JSONL, shape=EXPORT_SCHEMA, chooses=True, by_reason=True, payloads=True)
def export(
    desk: CommandContext,
    queue: QueueName,
    file: Annotated[
        Path | None,
        typer.Option("--file", metavar="FILE", help="Write a new, private file instead of stdout."),
    ] = None,
    limit: Annotated[int | None, typer.Option(min=0, metavar="N", help="Export so many at most.")] = None,
) -> None:
    """Write dead letters as JSON lines, oldest first: what `peek` shows, and in `raw` every byte, for `dlq import`.

    Secrets are covered: a letter that holds any has no `raw` and is marked `redacted`. --show-secrets exports all whole.
    """
    from chasqui import Keys

    if desk.output is not Format.JSONL:
        raise typer.BadParameter("an export is JSON lines; `dlq peek` knows the other formats")
    keys = Keys(queue)
    with desk.session() as session, _open_output(file) as out:
        search = DeadLetterSearch(session, keys, desk.filters.compile(session.server_now_ms(), ""), desk.filters.scan)
        failures = FoundErrors(session, keys)
        count = covered = 0
        with desk.progress("exporting", None) as advance:
            for match in search:
                if limit is not None and count >= limit:
                    break
                line = _export_record(desk, match, failures)
                out.write(json_text(line) + "\n")
                count += 1
                covered += "redacted" in line
                advance(count)
    print_search_extent(desk, search)
    desk.info(f"exported {count:,} dead letters{f' to {file}' if file else ''}")
    if covered:
        desk.info(
            f"{covered:,} of them hold secrets: these are covered, and cannot be imported;"
            " --show-secrets exports them whole"
        )


@contextmanager
def _open_output(file: Path | None) -> Iterator[IO[str]]:
    """Stdout, or a file that is not there yet and that only its owner may read."""
    from chasqui.errors import ChangeRefused

    if file is None:
        yield sys.stdout
        return
    try:
        number = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise ChangeRefused(f"{file} is there already", hint="name a new file, or move that one away") from None
    with os.fdopen(number, "w") as out:
        yield out


def _export_record(desk: CommandContext, match: DeadLetterMatch, failures: FoundErrors) -> Record:
    from chasqui_cli.output.redaction import has_secrets

    record = match.record(failures)
    if not desk.show_secrets and has_secrets([record, _other_fields(match)]):
        return redacted_record(desk, record) | {"redacted": True}
    return record | {"raw": [word.hex() for word in match.letter.fields]}


def _other_fields(match: DeadLetterMatch) -> dict[str, str]:
    """What the letter holds beside its payload, as text: somebody may have put secrets there too."""
    words = [word.decode("utf-8", "replace") for word in match.letter.fields]
    pairs = zip(words[::2], words[1::2], strict=True)
    return {name.removeprefix("orig:"): text for name, text in pairs if name != "d"}


@command(shape=IMPORT_SCHEMA, changes=True)
def import_(
    desk: CommandContext,
    queue: QueueName,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What `dlq export` wrote; - for stdin.")],
    again: Annotated[
        bool,
        typer.Option("--again", help="Also what was imported before and has left the dead letters since."),
    ] = False,
) -> None:
    """Add dead letters from an export, byte for byte. Importing twice adds nothing twice.

    What is still there, or was imported within 30 days, is skipped and reported. Letters that were exported with their
    secrets covered cannot be imported: exit code 3.
    """
    from chasqui import Keys
    from chasqui.operate import dead_letters

    keys = Keys(queue)
    told, letters = _read_file(file)
    with desk.session() as session:
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
            effects=_effects(told),
        )
        if desk.confirm(plan):
            _import_dead_letters(desk, session, keys, new, again=again)
    desk.write_records(told, COLUMNS)
    if any(one["outcome"] in ("redacted", "unreadable") for one in told):
        raise typer.Exit(3)


def _skip_reason(known: ImportCheck, *, again: bool) -> str | None:
    if known.is_present:
        return "there already"
    return "imported before" if known.imported_as and not again else None


def _effects(told: Sequence[Record]) -> list[str]:
    from collections import Counter

    counts = Counter(one["outcome"] for one in told if one["outcome"] != "would import")
    return [f"skipped, {outcome}: {count:,}" for outcome, count in counts.items()]


def _read_file(file: Path) -> tuple[list[Record], list[tuple[Record, DeadLetter]]]:
    """A record for each line, and the letters of those that can be imported."""
    told: list[Record] = []
    letters: list[tuple[Record, DeadLetter]] = []
    with open_input(file) as source:
        for number, text in enumerate(source, 1):
            if not text.strip():
                continue
            record: Record = {
                "line": number, "dlq_id": None, "outcome": "unreadable", "new_dlq_id": None, "error": None
            }  # fmt: skip
            told.append(record)
            found = _parse_dead_letter(text, record)
            if found:
                letters.append((record, found))
    return told, letters


def open_input(file: Path) -> IO[str]:
    from chasqui.errors import NotFound

    if str(file) == "-":
        return sys.stdin
    try:
        return file.open(encoding="utf-8", errors="surrogateescape")
    except OSError as error:
        raise NotFound(f"{file}: {error.strerror}", hint="name what `dlq export` wrote, or - for stdin") from None


def _parse_dead_letter(text: str, record: Record) -> DeadLetter | None:
    """The letter in a line; or why there is none, in the record."""
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


def _import_dead_letters(
    desk: CommandContext,
    session: Session,
    keys: Keys,
    new: Sequence[tuple[Record, DeadLetter]],
    *,
    again: bool,
) -> None:
    from chasqui.operate import dead_letters
    from chasqui.undo import imported_dead_letters

    words = {"there": "there already", "before": "imported before"}
    with (
        desk.journal_operation("dlq import", keys.queue) as pen,
        desk.progress("importing", len(new)) as advance,
    ):
        done = added = 0
        for some in chunked(new, PAGE_SIZE):
            letters = [letter for _, letter in some]
            kept = [imported_dead_letters.item(one.dead_id, one.digest) for one in letters]
            first = pen.write_items(kept)
            answers = session.run(dead_letters.import_dead_letters, keys, letters, again=again)
            pen.add_facts({first + at: {"untouched": word} for at, word in enumerate(answers) if word in words})
            for (record, _), answer in zip(some, answers, strict=True):
                is_new = answer not in words
                record |= {"outcome": words.get(answer, "imported"), "new_dlq_id": answer if is_new else None}
                added += is_new
            done += len(some)
            advance(done)
        pen.set_result(imported=added, skipped=done - added)
