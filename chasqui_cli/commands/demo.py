"""`chasqui demo`: a short tour that runs by itself, on a private server that is gone afterwards."""

from __future__ import annotations

import tempfile
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
    from chasqui import Address, EmbeddedServer, Link, parse_address

    with tempfile.TemporaryDirectory(prefix="chasqui-demo-") as place:
        directory = Path(place) / "server"
        with EmbeddedServer(directory) as socket:
            address: Address = parse_address(f"unix://{socket}")
            with Link.open(address) as link:
                features = link.features()
                desk.say(f"started a private {features.kind} {features.version}; it is gone when this ends")
                _tour(desk, link)
        EmbeddedServer(directory).stop()


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
    from chasqui import Backoff, NewJob, ProducerOptions, RetryOverride, SystemClock, add, add_later

    now_ms = SystemClock().now_ms()
    patient = RetryOverride(5, Backoff("exponential", 250, max_delay_ms=60_000, multiplier=2.0))
    link.run(
        add(
            commands,
            keys,
            [
                NewJob({"to": "ada@example.com"}, "welcome"),
                NewJob({"to": "bob@example.com", "invoice": 7}, "invoice", id="invoice-7", retry=patient),
            ],
            producer_id="demo",
            now_ms=now_ms,
        )
    )
    link.run(_broken(commands, keys))
    later = [NewJob({"to": "eve@example.com"}, "reminder")]
    link.run(add_later(commands, keys, later, delay_ms=60_000, now_ms=now_ms))
    one_byte = ProducerOptions(delayed_prefix="u8")
    link.run(add_later(commands, keys, later, delay_ms=90_000, now_ms=now_ms, options=one_byte))


def _broken(commands: Commands, keys: Keys) -> Flow[None]:
    yield [commands.add_anyway(keys, ["d", b"\x92\xa4oops", "n", "mystery"])]


def _read_back(link: Link, commands: Commands, keys: Keys) -> list[Record]:
    from chasqui import delayed, waiting

    found = [*link.run(waiting(commands, keys, 10)), *link.run(delayed(commands, keys, 10))]
    return [sighting_record(sighting) for sighting in found]
