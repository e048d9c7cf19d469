"""`chasqui demo`: a short tour that runs by itself, on a private server that is gone afterwards."""

from __future__ import annotations

import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from chasqui_cli.columns import Column, column
from chasqui_cli.desk import Desk, offline
from chasqui_cli.records import sighting_record

if TYPE_CHECKING:
    from chasqui import Commands, Flow, Keys, Link
    from chasqui_cli.columns import Record

app = typer.Typer(add_completion=False, rich_markup_mode=None)

QUEUE = "emails"
COLUMNS: list[Column] = [
    column("where"),
    column("entry", "entry_id"),
    column("due", "run_at_ms"),
    column("prefix"),
    column("id"),
    column("name"),
    column("attempt", align="right"),
    column("retry", wide=True),
    column("data", "payload", "data"),
    column("undecodable"),
]


@app.command()
@offline()
def demo(desk: Desk) -> None:
    """Start a private server, add jobs to a queue called emails, read them back and show what was decoded."""
    from chasqui import Link, parse_address

    with _throw_away_server() as socket, Link.open(parse_address(f"unix://{socket}")) as link:
        features = link.features()
        desk.say(f"started a private {features.kind} {features.version}; it is gone when this ends")
        _tour(desk, link)


@contextmanager
def _throw_away_server() -> Iterator[Path]:
    """The socket of a server that is gone afterwards with all its files, also when the tour is interrupted."""
    from chasqui import EmbeddedServer

    place = Path(tempfile.mkdtemp(prefix="chasqui-demo-"))
    server = EmbeddedServer(place / "server")
    try:
        yield server.start()
    finally:
        with _undisturbed():
            server.stop()
            shutil.rmtree(place)


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Signals that would end us wait until this is done."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _tour(desk: Desk, link: Link) -> None:
    from chasqui import Commands, Keys

    commands, keys = Commands(link.features()), Keys(QUEUE)
    desk.say(f"adding jobs to {QUEUE}: two for now, one broken on purpose, two for later")
    _add_jobs(link, commands, keys)
    before = link.round_trips
    records = _read_back(link, commands, keys)
    desk.say(f"read back and decoded {len(records)} jobs in {link.round_trips - before} round trips:")
    desk.emit(records, COLUMNS)


def _add_jobs(link: Link, commands: Commands, keys: Keys) -> None:
    """What producers write, and what an operator meets at 3 a.m.: a broken entry and an old one-byte prefix."""
    from chasqui import BackoffSpec, SyncQueue

    emails = SyncQueue(QUEUE, link=link)
    emails.add("welcome", {"to": "ada@example.com"})
    patient = BackoffSpec.exponential(250, max_ms=60_000)
    invoice = {"to": "bob@example.com", "invoice": 7}
    emails.add("invoice", invoice, job_id="invoice-7", attempts=5, backoff=patient)
    link.run(_broken(commands, keys))
    reminder = {"to": "eve@example.com"}
    emails.add("reminder", reminder, delay_ms=60_000)
    SyncQueue(QUEUE, link=link, delayed_prefix="u8").add("reminder", reminder, delay_ms=90_000)


def _broken(commands: Commands, keys: Keys) -> Flow[None]:
    yield [commands.add_anyway(keys, ["d", b"\x92\xa4oops", "n", "mystery"])]


def _read_back(link: Link, commands: Commands, keys: Keys) -> list[Record]:
    from chasqui import delayed, waiting

    found = [*link.run(waiting(commands, keys, 10)), *link.run(delayed(commands, keys, 10))]
    return [sighting_record(sighting) for sighting in found]
