"""Hostile text in every field of every kind of queue, through every verb and every format, on a real terminal.

The texts are shared out over a few worlds: in each, every verb sees many texts at once, and the queue is called after
all of them. Verbs are found by walking the program: one that is new fails here until its words stand in the table.
"""

from __future__ import annotations

import csv
import functools
import io
import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
import yaml

from chasqui.server.commands import parse_server_time
from chasqui.server.link import Link
from chasqui_cli.app import run
from chasqui_cli.command_index import COMMANDS
from tests.cli.test_read_only import write_verbs
from tests.support.cli.in_process import unset_settings
from tests.support.cli.terminal import fake_terminal
from tests.support.links import command
from tests.support.seeds.hostile_queues import HostileQueues, careless_pack, fill_with_hostile_text
from tests.support.seeds.hostile_text import HOSTILE_TEXTS, is_harmless
from tests.support.servers.server import Server

BUILT = functools.cache(typer.main.get_command)
"""Half the price of a run is to build its command from the options; here each is built once."""
WORLDS = 3
TRIED_EACH = 6
FORMATS = ("table", "wide", "json", "jsonl", "yaml", "csv", "name")
LOOKS: dict[str, tuple[str, ...]] = {
    "queues": (),
    "inspect": ("{q}",),
    "watch": ("{q}", "--count", "1"),
    "why": ("{id}", "--queue", "{q}"),
    "job show": ("{q}", "{id}"),
    "job result": ("{q}", "{id}", "-o", "json"),
    "dlq peek": ("{q}", "--limit", "100"),
    "dlq groups": ("{q}",),
    "dlq export": ("{q}",),
    "delayed list": ("{q}", "--limit", "100"),
    "delayed histogram": ("{q}",),
    "repeatable list": ("{q}",),
    "repeatable preview": ("{q}", "{id}"),
    "events": ("{q}",),
    "workers list": ("{q}",),
    "check": ("{q}", "--format", "nagios"),
    "doctor": ("{q}",),
    "metrics": ("{q}",),
    "log": (),
    "context list": (),
    "context show": ("odd",),
    "rsmq peek": ("{q}", "--limit", "100"),
    "rsmq show": ("{q}", "{id}"),
    "rsmq counts": ("{q}",),
    "rsmq export": ("{q}",),
    "rsmq queue list": (),
    "rsmq queue describe": ("--name", "{q}"),
    "joblist overview": ("{q}",),
    "joblist list": ("{q}", "--list", "processing", "--limit", "100"),
    "joblist show": ("{q}", "{id}"),
    "decode": ("--kind", "envelope", "--hex", "{hex}"),
    "server status": (),
}
CHANGES: dict[str, tuple[str, ...]] = {
    "dlq edit": ("{q}", "{id}", "--set", "list[0]={json}"),
    "dlq import": ("{q} copy", "{letters}"),
    "add": ("{plain}", "{json}", "--name", "{id}", "--id", "{id}"),
    "job cancel": ("{q}", "{id}"),
    "delayed move": ("{q}", "--all", "--by", "1m"),
    "delayed now": ("{q}", "{id}"),
    "delayed cancel": ("{q}", "--all"),
    "repeatable upsert": ("{q}", "{id}", "--every", "60s", "--key", "{id}", "--data", "{json}"),
    "repeatable run": ("{q}", "{id}"),
    "repeatable remove": ("{q}", "{id}"),
    "workers claim": ("{q}", "--gone-after", "1ms"),
    "workers prune": ("{q}", "--gone-after", "1ms"),
    "promote": ("{q}", "--force-unlock"),
    "schedule": ("{q}", "--force-unlock"),
    "rsmq hold": ("{q}", "--for", "1h", "--all"),
    "rsmq release": ("{q}", "--state", "delayed"),
    "rsmq import": ("{q}", "{rows}"),
    "rsmq sweep": ("{q}", "--to", "{q} other", "--max-rc", "1"),
    "rsmq expire": ("{q}", "--older-than", "1ms"),
    "rsmq move": ("{q}", "--to", "{q} other", "--all"),
    "rsmq purge": ("{q}", "--all"),
    "rsmq doctor": ("{q}", "--repair"),
    "joblist enqueue": ("{q}", "{json}", "--id", "{id}"),
    "joblist reclaim": ("{q}", "--visibility", "1ms"),
    "joblist retry": ("{q}", "--all"),
    "joblist move": ("{q}", "--to", "{q} other", "--all"),
    "joblist cancel": ("{q}", "--all"),
    "joblist purge": ("{q}", "--list", "failed"),
    "joblist doctor": ("{q}", "--repair"),
    "migrate": ("joblist://{q} other", "chasqui://{q}"),
    "dlq replay": ("{q}",),
    "dlq purge": ("{q}",),
    "undo": ("{op}",),
}
"""In an order in which each still finds something to change."""
BARE: dict[str, tuple[str, ...]] = {
    "rsmq queue create": ("--name", "{id}"),
    "rsmq queue set": ("--name", "{q}", "--vt", "20"),
    "rsmq message send": ("--name", "{q}", "{id}"),
    "rsmq message receive": ("--name", "{q}"),
    "rsmq message pop": ("--name", "{q}"),
    "rsmq message delete": ("--name", "{q}", "{id}"),
    "rsmq message visibility": ("--name", "{q}", "--id", "{id}", "--vt", "1"),
    "rsmq queue delete": ("--name", "{q}"),
    "context use": ("{id}",),
    "context set": ("{id}", "url={id}"),
    "check": ("{q}", "--format", "prometheus"),
    "why": ("{id}",),
    "inspect": ("{id}", "rsmq:{id}", "list:{id}"),
    "dlq peek": ("{q}", "--where", "{id}"),
    "dlq replay": ("{q}", "no such {id}", "-y"),
    "dlq edit": ("{q}", "no such {id}", "--set", "a=1"),
    "delayed list": ("{q}", "--since", "{id}"),
    "delayed cancel": ("{q}", "no such {id}", "-y"),
    "repeatable remove": ("{q}", "no such {id}", "-y"),
    "repeatable preview": ("--cron", "{id}", "--tz", "{id}"),
    "workers claim": ("{q}", "no such {id}", "-y"),
    "undo": ("no such {id}",),
    "log": ("no such {id}",),
    "rsmq show": ("{id}", "{id}"),
    "rsmq peek": ("{q}", "--grep", "({id}"),
    "joblist show": ("{id}", "{id}"),
    "migrate": ("{id}", "{id}"),
    "decode": ("--hex", "{id}"),
    "add": ("{id}", "{id}"),
    "server status": ("-u", "redis://{id}"),
    "no such {id}": (),
}
"""Verbs that write no records, and what is said of words that lead nowhere."""
ELSEWHERE = {"top", "demo", "worker run", "joblist work", "joblist events", "server start", "server stop"}
"""Verbs that run on and on, are tried where that is, and show of a queue what others show."""


@pytest.fixture(params=range(WORLDS), ids=lambda part: f"world-{part}")
def world(any_server: Server, queue: str, request: pytest.FixtureRequest) -> Iterator[HostileQueues]:
    texts = tuple(HOSTILE_TEXTS.values())[request.param :: WORLDS]
    with Link.open(any_server.url) as link:
        made = HostileQueues(link, queue, texts, parse_server_time(link.run(command("TIME"))))
        fill_with_hostile_text(made)
        yield made


@pytest.fixture
def screen(any_server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Screen:
    unset_settings(monkeypatch)
    monkeypatch.setattr(typer.main, "get_command", BUILT)
    screen = Screen(monkeypatch, tmp_path)
    screen.set(HOME=str(tmp_path), CHASQUI_REDIS_URL=any_server.url, TERM="dumb", NO_COLOR="1", COLUMNS="200")
    return screen


class Screen:
    """A terminal that verbs are run on, one by one, and that must not be acted upon."""

    def __init__(self, patch: pytest.MonkeyPatch, home: Path) -> None:
        self.patch = patch
        self.home = home

    def set(self, **variables: str) -> None:
        for name, value in variables.items():
            self.patch.setenv(name, value)

    def run(self, *words: str) -> str:
        """What was shown; that it is harmless is known by then."""
        self.patch.setattr(sys, "argv", ["chasqui", *words])
        self.patch.setattr(sys, "stdin", io.StringIO())
        with fake_terminal(self.patch) as seen:
            code = run(words)
        shown = b"".join(seen).decode().replace("\r\n", "\n")
        for ours in ("\x1b[1m", "\x1b[0m"):
            shown = shown.replace(ours, "")
        bad = [line for line in shown.split("\n") if not is_harmless(line)]
        assert not bad, (words, bad[:3])
        assert code in (0, 1, 2, 3, 4, 5), (words, shown)
        assert "Traceback" not in shown
        return shown


def filled(world: HostileQueues, words: tuple[str, ...], nth: int, **more: str) -> list[str]:
    """A verb's words, about the nth text."""
    text = world.arguments[nth % len(world.arguments)]
    values = {
        "q": world.name,
        "plain": world.plain,
        "id": text,
        "json": json.dumps({text: [text]}),
        "hex": careless_pack([text, careless_pack({text: text}), 1, 1]).hex(),
    } | more
    return [word.format(**values) for word in words]


def test_every_verb_is_known_here() -> None:
    verbs = {path for path in COMMANDS if not path.startswith("pipeline ")}
    unknown = verbs - LOOKS.keys() - CHANGES.keys() - BARE.keys() - ELSEWHERE
    assert not unknown, f"give these verbs words, so that they are tried: {unknown}"
    assert set(write_verbs()) <= CHANGES.keys()


@pytest.mark.parametrize("how", FORMATS)
def test_no_look_lets_anything_through(world: HostileQueues, screen: Screen, how: str) -> None:
    _odd_context(screen)
    for nth, (verb, words) in enumerate(LOOKS.items()):
        options = () if verb in ("metrics", "check") else ("-o", how)
        shown = screen.run(*verb.split(), *filled(world, words, nth), *options, "--quiet")
        assert_well_formed(shown, how, verb)


def _odd_context(screen: Screen) -> None:
    place = screen.home / ".config" / "chasqui"
    place.mkdir(parents=True)
    texts = [json.dumps(text) for text in HOSTILE_TEXTS.values() if text.isascii() and len(text) < 99]
    lines = [f'[contexts.{text}]\nurl = "redis://h/1"\n' for text in texts]
    (place / "config.toml").write_text("".join(lines) + f"[contexts.odd]\nurl = {texts[0]}\n")
    (place / "config.toml").chmod(0o600)


def test_no_change_lets_anything_through(world: HostileQueues, screen: Screen, tmp_path: Path) -> None:
    files, refused = _files(world, tmp_path), []
    for nth, (verb, words) in enumerate(CHANGES.items()):
        if verb != "undo":
            arguments = filled(world, words, nth, **files, op="")
            for how in FORMATS:
                dry = screen.run(*verb.split(), *arguments, "--dry-run", "--yes", "--quiet", "-o", how)
                assert_well_formed(dry, how, verb)
            shown = screen.run(*verb.split(), *arguments, "--yes")
            refused += ["error:" in shown]
    assert sum(refused) < 5, "nearly all of them change something"
    operations = screen.run("log", "--limit", "100", "-o", "name", "--quiet").split()
    assert len(operations) > 10
    for nth, op in enumerate(operations):
        how = FORMATS[nth % len(FORMATS)]
        assert_well_formed(screen.run("log", op, "-o", how, "--quiet"), how, "log")
        assert_well_formed(screen.run("undo", op, "--dry-run", "--yes", "-o", how, "--quiet"), how, "undo")
        screen.run("undo", op, "--yes")


def _files(world: HostileQueues, place: Path) -> dict[str, str]:
    letters, rows = place / "letters.jsonl", place / "rows.jsonl"
    fields = [[name, world.arguments[0]] for name in ("n", "reason", "detail", "source_id")]
    letters.write_text(json.dumps({"dlq_id": "5-5", "fields": fields}) + "\n" + "\n".join(HOSTILE_TEXTS) + "\n")
    rows.write_text("".join(json.dumps({"body": text}) + "\n" for text in HOSTILE_TEXTS.values() if text.isascii()))
    return {"letters": str(letters), "rows": str(rows)}


def test_no_refusal_lets_anything_through(world: HostileQueues, screen: Screen) -> None:
    chance = random.Random(world.plain)
    for verb, words in BARE.items():
        for nth in chance.sample(range(len(world.texts)), TRIED_EACH):
            arguments = filled(world, (*verb.split(), *words) if "{" not in verb else (verb,), nth)
            screen.run(*arguments)


def test_colours_and_bars_are_ours_alone(
    world: HostileQueues, screen: Screen, monkeypatch: pytest.MonkeyPatch, any_server: Server
) -> None:
    screen.set(TERM="xterm-256color", NO_COLOR="", FORCE_COLOR="1")
    evil = [text for text in world.texts if not is_harmless(text)]
    for verb, words in (LOOKS | CHANGES).items():
        monkeypatch.setattr(sys, "stdin", io.StringIO())
        arguments = [*verb.split(), *filled(world, words, 0, letters="/dev/null", rows="/dev/null", op="none")]
        with fake_terminal(monkeypatch) as seen:
            run([*arguments, *(["--dry-run"] if verb in CHANGES else [])])
        shown = b"".join(seen).decode().replace("\r\n", "\n")
        assert not [text for text in evil if text in shown], (verb, shown)


def assert_well_formed(shown: str, how: str, verb: str) -> None:
    """No text breaks out of its place: what programs read is still well-formed."""
    if shown.lstrip().startswith(("error: ", "hint: ")) or verb in ("check", "metrics"):
        return
    if how == "json":
        assert shown, verb
        json.loads(shown)
    elif how == "jsonl":
        assert all(json.loads(line) is not Ellipsis for line in shown.splitlines())
    elif how == "yaml":
        yaml.safe_load(shown)
    elif how == "csv":
        rows = list(csv.reader(io.StringIO(shown)))
        assert len({len(row) for row in rows}) <= 1, (verb, rows)
        cells = [cell for row in rows[1:] for cell in row]
        assert not [cell for cell in cells if _is_formula(cell)], verb


def _is_formula(cell: str) -> bool:
    """What a spreadsheet would run; a number is none."""
    try:
        float(cell)
    except ValueError:
        return cell.strip()[:1] in tuple("=+-@\uff1d\uff0b\uff0d\uff20")
    return False
