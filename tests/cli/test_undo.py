"""`chasqui log` and `chasqui undo`: what was changed, and each item of it put back once, also after a kill."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from chasqui.wire.keys import Keys
from chasqui_cli.commands import undo as undoing
from chasqui_cli.commands.log import OPERATION
from chasqui_cli.commands.undo import UNDONE
from tests.cli.seed_dead import Yard, letter, seed
from tests.cli.shell import assert_complains
from tests.cli.yard import Inside
from tests.cli.yard import inside as inside
from tests.cli.yard import yard as yard
from tests.servers import Server

one_server = pytest.mark.parametrize("server", ["valkey-9.1"], indirect=True)


def journal(inside: Inside) -> Path:
    return inside.home / ".local/state/chasqui/journal"


def contents(yard: Yard) -> list[list[bytes]]:
    """The letters, whichever ids they have."""
    return sorted(fields for _, fields in yard.dead())


def test_a_purge_is_undone_once(inside: Inside, yard: Yard) -> None:
    seed(yard)
    before = contents(yard)
    inside("dlq", "purge", yard.queue, "--yes", "--note", "tidying up")
    assert yard.dead() == []
    [op] = inside.operations()
    ended = inside("undo", op, "--yes", "-o", "json")
    assert ended.code == 0, ended.err
    assert all(list(one) == list(UNDONE) for one in ended.json)
    assert {one["outcome"] for one in ended.json} == {"restored"}
    assert contents(yard) == before
    assert_complains(inside("undo", op, "--yes"), 5, "was undone already", f"chasqui log {op}")
    assert contents(yard) == before
    [told, made] = inside("log", "-o", "json").json
    assert all(list(one) == [name for name in OPERATION if name != "items"] for one in (told, made))
    assert (made["verb"], made["note"], made["kept"], made["undone"]) == ("dlq purge", "tidying up", 6, True)
    assert (told["verb"], told["result"]["undoes"], told["result"]["restored"]) == ("undo", op, 6)


def test_a_replay_is_undone_as_far_as_nobody_has_read_the_jobs(inside: Inside, yard: Yard) -> None:
    seed(yard)
    before = contents(yard)
    yard.say("XGROUP", "CREATE", yard.keys.stream, "default", "0", "MKSTREAM")
    inside("dlq", "replay", yard.queue, "--yes")
    read = yard.say("XREADGROUP", "GROUP", "default", "ada", "COUNT", 2, "STREAMS", yard.keys.stream, ">")
    assert read
    [first, _] = yard.say("XPENDING", yard.keys.stream, "default", "-", "+", 10)
    yard.say("XACK", yard.keys.stream, "default", first[0])
    yard.say("XDEL", yard.keys.stream, first[0])
    [op] = inside.operations()
    ended = inside("undo", op, "--yes", "-o", "json")
    assert ended.code == 3
    assert [one["outcome"] for one in ended.json] == ["gone", "started", "restored", "restored", "restored"]
    assert yard.job_ids() == ["untold"]
    assert len(contents(yard)) == len(before) - 2
    assert all(fields in before for fields in contents(yard))


def test_an_edit_is_undone_whether_it_was_replayed_or_not(inside: Inside, yard: Yard) -> None:
    seed(yard)
    before = contents(yard)
    inside("dlq", "edit", yard.queue, "told", "--set", "n=9", "--yes")
    inside("dlq", "edit", yard.queue, "late", "--set", "[0]=9", "--no-replay", "--yes")
    for op in inside.operations():
        assert inside("undo", op, "--yes").code == 0
    assert contents(yard) == before
    assert yard.jobs() == []


def test_an_edited_letter_that_went_on_is_not_doubled_by_an_undo(inside: Inside, yard: Yard) -> None:
    seed(yard)
    inside("dlq", "edit", yard.queue, "told", "--set", "n=9", "--no-replay", "--yes")
    [op] = inside.operations()
    inside("dlq", "replay", yard.queue, "told", "--yes")
    ended = inside("undo", op, "--yes", "-o", "json")
    assert (ended.code, [one["outcome"] for one in ended.json]) == (3, ["gone"])
    assert "told" in yard.job_ids()
    assert not inside("log", op, "-o", "json").json["undone"]


def test_an_import_is_undone_and_can_then_be_made_again(inside: Inside, yard: Yard, queue: str) -> None:
    seed(yard)
    text = inside("dlq", "export", yard.queue, "--show-secrets").out
    copy = Yard(yard.link, Keys(f"{queue}-copy"))
    inside("dlq", "import", copy.queue, "-", "--yes", stdin=text)
    assert contents(copy) == contents(yard)
    [op] = inside.operations()
    ended = inside("undo", op, "--yes", "-o", "json")
    assert (ended.code, {one["outcome"] for one in ended.json}) == (0, {"removed"})
    assert copy.dead() == []
    inside("dlq", "import", copy.queue, "-", "--yes", stdin=text)
    assert contents(copy) == contents(yard)


@pytest.mark.parametrize("killed_after", [0, 1, 3, 6])
@one_server
def test_an_undo_that_is_cut_off_can_be_repeated(inside: Inside, yard: Yard, killed_after: int) -> None:
    seed(yard)
    before = contents(yard)
    inside("dlq", "purge", yard.queue, "--yes")
    [op] = inside.operations()
    items = [line["item"] for line in _lines(journal(inside) / f"{op}.jsonl") if "item" in line]
    from chasqui import Commands, restoring

    commands = Commands(yard.link.features())
    yard.link.run(restoring.put_back(commands, yard.keys, op, items[:killed_after]))
    ended = inside("undo", op, "--yes", "-o", "json")
    assert ended.code == 0
    assert [one["outcome"] for one in ended.json] == ["already"] * killed_after + ["restored"] * (
        6 - killed_after
    )
    assert contents(yard) == before


@pytest.mark.parametrize("verb", ["purge", "replay", "edit"])
def test_an_operation_cut_off_before_it_learned_anything_is_undone_by_what_is_found(
    inside: Inside, yard: Yard, verb: str
) -> None:
    yard.bury_many(letter(f"job-{number}", {"n": number}) for number in range(5))
    before = contents(yard)
    words = ("job-3", "--set", "n=9", "--no-replay") if verb == "edit" else ()
    inside("dlq", verb, yard.queue, *words, "--yes")
    [op] = inside.operations()
    file = journal(inside) / f"{op}.jsonl"
    kept = [
        line
        for line in file.read_text().splitlines(True)
        if '"learned"' not in line and '"result"' not in line
    ]
    file.write_text("".join(kept))
    assert inside("log", op, "-o", "json").json["result"] is None
    ended = inside("undo", op, "--yes", "-o", "json")
    assert ended.code == 0, ended.out
    assert {one["outcome"] for one in ended.json} == {"restored"}
    assert contents(yard) == before
    assert yard.jobs() == []


def test_letters_that_others_took_first_are_not_brought_back(
    inside: Inside, yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody replays a letter between the journal and the purge: it was not ours to delete, nor to restore."""
    from chasqui import dlq

    ids = yard.bury_many(letter(f"job-{number}") for number in range(3))
    delete = dlq.delete

    def late(commands: Any, keys: Any, dead_ids: Any) -> Any:
        yard.say("XDEL", keys.dlq, ids[1])
        return delete(commands, keys, dead_ids)

    monkeypatch.setattr(dlq, "delete", late)
    ended = inside("dlq", "purge", yard.queue, "--yes", "-o", "json")
    assert [one["outcome"] for one in ended.json] == ["purged", "gone", "purged"]
    assert ended.code == 3
    [op] = inside.operations()
    undone = inside("undo", op, "--yes", "-o", "json")
    assert [one["outcome"] for one in undone.json] == ["restored", "untouched", "restored"]
    assert undone.code == 0
    assert len(yard.dead()) == 2


@one_server
def test_a_dry_run_changes_nothing_and_says_what_it_would(inside: Inside, yard: Yard) -> None:
    seed(yard)
    inside("dlq", "purge", yard.queue, "--yes")
    [op] = inside.operations()
    ended = inside("undo", op, "--dry-run", "-o", "json")
    assert (ended.code, {one["outcome"] for one in ended.json}) == (0, {"would undo"})
    assert yard.dead() == []
    assert inside.operations() == [op]
    assert inside("undo", op).code == 5
    assert inside("undo", op, "--yes", "--read-only").code == 5
    assert yard.dead() == []


@one_server
def test_an_operation_is_undone_on_its_own_server(inside: Inside, yard: Yard, server: Server) -> None:
    seed(yard)
    inside("context", "set", "here", f"url={server.url}")
    inside("dlq", "purge", yard.queue, "--yes", "--context", "here")
    [op] = inside.operations()
    elsewhere = ("-u", "redis://127.0.0.1:1")
    assert_complains(inside("undo", op, "--yes", *elsewhere), 5, server.url, "--here")
    inside.set(CHASQUI_REDIS_URL="redis://127.0.0.1:1")
    assert inside("undo", op, "--yes").code == 0
    assert len(yard.dead()) == 6


@one_server
def test_the_log_is_listed_newest_first_and_chosen_from(inside: Inside, yard: Yard) -> None:
    seed(yard)
    inside("dlq", "replay", yard.queue, "told", "--yes")
    inside("dlq", "purge", yard.queue, "late", "--yes")
    times = [one["at_ms"] for one in inside("log", "-o", "json").json]
    assert times == sorted(times, reverse=True)
    assert [one["verb"] for one in inside("log", "--verb", "dlq replay", "-o", "jsonl").lines] == [
        "dlq replay"
    ]
    assert inside("log", "--queue", "another", "-o", "json").json == []
    assert len(inside("log", "--since", "1h", "-o", "json").json) == 2
    assert inside("log", "--since", "2999-01-01", "-o", "json").json == []
    assert "1 older operations are not shown" in inside("log", "--limit", "1").err
    op = inside("log", "--verb", "dlq purge", "-o", "name").out.strip()
    others = [one for one in inside.operations() if one != op]
    short = next(op[:n] for n in range(1, len(op) + 1) if not any(one.startswith(op[:n]) for one in others))
    [item] = inside("log", short, "-o", "json").json["items"]
    assert item["kind"] == "dead"
    table = inside("log", op)
    assert "dlq purge" in table.out
    assert_complains(inside("log", "1999"), 4, "chasqui log")
    assert_complains(inside("undo", "2", "--yes"), 4, "several operations")


@one_server
def test_an_item_of_a_kind_nobody_knows_is_told(inside: Inside, yard: Yard) -> None:
    seed(yard)
    inside("dlq", "purge", yard.queue, "late", "--yes")
    [op] = inside.operations()
    file = journal(inside) / f"{op}.jsonl"
    file.write_text(file.read_text().replace('"kind": "dead"', '"kind": "of tomorrow"'))
    ended = inside("undo", op, "--yes", "-o", "json")
    assert (ended.code, [one["outcome"] for one in ended.json]) == (3, ["unknown kind"])


def test_every_kind_of_this_house_has_a_flow() -> None:
    for kind in undoing.FLOWS:
        assert undoing._flow(kind) is not None, kind
    assert undoing._flow("of tomorrow") is None


@one_server
def test_the_journal_is_private(inside: Inside, yard: Yard) -> None:
    seed(yard)
    inside("dlq", "purge", yard.queue, "--yes")
    [file] = journal(inside).glob("*.jsonl")
    assert file.stat().st_mode & 0o777 == 0o600
    assert journal(inside).stat().st_mode & 0o777 == 0o700


def _lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]
