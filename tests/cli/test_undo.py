"""`chasqui log` and `chasqui undo`: what was changed, and each item of it put back once, also after a kill."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from chasqui.wire.keys import Keys
from chasqui_cli.commands import undo as undoing
from chasqui_cli.commands.log import OPERATION_SCHEMA
from chasqui_cli.commands.undo import UNDO_SCHEMA
from tests.support.cli.in_process import InProcessCli
from tests.support.cli.subprocess_cli import assert_error
from tests.support.seeds.dead_letters import DeadLetterSeeder, dead_letter_fields, seed_every_kind
from tests.support.servers.server import Server

one_server = pytest.mark.parametrize("server", ["valkey-9.1"], indirect=True)


def journal(inside: InProcessCli) -> Path:
    return inside.home / ".local/state/chasqui/journal"


def contents(yard: DeadLetterSeeder) -> list[list[bytes]]:
    """The dead letters, whichever ids they have."""
    return sorted(fields for _, fields in yard.dead_letters())


def test_a_purge_is_undone_once(cli: InProcessCli, dead_letter_seeder: DeadLetterSeeder) -> None:
    seed_every_kind(dead_letter_seeder)
    before = contents(dead_letter_seeder)
    cli("dlq", "purge", dead_letter_seeder.queue, "--yes", "--note", "tidying up")
    assert dead_letter_seeder.dead_letters() == []
    [op] = cli.operations()
    ended = cli("undo", op, "--yes", "-o", "json")
    assert ended.code == 0, ended.err
    assert all(list(one) == list(UNDO_SCHEMA) for one in ended.json)
    assert {one["outcome"] for one in ended.json} == {"restored"}
    assert contents(dead_letter_seeder) == before
    assert_error(cli("undo", op, "--yes"), 5, "was undone already", f"chasqui log {op}")
    assert contents(dead_letter_seeder) == before
    [undone, made] = cli("log", "-o", "json").json
    assert all(list(one) == [name for name in OPERATION_SCHEMA if name != "items"] for one in (undone, made))
    assert (made["verb"], made["note"], made["kept"], made["undone"]) == ("dlq purge", "tidying up", 6, True)
    assert (undone["verb"], undone["result"]["undoes"], undone["result"]["restored"]) == ("undo", op, 6)


def test_a_replay_is_undone_as_far_as_no_worker_has_read_the_jobs(
    cli: InProcessCli, dead_letter_seeder: DeadLetterSeeder
) -> None:
    seed_every_kind(dead_letter_seeder)
    before = contents(dead_letter_seeder)
    dead_letter_seeder.command("XGROUP", "CREATE", dead_letter_seeder.keys.stream, "default", "0", "MKSTREAM")
    cli("dlq", "replay", dead_letter_seeder.queue, "--yes")
    read = dead_letter_seeder.command(
        "XREADGROUP", "GROUP", "default", "ada", "COUNT", 2, "STREAMS", dead_letter_seeder.keys.stream, ">"
    )
    assert read
    [first, _] = dead_letter_seeder.command("XPENDING", dead_letter_seeder.keys.stream, "default", "-", "+", 10)
    dead_letter_seeder.command("XACK", dead_letter_seeder.keys.stream, "default", first[0])
    dead_letter_seeder.command("XDEL", dead_letter_seeder.keys.stream, first[0])
    [op] = cli.operations()
    ended = cli("undo", op, "--yes", "-o", "json")
    assert ended.code == 3
    assert [one["outcome"] for one in ended.json] == ["gone", "started", "restored", "restored", "restored"]
    assert dead_letter_seeder.job_ids() == ["untold"]
    assert len(contents(dead_letter_seeder)) == len(before) - 2
    assert all(fields in before for fields in contents(dead_letter_seeder))


def test_an_edit_is_undone_whether_it_was_replayed_or_not(
    cli: InProcessCli, dead_letter_seeder: DeadLetterSeeder
) -> None:
    seed_every_kind(dead_letter_seeder)
    before = contents(dead_letter_seeder)
    cli("dlq", "edit", dead_letter_seeder.queue, "told", "--set", "n=9", "--yes")
    cli("dlq", "edit", dead_letter_seeder.queue, "late", "--set", "[0]=9", "--no-replay", "--yes")
    for op in cli.operations():
        assert cli("undo", op, "--yes").code == 0
    assert contents(dead_letter_seeder) == before
    assert dead_letter_seeder.jobs() == []


def test_an_edited_letter_that_went_on_is_not_doubled_by_an_undo(
    cli: InProcessCli, dead_letter_seeder: DeadLetterSeeder
) -> None:
    seed_every_kind(dead_letter_seeder)
    cli("dlq", "edit", dead_letter_seeder.queue, "told", "--set", "n=9", "--no-replay", "--yes")
    [op] = cli.operations()
    cli("dlq", "replay", dead_letter_seeder.queue, "told", "--yes")
    ended = cli("undo", op, "--yes", "-o", "json")
    assert (ended.code, [one["outcome"] for one in ended.json]) == (3, ["gone"])
    assert "told" in dead_letter_seeder.job_ids()
    assert not cli("log", op, "-o", "json").json["undone"]


def test_an_import_is_undone_and_can_then_be_made_again(
    cli: InProcessCli, dead_letter_seeder: DeadLetterSeeder, queue: str
) -> None:
    seed_every_kind(dead_letter_seeder)
    text = cli("dlq", "export", dead_letter_seeder.queue, "--show-secrets").out
    copy = DeadLetterSeeder(dead_letter_seeder.link, Keys(f"{queue}-copy"))
    cli("dlq", "import", copy.queue, "-", "--yes", stdin=text)
    assert contents(copy) == contents(dead_letter_seeder)
    [op] = cli.operations()
    ended = cli("undo", op, "--yes", "-o", "json")
    assert (ended.code, {one["outcome"] for one in ended.json}) == (0, {"removed"})
    assert copy.dead_letters() == []
    cli("dlq", "import", copy.queue, "-", "--yes", stdin=text)
    assert contents(copy) == contents(dead_letter_seeder)


@pytest.mark.parametrize("killed_after", [0, 1, 3, 6])
@one_server
def test_an_undo_that_is_cut_off_can_be_repeated(
    cli: InProcessCli, dead_letter_seeder: DeadLetterSeeder, killed_after: int
) -> None:
    seed_every_kind(dead_letter_seeder)
    before = contents(dead_letter_seeder)
    cli("dlq", "purge", dead_letter_seeder.queue, "--yes")
    [op] = cli.operations()
    items = [line["item"] for line in _lines(journal(cli) / f"{op}.jsonl") if "item" in line]
    from chasqui import Commands
    from chasqui.undo import deleted_dead_letters

    commands = Commands(dead_letter_seeder.link.features())
    dead_letter_seeder.link.run(
        deleted_dead_letters.revert(commands, dead_letter_seeder.keys, op, items[:killed_after])
    )
    ended = cli("undo", op, "--yes", "-o", "json")
    assert ended.code == 0
    assert [one["outcome"] for one in ended.json] == ["already"] * killed_after + ["restored"] * (6 - killed_after)
    assert contents(dead_letter_seeder) == before


@pytest.mark.parametrize("verb", ["purge", "replay", "edit"])
def test_an_operation_cut_off_before_it_learned_anything_is_undone_by_what_is_found(
    cli: InProcessCli, dead_letter_seeder: DeadLetterSeeder, verb: str
) -> None:
    dead_letter_seeder.add_dead_letters(dead_letter_fields(f"job-{number}", {"n": number}) for number in range(5))
    before = contents(dead_letter_seeder)
    words = ("job-3", "--set", "n=9", "--no-replay") if verb == "edit" else ()
    cli("dlq", verb, dead_letter_seeder.queue, *words, "--yes")
    [op] = cli.operations()
    file = journal(cli) / f"{op}.jsonl"
    lines = [line for line in file.read_text().splitlines(True) if '"learned"' not in line and '"result"' not in line]
    file.write_text("".join(lines))
    assert cli("log", op, "-o", "json").json["result"] is None
    ended = cli("undo", op, "--yes", "-o", "json")
    assert ended.code == 0, ended.out
    assert {one["outcome"] for one in ended.json} == {"restored"}
    assert contents(dead_letter_seeder) == before
    assert dead_letter_seeder.jobs() == []


def test_letters_that_others_took_first_are_not_brought_back(
    cli: InProcessCli, dead_letter_seeder: DeadLetterSeeder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process replays a dead letter between journal and purge: it was not ours to delete, nor to restore."""
    from chasqui.operate import dead_letters

    ids = dead_letter_seeder.add_dead_letters(dead_letter_fields(f"job-{number}") for number in range(3))
    delete = dead_letters.delete_dead_letters

    def late(commands: Any, keys: Any, dead_ids: Any) -> Any:
        dead_letter_seeder.command("XDEL", keys.dlq, ids[1])
        return delete(commands, keys, dead_ids)

    monkeypatch.setattr(dead_letters, "delete_dead_letters", late)
    ended = cli("dlq", "purge", dead_letter_seeder.queue, "--yes", "-o", "json")
    assert [one["outcome"] for one in ended.json] == ["purged", "gone", "purged"]
    assert ended.code == 3
    [op] = cli.operations()
    undone = cli("undo", op, "--yes", "-o", "json")
    assert [one["outcome"] for one in undone.json] == ["restored", "untouched", "restored"]
    assert undone.code == 0
    assert len(dead_letter_seeder.dead_letters()) == 2


@one_server
def test_a_dry_run_changes_nothing_and_prints_what_it_would_do(
    cli: InProcessCli, dead_letter_seeder: DeadLetterSeeder
) -> None:
    seed_every_kind(dead_letter_seeder)
    cli("dlq", "purge", dead_letter_seeder.queue, "--yes")
    [op] = cli.operations()
    ended = cli("undo", op, "--dry-run", "-o", "json")
    assert (ended.code, {one["outcome"] for one in ended.json}) == (0, {"would undo"})
    assert dead_letter_seeder.dead_letters() == []
    assert cli.operations() == [op]
    assert cli("undo", op).code == 5
    assert cli("undo", op, "--yes", "--read-only").code == 5
    assert dead_letter_seeder.dead_letters() == []


@one_server
def test_an_operation_is_undone_on_its_own_server(
    cli: InProcessCli, dead_letter_seeder: DeadLetterSeeder, server: Server
) -> None:
    seed_every_kind(dead_letter_seeder)
    cli("context", "set", "here", f"url={server.url}")
    cli("dlq", "purge", dead_letter_seeder.queue, "--yes", "--context", "here")
    [op] = cli.operations()
    elsewhere = ("-u", "redis://127.0.0.1:1")
    assert_error(cli("undo", op, "--yes", *elsewhere), 5, server.url, "--here")
    cli.url = "redis://127.0.0.1:1"
    assert cli("undo", op, "--yes").code == 0
    assert len(dead_letter_seeder.dead_letters()) == 6


@one_server
def test_the_log_is_listed_newest_first_and_chosen_from(
    cli: InProcessCli, dead_letter_seeder: DeadLetterSeeder
) -> None:
    seed_every_kind(dead_letter_seeder)
    cli("dlq", "replay", dead_letter_seeder.queue, "told", "--yes")
    cli("dlq", "purge", dead_letter_seeder.queue, "late", "--yes")
    times = [one["at_ms"] for one in cli("log", "-o", "json").json]
    assert times == sorted(times, reverse=True)
    assert [one["verb"] for one in cli("log", "--verb", "dlq replay", "-o", "jsonl").lines] == ["dlq replay"]
    assert cli("log", "--queue", "another", "-o", "json").json == []
    assert len(cli("log", "--since", "1h", "-o", "json").json) == 2
    assert cli("log", "--since", "2999-01-01", "-o", "json").json == []
    assert "1 older operations are not shown" in cli("log", "--limit", "1").err
    op = cli("log", "--verb", "dlq purge", "-o", "name").out.strip()
    others = [one for one in cli.operations() if one != op]
    short = next(op[:n] for n in range(1, len(op) + 1) if not any(one.startswith(op[:n]) for one in others))
    [item] = cli("log", short, "-o", "json").json["items"]
    assert item["kind"] == "dead"
    table = cli("log", op)
    assert "dlq purge" in table.out
    assert_error(cli("log", "1999"), 4, "chasqui log")
    assert_error(cli("undo", "2", "--yes"), 4, "several operations")


@one_server
def test_an_item_of_an_unknown_kind_is_reported(cli: InProcessCli, dead_letter_seeder: DeadLetterSeeder) -> None:
    seed_every_kind(dead_letter_seeder)
    cli("dlq", "purge", dead_letter_seeder.queue, "late", "--yes")
    [op] = cli.operations()
    file = journal(cli) / f"{op}.jsonl"
    file.write_text(file.read_text().replace('"kind": "dead"', '"kind": "of tomorrow"'))
    ended = cli("undo", op, "--yes", "-o", "json")
    assert (ended.code, [one["outcome"] for one in ended.json]) == (3, ["unknown kind"])


def test_every_kind_of_this_house_has_a_flow() -> None:
    kinds = {"added", "dead", "delayed", "imported", "joblist", "replayed", "rsmq", "spec"}
    assert undoing.revert_by_kind().keys() == kinds


@one_server
def test_the_journal_is_private(cli: InProcessCli, dead_letter_seeder: DeadLetterSeeder) -> None:
    seed_every_kind(dead_letter_seeder)
    cli("dlq", "purge", dead_letter_seeder.queue, "--yes")
    [file] = journal(cli).glob("*.jsonl")
    assert file.stat().st_mode & 0o777 == 0o600
    assert journal(cli).stat().st_mode & 0o777 == 0o700


def _lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


@one_server
def test_a_damaged_item_is_reported_and_the_others_are_restored(
    cli: InProcessCli, dead_letter_seeder: DeadLetterSeeder
) -> None:
    queue = dead_letter_seeder.queue
    for name in ("one", "two"):
        cli("repeatable", "upsert", queue, name, "--every", "60s", "--key", name, "--yes")
    cli("repeatable", "remove", queue, "one", "two", "--yes")
    op = cli.operations()[0]
    file = journal(cli) / f"{op}.jsonl"
    file.write_text(file.read_text().replace(f'"key": "{b"one".hex()}"', '"key": "zz"'))
    shown = cli("log", op)
    assert (shown.code, "two" in shown.out) == (0, True), shown
    ended = cli("undo", op, "--yes", "-o", "json")
    assert (ended.code, [one["outcome"] for one in ended.json]) == (3, ["unreadable", "restored"]), ended
    assert [one["key"] for one in cli("repeatable", "list", queue, "-o", "json").json] == ["two"]
