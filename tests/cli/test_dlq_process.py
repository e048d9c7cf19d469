"""`chasqui dlq` as a program: transcripts, on a terminal, with hostile text, and counted round trips."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from chasqui.clock import SystemClock
from chasqui.wire import envelope, msgpack_codec
from chasqui.wire.envelope import Envelope, Payload
from tests.support.cli.in_process import InProcessCli
from tests.support.cli.subprocess_cli import SubprocessCli
from tests.support.cli.terminal import run_on_terminal
from tests.support.seeds.dead_letters import DeadLetterSeeder, dead_letter_fields, seed_every_kind
from tests.support.seeds.hostile_text import HOSTILE_TEXTS, is_harmless
from tests.support.servers.server import Server

CLOCK = SystemClock()
PEEK_KEYS = "dlq_id source_id reason detail error name id attempt created_at_ms data retry payload_bytes undecodable"


def one_server(function: Callable[..., Any]) -> Any:
    """For what does not depend on the kind of server."""
    return pytest.mark.parametrize("server", ["valkey-9.1"], indirect=True)(function)


def test_transcripts_of_the_program_itself(
    cli_process: SubprocessCli, server: Server, dead_letter_seeder: DeadLetterSeeder
) -> None:
    seed_every_kind(dead_letter_seeder)
    url = ("-u", server.url)
    peek = cli_process("dlq", "peek", dead_letter_seeder.queue, *url)
    assert peek.code == 0
    assert len(peek.out.splitlines()) == 7
    groups = cli_process("dlq", "groups", dead_letter_seeder.queue, "-o", "jsonl", *url)
    assert [line["count"] for line in groups.lines] == [2, 1, 1, 1, 1]
    replayed = cli_process("dlq", "replay", dead_letter_seeder.queue, "--yes", "--name", "charge", "-o", "json", *url)
    assert [one["outcome"] for one in replayed.json] == ["replayed"]
    op = re.search(r"chasqui undo (\S+)", replayed.err)
    assert op
    undone = cli_process("undo", op[1], "--yes", "-o", "jsonl", *url)
    assert [line["outcome"] for line in undone.lines] == ["restored"]
    assert len(dead_letter_seeder.dead_ids()) == 6


def test_hostile_text_is_harmless_on_a_terminal(cli_process: SubprocessCli, any_server: Server, queue: str) -> None:
    from chasqui.server.link import Link
    from chasqui.wire.keys import Keys

    with Link.open(any_server.url) as link:
        yard = DeadLetterSeeder(link, Keys(queue))
        for text in HOSTILE_TEXTS.values():
            raw = text.encode("utf-8", "surrogatepass")
            data = msgpack_codec.pack(
                {text.encode("utf-8", "replace").decode(): [text.encode("utf-8", "replace").decode()]}
            )
            d = envelope.encode(Envelope(raw.decode("utf-8", "replace"), Payload("bin", data), 1, 1))
            yard.command(
                "XADD",
                yard.keys.dlq,
                "*",
                "d",
                d,
                "n",
                raw,
                "source_id",
                raw,
                "reason",
                raw,
                "detail",
                raw,
                "odd",
                raw,
            )
        url = ("-u", any_server.url)
        for words in (
            ("peek", "-o", "table"),
            ("peek", "-o", "wide"),
            ("peek", "-o", "json"),
            ("peek", "-o", "yaml"),
            ("peek", "-o", "csv"),
            ("groups",),
            ("replay", "--dry-run"),
            ("replay", "--yes"),
            ("export", "-o", "jsonl"),
            ("purge", "--dry-run", "-o", "name"),
        ):
            code, shown = run_on_terminal(cli_process, "dlq", words[0], queue, *words[1:], *url, NO_COLOR="1")
            assert code == 0, shown
            # What rich draws itself: it hides and shows the cursor, moves it, and resets.
            plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown).replace("\r\n", "\n").replace("\r", "")
            assert is_harmless(plain), (words, [char for char in plain if not is_harmless(char)][:5])
            assert "\x1b]" not in shown
            assert "\x1b[2J" not in shown


def test_hostile_text_is_harmless_in_the_journal_too(
    cli_process: SubprocessCli, any_server: Server, queue: str
) -> None:
    from chasqui.server.link import Link
    from chasqui.wire.keys import Keys

    nasty = "\x1b]52;c;ZXZpbA==\x07\x1b[2J\u202e[red]x[/red]"
    with Link.open(any_server.url) as link:
        yard = DeadLetterSeeder(link, Keys(queue))
        dead_id = yard.add_dead_letter(nasty, {nasty: nasty}, name=nasty, reason=nasty, detail=nasty)
        url = ("-u", any_server.url)
        changed = (
            "dlq",
            "edit",
            queue,
            dead_id,
            "--set",
            "x=1",
            "--no-replay",
            "--yes",
            "--note",
            nasty,
            *url,
        )
        commands = [changed, ("log",), ("log", "-o", "wide"), ("log", "-o", "yaml"), ("undo", "2", "--yes", *url)]
        for words in commands:
            code, shown = run_on_terminal(cli_process, *words, NO_COLOR="1")
            assert code == 0, shown
            plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown).replace("\r", "")
            assert is_harmless(plain), words
            assert "\x1b]" not in shown
            assert "\x1b[2J" not in shown


def test_a_question_is_asked_on_a_terminal(cli_process: SubprocessCli, any_server: Server, queue: str) -> None:
    from chasqui.server.link import Link
    from chasqui.wire.keys import Keys

    with Link.open(any_server.url) as link:
        yard = DeadLetterSeeder(link, Keys(queue))
        seed_every_kind(yard)
        words = ("dlq", "purge", queue, "-u", any_server.url)
        code, shown = run_on_terminal(cli_process, *words, typed="n\n")
        assert code == 5
        assert "declined" in shown
        yard.add_dead_letters(dead_letter_fields(f"job-{number}") for number in range(200))
        code, shown = run_on_terminal(cli_process, *words, typed="y\n")
        assert code == 5
        assert "type the queue's name" in shown
        assert len(yard.dead_ids()) == 206
        code, _ = run_on_terminal(cli_process, *words, typed=f"{queue}\n")
        assert code == 0
        assert yard.dead_ids() == []


@one_server
def test_a_page_of_letters_is_few_round_trips(
    cli: InProcessCli, dead_letter_seeder: DeadLetterSeeder, server: Server
) -> None:
    from tests.support.faults.proxy import proxy_to

    dead_letter_seeder.add_dead_letters(dead_letter_fields(f"job-{number}") for number in range(500))
    dead_letter_seeder.add_event("failed", "job-499", "no such host")
    with proxy_to(server.socket) as proxy:
        ended = cli("dlq", "peek", dead_letter_seeder.queue, "-o", "json", "-u", proxy.url)
        assert ended.json[0]["error"] == "no such host"
        # One to be greeted; the snapshot, the page, the search among the events, what it found; scripts once more each
        # on a server that does not know them yet.
        assert proxy.turns <= 8
