"""Every verb that changes data: refused read-only, harmless in a dry run, confirmed and journaled in a protected context.

Verbs are found in the index; a new one fails here until it has example arguments in the table.
"""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from chasqui.models import RepeatPattern
from chasqui.sync_queue import SyncQueue
from chasqui_cli.command_index import COMMANDS
from chasqui_cli.context.command_spec import Effect
from tests.support.cli.in_process import InProcessCli
from tests.support.seeds.dead_letters import DeadLetterSeeder, seed_every_kind
from tests.support.seeds.foreign_queues import ForeignQueues
from tests.support.seeds.foreign_queues import seed_both as seed_foreign
from tests.support.servers.server import Server

WRITES: dict[str, tuple[str, ...]] = {
    "dlq replay": ("{queue}",),
    "dlq edit": ("{queue}", "told", "--set", "n=2"),
    "dlq import": ("{queue}-copy", "{file}"),
    "dlq purge": ("{queue}",),
    "undo": ("{op}",),
    "add": ("{queue}", "{{}}"),
    "job cancel": ("{queue}", "{delayed}"),
    "delayed now": ("{queue}", "{delayed}"),
    "delayed cancel": ("{queue}", "{delayed}"),
    "delayed move": ("{queue}", "{delayed}", "--to", "1h"),
    "repeatable upsert": ("{queue}", "job", "--every", "60s"),
    "repeatable remove": ("{queue}", "{spec}"),
    "repeatable run": ("{queue}", "{spec}"),
    "promote": ("{queue}",),
    "schedule": ("{queue}",),
    "workers prune": ("{queue}", "--gone-after", "1ms"),
    "workers claim": ("{queue}", "holds-one"),
    "rsmq purge": ("orders", "--all", "--ns", "{queue}"),
    "rsmq move": ("orders", "--to", "other", "--all", "--ns", "{queue}"),
    "rsmq sweep": ("orders", "--to", "other", "--max-rc", "1", "--ns", "{queue}"),
    "rsmq expire": ("orders", "--older-than", "1ms", "--ns", "{queue}"),
    "rsmq release": ("orders", "--state", "delayed", "--ns", "{queue}"),
    "rsmq hold": ("orders", "--for", "1h", "--all", "--ns", "{queue}"),
    "rsmq import": ("orders", "{rows}", "--ns", "{queue}"),
    "rsmq doctor": ("orders", "--repair", "--ns", "{queue}"),
    "joblist enqueue": ("{queue}", "{{}}"),
    "joblist reclaim": ("{queue}", "--visibility", "1ms"),
    "joblist retry": ("{queue}", "--all"),
    "joblist cancel": ("{queue}", "--all"),
    "joblist move": ("{queue}", "--to", "{queue}-2", "--all"),
    "joblist purge": ("{queue}", "--list", "failed"),
    "joblist doctor": ("{queue}", "--repair"),
    "migrate": ("rsmq://{queue}/orders", "chasqui://{queue}"),
}
"""Arguments with which each would change something."""
LEFT_ALONE = (None, "skipped", "found")
"""What a dry run may say of things that would stay as they are; a verb that only counts has no outcomes."""


def write_verbs() -> list[str]:
    """Verbs that change data and take `--dry-run`: not those that are spelled as another program spells its own.

    Those of the pipeline need Spark, and are tried with it in tests/spark.
    """
    changing = [path for path, spec in COMMANDS.items() if spec.effect is Effect.CHANGES]
    return [path for path in changing if not path.startswith(("pipeline ", "rsmq queue ", "rsmq message "))]


@contextmanager
def overheard(server: Server) -> Iterator[list[str]]:
    """Every command that reaches the server meanwhile."""
    wire = socket.socket(socket.AF_UNIX)
    wire.connect(str(server.socket))
    wire.sendall(b"*1\r\n$7\r\nMONITOR\r\n")
    lines = wire.makefile("r", errors="replace")
    assert lines.readline().startswith("+OK")
    commands: list[str] = []
    last = threading.Event()

    def listen() -> None:
        for line in lines:
            if '"ECHO" "that was all"' in line:
                last.set()
                return
            commands.append(line.partition("] ")[2].strip())

    listener = threading.Thread(target=listen, daemon=True)
    listener.start()
    try:
        yield commands
    finally:
        server.run_command("ECHO", "that was all")
        assert last.wait(10)
        wire.close()
        listener.join(10)


def _is_write(yard: DeadLetterSeeder, line: str) -> bool:
    name, *rest = [word.strip('"') for word in line.split()]
    if name.upper() in ("EVAL", "EVALSHA", "FCALL", "MULTI", "EXEC"):
        return True
    if (name.upper(), *(word.upper() for word in rest[:1])) == ("SCRIPT", "LOAD"):
        return False
    [info] = yard.command("COMMAND", "INFO", name)
    return info is not None and b"write" in info[2]


def test_every_verb_that_changes_data_has_example_arguments() -> None:
    assert set(WRITES) == set(write_verbs())


@pytest.mark.parametrize("verb", write_verbs())
def test_no_write_reaches_the_server(
    cli: InProcessCli, dead_letter_seeder: DeadLetterSeeder, server: Server, verb: str
) -> None:
    words = _arguments(cli, dead_letter_seeder, verb)
    before = {
        key: dead_letter_seeder.command("DUMP", key)
        for key in sorted(dead_letter_seeder.command("KEYS", f"{{chasqui:{dead_letter_seeder.queue}*"))
    }
    written = len(cli.operations())
    for how in (("--read-only",), ()):
        if not how:
            cli.set(CHASQUI_READONLY="1")
        with overheard(server) as commands:
            ended = cli(*verb.split(), *words, "--yes", *how)
        assert ended.code == 5, (ended, commands)
        assert "read-only" in ended.err
        assert not [line for line in commands if _is_write(dead_letter_seeder, line)]
    after = {
        key: dead_letter_seeder.command("DUMP", key)
        for key in sorted(dead_letter_seeder.command("KEYS", f"{{chasqui:{dead_letter_seeder.queue}*"))
    }
    assert after == before
    assert len(cli.operations()) == written, "nothing was changed, so nothing is written down"


@pytest.mark.parametrize("verb", write_verbs())
def test_a_dry_run_works_on_a_read_only_connection_and_prints_what_it_would_do(
    cli: InProcessCli, dead_letter_seeder: DeadLetterSeeder, server: Server, verb: str
) -> None:
    words = _arguments(cli, dead_letter_seeder, verb)
    written = len(cli.operations())
    with overheard(server) as commands:
        people = cli(*verb.split(), *words, "--dry-run", "--read-only")
        programs = cli(*verb.split(), *words, "--dry-run", "--read-only", "-o", "jsonl")
    assert people.code == 0, people
    assert "would " in people.err, people
    assert "nothing was changed" in people.err, people
    assert programs.lines, "a dry run tells what it is about"
    outcomes = [one["outcome"] for one in programs.lines if one.get("outcome") not in LEFT_ALONE]
    assert all(one.startswith("would ") for one in outcomes), programs.lines
    assert ("would" in people.out) == bool(outcomes), people
    assert not [line for line in commands if _is_write(dead_letter_seeder, line)]
    assert len(cli.operations()) == written


@pytest.mark.parametrize("verb", write_verbs())
def test_a_protected_context_wants_the_queues_name_and_the_journal_has_the_verb_and_the_note(
    cli: InProcessCli, dead_letter_seeder: DeadLetterSeeder, server: Server, verb: str
) -> None:
    words = _arguments(cli, dead_letter_seeder, verb)
    written = cli.operations()
    place = cli.home / ".config/chasqui/config.toml"
    place.parent.mkdir(parents=True)
    place.write_text(f'[contexts.prod]\nurl = "{cli.url}"\nprotected = true\n')
    place.chmod(0o600)
    cli.url = ""
    before = _data(dead_letter_seeder)
    refused = cli(*verb.split(), *words, "--context", "prod", "--yes")
    assert refused.code == 5, refused
    assert "this context is protected" in refused.err
    assert _data(dead_letter_seeder) == before
    assert cli.operations() == written
    name = re.findall(r"add --confirm (.+)", refused.err)[0]
    done = cli(*verb.split(), *words, "--context", "prod", "--confirm", name, "--note", "asked for")
    assert done.code in (0, 3), done
    newest = cli("log", "-o", "jsonl").lines[0]
    assert (newest["verb"], newest["note"], newest["context"]) == (verb, "asked for", "prod")
    assert (newest["kept"] > 0) == COMMANDS[verb].undoable, newest


def _data(yard: DeadLetterSeeder) -> dict[bytes, bytes]:
    """Every key that has the queue's name in its own, as bytes."""
    return {key: yard.command("DUMP", key) for key in yard.command("KEYS", f"*{yard.queue}*")}


def test_monitoring_sees_writes(cli: InProcessCli, dead_letter_seeder: DeadLetterSeeder, server: Server) -> None:
    seed_every_kind(dead_letter_seeder)
    with overheard(server) as commands:
        assert cli("dlq", "purge", dead_letter_seeder.queue, "--yes").code == 0
    assert any(_is_write(dead_letter_seeder, line) for line in commands)


def _arguments(inside: InProcessCli, yard: DeadLetterSeeder, verb: str) -> list[str]:
    """The verb's words, with something of every kind there to be changed."""
    seed_every_kind(yard)
    found = {"queue": yard.queue, "op": "", "delayed": "later", "spec": "tick"}
    file = inside.home / "letters.jsonl"
    file.write_text(inside("dlq", "export", yard.queue, "--show-secrets").out)
    found["file"] = str(file)
    with SyncQueue(yard.queue, redis_url=inside.url) as queue:
        queue.add("job", {"n": 1})
        queue.add("job", {"n": 2}, job_id="later", delay_ms=3_600_000)
        found["spec"] = queue.add("job", {"n": 3}, repeat=RepeatPattern.every(60_000)).id
    yard.command("XGROUP", "CREATE", yard.keys.stream, "default", "0")
    yard.command("XGROUP", "CREATECONSUMER", yard.keys.stream, "default", "idle")
    yard.command("XREADGROUP", "GROUP", "default", "holds-one", "COUNT", 1, "STREAMS", yard.keys.stream, ">")
    yard.command("ZADD", yard.keys.delayed, 1, b"\x03\x00\x00\x00job\x94\xa3due\xc4\x01\x01\x00\x00")
    yard.command("ZADD", yard.keys.repeat, 1, found["spec"])
    scene = ForeignQueues(yard.link, yard.queue)
    seed_foreign(scene)
    rows = inside.home / "rows.jsonl"
    rows.write_text('{"body": "new"}\n')
    found["rows"] = str(rows)
    inside("dlq", "purge", yard.queue, "late", "--yes")
    [found["op"]] = inside.operations()
    return [word.format(**found) for word in WRITES[verb]]
