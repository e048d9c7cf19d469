"""`chasqui dlq` on real servers: seen, grouped, replayed, edited, exported, imported, purged."""

from __future__ import annotations

import asyncio
import json
import re
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from chasqui.clock import SystemClock
from chasqui.errors import UnrecoverableError
from chasqui.wire import envelope, packed
from chasqui.wire.envelope import Envelope, Payload
from chasqui.worker import Worker
from chasqui_cli.commands.dlq.carrying import EXPORTED, IMPORTED
from chasqui_cli.commands.dlq.editing import EDITED
from chasqui_cli.commands.dlq.letters import LETTER, OUTCOME
from chasqui_cli.commands.dlq.looking import GROUP
from chasqui_cli.commands.dlq.replaying import REPLAYED
from tests.cli.hostile import STRINGS, is_harmless
from tests.cli.yard import Inside, on_a_terminal
from tests.cli.yard import inside as inside
from tests.cli.yard import yard as yard
from tests.cli.seed_dead import GARBAGE, RETRY, Yard, letter, seed
from tests.cli.shell import Shell, assert_complains
from tests.servers import Server

CLOCK = SystemClock()
PEEK_KEYS = (
    "dlq_id source_id reason detail error name id attempt created_at_ms data retry payload_bytes undecodable"
)


def one_server(function: Callable[..., Any]) -> Any:
    """For what does not depend on the kind of server."""
    return pytest.mark.parametrize("server", ["valkey-9.1"], indirect=True)(function)


# --- peek ---


def test_peek_shows_every_letter_newest_first_in_the_shape_scripts_rely_on(
    inside: Inside, yard: Yard
) -> None:
    ids = seed(yard)
    ended = inside("dlq", "peek", yard.queue, "-o", "jsonl")
    assert (ended.code, ended.err) == (0, "")
    lines = ended.lines
    assert [line["dlq_id"] for line in lines] == list(reversed(ids.values()))
    assert all(list(line) == PEEK_KEYS.split() == list(LETTER) for line in lines)
    assert inside("dlq", "peek", yard.queue, "-o", "json").json == lines
    found = {line["dlq_id"]: line for line in lines}
    told, untold = found[ids["told"]], found[ids["untold"]]
    assert (told["error"], told["detail"]) == ("timeout after 31 s", "timeout after 31 s")
    assert (untold["error"], untold["detail"]) == ("card 4711 declined", None)
    assert untold["data"] == {"to": "bob", "blob": {"$bin": "c0ff"}}
    assert untold["retry"]["max_attempts"] == RETRY.max_attempts
    assert (untold["attempt"], untold["created_at_ms"]) == (24, 1_700_000_000_000)


def test_what_cannot_be_decoded_is_shown_with_its_bytes_and_the_reason(inside: Inside, yard: Yard) -> None:
    ids = seed(yard)
    lines = inside("dlq", "peek", yard.queue, "-o", "json", "--where", "undecodable").json
    found = {line["dlq_id"]: line for line in lines}
    assert set(found) == {ids["garbage"], ids["inner"]}
    garbage, inner = found[ids["garbage"]], found[ids["inner"]]
    assert garbage["data"] == {"$bin": GARBAGE.hex()}
    assert garbage["undecodable"] == "not msgpack: byte 0xc1"
    assert (inner["id"], inner["data"]) == ("inner", {"$bin": "c1"})
    assert inner["undecodable"].startswith("payload: ")


def test_a_table_is_followed_by_the_reasons_and_json_is_not(inside: Inside, yard: Yard) -> None:
    seed(yard)
    table = inside("dlq", "peek", yard.queue, "--limit", "1")
    assert "reasons of 6 dead letters: retries_exhausted 4 · " in table.err
    assert table.out.splitlines()[0].split()[:4] == ["DLQ_ID", "DIED", "NAME", "ID"]
    assert len(table.out.splitlines()) == 2
    assert inside("dlq", "peek", yard.queue, "-o", "json").err == ""
    assert inside("dlq", "peek", yard.queue, "-q").err == ""


def test_secrets_are_covered_unless_asked_for(inside: Inside, yard: Yard) -> None:
    seed(yard)
    yard.bury("bearer", detail="401 for Authorization: Bearer abcdef123456")
    for output in ("table", "wide", "json", "jsonl", "yaml", "csv"):
        shown = inside("dlq", "peek", yard.queue, "-o", output).out
        assert "hunter2" not in shown
        assert "abcdef123456" not in shown
    whole = inside("dlq", "peek", yard.queue, "-o", "json", "--show-secrets").out
    assert "hunter2" in whole
    assert "abcdef123456" in whole


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--oldest", "--limit", "2"), ["told", "untold"]),
        (("--name", "ch*"), ["untold"]),
        (("--reason", "unrecoverable"), ["secret"]),
        (("--where", "data.to == 'bob'"), ["untold"]),
        (("--where", "data.password == 'hunter2'"), ["secret"]),
        (("--where", "attempt < `20`"), ["inner"]),
        (("--where", "error && contains(error, 'declined')"), ["untold"]),
        (("--where", "contains(to_string(@), 'declined')"), ["untold"]),
        (("--where", "data == `[1, 2, 3]`", "--reason", "retries_exhausted"), ["late"]),
        (("--since", "1h", "--until", "30m"), []),
        (("--until", "@1-0"), []),
        (("--scan", "2"), ["late", "inner"]),
    ],
)
@one_server
def test_filters_choose(inside: Inside, yard: Yard, words: tuple[str, ...], expected: list[str]) -> None:
    seed(yard)
    ended = inside("dlq", "peek", yard.queue, "-o", "json", *words)
    assert [line["id"] for line in ended.json] == expected
    assert ("looked at 2 dead letters and no further" in ended.err) is ("--scan" in words)


@one_server
def test_since_and_until_bound_by_the_time_of_death(inside: Inside, yard: Yard) -> None:
    ids = seed(yard)
    at = f"@{ids['garbage']}"
    since = {line["dlq_id"] for line in inside("dlq", "peek", yard.queue, "-o", "json", "--since", at).json}
    ms = int(ids["garbage"].split("-")[0])
    assert since == {one for one in ids.values() if int(one.split("-")[0]) >= ms}


@one_server
def test_a_queue_that_is_not_there_is_empty_and_that_is_said(inside: Inside, queue: str) -> None:
    assert inside("dlq", "peek", queue, "-o", "json").json == []
    ended = inside("dlq", "peek", queue)
    assert ended.code == 0
    assert "there is nothing of a queue named" in ended.err


@one_server
def test_a_wrong_expression_is_a_usage_error(inside: Inside, yard: Yard) -> None:
    assert_complains(inside("dlq", "peek", yard.queue, "--where", "data.to =="), 2, "--where")
    assert_complains(inside("dlq", "peek", yard.queue, "--since", "soon"), 2)


# --- groups ---


def test_groups_put_failures_of_one_cause_together(inside: Inside, yard: Yard) -> None:
    ids = seed(yard)
    groups = inside("dlq", "groups", yard.queue, "-o", "json").json
    assert all(list(group) == list(GROUP) for group in groups)
    assert groups[0] == {
        "count": 2,
        "name": "mail",
        "reason": "retries_exhausted",
        "error": "timeout after <n> s",
        "first_seen_ms": int(ids["told"].split("-")[0]),
        "last_seen_ms": int(ids["late"].split("-")[0]),
        "sample_dlq_id": ids["late"],
        "sample_id": "late",
    }
    assert sum(group["count"] for group in groups) == len(ids)
    assert "card <n> declined" in {group["error"] for group in groups}
    assert inside("dlq", "groups", yard.queue).err == "6 dead letters in 5 groups\n"


# --- replay ---


def test_a_dry_run_tells_the_same_ids_that_are_then_replayed_while_others_die(
    inside: Inside, yard: Yard
) -> None:
    ids = seed(yard)
    before = yard.dead()
    dry = inside("dlq", "replay", yard.queue, "--dry-run", "-o", "name")
    assert dry.code == 0
    assert yard.dead() == before
    assert yard.jobs() == []
    assert inside.operations() == []
    assert "dry run" in dry.err
    yard.bury("later")
    done = inside("dlq", "replay", yard.queue, "--yes", "--limit", "5", "-o", "json")
    assert done.code == 0
    assert all(list(one) == list(REPLAYED) for one in done.json)
    assert [one["dlq_id"] for one in done.json] == dry.out.split()
    assert yard.job_ids() == ["told", "untold", "secret", "inner", "late"]
    [garbage, _] = yard.dead_ids()
    assert garbage == ids["garbage"]


def test_a_replayed_job_starts_anew_and_is_otherwise_what_it_was(inside: Inside, yard: Yard) -> None:
    odd = Payload("inline", b"\x82\xa1a\xcf\x00\x00\x00\x00\x00\x00\x00\x05\x01\xc4\x01\xff")
    yard.bury("odd", d=envelope.encode(Envelope("odd", odd, 77, 9, RETRY), exact_payload=True))
    assert inside("dlq", "replay", yard.queue, "odd", "--yes").code == 0
    [job] = yard.jobs()
    assert (job.id, job.payload, job.created_at_ms, job.attempt, job.retry) == ("odd", odd, 77, 0, RETRY)


def test_undecodable_letters_are_reported_stay_and_use_up_no_limit(inside: Inside, yard: Yard) -> None:
    garbage = [yard.bury("", d=GARBAGE) for _ in range(5)]
    yard.bury("good")
    ended = inside("dlq", "replay", yard.queue, "--limit", "1", "--yes", "-o", "name")
    assert ended.code == 0
    assert yard.job_ids() == ["good"]
    assert yard.dead_ids() == garbage
    assert f"passed over 5 undecodable dead letters, which stay: {garbage[0]}" in ended.err


def test_ids_may_be_those_of_letters_or_of_jobs(inside: Inside, yard: Yard) -> None:
    ids = seed(yard)
    ended = inside(
        "dlq", "replay", yard.queue, ids["told"], "late", "nobody", ids["garbage"], "--yes", "-o", "json"
    )
    assert {one["dlq_id"]: one["outcome"] for one in ended.json} == {
        ids["told"]: "replayed",
        ids["late"]: "replayed",
        ids["garbage"]: "undecodable",
        "nobody": "not found",
    }
    assert ended.code == 3
    assert sorted(yard.job_ids()) == ["late", "told"]


@one_server
def test_an_id_that_is_not_there_is_not_found(inside: Inside, yard: Yard) -> None:
    seed(yard)
    assert_complains(inside("dlq", "replay", yard.queue, "nobody", "1-1", "--yes"), 4, "nobody")
    ended = inside("dlq", "replay", yard.queue, "told", "--reason", "x", "--yes")
    assert_complains(ended, 2, "ids or filters")


def test_a_replay_beyond_the_cap_is_refused_with_the_numbers(inside: Inside, yard: Yard) -> None:
    seed(yard)
    for number in range(7):
        yard.say("XADD", yard.keys.stream, "*", "d", str(number))
    before = yard.dead()
    for more in (("--yes",), ("--dry-run",)):
        ended = inside("dlq", "replay", yard.queue, "--cap", "11", *more)
        assert ended.code == 5
        assert "the stream holds 7 jobs; 5 more would exceed its cap of 11" in ended.err
        assert "--cap N" in ended.err
    assert yard.dead() == before
    assert inside("dlq", "replay", yard.queue, "--cap", "12", "--yes").code == 0


@one_server
def test_without_consent_nothing_happens(inside: Inside, yard: Yard) -> None:
    seed(yard)
    before = yard.dead()
    for words in (("replay",), ("purge",)):
        ended = inside("dlq", *words, yard.queue)
        assert (ended.code, ended.out) == (5, "")
        assert "add --yes" in ended.err
    assert inside("dlq", "replay", yard.queue, "--name", "nothing", "--yes").code == 0
    assert yard.dead() == before
    assert inside.operations() == []


@one_server
def test_a_rate_is_held(inside: Inside, yard: Yard) -> None:
    yard.bury_many(letter(f"job-{number}") for number in range(300))
    ended = inside("dlq", "replay", yard.queue, "--limit", "300", "--rps", "200", "--yes", "-q", "-o", "name")
    assert len(ended.out.split()) == 300
    rows = yard.say("XRANGE", yard.keys.stream, "-", "+")
    times = [int(row[0].split(b"-")[0]) for row in rows]
    took_s = (times[-1] - times[0]) / 1000
    assert 1.5 * 0.95 <= took_s <= 1.5 * 1.05


@contextmanager
def working(url: str, queue: str, handler: Callable[[Any], Any]) -> Iterator[None]:
    """A worker in a thread, for as long as the block lasts."""
    loop = asyncio.new_event_loop()
    worker = Worker(queue, handler, redis_url=url, concurrency=4, read_block_ms=100, max_attempts=3)
    thread = threading.Thread(target=lambda: loop.run_until_complete(worker.run()))
    thread.start()
    try:
        yield
    finally:
        asyncio.run_coroutine_threadsafe(worker.close(), loop)
        thread.join(20)
        loop.close()


def test_a_canary_that_completes_lets_the_others_follow(inside: Inside, yard: Yard) -> None:
    yard.bury_many(letter(f"job-{number}") for number in range(20))
    with working(inside.url, yard.queue, lambda job: None):
        ended = inside("dlq", "replay", yard.queue, "--canary", "3", "--yes", "-o", "json")
    assert ended.code == 0, ended.err
    assert [one["outcome"] for one in ended.json] == ["completed"] * 3 + ["replayed"] * 17
    assert yard.dead_ids() == []


def test_a_canary_that_fails_holds_the_others_back_and_tells_why(inside: Inside, yard: Yard) -> None:
    ids = yard.bury_many(letter(f"job-{number}") for number in range(20))

    def fail(job: Any) -> None:
        if job.id == "job-1":
            raise UnrecoverableError("still no such host")

    with working(inside.url, yard.queue, fail):
        ended = inside("dlq", "replay", yard.queue, "--canary", "3", "--yes", "-o", "json")
    assert ended.code == 3
    assert "error: canary job job-1: still no such host" in ended.err
    outcomes = [one["outcome"] for one in ended.json]
    assert outcomes[1] == "failed"
    assert outcomes[3:] == ["held back"] * 17
    assert yard.dead_ids()[:17] == ids[3:]
    [op] = inside.operations()
    assert inside("log", op, "-o", "json").json["kept"] == 3


@one_server
def test_a_canary_of_which_nothing_is_heard_ends_in_time(inside: Inside, yard: Yard) -> None:
    yard.bury_many(letter(f"job-{number}") for number in range(3))
    words = ("--canary", "1", "--canary-timeout", "300ms", "--yes", "-o", "json")
    ended = inside("dlq", "replay", yard.queue, *words)
    assert ended.code == 3
    assert [one["outcome"] for one in ended.json] == ["no word", "held back", "held back"]
    assert "nothing was heard of it in time" in ended.err


# --- edit ---


def test_a_value_is_set_shown_as_a_difference_and_replayed(inside: Inside, yard: Yard) -> None:
    ids = seed(yard)
    words = ("--set", "to=carol", "--set", "n=2", "--set", "deep.er=[1]", "--yes", "-o", "json")
    ended = inside("dlq", "edit", yard.queue, "told", *words)
    assert ended.code == 0, ended.err
    assert list(ended.json) == list(EDITED)
    assert ended.json["outcome"] == "replayed"
    assert '  -  "to": "ada@example.org",' in ended.err
    assert '  +  "to": "carol",' in ended.err
    [job] = yard.jobs()
    assert (job.id, job.attempt, job.payload.data()) == (
        "told",
        0,
        {"to": "carol", "n": 2, "deep": {"er": [1]}},
    )
    assert ids["told"] not in yard.dead_ids()


def test_an_edited_letter_may_stay_dead(inside: Inside, yard: Yard) -> None:
    ids = seed(yard)
    ended = inside(
        "dlq", "edit", yard.queue, ids["untold"], "--unset", "to", "--no-replay", "--yes", "-o", "json"
    )
    new_id = ended.json["new_dlq_id"]
    assert yard.dead_ids()[-1] == new_id
    assert ids["untold"] not in yard.dead_ids()
    assert yard.jobs() == []
    [line] = inside("dlq", "peek", yard.queue, "-o", "json", "--where", "id == 'untold'").json
    assert line["data"] == {"blob": {"$bin": "c0ff"}}
    assert (line["attempt"], line["reason"]) == (24, "retries_exhausted")


def test_an_editor_is_given_the_payload_as_json(inside: Inside, yard: Yard, tmp_path: Path) -> None:
    data = {"text": "old", "blob": b"\xc0\xff", "number": 2**63, "keys": [1.5, None, {"$odd": 1}]}
    yard.bury("edit-me", data)
    script = tmp_path / "editor"
    script.write_text('#!/bin/sh\ncp "$2" "$HOME/seen.json"\nsed -i s/old/new/ "$2"\n')
    script.chmod(0o755)
    inside.set(EDITOR=f"{script} --wait")
    assert inside("dlq", "edit", yard.queue, "edit-me", "--yes").code == 0
    seen = json.loads((tmp_path / "seen.json").read_text())
    assert seen["keys"] == [1.5, None, {"$map": [["$odd", 1]]}]
    [job] = yard.jobs()
    assert job.payload.raw == packed.pack(data | {"text": "new"})


@pytest.mark.parametrize(
    ("variables", "words", "code", "said"),
    [
        ({}, (), 5, "--set PATH=VALUE"),
        ({"EDITOR": "false"}, (), 5, "ended with code 1"),
        ({"EDITOR": "/no/such/editor"}, (), 5, "No such file"),
        ({"EDITOR": "sh -c 'echo { > $0'"}, (), 2, "no JSON"),
        ({}, ("--set", "to"), 2, "there is no ="),
        ({}, ("--set", "to[0]=x"), 2, "to[0]"),
        ({}, ("--set", "a..b=1"), 2, "is no path"),
        ({}, ("--unset", "nothing"), 2, "no such thing"),
        ({}, ("--set", 'to={"$bin": "zz"}'), 2, "$bin"),
    ],
)
@one_server
def test_an_edit_that_goes_wrong_changes_nothing(
    inside: Inside, yard: Yard, variables: dict[str, str], words: tuple[str, ...], code: int, said: str
) -> None:
    seed(yard)
    before = yard.dead()
    inside.set(**variables)
    assert_complains(inside("dlq", "edit", yard.queue, "told", *words, "--yes"), code, said)
    assert yard.dead() == before


@one_server
def test_only_what_can_be_told_apart_and_decoded_can_be_edited(inside: Inside, yard: Yard) -> None:
    ids = seed(yard)
    twins = [yard.bury("twin"), yard.bury("twin")]
    assert_complains(inside("dlq", "edit", yard.queue, "twin", "--set", "a=1", "--yes"), 2, *twins)
    for one in ("garbage", "inner"):
        ended = inside("dlq", "edit", yard.queue, ids[one], "--set", "a=1", "--yes")
        assert_complains(ended, 5, "cannot be decoded")
    assert_complains(inside("dlq", "edit", yard.queue, "nobody", "--set", "a=1"), 4)
    same = inside("dlq", "edit", yard.queue, "told", "--set", "n=1", "--yes")
    assert (same.code, same.err) == (0, "nothing to do: the payload is as it was\n")


@one_server
def test_a_difference_covers_secrets(inside: Inside, yard: Yard) -> None:
    seed(yard)
    ended = inside("dlq", "edit", yard.queue, "secret", "--set", "password=hunter3", "--dry-run")
    assert ended.code == 0
    assert "hunter" not in ended.err + ended.out
    assert "only covered values differ" in ended.err
    assert "hunter3" in inside(
        "dlq", "edit", yard.queue, "secret", "--set", "password=hunter3", "--dry-run", "--show-secrets"
    ).err  # fmt: skip


# --- export, import, purge ---


def test_what_is_exported_comes_back_byte_for_byte_and_once(
    inside: Inside, yard: Yard, tmp_path: Path
) -> None:
    seed(yard)
    before = yard.dead()
    file = tmp_path / "letters.jsonl"
    ended = inside("dlq", "export", yard.queue, "--file", file, "--show-secrets")
    assert (ended.code, ended.out) == (0, "")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert all(list(line) == [*LETTER, "raw"] for line in lines)
    there = inside("dlq", "import", yard.queue, file, "--yes", "-o", "json")
    assert {one["outcome"] for one in there.json} == {"there already"}
    assert "nothing to do" in there.err
    assert inside("dlq", "purge", yard.queue, "--yes").code == 0
    assert yard.dead() == []
    done = inside("dlq", "import", yard.queue, file, "--yes", "-o", "json")
    assert done.code == 0
    assert all(list(one) == list(IMPORTED) for one in done.json)
    assert [fields for _, fields in yard.dead()] == [fields for _, fields in before]
    again = inside("dlq", "import", yard.queue, "-", "--yes", "-o", "json", stdin=file.read_text())
    assert {one["outcome"] for one in again.json} == {"imported before"}
    assert len(yard.dead()) == len(before)
    inside("dlq", "purge", yard.queue, "--yes")
    assert {
        one["outcome"] for one in inside("dlq", "import", yard.queue, file, "--yes", "-o", "json").json
    } == {"imported before"}
    inside("dlq", "import", yard.queue, file, "--yes", "--again")
    assert [fields for _, fields in yard.dead()] == [fields for _, fields in before]


def test_an_export_covers_secrets_and_an_import_refuses_what_was_covered(
    inside: Inside, yard: Yard, queue: str
) -> None:
    ids = seed(yard)
    ended = inside("dlq", "export", yard.queue)
    assert "hunter2" not in ended.out
    assert b"hunter2".hex() not in ended.out
    covered = [line for line in ended.lines if "redacted" in line]
    assert [(line["dlq_id"], "raw" in line, line["redacted"]) for line in covered] == [
        (ids["secret"], False, True)
    ]
    assert "1 of them hold secrets" in ended.err
    assert "--show-secrets" in ended.err
    assert set(EXPORTED) >= set(ended.lines[0])
    text = ended.out + "no json\n" + '{"dlq_id": "1-1", "raw": ["00"]}\n' + "[]\n"
    done = inside("dlq", "import", f"{queue}-copy", "-", "--yes", "-o", "json", stdin=text)
    assert done.code == 3
    outcomes = [one["outcome"] for one in done.json]
    assert outcomes.count("imported") == 5
    assert outcomes.count("redacted") == 1
    assert outcomes[-3:] == ["unreadable"] * 3
    assert "skipped, redacted: 1" in done.err


@one_server
def test_an_export_overwrites_nothing_and_is_json_lines_only(
    inside: Inside, yard: Yard, tmp_path: Path
) -> None:
    seed(yard)
    file = tmp_path / "mine"
    file.write_text("precious")
    assert_complains(inside("dlq", "export", yard.queue, "--file", file), 5, "there already")
    assert file.read_text() == "precious"
    assert_complains(inside("dlq", "export", yard.queue, "-o", "csv"), 2, "JSON lines")
    assert (
        len(inside("dlq", "export", yard.queue, "--limit", "2", "--reason", "retries_exhausted").lines) == 2
    )
    assert_complains(inside("dlq", "import", yard.queue, tmp_path / "nowhere", "--yes"), 4, "No such file")


def test_purging_takes_exactly_what_was_chosen(inside: Inside, yard: Yard) -> None:
    ids = seed(yard)
    ended = inside("dlq", "purge", yard.queue, "--reason", "decode_failed", "--yes", "-o", "json")
    assert [list(one) for one in ended.json] == [list(OUTCOME)]
    assert [(one["dlq_id"], one["outcome"]) for one in ended.json] == [(ids["garbage"], "purged")]
    assert set(yard.dead_ids()) == set(ids.values()) - {ids["garbage"]}
    assert inside("dlq", "purge", yard.queue, ids["late"], "nobody", "--yes").code == 3
    assert inside("dlq", "purge", yard.queue, "--yes", "--limit", "3").code == 0
    assert yard.dead_ids() == [ids["inner"]]


# --- all of them ---


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
