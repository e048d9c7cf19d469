"""The verbs that look, on every kind of server: what they print, in every format, and how they end."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from chasqui.operate import delayed_jobs
from chasqui.server.commands import Commands
from chasqui.server.link import Link
from chasqui_cli.commands import check, doctor, job, queues, watch
from chasqui_cli.output.job_records import JOB_SCHEMA, JOB_STATE_SCHEMA
from chasqui_cli.output.records import EVENT_SCHEMA, FINDING_SCHEMA, SNAPSHOT_SCHEMA
from tests.support.cli.in_process import InProcessCli, assert_matches_schema
from tests.support.cli.subprocess_cli import CommandResult, assert_error
from tests.support.faults.proxy import proxy_to
from tests.support.seeds.every_state import QueueSeeder, every_state
from tests.support.servers.server import Server

FIXED = [
    "queue",
    "kind",
    "server_time_ms",
    "stream_depth",
    "waiting",
    "pending",
    "consumers",
    "dlq_depth",
    "delayed_depth",
    "delayed_due",
    "oldest_delayed_lag_ms",
    "oldest_waiting_ms",
    "repeatable_count",
    "repeatable_overdue",
    "events_depth",
    "promoter_lock",
    "scheduler_lock",
]


class Scene:
    """A seeded queue, and the program pointed at its server."""

    def __init__(self, server: Server, seed: QueueSeeder, inside: InProcessCli) -> None:
        self.server, self.seed, self._inside = server, seed, inside
        self.queue, self.home = seed.queue, inside.home
        self.jobs = every_state(seed)

    def __call__(self, *words: str, url: str | None = None) -> CommandResult:
        return self._inside(*words, "-u", url or self.server.url)

    def all_formats(self, *words: str, shape: Any, many: bool = True) -> tuple[list[Any], str]:
        """The records, the same in JSON and JSON lines and of the right shape, and the table."""
        as_json, as_lines = self(*words, "-o", "json"), self(*words, "-o", "jsonl")
        records = as_json.json if many else [as_json.json]
        assert len(as_lines.lines) == len(records)
        for record in [*records, *as_lines.lines]:
            assert_matches_schema(record, shape)
        schema = self(*words, "--schema").json
        assert (schema["type"] == "array") is many
        return records, self(*words).out


@pytest.fixture
def scene(server: Server, queue: str, cli: InProcessCli) -> Iterator[Scene]:
    with Link.open(server.url) as link:
        yield Scene(server, QueueSeeder(link, queue), cli)


def cells(table: str, queue: str) -> dict[str, str]:
    """The row of a queue in a table, by column."""
    head, *rows = [[cell for cell in line.split("  ") if cell] for line in table.splitlines()]
    [row] = [row for row in rows if row[0].strip() == queue]
    return dict(zip((title.strip() for title in head), (cell.strip() for cell in row), strict=False))


def test_inspect(scene: Scene) -> None:
    [record], table = scene.all_formats("inspect", scene.queue, shape=SNAPSHOT_SCHEMA)
    assert set(FIXED) <= record.keys()
    told = {name: record[name] for name in FIXED if not name.endswith("_ms")}
    lock = {"holder": "worker-1", "ttl_ms": record["promoter_lock"]["ttl_ms"]}
    assert told == {
        "queue": scene.queue, "kind": "chasquimq", "stream_depth": 3, "waiting": 2, "pending": 1, "consumers": 1,
        "dlq_depth": 1, "delayed_depth": 2, "delayed_due": 0, "repeatable_count": 1, "repeatable_overdue": 0,
        "events_depth": 5, "promoter_lock": lock, "scheduler_lock": lock | {"ttl_ms": record["scheduler_lock"]["ttl_ms"]},
    }  # fmt: skip
    row = cells(table, scene.queue)
    assert (row["WAITING"], row["PENDING"], row["DLQ"], row["CRON"]) == ("2", "1", "1", "1")


def test_a_queue_without_a_group_has_none_and_nothing_pending(scene: Scene) -> None:
    scene.seed.command("XGROUP", "DESTROY", scene.seed.keys.stream, "default")
    [record] = scene("inspect", scene.queue, "-o", "json").json
    assert (record["pending"], record["groups"], record["waiting"]) == (0, [], 3)


def test_inspect_of_a_name_nobody_used_warns_and_shows_nothing(scene: Scene) -> None:
    ended = scene("inspect", f"{scene.queue}-not", "-o", "json")
    assert (ended.code, ended.json[0]["stream_depth"], ended.json[0]["promoter_lock"]) == (0, 0, None)
    assert "warning: there is nothing of a queue named" in ended.err


@pytest.mark.parametrize("many", [1, 100])
def test_inspect_is_one_round_trip_on_a_server_that_knows_no_script(scene: Scene, many: int) -> None:
    big = "x" * 500_000
    scene.seed.add(data=big)
    scene.seed.delay(1000, data=big)
    scene.seed.command("SCRIPT", "FLUSH")
    names = [scene.queue, *(f"{scene.queue}-{number}" for number in range(many - 1))]
    with proxy_to(scene.server.socket) as proxy:
        ended = scene("inspect", *names, "-q", "-o", "jsonl", url=proxy.url)
        assert (ended.code, len(ended.lines)) == (0, many)
        assert (proxy.turns, proxy.connections) == (1, 1)
        assert proxy.replied < 2000 * many


def test_queues_are_listed_worst_first(scene: Scene) -> None:
    bad, fine = f"{scene.queue}-bad", f"{scene.queue}-fine"
    QueueSeeder(scene.seed.link, bad).add()
    other = QueueSeeder(scene.seed.link, fine)
    other.group()
    other.add()
    records, table = scene.all_formats("queues", shape=queues.QUEUE_SCHEMA)
    mine = [(one["queue"], one["state"], one["glyph"]) for one in records if str(one["queue"]).startswith(scene.queue)]
    assert sorted(mine[:2]) == [(bad, "critical", "▲"), (fine, "critical", "▲")], "of one age, to a millisecond"
    assert mine[2:] == [(scene.queue, "warning", "◆")]
    row = cells(table, scene.queue)
    assert row["STATE"] == "◆ warning"
    assert (row["KIND"], row["WAITING"], row["FLIGHT"], row["DLQ"], row["DELAYED"]) == (
        "chasquimq",
        "2",
        "1",
        "1",
        "2",
    )
    assert (row["DUE"], row["CRON!"], row["WORKERS"]) == ("0", "0", "1")
    assert {"QUEUE", "AGE"} <= row.keys()
    assert set(scene("queues", "-o", "name").out.splitlines()) >= {bad, fine, scene.queue}


def test_why_gives_one_verdict_for_every_state(scene: Scene) -> None:
    told = {
        "waiting": "next in line",
        "second": "behind 1 other",
        "in-flight": "in flight on c-7",
        "delayed": "delayed until",
        "anonymous": "delayed until",
        "dead": "dead because of retries_exhausted: SMTP 550",
        "done": "its result of 18 bytes is kept for",
    }
    for state, words in told.items():
        ended = scene("why", scene.jobs[state], "--queue", scene.queue)
        assert ended.code == 0
        assert words in ended.out.splitlines()[0]
    [record], _ = scene.all_formats("why", "dead-1", "--queue", scene.queue, shape=JOB_STATE_SCHEMA, many=False)
    assert (record["state"], record["evidence"]["reason"], len(record["events"])) == (
        "dead",
        "retries_exhausted",
        3,
    )


def test_why_without_a_queue_looks_everywhere_and_says_how_far(scene: Scene) -> None:
    own = f"own-{uuid.uuid4().hex}"
    scene.seed.add(own)
    ended = scene("why", own)
    assert ended.code == 0
    assert ended.out.startswith(f"{own} in {scene.queue}: waiting")
    assert "looked into " in ended.err
    lost = scene("why", f"{own}-not")
    assert lost.code == 4
    assert "unknown" in lost.out
    assert scene("why", f"{own}-not", "--queue", scene.queue, "-o", "json").json["state"] == "unknown"


def test_job_show_merges_everything(scene: Scene) -> None:
    words = ("job", "show", scene.queue, "dead-1")
    [record], table = scene.all_formats(*words, shape=JOB_SCHEMA, many=False)
    assert (record["state"], record["name"], record["attempt"]) == ("dead", "mail", 3)
    assert (record["data"], record["payload_bytes"]) == ({"to": "ada", "n": 1}, 11)
    assert [one["event"] for one in record["events"]] == ["active", "failed", "dlq"]
    assert "SMTP 550" in table
    done = scene("job", "show", scene.queue, "done-1", "-o", "json").json
    assert done["result"] == {"sent": True, "token": "«redacted»"}
    assert_error(scene("job", "show", scene.queue, "nobody", "-q"), 4, "no trace of a job 'nobody'")


def test_job_result_is_printed_decoded(scene: Scene) -> None:
    assert scene("job", "result", scene.queue, "done-1", "--show-secrets").json == {
        "sent": True,
        "token": "hush",
    }
    record = scene("job", "result", scene.queue, "done-1", "-o", "jsonl").json
    assert_matches_schema(record, job.RESULT_SCHEMA)
    assert record["result"]["token"] == "«redacted»"
    assert_error(scene("job", "result", scene.queue, "waits-1"), 4, "there is no result of 'waits-1'")
    scene.seed.command("SET", scene.seed.keys.result("odd-1"), b"\xc1")
    assert_error(scene("job", "result", scene.queue, "odd-1"), 1)


@pytest.mark.parametrize("which", ["delayed", "anonymous"])
def test_job_cancel_removes_exactly_one_and_keeps_what_is_needed_to_put_it_back(scene: Scene, which: str) -> None:
    job_id, keys = scene.jobs[which], scene.seed.keys
    members = scene.seed.command("ZRANGE", keys.delayed, 0, -1, "WITHSCORES")
    words = ("job", "cancel", scene.queue, job_id)
    dry = scene(*words, "--dry-run", "--read-only", "-o", "jsonl")
    assert_matches_schema(dry.json, job.CANCEL_SCHEMA)
    assert (dry.code, dry.json["outcome"], scene.seed.command("ZCARD", keys.delayed)) == (
        0,
        "would cancel",
        2,
    )
    assert not list(scene.home.rglob("journal/*"))
    assert_error(scene(*words, "-q", "--read-only", "--yes"), 5, "read-only")
    refused = scene(*words)
    assert (refused.code, scene.seed.command("ZCARD", keys.delayed)) == (5, 2)
    done = scene(*words, "--yes", "--note", "a mistake", "-o", "jsonl")
    assert (done.code, done.json["outcome"]) == (0, "cancelled")
    [left] = scene.seed.command("ZRANGE", keys.delayed, 0, -1)
    [gone] = set(members[::2]) - {left}
    assert scene.seed.command("EXISTS", keys.delayed_index(job_id), keys.delayed_marker(job_id)) == 0
    [journal] = scene.home.rglob("journal/*.jsonl")
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    [item] = [line["item"] for line in lines if "item" in line]
    assert (item["kind"], item["action"], item["id"]) == ("delayed", "cancelled", job_id)
    assert (bytes.fromhex(item["member"]), item["run_at_ms"]) == (gone, int(members[members.index(gone) + 1]))
    assert (item["index_ms"] > 0) == (item["marker_ms"] > 0) == (which == "delayed")
    assert lines[-1]["result"] == {"cancelled": 1, "gone": 0, "ended": "done"}
    assert_error(scene(*words, "--yes", "-q"), 4, "there is no delayed job")
    link = scene.seed.link
    for told in ("restored", "already"):
        assert link.run(delayed_jobs.revert(Commands(link.features()), keys, "op-1", [item])) == [told]
    assert scene.seed.command("ZRANGE", keys.delayed, 0, -1, "WITHSCORES") == members


def test_events_of_the_past(scene: Scene) -> None:
    ended = scene("events", scene.queue)
    for record in ended.lines:
        assert_matches_schema(record, EVENT_SCHEMA)
    assert [one["event"] for one in ended.lines] == ["active", "failed", "dlq", "active", "completed"]
    assert ended.lines[-1] == {
        "queue": scene.queue, "entry_id": ended.lines[-1]["entry_id"], "event": "completed", "id": "done-1",
        "name": "mail", "ts": scene.seed.now_ms, "attempt": 1, "duration_us": 1500,
    }  # fmt: skip
    assert f"{scene.queue}: events reach back" in ended.err
    assert scene("events", "tail", scene.queue).out == ended.out
    table = scene("events", scene.queue, "-o", "table").out.splitlines()
    assert (len(table), table[0].split()[:3]) == (6, ["WHEN", "QUEUE", "EVENT"])
    assert "reason=SMTP 550" in table[2]


@pytest.mark.parametrize(
    ("words", "kinds"),
    [
        (("--event", "failed", "--event", "dlq"), ["failed", "dlq"]),
        (("--where", "duration_us > `1000`"), ["completed"]),
        (("--name", "no*"), []),
        (("--from", "$"), []),
        (("--since", "1h"), ["active", "failed", "dlq", "active", "completed"]),
        (("--until", "1h"), []),
        (("--scan", "2"), ["active", "failed"]),
    ],
)
def test_events_are_chosen(scene: Scene, words: tuple[str, ...], kinds: list[str]) -> None:
    assert [one["event"] for one in scene("events", scene.queue, *words).lines] == kinds


def test_events_after_an_id_and_what_was_trimmed(scene: Scene) -> None:
    ids = [one["entry_id"] for one in scene("events", scene.queue).lines]
    assert [one["entry_id"] for one in scene("events", scene.queue, "--from", ids[2]).lines] == ids[3:]
    scene.seed.command("XTRIM", scene.seed.keys.events, "MAXLEN", 1)
    gap, last = scene("events", scene.queue, "--from", ids[0]).lines
    assert_matches_schema(gap, EVENT_SCHEMA)
    assert (gap["event"], gap["reason"], gap["from_id"], last["entry_id"]) == (
        "gap",
        "trimmed",
        ids[0],
        ids[-1],
    )


def test_past_events_have_an_end_and_so_are_json_too(scene: Scene) -> None:
    scene.seed.add_event("active", "x", attempt=1)
    scene.seed.add_event("completed", "x", attempt=1)
    told = scene("events", scene.queue, "-o", "json").json
    assert told == scene("events", scene.queue, "-o", "jsonl").lines
    assert [one["event"] for one in told][-2:] == ["active", "completed"]


def test_events_of_all_queues_come_in_order_of_time(scene: Scene) -> None:
    other = QueueSeeder(scene.seed.link, f"{scene.queue}-2")
    scene.seed.let_time_pass()
    other.add_event("active", "x", attempt=1)
    scene.seed.let_time_pass()
    scene.seed.add_event("active", "y", attempt=1)
    mine = [scene.queue, other.queue]
    told = [one["id"] for one in scene("events").lines if one["queue"] in mine]
    assert told[-2:] == ["x", "y"]


@pytest.mark.parametrize(
    "words",
    [
        ("--from", "0", "--since", "1h"),
        ("--follow", "--until", "1h"),
        ("--follow", "-o", "json"),
        ("--from", "x"),
    ],
)
def test_events_that_make_no_sense_are_refused(scene: Scene, words: tuple[str, ...]) -> None:
    ended = scene("events", scene.queue, *words, "-q")
    assert (ended.code, ended.out) == (2, "")


def test_watch_tells_what_changed(scene: Scene) -> None:
    words = ("watch", scene.queue, "--interval", "100ms", "--count", "2")
    first, second = scene(*words).lines
    assert_matches_schema(first, watch.WATCH_SCHEMA)
    assert_matches_schema(second, watch.WATCH_SCHEMA)
    assert (first["in_per_s"], second["added"], second["read"]) == (None, 0, 0)
    assert second["forecast"] == {"word": "stalled", "clears_ms": None, "per_s": None}
    head, *rows = scene(*words, "-o", "table").out.splitlines()
    assert head.split()[:3] == ["QUEUE", "TIME", "WAITING"]
    assert len(rows) == 2
    assert "stalled" in rows[1]
    assert len(scene(*words, "-o", "json").json) == 2
    assert scene("watch", scene.queue, "-o", "json").code == 2, "that would have no end"


NAGIOS = {"WARNING": 1, "CRITICAL": 2, "OK": 0}


@pytest.mark.parametrize(
    ("words", "status"),
    [
        ((), "WARNING"),
        (("--dlq-warn", "0"), "OK"),
        (("--dlq-crit", "1"), "CRITICAL"),
        (("--dlq-warn", "0", "--waiting-warn", "2"), "WARNING"),
        (("--dlq-warn", "0", "--waiting-crit", "2"), "CRITICAL"),
        (("--dlq-warn", "0", "--age-crit", "1ms"), "CRITICAL"),
        (("--dlq-warn", "0", "--idle-warn", "1ms"), "WARNING"),
    ],
)
def test_check_speaks_nagios(scene: Scene, words: tuple[str, ...], status: str) -> None:
    ended = scene("check", scene.queue, *words)
    assert ended.code == NAGIOS[status]
    [line] = ended.out.splitlines()
    text, _, data = line.partition(" | ")
    assert text.startswith(f"CHASQUI {status} - {scene.queue}: ")
    numbers = dict(one.split("=") for one in data.split())
    assert numbers["waiting"].split(";")[0] == "2"
    assert all(len(value.split(";")) == 4 for value in numbers.values())
    record = scene("check", scene.queue, *words, "--format", "json").json
    assert_matches_schema(record, check.CHECK_SCHEMA)
    assert (record["status"], record["code"]) == (status, NAGIOS[status])
    told = scene("check", scene.queue, *words, "--format", "prometheus")
    assert f'chasqui_check_status{{queue="{scene.queue}"}} {NAGIOS[status]}.0' in told.out
    assert told.code == NAGIOS[status]


def test_check_looks_for_workers_leaders_and_late_work(scene: Scene) -> None:
    fine = ("check", scene.queue, "--dlq-warn", "0")
    scene.seed.delay(-20_000)
    assert scene(*fine).code == 0
    scene.seed.command("DEL", scene.seed.keys.promoter_lock)
    assert (scene(*fine).code, scene(*fine, "--ignore-leaders").code) == (2, 0)
    assert scene(*fine, "--ignore-leaders", "--delayed-lag-warn", "10s").code == 1
    scene.seed.command("XGROUP", "DESTROY", scene.seed.keys.stream, "default")
    assert scene(*fine, "--ignore-leaders").code == 2
    assert scene(*fine, "--ignore-leaders", "--ignore-no-workers").code == 0


def test_check_does_not_know_what_is_not_there(scene: Scene) -> None:
    for words in ((f"{scene.queue}-not",), (scene.queue, "--age-warn", "5")):
        ended = scene("check", *words)
        assert (ended.code, ended.err) == (3, "")
        assert ended.out.startswith("CHASQUI UNKNOWN - ")
    assert scene("check", scene.queue, "--nonsense").code == 3
    away = scene("check", scene.queue, url="unix:///nowhere/at/all")
    assert (away.code, away.out.split(" - ")[0]) == (3, "CHASQUI UNKNOWN")
    assert json.loads(scene("check", f"{scene.queue}-not", "--format", "json").out)["code"] == 3


def test_doctor_tells_what_mends_it(scene: Scene) -> None:
    scene.seed.take_leader_locks(ttl_ms=None)
    records, table = scene.all_formats("doctor", scene.queue, shape=FINDING_SCHEMA)
    mine = {(one["code"], one["level"], one["mend"]) for one in records if one["queue"]}
    assert mine == {
        ("endless-lock", "critical", f"chasqui promote {scene.queue} --force-unlock"),
        ("endless-lock", "critical", f"chasqui schedule {scene.queue} --force-unlock"),
        ("dead-letters", "warning", f"chasqui dlq groups {scene.queue}"),
    }
    assert table.splitlines()[1].split()[:3] == ["endless-lock", "▲", "critical"]
    assert doctor.COLUMNS[0].title == "code"
    codes = {one["code"] for one in records if not one["queue"]}
    assert ("stand-ins" in codes) == (scene.server.kind != "redis-8.6")
    assert_error(scene("doctor", f"{scene.queue}-not", "-q"), 4, "there is nothing of a queue named")


def test_doctor_without_a_name_examines_all(scene: Scene) -> None:
    QueueSeeder(scene.seed.link, f"{scene.queue}-bad").add()
    found = {(str(one["queue"]), one["code"]) for one in scene("doctor", "-o", "json").json}
    assert {(scene.queue, "dead-letters"), (f"{scene.queue}-bad", "no-group")} <= found


def test_what_may_not_be_looked_at_is_a_finding(scene: Scene) -> None:
    user = f"viewer-{uuid.uuid4().hex[:8]}"
    rights = ("on", ">secret", "~*", "+@all", "-evalsha", "-evalsha_ro", "-eval", "-eval_ro")
    scene.seed.command("ACL", "SETUSER", user, *rights)
    url = f"unix://{user}:secret@{scene.server.socket}"
    ended = scene("doctor", scene.queue, "-q", "-o", "json", url=url)
    told = [(one["code"], one["level"]) for one in ended.json if one["queue"] == scene.queue]
    assert told == [("refused", "critical")]
    [row] = [one for one in scene("queues", "-q", "-o", "json", url=url).json if one["queue"] == scene.queue]
    assert (row["state"], row["glyph"], row["waiting"]) == ("unseen", "?", None)
    assert_matches_schema(row, queues.QUEUE_SCHEMA)
    assert "secret" not in ended.out + ended.err


def test_metrics_once(scene: Scene) -> None:
    told = scene("metrics", scene.queue)
    assert told.code == 0
    for line in ("chasqui_waiting{{queue={0}}} 2.0", "chasqui_dead_letters{{queue={0}}} 1.0"):
        assert line.format(f'"{scene.queue}"') in told.out
    assert f'chasqui_has_leader{{queue="{scene.queue}",role="promoter"}} 1.0' in told.out
    assert f'queue="{scene.queue}"' in scene("metrics").out


@pytest.mark.parametrize("verb", ["queues", "inspect", "why x", "job show q x", "events", "doctor", "metrics"])
def test_a_server_that_is_away_is_an_error_and_not_an_empty_list(cli: InProcessCli, verb: str) -> None:
    assert_error(cli(*verb.split(), "-u", "unix:///nowhere/at/all", "-q"), 1)


def test_everything_looks_on_a_read_only_connection(scene: Scene) -> None:
    for words in (
        ("queues",), ("inspect",), ("watch", scene.queue, "--count", "1"), ("why", "waits-1", "--queue", scene.queue),
        ("job", "show", scene.queue, "waits-1"), ("events",), ("doctor",), ("metrics",),
    ):  # fmt: skip
        assert scene(*words, "--read-only").code == 0, words
