"""`chasqui dlq export` and `dlq import`: dead letters out to a file, and in from one, byte for byte."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated

import typer

from chasqui_cli.commands.dlq._record import (
    DEAD_LETTER_SCHEMA,
    DeadLetterMatch,
    FoundErrors,
    QueueName,
    redacted_record,
)
from chasqui_cli.commands.dlq._search import DeadLetterSearch, print_search_extent
from chasqui_cli.context.command_context import CommandContext, command
from chasqui_cli.output.columns import column
from chasqui_cli.output.json_schema import OptionalKey
from chasqui_cli.output.tagged_json import json_text
from chasqui_cli.output.writer import Format

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chasqui_cli.output.columns import Record

EXPORT_SCHEMA = DEAD_LETTER_SCHEMA | {"raw": OptionalKey(["str"]), "redacted": OptionalKey("bool")}
COLUMNS = [column(name) for name in ("new_dlq_id", "line", "dlq_id", "outcome", "error")]


@command(
    "dlq export", Format.JSONL, schema=EXPORT_SCHEMA, chooses=True, by_reason=True, payloads=True, local_paths=("file",)
)
def export(
    ctx: CommandContext,
    queue: QueueName,
    file: Annotated[
        Path | None, typer.Option("--file", metavar="FILE", help="Write a new, private file instead of stdout.")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=0, metavar="N", help="Export so many at most.")] = None,
) -> None:
    """Write dead letters as JSON lines, oldest first: what `peek` shows, and in `raw` every byte, for `dlq import`.

    Secrets are covered: a letter that holds any has no `raw` and is marked `redacted`. --show-secrets exports all whole.
    """
    from chasqui import Keys

    if ctx.output is not Format.JSONL:
        raise typer.BadParameter("an export is JSON lines; `dlq peek` knows the other formats")
    keys = Keys(queue)
    with ctx.session() as session, _open_output(file) as out:
        search = DeadLetterSearch(session, keys, ctx.filters.compile(session.server_now_ms()), ctx.filters.scan)
        failures = FoundErrors(session, keys)
        count = covered = 0
        with ctx.progress("exporting", None) as advance:
            for match in search:
                if limit is not None and count >= limit:
                    break
                line = _export_record(ctx, match, failures)
                out.write(json_text(line) + "\n")
                count += 1
                covered += "redacted" in line
                advance(count)
    print_search_extent(ctx, search)
    ctx.info(f"exported {count:,} dead letters{f' to {file}' if file else ''}")
    if covered:
        ctx.info(
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


def _export_record(ctx: CommandContext, match: DeadLetterMatch, failures: FoundErrors) -> Record:
    from chasqui_cli.output.redaction import has_secrets

    record = match.record(failures)
    if not ctx.show_secrets and has_secrets([record, _other_fields(match)]):
        return redacted_record(ctx, record) | {"redacted": True}
    return record | {"raw": [word.hex() for word in match.letter.fields]}


def _other_fields(match: DeadLetterMatch) -> dict[str, str]:
    """The dead letter's other fields, as text: they may hold secrets too."""
    words = [word.decode("utf-8", "replace") for word in match.letter.fields]
    pairs = zip(words[::2], words[1::2], strict=True)
    return {name.removeprefix("orig:"): text for name, text in pairs if name != "d"}
