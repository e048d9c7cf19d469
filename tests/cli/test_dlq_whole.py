"""`chasqui dlq` as a program: transcripts, on a terminal, with hostile text, and counted round trips."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from chasqui.clock import SystemClock
from chasqui.wire import envelope, packed
from chasqui.wire.envelope import Envelope, Payload
from tests.cli.hostile import STRINGS, is_harmless
from tests.cli.seed_dead import Yard, letter, seed
from tests.cli.shell import Shell
from tests.cli.yard import Inside, on_a_terminal
from tests.cli.yard import inside as inside
from tests.cli.yard import yard as yard
from tests.servers import Server

CLOCK = SystemClock()
PEEK_KEYS = (
    "dlq_id source_id reason detail error name id attempt created_at_ms data retry payload_bytes undecodable"
)


def one_server(function: Callable[..., Any]) -> Any:
    """For what does not depend on the kind of server."""
    return pytest.mark.parametrize("server", ["valkey-9.1"], indirect=True)(function)


def test_transcripts_of_the_program_itself(shell: Shell, server: Server, yard: Yard) -> None:
    seed(yard)
    url = ("-u", server.url)
    peek = shell("dlq", "peek", yard.queue, *url)
    assert peek.code == 0
    assert len(peek.out.splitlines()) == 7
    groups = shell("dlq", "groups", yard.queue, "-o", "jsonl", *url)
    assert [line["count"] for line in groups.lines] == [2, 1, 1, 1, 1]
    replayed = shell("dlq", "replay", yard.queue, "--yes", "--name", "charge", "-o", "json", *url)
    assert [one["outcome"] for one in replayed.json] == ["replayed"]
    op = re.search(r"chasqui undo (\S+)", replayed.err)
    assert op
    undone = shell("undo", op[1], "--yes", "-o", "jsonl", *url)
    assert [line["outcome"] for line in undone.lines] == ["restored"]
    assert len(yard.dead_ids()) == 6


def test_hostile_text_is_harmless_on_a_terminal(shell: Shell, any_server: Server, queue: str) -> None:
    from chasqui.server.link import Link
    from chasqui.wire.keys import Keys

    with Link.open(any_server.url) as link:
        yard = Yard(link, Keys(queue))
        for text in STRINGS.values():
            raw = text.encode("utf-8", "surrogatepass")
            data = packed.pack(
                {text.encode("utf-8", "replace").decode(): [text.encode("utf-8", "replace").decode()]}
            )
            d = envelope.encode(Envelope(raw.decode("utf-8", "replace"), Payload("bin", data), 1, 1))
            yard.say(
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
            code, shown = on_a_terminal(shell, "dlq", words[0], queue, *words[1:], *url, NO_COLOR="1")
            assert code == 0, shown
            # What rich draws itself: it hides and shows the cursor, moves it, and resets.
            plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown).replace("\r\n", "\n").replace("\r", "")
            assert is_harmless(plain), (words, [char for char in plain if not is_harmless(char)][:5])
            assert "\x1b]" not in shown
            assert "\x1b[2J" not in shown


def test_hostile_text_is_harmless_in_the_journal_too(shell: Shell, any_server: Server, queue: str) -> None:
    from chasqui.server.link import Link
    from chasqui.wire.keys import Keys

    nasty = "\x1b]52;c;ZXZpbA==\x07\x1b[2J\u202e[red]x[/red]"
    with Link.open(any_server.url) as link:
        yard = Yard(link, Keys(queue))
        dead_id = yard.bury(nasty, {nasty: nasty}, name=nasty, reason=nasty, detail=nasty)
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
        said = [changed, ("log",), ("log", "-o", "wide"), ("log", "-o", "yaml"), ("undo", "2", "--yes", *url)]
        for words in said:
            code, shown = on_a_terminal(shell, *words, NO_COLOR="1")
            assert code == 0, shown
            plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown).replace("\r", "")
            assert is_harmless(plain), words
            assert "\x1b]" not in shown
            assert "\x1b[2J" not in shown


def test_a_question_is_asked_on_a_terminal(shell: Shell, any_server: Server, queue: str) -> None:
    from chasqui.server.link import Link
    from chasqui.wire.keys import Keys

    with Link.open(any_server.url) as link:
        yard = Yard(link, Keys(queue))
        seed(yard)
        words = ("dlq", "purge", queue, "-u", any_server.url)
        code, shown = on_a_terminal(shell, *words, typed="n\n")
        assert code == 5
        assert "declined" in shown
        yard.bury_many(letter(f"job-{number}") for number in range(200))
        code, shown = on_a_terminal(shell, *words, typed="y\n")
        assert code == 5
        assert "type the queue's name" in shown
        assert len(yard.dead_ids()) == 206
        code, _ = on_a_terminal(shell, *words, typed=f"{queue}\n")
        assert code == 0
        assert yard.dead_ids() == []


@one_server
def test_a_page_of_letters_is_few_round_trips(inside: Inside, yard: Yard, server: Server) -> None:
    from tests.proxy import proxied

    yard.bury_many(letter(f"job-{number}") for number in range(500))
    yard.tell("failed", "job-499", "no such host")
    with proxied(server.socket) as proxy:
        ended = inside("dlq", "peek", yard.queue, "-o", "json", "-u", proxy.url)
        assert ended.json[0]["error"] == "no such host"
        # One to be greeted; the snapshot, the page, the search among the events, what it found; scripts once more each
        # on a server that does not know them yet.
        assert proxy.turns <= 8
