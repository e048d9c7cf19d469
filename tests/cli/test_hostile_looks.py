"""Hostile text in every field of a queue, through every verb that looks and every format, on a real terminal."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from chasqui.server.link import Link
from chasqui.wire.packed import pack
from tests.cli.hostile import STRINGS, is_harmless
from tests.cli.seed_look import GROUP, Seed
from tests.cli.shell import Shell
from tests.servers import Server

DRIVER = """
import json, sys
from chasqui_cli.app import run
from chasqui_cli.streams import settle
settle()
for words in json.load(open(sys.argv[1])):
    code = run(words)
    sys.stdout.flush()
    if code not in (0, 1, 2, 3, 4):
        sys.exit(f"{words} ended with {code}")
"""
FORMATS = ("table", "wide", "json", "jsonl", "yaml", "csv", "name")


def spoil(seed: Seed, text: str) -> None:
    """The text wherever a producer, a worker or a stranger could put it."""
    raw = text.encode("utf-8", "surrogatepass")
    seed.add(data={text.replace("\ud800", "?"): text.replace("\ud800", "?")}, name="mail")
    seed.say("XADD", seed.keys.stream, "*", "d", raw, "n", raw)
    seed.group()
    seed.say("XREADGROUP", "GROUP", GROUP, raw or b"c", "COUNT", 1, "STREAMS", seed.keys.stream, ">")
    seed.say("ZADD", seed.keys.delayed, seed.now_ms, raw)
    seed.say("XADD", seed.keys.dlq, "*", "d", raw, "n", raw, "source_id", raw, "reason", raw, "detail", raw)
    seed.say("ZADD", seed.keys.repeat, seed.now_ms - 99_999, raw)
    seed.say("HSET", seed.keys.repeat_spec("").encode("utf-8", "surrogateescape") + raw, "spec", raw)
    seed.say("SET", seed.keys.promoter_lock, raw)
    seed.say(
        "XADD", seed.keys.events, "*", "e", raw, "id", "known", "n", raw, "reason", raw, raw or b"x", raw
    )
    seed.say("XADD", seed.keys.events, "*", "e", "failed", "id", "known", "ts", "1", "n", raw, "reason", raw)
    seed.say("SET", seed.keys.result("known"), pack([text.replace("\ud800", "?")]))


def command_lines(queue: str, url: str) -> list[list[str]]:
    verbs = [
        ["queues"], ["inspect", queue], ["watch", queue, "--count", "1"], ["why", "known", "--queue", queue],
        ["job", "show", queue, "known"], ["job", "result", queue, "known"], ["events", queue], ["doctor", queue],
    ]  # fmt: skip
    checks = [["check", queue, "--format", how] for how in ("nagios", "json", "prometheus")]
    lines = [[*verb, "-o", how] for verb in verbs for how in FORMATS]
    return [[*line, "-u", url] for line in [*lines, *checks, ["metrics", queue]]]


def on_a_terminal(shell: Shell, lines: list[list[str]], home: Path) -> tuple[str, str, int]:
    """What a terminal was sent, what came on stderr, and how it ended."""
    (home / "lines.json").write_text(json.dumps(lines))
    ours, theirs = pty.openpty()
    chunks: list[bytes] = []

    def read() -> None:
        try:
            while chunk := os.read(ours, 65536):
                chunks.append(chunk)
        except OSError:  # what a terminal answers once nobody holds its other end
            return

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    done = subprocess.run(
        [sys.executable, "-c", DRIVER, str(home / "lines.json")],
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=subprocess.PIPE,
        env=shell.environment() | {"NO_COLOR": "1", "TERM": "xterm", "COLUMNS": "200", "LANG": "C.UTF-8"},
        timeout=110,
    )
    os.close(theirs)
    reader.join()
    os.close(ours)
    return b"".join(chunks).decode().replace("\r\n", "\n"), done.stderr.decode(), done.returncode


@pytest.mark.parametrize("what", STRINGS)
def test_nothing_reaches_the_terminal_that_it_would_act_upon(
    any_server: Server, queue: str, shell: Shell, tmp_path: Path, what: str
) -> None:
    text = STRINGS[what]
    name = f"{queue}-{text}".encode("utf-8", "surrogatepass").decode("utf-8", "surrogateescape")
    with Link.open(any_server.url) as link:
        spoil(Seed(link, name), text)
    out, err, code = on_a_terminal(shell, command_lines(name, any_server.url), tmp_path)
    assert code == 0, err
    assert "Traceback" not in err
    assert is_harmless(out), [line for line in out.splitlines() if not is_harmless(line)][:3]
    assert is_harmless(err), [line for line in err.splitlines() if not is_harmless(line)][:3]
    assert queue in out
