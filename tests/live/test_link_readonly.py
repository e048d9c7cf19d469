"""A read-only link lets no write out of the process: proven by the commands that the server received."""

from __future__ import annotations

import itertools
import socket
from typing import TYPE_CHECKING, Any

import pytest

from chasqui.errors import ChangeRefused, ServerError
from chasqui.server import readonly, scripts
from chasqui.server.flow import Call
from chasqui.server.link import Link
from tests.support.faults.proxy import proxy_to
from tests.support.links import Opener, both_links, command, command_batch

if TYPE_CHECKING:
    from chasqui.server.flow import Flow, Reply
    from tests.support.servers.server import Server

WRITES: list[tuple[Any, ...]] = [
    ("XADD", "k", "*", "d", "v"),
    ("xadd", "k", "*", "d", "v"),
    (b"XAdd", "k", "*", "d", "v"),
    ("XREADGROUP", "GROUP", "g", "c", "STREAMS", "k", ">"),
    ("XAUTOCLAIM", "k", "g", "c", 0, "0"),
    ("XCLAIM", "k", "g", "c", 0, "0-1"),
    ("XACK", "k", "g", "0-1"),
    ("XACKDEL", "k", "g", "IDS", 1, "0-1"),
    ("XGROUP", "CREATE", "k", "g", "0", "MKSTREAM"),
    ("GETEX", "k", "PERSIST"),
    ("GETDEL", "k"),
    ("GETSET", "k", "v"),
    ("SORT", "k"),
    ("SORT", "k", "STORE", "l"),
    ("BITFIELD", "k", "GET", "u8", 0),
    ("GEORADIUS", "k", 0, 0, 1, "m"),
    ("SPOP", "k"),
    ("ZPOPMIN", "k"),
    ("DEL", "k"),
    ("EXPIRE", "k", 1),
    ("MULTI",),
    ("EXEC",),
    ("EVAL", "return 1", 0),
    ("EVALSHA", "0" * 40, 0),
    ("FCALL", "f", 0),
    ("SCRIPT", "LOAD", "return redis.call('SET', KEYS[1], 1)"),
    ("SCRIPT", "FLUSH"),
    ("script", b"flush"),
    ("FUNCTION", "LOAD", "x"),
    ("CONFIG", "SET", "maxmemory", 1),
    ("CONFIG", "RESETSTAT"),
    ("CONFIG SET", "maxmemory", 1),
    ("CLIENT", "KILL", "ID", 1),
    ("CLIENT", "PAUSE", 1),
    ("CLIENT", "NO-EVICT", "on"),
    ("ACL", "SETUSER", "x"),
    ("CLUSTER", "RESET"),
    ("SLOWLOG", "RESET"),
    ("LATENCY", "RESET"),
    ("MEMORY", "PURGE"),
    ("MONITOR",),
    ("SUBSCRIBE", "c"),
    ("PUBLISH", "c", "m"),
    ("SELECT", 1),
    ("AUTH", "x"),
    ("FLUSHALL",),
    ("SHUTDOWN",),
    ("DEBUG", "SLEEP", 0),
    ("COPY", "k", "l"),
    ("RESTORE", "k", 0, "x"),
    ("PFCOUNT", "k"),
    ("WAIT", 0, 0),
]


@both_links
@pytest.mark.parametrize("words", WRITES, ids=lambda words: "-".join(map(str, words[:2])))
async def test_a_write_is_refused_and_not_one_byte_of_its_batch_leaves(
    any_server: Server, open_link: Opener, words: tuple[Any, ...]
) -> None:
    with proxy_to(any_server.socket) as proxy:
        async with open_link(proxy.url, read_only=True) as link:
            await link.run(command("PING"))
            sent = bytes(proxy.requests)
            with pytest.raises(ChangeRefused, match="read-only"):
                await link.run(command_batch(Call(("GET", "k")), Call(words), Call(("GET", "k"))))
            assert bytes(proxy.requests) == sent
            assert await link.run(command("PING")) == b"PONG"


def test_no_command_that_any_server_calls_a_write_is_let_through(server: Server) -> None:
    """The server's own table is the judge, subcommands included."""
    with Link.open(server.url) as link:
        table = list(_flattened(link.run(command("COMMAND"))))
    writes = [name for name, flags in table if {b"write", b"may_replicate"} & set(flags)]
    assert len(table) > 300
    assert len(writes) > 100
    let_through = [name for name in writes if readonly.is_read_only(Call((*name.split("|"), "x", "y")))]
    assert let_through == []


def test_commands_for_administrators_are_let_through_only_to_look(server: Server) -> None:
    with Link.open(server.url) as link:
        table = list(_flattened(link.run(command("COMMAND"))))
    admin = [name for name, flags in table if {b"admin", b"noscript"} & set(flags)]
    passing = {name for name in admin if readonly.is_read_only(Call((*name.split("|"), "x", "y")))}
    assert passing <= {
        "acl|dryrun", "client|list", "config|get", "latency|latest", "latency|history", "latency|histogram",
        "slowlog|get", "slowlog|len", "role", "lastsave", "eval_ro", "evalsha_ro", "script|exists", "cluster|info",
        "acl|whoami", "acl|cat", "client|id", "client|info", "client|getname", "dbsize",
    }  # fmt: skip


def _flattened(table: list[Reply]) -> list[tuple[str, list[bytes]]]:
    """Name and flags of every command; a command with subcommands is named by them alone."""
    rows = []
    for row in table:
        subcommands = row[9] if len(row) > 9 else []
        rows += [(sub[0].decode(), sub[2]) for sub in subcommands] or [(row[0].decode(), row[2])]
    return rows


@both_links
async def test_the_server_never_receives_a_refused_write(any_server: Server, open_link: Opener, queue: str) -> None:
    with socket.socket(socket.AF_UNIX) as monitor:
        monitor.connect(str(any_server.socket))
        stream = monitor.makefile("rwb")
        stream.write(b"MONITOR\r\n")
        stream.flush()
        assert stream.readline() == b"+OK\r\n"
        async with open_link(any_server.url, read_only=True) as link:
            for words in WRITES:
                with pytest.raises(ChangeRefused):
                    await link.run(command_batch(Call(("ECHO", queue)), Call(words)))
            await link.features()
            await link.run(command("ECHO", queue))
        lines = list(itertools.takewhile(lambda line: queue.encode() not in line, stream))
        stream.close()
    names = [line.split(b'"')[1].upper() for line in lines]
    assert set(names) == {b"COMMAND", b"INFO"}


@both_links
async def test_reading_works(any_server: Server, open_link: Opener, queue: str) -> None:
    async with open_link(any_server.url, read_only=True) as link:
        calls = [
            Call(("GET", queue)),
            Call(("xread", "COUNT", 1, "STREAMS", queue, "0")),
            Call((b"config", "get", "maxmemory")),
            Call(("XINFO", "STREAM", queue), tolerant=True),
            Call(("SCRIPT", "EXISTS", "0" * 40)),
            Call(("OBJECT", "ENCODING", queue), tolerant=True),
            Call(("CLIENT", "GETNAME")),
            Call(("ACL", "WHOAMI")),
            Call(("TIME",)),
        ]
        replies = await link.run(command_batch(*calls))
        assert len(replies) == len(calls)
        assert replies[7] == b"default"


@pytest.fixture
def reader_script(monkeypatch: pytest.MonkeyPatch) -> Call:
    """A script that declares itself read-only; `lua/` need not hold one of these."""
    text = "#!lua flags=no-writes\n-- Count.\n-- KEYS: key\n-- ARGV:\n-- Returns: a number.\nreturn redis.call('STRLEN', KEYS[1])"
    return _known_as("only_reads", text, monkeypatch)


def _known_as(name: str, text: str, monkeypatch: pytest.MonkeyPatch) -> Call:
    spec, load = scripts.parse_header(name, text), scripts.load_script
    monkeypatch.setattr(scripts, "load_script", lambda asked: spec if asked == name else load(asked))
    return Call(("EVALSHA", spec.sha, 1, "k"), keys=("k",), script=name)


@both_links
async def test_a_script_that_reads_runs_as_one_that_cannot_write(
    server: Server, open_link: Opener, reader_script: Call
) -> None:
    async with open_link(server.url, read_only=True) as link:
        assert await link.run(command_batch(reader_script)) == [0]
        load = Call(("SCRIPT", "LOAD", scripts.script_text("only_reads")), script="only_reads")
        [sha] = await link.run(command_batch(load))
        assert sha.decode() == reader_script.args[1]
        with pytest.raises(ChangeRefused):
            await link.run(command_batch(Call(("SCRIPT", "LOAD", "return 1"), script="only_reads")))


@both_links
async def test_a_script_that_lies_about_reading_is_stopped_by_the_server(
    any_server: Server, open_link: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "#!lua flags=no-writes\n-- Lie.\n-- KEYS: key\n-- ARGV:\n-- Returns: nothing.\nreturn redis.call('SET', KEYS[1], 1)"
    liar = _known_as("liar", text, monkeypatch)

    def lie() -> Flow[list[Reply]]:
        return (yield [liar])

    async with open_link(any_server.url, read_only=True) as link:
        with pytest.raises(ServerError, match=r"[Ww]rite"):
            await link.run(lie())


@both_links
async def test_a_script_that_writes_is_refused(any_server: Server, open_link: Opener) -> None:
    async with open_link(any_server.url, read_only=True) as link:
        with pytest.raises(ChangeRefused, match="EVALSHA may change data"):
            await link.run(command_batch(scripts.script_call("acquire_lock", lock="k", holder="me", ttl_s=5)))
