"""Files as jobs: what is looked at beforehand, what the ids are made of, and what is the same load."""

from __future__ import annotations

import csv
import gzip
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chasqui.errors import ArgumentError, ChasquiError, ConfigError
from chasqui.server.link import Link
from chasqui.spark import bulk_jobs, input_files
from chasqui.spark.bulk_jobs import RowMapping
from chasqui.spark.error_decoding import decoded_errors
from chasqui.wire import envelope, msgpack_codec
from chasqui.wire.keys import Keys
from chasqui_cli.app import run
from tests.support.seeds.event_history import numbered_events, run_flow
from tests.support.servers.server import Server

NOW_MS = 1_794_741_208_048
FIELDS = RowMapping("", "id", "name", "data", "at")
Produced = Callable[..., tuple[int, dict[str, Any], str]]


@pytest.fixture
def produced(
    redis: Server,
    queue: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> Produced:
    """Types `chasqui pipeline produce`; answers code, data and remarks."""
    monkeypatch.setenv("HOME", str(tmp_path))

    def type_(*words: str | Path) -> tuple[int, dict[str, Any], str]:
        code = run(["pipeline", "produce", queue, *map(str, words), "--yes", "-u", redis.url, "-o", "json", "-q"])
        captured = capsys.readouterr()
        return code, json.loads(captured.out or "{}"), captured.err

    return type_


def rows_of(spark: Any, kind: str, *paths: Path) -> list[Any]:
    """What would be loaded, looked at beforehand as the command does."""
    given = [str(path) for path in paths]
    input_files.check_files(given, kind)
    with decoded_errors():
        return [json.loads(line.line) for line in bulk_jobs.read_json_lines(spark, given, kind).collect()]


def files_at(folder: Path, *names: str) -> Path:
    """A directory with files that hold their names."""
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(json.dumps({"file": name}) + "\n")
    return folder


def row(**fields: Any) -> str:
    return json.dumps({"id": "a", "name": "mail", "data": 1, "at": None} | fields)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("not json", "Expecting value"),
        ("[1]", "not an object"),
        ('{"id": "a"}', "no field 'name'"),
        (row(id=""), "field 'id' is empty"),
        (row(id=" \t"), "field 'id' is empty"),
        (row(id={"a": 1}), "field 'id' is neither text nor a number"),
        (row(id=True), "field 'id' is neither text nor a number"),
        (row(id="\ud800"), "not valid Unicode"),
        (row(name=["mail"]), "field 'name' is neither text nor a number"),
        (row(name="n" * 300), "job name exceeds 256-byte cap"),
        (row(name="\udfff"), "job name is not valid Unicode"),
        (row(data=10**30), "does not fit 64 bits"),
        (row(data={"deep": ["\ud83d"]}), "not valid Unicode"),
        (row(data="DEEP").replace('"DEEP"', "[" * 1100 + "]" * 1100), "recursion"),
        ("[" * 100_000 + "]" * 100_000, "recursion"),
        (row(at="soon"), "field 'at' is no time in ms"),
        (row(at="\u00b2"), "field 'at' is no time in ms"),
        (row(at=1.5), "field 'at' is no time in ms"),
        (row(at=99_999_999_999_999_999), "exceeds max_delay_secs"),
        (row(at=10**30), "exceeds max_delay_secs"),
        (row(at=str(NOW_MS + 31 * 86_400_000)), "exceeds max_delay_secs"),
    ],
)
def test_a_row_that_could_not_be_written_is_refused_before_any_is_written(spark: Any, line: str, expected: str) -> None:
    lines = spark.createDataFrame([(row(),), (line,)], "line STRING").coalesce(1)
    found = bulk_jobs.check_rows(lines, FIELDS, NOW_MS)
    assert (found.rows, found.bad) == (2, 1)
    assert expected in str(found.sample)


def test_rows_at_the_edge_of_what_can_be_written_are_accepted(spark: Any) -> None:
    edges = [
        row(id=7),
        row(id="\x00"),
        row(name=None),
        row(name="n" * 256),
        row(data=2**64 - 1),
        row(data=-(2**63)),
        row(data=None),
        row(at=NOW_MS + 30 * 86_400_000),
        row(at="0"),
    ]
    found = bulk_jobs.check_rows(spark.createDataFrame([(one,) for one in edges], "line STRING"), FIELDS, NOW_MS)
    assert (found.rows, found.bad, found.sample) == (len(edges), 0, None)


def test_nothing_is_written_of_a_file_with_a_row_that_cannot_be(
    produced: Produced, spark: Any, link: Link, queue: str, tmp_path: Path
) -> None:
    file = tmp_path / "jobs.jsonl"
    file.write_bytes(b'{"to": "ada"}\n{"to": "zo\xeb"}\n')
    code, _, err = produced(file)
    assert code == 2
    assert "1 of 2 rows are no jobs" in err
    assert "can't decode byte 0xeb" in err
    assert "nothing was written" in err
    assert not run_flow(link, "KEYS", f"*{queue}*")


def test_a_load_that_goes_on_after_a_week_adds_only_what_is_missing(
    produced: Produced, spark: Any, link: Link, queue: str, tmp_path: Path
) -> None:
    """The note of when it began is kept as long as the ledger, for the ids are made of it."""
    keys, file = Keys(queue), tmp_path / "jobs.jsonl"
    for count in (20, 30):
        file.write_text("".join(json.dumps({"to": n}) + "\n" for n in range(count)))
        run_flow(link, "EXPIRE", keys.load_start("week"), 100)
        code, record, err = produced(file, "--run-id", "week")
        assert (code, record["added"]) == (0, 20 if count == 20 else 10), err
        assert (
            run_flow(link, "TTL", keys.load_start("week"))
            >= run_flow(link, "TTL", keys.load_ledger("rows", "week"))
            > 100
        )
    assert run_flow(link, "XLEN", keys.stream) == 30


def test_a_column_may_have_any_name(produced: Produced, spark: Any, link: Link, queue: str, tmp_path: Path) -> None:
    file = tmp_path / "jobs.csv"
    file.write_text("user.name,a `b`\nada,1\n")
    code, record, err = produced(file)
    assert (code, record.get("added")) == (0, 1), err
    [(_, fields)] = run_flow(link, "XRANGE", Keys(queue).stream, "-", "+")
    assert envelope.decode(fields[1]).payload.data() == {"user.name": "ada", "a `b`": "1"}


def test_a_load_of_a_folder_has_another_name_when_a_file_in_it_is_rewritten(tmp_path: Path) -> None:
    file = tmp_path / "dt=1" / "jobs.csv"
    file.parent.mkdir()
    file.write_text("a\n1\n")
    names = {bulk_jobs.load_run_id("mail", [str(tmp_path)], RowMapping()) for _ in range(2)}
    file.write_text("a\n1\n2\n")
    assert len(names) == 1
    assert bulk_jobs.load_run_id("mail", [str(tmp_path)], RowMapping()) not in names


def test_a_load_has_the_same_name_wherever_it_is_run_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "jobs.csv").write_text("a\n1\n")
    for paths in (["s3://bucket/jobs.csv"], [str(tmp_path / "jobs.csv")]):
        names = set()
        for place in (tmp_path, Path("/")):
            monkeypatch.chdir(place)
            names.add(bulk_jobs.load_run_id("mail", paths, RowMapping()))
        assert len(names) == 1
    (tmp_path / "jobs.csv").write_text("a\n1\n2\n")
    assert bulk_jobs.load_run_id("mail", [str(tmp_path / "jobs.csv")], RowMapping()) not in names


def test_a_replay_knows_for_a_year_what_it_put_back(
    spark: Any, link: Link, redis: Server, queue: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An archive keeps dead letters for long; a week after a replay they must not all run again."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    keys, at = Keys(queue), ("--archive", str(tmp_path / "archive"), "-u", redis.url, "-q")
    body = msgpack_codec.pack(["a", b"\x01", NOW_MS, 3])
    run_flow(link, "XADD", keys.dlq, "*", "d", body, "source_id", "1-0", "reason", "unrecoverable")
    numbered_events(link, queue, 1)
    assert run(["pipeline", "archive", queue, "--once", *at]) == 0
    for _ in range(2):
        assert run(["pipeline", "replay", queue, "--yes", *at]) == 0
        assert run_flow(link, "XLEN", keys.stream) == 1
        for note in (keys.load_ledger("rows", f"replay-of-{queue}"), keys.load_start(f"replay-of-{queue}")):
            assert run_flow(link, "TTL", note) > 360 * 86_400
            run_flow(link, "EXPIRE", note, 100)


def test_csv_is_read_as_it_is_written_and_refused_where_one_would_have_to_guess(
    spark: Any, link: Link, queue: str, produced: Produced, tmp_path: Path
) -> None:
    good = tmp_path / "good.csv"
    good.write_text('id,to,note\n1,ada,"say ""hi"", twice"\n2,bob,"two\nlines"\n3,cyd,\n')
    code, record, _ = produced(good, "--id-field", "id")
    assert (code, record["added"]) == (0, 3)
    entries = run_flow(link, "XRANGE", Keys(queue).stream, "-", "+")
    jobs = [envelope.decode(fields[1], len(fields[1])) for _, fields in entries]
    assert {job.id: msgpack_codec.unpack(job.payload.raw)["note"] for job in jobs} == {
        "1": 'say "hi", twice', "2": "two\nlines", "3": "",
    }  # fmt: skip
    for name, text in {
        "short": "id,to,note\n4,ada\n",
        "long": "id,to,note\n4,a,b,c\n",
        "other": "to,id,note\na,4,b\n",
    }.items():
        bad = tmp_path / f"{name}.csv"
        bad.write_text(text)
        code, _, err = produced(good, bad, "--id-field", "id", "--run-id", "bad")
        assert (code, f"{name}.csv is no CSV" in err, "hint: nothing was written" in err) == (
            2,
            True,
            True,
        ), err
    assert run_flow(link, "XLEN", Keys(queue).stream) == 3


def test_what_will_be_done_is_shown_with_samples_and_letters_are_chosen_by_reason(
    spark: Any, link: Link, redis: Server, queue: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setenv("HOME", str(tmp_path))
    keys, place = Keys(queue), ("--archive", str(tmp_path / "archive"), "-u", redis.url)
    for n in range(8):
        body = msgpack_codec.pack([f"job-{n}", msgpack_codec.pack({"n": n}), NOW_MS, 3])
        reason = "unrecoverable" if n < 7 else "retries_exhausted"
        run_flow(
            link,
            "XADD",
            keys.dlq,
            "*",
            "d",
            body,
            "n",
            "mail",
            "source_id",
            f"{n}-0",
            "reason",
            reason,
            "detail",
            "no",
        )
    numbered_events(link, queue, 1)
    assert run(["pipeline", "archive", queue, "--once", *place]) == 0
    capsys.readouterr()
    words = [
        "pipeline",
        "replay",
        queue,
        "--reason",
        "unrecoverable",
        "--sql",
        "name = 'mail'",
        *place,
        "-o",
        "json",
    ]
    assert run([*words, "--dry-run"]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["rows"] == 7
    assert "would replay 7 jobs" in captured.err
    assert "chosen by: reason unrecoverable and sql name = 'mail'" in captured.err
    assert "job-0" in captured.err
    assert "… and 2 more" in captured.err
    assert run([*words, "--yes"]) == 0
    assert run_flow(link, "XLEN", keys.stream) == 7
    capsys.readouterr()
    for condition in ("name =", "nosuch = 1", "name"):
        assert run(["pipeline", "replay", queue, "--sql", condition, "--yes", *place]) == 2
        err = capsys.readouterr().err
        assert f"error: not a condition: {condition}" in err
        assert "hint: columns are queue, stream_id" in err or "hint: columns are stream_id" in err


def test_a_preview_of_jobs_shows_some_with_secrets_covered(
    spark: Any,
    redis: Server,
    queue: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "jobs.jsonl").write_text('{"to": "ada", "password": "hunter2"}\n' * 9)
    assert run(["pipeline", "produce", queue, str(tmp_path / "jobs.jsonl"), "--dry-run", "-u", redis.url]) == 0
    err = capsys.readouterr().err
    assert "would produce 9 jobs" in err
    assert "ada" in err
    assert "hunter2" not in err
    assert "… and 4 more" in err


@pytest.mark.parametrize("name", ["_jobs.jsonl", ".jobs.jsonl", "jobs.jsonl._COPYING_"])
def test_a_file_that_spark_passes_over_is_refused(
    produced: Produced, link: Link, queue: str, tmp_path: Path, name: str
) -> None:
    there = files_at(tmp_path, "jobs.jsonl", name)
    code, _, err = produced(there / "jobs.jsonl", there / name, "--format", "jsonl")
    assert code == 2
    assert f"Spark passes over files with such a name: {there / name}" in err
    assert "hint: rename it" in err
    assert not run_flow(link, "KEYS", f"*{queue}*")


@pytest.mark.parametrize(
    "left_out",
    [
        "_a.jsonl",
        ".a.jsonl",
        "plain/a.jsonl",
        ".dt=1/a.jsonl",
        "dt=1/plain/a.jsonl",
        "_temporary/0/a.jsonl",
    ],
)
def test_a_directory_of_which_spark_would_leave_out_files_is_refused(tmp_path: Path, left_out: str) -> None:
    there = files_at(tmp_path / "given", "dt=1/a.jsonl", "dt=1/b.jsonl", "_SUCCESS", "dt=1/.a.jsonl.crc")
    input_files.check_files([str(there)], "jsonl")
    files_at(there, left_out)
    with pytest.raises(ArgumentError, match=r"Spark would leave out \S+a\.jsonl$"):
        input_files.check_files([str(there)], "jsonl")
    files_at(there, "_z/a.jsonl", "_z/b.jsonl")
    with pytest.raises(ArgumentError, match=r"Spark would leave out \S+ and 2 more$"):
        input_files.check_files([str(there)], "jsonl")


def test_files_beside_folders_of_columns_are_refused_for_spark_would_leave_them_out(spark: Any, tmp_path: Path) -> None:
    there = files_at(tmp_path / "given", "a.jsonl", "b.jsonl")
    assert len(rows_of(spark, "jsonl", there)) == 2
    files_at(there, "dt=1/a.jsonl")
    with pytest.raises(ArgumentError, match=r"leave out \S+/given/a\.jsonl and 1 more"):
        input_files.check_files([str(there)], "jsonl")
    with pytest.raises(ArgumentError, match="given, which is given too"):
        input_files.check_files([str(there), str(there / "dt=1")], "jsonl")


def test_a_directory_without_files_has_no_jobs(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "given").mkdir()
    assert rows_of(spark, "jsonl", tmp_path / "given") == []
    for kind in ("csv", "parquet"):
        with pytest.raises(ChasquiError, match="there is nothing to read there yet"):
            rows_of(spark, kind, tmp_path / "given")


def test_what_cannot_be_read_twice_or_at_all_is_refused(tmp_path: Path) -> None:
    import os

    os.mkfifo(tmp_path / "pipe.jsonl")
    with pytest.raises(ArgumentError, match=r"pipe\.jsonl is no file"):
        input_files.check_files([str(tmp_path / "pipe.jsonl")], "jsonl")
    there = files_at(tmp_path / "given", "a.jsonl")
    (there / "gone.jsonl").symlink_to(tmp_path / "nowhere")
    with pytest.raises(ConfigError, match=r"may not read \S+gone\.jsonl"):
        input_files.check_files([str(there)], "jsonl")


def test_a_directory_that_leads_back_into_itself_is_walked_once(tmp_path: Path) -> None:
    there = files_at(tmp_path / "given", "dt=1/a.jsonl")
    (there / "dt=1" / "dt=2").symlink_to(there)
    assert [file.path for file in input_files.local_files([str(there)])] == [there / "dt=1" / "a.jsonl"]


@pytest.mark.parametrize("name", ["jobs[1]", "jobs{1,2}", "jobs?", "jobs*", "jobs\\1", "jobs 1%20#", "jobs^1"])
def test_a_path_of_this_machine_is_no_pattern(spark: Any, tmp_path: Path, name: str) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    there = files_at(tmp_path, f"{name}.jsonl", "jobs1.jsonl", f"{name}/in.jsonl", "jobs1/in_other.jsonl")
    assert rows_of(spark, "jsonl", there / f"{name}.jsonl") == [{"file": f"{name}.jsonl"}]
    assert rows_of(spark, "jsonl", there / name) == [{"file": f"{name}/in.jsonl"}]
    for one in (name, "jobs1"):
        pq.write_table(pa.table({"file": [one]}), there / f"{one}.parquet")
        (there / f"{one}.csv").write_text(f'file\n"{one}"\n')
    for kind in ("csv", "parquet"):
        assert rows_of(spark, kind, there / f"{name}.{kind}") == [{"file": name}]


def test_a_colon_in_a_name_is_refused_where_spark_cannot_open_it(spark: Any, tmp_path: Path) -> None:
    there = files_at(tmp_path, "jobs-10:00.jsonl", "given/jobs-10:00.jsonl", "at 10:00/jobs.jsonl")
    for given in (there / "jobs-10:00.jsonl", there / "given"):
        with pytest.raises(ArgumentError, match=r"with a colon in its name: \S+jobs-10:00\.jsonl") as raised:
            input_files.check_files([str(given)], "jsonl")
        assert "a link of another name" in (raised.value.hint or "")
    (there / "link.jsonl").symlink_to(there / "jobs-10:00.jsonl")
    assert rows_of(spark, "jsonl", there / "link.jsonl") == [{"file": "jobs-10:00.jsonl"}]
    assert rows_of(spark, "jsonl", there / "at 10:00" / "jobs.jsonl") == [{"file": "at 10:00/jobs.jsonl"}]
    (there / "jobs-10:00.csv").write_text("a\n1\n")
    assert rows_of(spark, "csv", there / "jobs-10:00.csv") == [{"a": "1"}]


def test_parquet_files_of_different_columns_are_refused(spark: Any, tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    def write(name: str, schema: dict[str, Any], **columns: list[Any]) -> Path:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        fields = [pa.field(one, kind, nullable="?" not in name) for one, kind in schema.items()]
        pq.write_table(pa.table(columns, schema=pa.schema(fields)), tmp_path / name)
        return tmp_path / name

    first = write("all/1.parquet", {"to": pa.string(), "n": pa.int64()}, to=["ada"], n=[1])
    same = write("same?.parquet", {"n": pa.int64(), "to": pa.large_string()}, to=["bob"], n=[2])
    assert sorted(one["to"] for one in rows_of(spark, "parquet", first, same)) == ["ada", "bob"]
    more = write("all/2.parquet", {"to": pa.string(), "n": pa.int64(), "x": pa.int8()}, to=["a"], n=[1], x=[1])
    other = write("other.parquet", {"to": pa.string(), "n": pa.int32()}, to=["a"], n=[1])
    for given, expected in (([first.parent], f"{more} has other columns than {first}: x differs"),
                        ([first, same, other], f"{other} has other columns than {first}: n differs")):  # fmt: skip
        with pytest.raises(ArgumentError) as refused:
            input_files.check_files([str(one) for one in given], "parquet")
        assert str(refused.value) == expected
    lines = bulk_jobs.read_json_lines(spark, [first.as_uri(), more.as_uri()], "parquet").collect()
    assert sorted(str(json.loads(one.line)["x"]) for one in lines) == ["1", "None"]
    more.write_text("no parquet")
    with pytest.raises(ArgumentError, match=r"2\.parquet is no Parquet file"):
        input_files.check_files([str(more)], "parquet")


def test_times_in_parquet_keep_their_microseconds(spark: Any, tmp_path: Path) -> None:
    from datetime import UTC, date, datetime
    from decimal import Decimal

    import pyarrow as pa
    import pyarrow.parquet as pq

    at = datetime.fromisoformat("2026-11-18T10:00:00.123456")
    row = {
        "plain": at, "zoned": at.replace(tzinfo=UTC), "in": {"it": at}, "even": at.replace(microsecond=0),
        "day": date(2026, 11, 18), "price": Decimal("1.25"), "bytes": b"x", "no": None, "text": "\u00e9",
    }  # fmt: skip
    pq.write_table(pa.Table.from_pylist([row]), tmp_path / "jobs.parquet")
    assert rows_of(spark, "parquet", tmp_path / "jobs.parquet") == [
        {
            "plain": "2026-11-18T10:00:00.123456", "zoned": "2026-11-18T10:00:00.123456Z",
            "in": {"it": "2026-11-18T10:00:00.123456"}, "even": "2026-11-18T10:00:00.000000",
            "day": "2026-11-18", "price": 1.25, "bytes": "eA==", "no": None, "text": "\u00e9",
        }
    ]  # fmt: skip


def test_csv_keeps_every_character(spark: Any, tmp_path: Path) -> None:
    text = b'\xef\xbb\xbfid,to\r\n1,ada\n2,"a\r\nb"\r\n\n3,"c\nd"\r\n4,\r\n'
    (tmp_path / "ends.csv").write_bytes(text)
    targets = {one["id"]: one["to"] for one in rows_of(spark, "csv", tmp_path / "ends.csv")}
    assert targets == {"1": "ada", "2": "a\r\nb", "3": "c\nd", "4": ""}
    chance = random.Random(7)
    columns = ["a", "b c", "d,e"]
    made = [
        {one: "".join(chance.choices('",\r\n \t;\'\\\0x\u00e9\u20ac\U0001f600\x85\u2028', k=chance.randrange(6))) for one in columns}
        for _ in range(10_000)
    ]  # fmt: skip
    made.append({"a": "long" * 500_000, "b c": "", "d,e": "\N{BOM}"})
    with gzip.open(tmp_path / "all.csv.gz", "wt", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        writer.writerows(made)
    found = rows_of(spark, "csv", tmp_path / "all.csv.gz")
    assert sorted(map(json.dumps, found)) == sorted(map(json.dumps, made))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"id,to\n1,ada\n\n2\n", "row 4: fields: 1 instead of 2"),
        (b"id,to\n1,ada\n2,b,c\n", "row 3: fields: 3 instead of 2"),
        (b'id,to\n1,ada\n2,"b\n3,cyd\n', "row 3: a quote that is never closed"),
        (b'id,to\n1,"a"b\n', "row 2: ',' expected after '\"'"),
        (b"id,to\n1,ada\n2,zo\xeb\n", "row 3: the byte 0xeb, which is no UTF-8"),
        (b"id,t\xeb\n1,ada\n", "row 1: the byte 0xeb, which is no UTF-8"),
        ("id,to\n1,ada\n".encode("utf-16"), "row 1: the byte 0xff, which is no UTF-8"),
        (b"id,\n1,ada\n", "row 1: no name for column 2"),
        (b"id,id\n1,ada\n", "row 1: more than one column id"),
        (b"to,id\n1,ada\n", "to, id instead of id, to"),
    ],
)
def test_csv_that_cannot_be_taken_at_its_word_is_refused_with_its_row(
    spark: Any, tmp_path: Path, text: bytes, expected: str
) -> None:
    for name in ("a.csv", "c.csv"):
        (tmp_path / name).write_text("id,to\n9,zed\n")
    bad = tmp_path / "b.csv"
    bad.write_bytes(text)
    with pytest.raises(ArgumentError) as raised:
        rows_of(spark, "csv", tmp_path)
    assert str(raised.value).startswith(f"{bad} is no CSV")
    assert str(raised.value).endswith(expected)
    assert raised.value.hint == "nothing was written; mend the file"


def test_csv_in_folders_of_columns_has_those_too(spark: Any, tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / "given" / f"dt=a%20{number}").mkdir(parents=True)
        (tmp_path / "given" / f"dt=a%20{number}" / "jobs.csv").write_text(f"n\n{number}\n" if number else "")
    found = rows_of(spark, "csv", tmp_path / "given")
    assert sorted(found, key=str) == [{"n": "1", "dt": "a 1"}, {"n": "2", "dt": "a 2"}]


def test_csv_that_is_cut_off_is_reported_with_its_name(spark: Any, tmp_path: Path) -> None:
    whole = gzip.compress(b"id,to\n" + b"".join(b"%d,%d\n" % (n, n * 7919) for n in range(50_000)))
    (tmp_path / "jobs.csv.gz").write_bytes(whole[:-1000])
    with pytest.raises(ConfigError, match=r"cannot read \S+jobs\.csv\.gz after row [\d,]+: Compressed file ended"):
        rows_of(spark, "csv", tmp_path / "jobs.csv.gz")


def test_csv_behind_a_url_is_read_by_spark_beside_files_of_this_machine(spark: Any, tmp_path: Path) -> None:
    for name in ("here", "there"):
        (tmp_path / f"{name}.csv").write_text(f"at\n{name}\n")
    given = [(tmp_path / "there.csv").as_uri(), str(tmp_path / "here.csv")]
    lines = bulk_jobs.read_json_lines(spark, given, "csv").collect()
    assert sorted(json.loads(one.line)["at"] for one in lines) == ["here", "there"]


@pytest.fixture
def letters(
    spark: Any, link: Link, redis: Server, queue: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[str, ...]:
    """An archive of three dead letters, as options of a command; one of them has a name of two lines, one holds no job."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    place = ("--archive", str(tmp_path / "archive"), "-u", redis.url)
    for n, name in enumerate(("mail", "mail\nof two lines", "broken")):
        body = (
            msgpack_codec.pack([f"job-{n}", msgpack_codec.pack({"n": n}), NOW_MS, 3]) if name != "broken" else b"\xc1"
        )
        words = ("d", body, "n", name, "source_id", f"{n}-0", "reason", "unrecoverable")
        run_flow(link, "XADD", Keys(queue).dlq, f"{n + 1}-0", *words)
    numbered_events(link, queue, 1)
    assert run(["pipeline", "archive", queue, "--once", *place]) == 0
    return ("pipeline", "replay", queue, "--dry-run", "-o", "json", *place)


def test_letters_are_chosen_by_the_whole_of_their_name(
    letters: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    for glob, rows in (("*", 2), ("mail*", 2), ("mail", 1), ("mail?of*", 1), ("mail\n*", 1)):
        capsys.readouterr()
        assert run([*letters, "--name", glob]) == 0
        assert json.loads(capsys.readouterr().out)["rows"] == rows, glob


def test_a_letter_that_holds_no_job_is_counted_as_one(
    letters: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert run([*letters]) == 0
    assert "left out: 1 letter without a job that could run" in capsys.readouterr().err


def test_letters_since_before_all_calendars_are_all_letters(
    letters: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert run([*letters, "--since", "9999999d", "--until", "9999-12-31T23:59:59.999999-12:00"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == 2


@pytest.mark.parametrize(
    ("condition", "why"),
    [
        ("1/(seq) > 0", "[DIVIDE_BY_ZERO]"),
        ("1/0 > 0", "[DIVIDE_BY_ZERO]"),
        ("cast(name as int) > 0", "[CAST_INVALID_INPUT]"),
        ("ms + 9223372036854775807 > 0", "[ARITHMETIC_OVERFLOW]"),
        ("name rlike '['", "Unclosed character class"),
    ],
)
def test_a_condition_that_fails_on_a_letter_is_no_condition(
    letters: tuple[str, ...], capsys: pytest.CaptureFixture[str], condition: str, why: str
) -> None:
    capsys.readouterr()
    assert run([*letters, "--sql", condition]) == 2
    err = capsys.readouterr().err
    assert f"error: not a condition: {condition}: {why}" in err
    assert "hint: columns are " in err
