"""Compaction keeps what it finds: every event once, every recorded loss, and nothing of a batch that is not done."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chasqui.errors import ConfigError, Conflict, ServerError
from chasqui.server.link import Link
from chasqui.spark import archiver as archiver
from chasqui.spark import layout, maintenance, reports
from chasqui.spark.archiver import ArchivePlan
from chasqui.spark.layout import Archive
from chasqui.spark.reports import ReportQuery
from chasqui.wire.keys import Keys
from pyspark_chasqui import tables
from tests.spark.test_archive import undo
from tests.support.seeds.event_history import numbered_events, run_flow

LATER = "2100-01-01"
DAY = {"dt": "1970-01-01"}
EVENT = {"event": "completed", "ts": 1}
TRIMMED = {"event": tables.GAP, "reason": "trimmed"}


def put(spark: Any, archive: Archive, batch: int, *rows: dict[str, Any]) -> None:
    """Rows of a queue `q`, as a batch leaves them."""
    ddl = f"{tables.ddl('events')}, dt STRING, batch BIGINT"
    names = [*tables.TABLE_COLUMNS["events"], "dt", "batch"]
    whole = [{"queue": "q", "batch": batch} | DAY | row for row in rows]
    made = spark.createDataFrame([tuple(row.get(name) for name in names) for row in whole], ddl)
    made.write.partitionBy("queue", "dt", "batch").mode("append").parquet(archive.table_path("events"))


def at(ms: int, seq: int = 0) -> dict[str, Any]:
    return {"stream_id": f"{ms}-{seq}", "ms": ms, "seq": seq}


def test_compacting_keeps_every_recorded_loss(spark: Any, tmp_path: Path) -> None:
    """A long loss is several rows at one id, and a recreated stream has a row there, too."""
    archive = Archive(str(tmp_path))
    recreated = {"event": tables.GAP, "reason": "recreated"}
    put(spark, archive, 0, at(99) | EVENT, at(100) | EVENT, *[at(100) | TRIMMED | {"lost": 250}] * 4)
    put(spark, archive, 1, at(100) | recreated, at(100) | TRIMMED | {"lost": 7}, at(99) | EVENT)
    before = reports.run_report(spark, archive, "gaps", ReportQuery())
    [day] = maintenance.compact_days(spark, archive, ("events",), before=LATER)
    assert (day.rows, day.repeated) == (8, 1)
    after = reports.run_report(spark, archive, "gaps", ReportQuery())
    assert sorted(map(repr, after)) == sorted(map(repr, before))
    assert sum(row["lost"] or 0 for row in after) == 1007
    assert layout.read_table(spark, archive, "events").where("event = 'completed'").count() == 2


def test_events_without_a_kind_stay_as_well(spark: Any, tmp_path: Path) -> None:
    archive = Archive(str(tmp_path))
    put(spark, archive, 0, at(1), at(2))
    put(spark, archive, 1, at(2))
    [day] = maintenance.compact_days(spark, archive, ("events",), before=LATER)
    assert (day.rows, day.repeated) == (2, 1)


def test_a_loss_that_would_go_missing_stops_compaction_before_anything_changes(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = Archive(str(tmp_path))
    put(spark, archive, 0, at(1) | EVENT, at(1) | TRIMMED | {"lost": 250})
    put(spark, archive, 1, at(1) | TRIMMED | {"lost": 250})
    monkeypatch.setattr(maintenance, "_deduplicate", lambda rows, table: rows.dropDuplicates(["ms", "event"]))
    with pytest.raises(ServerError, match="3 rows and 500 lost events to keep, but 2 and 250 were written") as refused:
        maintenance.compact_days(spark, archive, ("events",), before=LATER)
    assert refused.value.hint == "nothing was changed; run it again"
    assert sum(row["lost"] for row in reports.run_report(spark, archive, "gaps", ReportQuery())) == 500


def test_a_spark_on_other_disks_is_refused_before_anything_changes(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine where the same paths lead elsewhere: what it reads is the same, what it writes never comes here."""
    archive, elsewhere = Archive(str(tmp_path / "here")), tmp_path / "there"
    put(spark, archive, 0, at(1) | EVENT)
    put(spark, archive, 1, at(2) | EVENT)
    monkeypatch.setattr(
        maintenance,
        "_file_url",
        lambda path: f"file://{elsewhere if '_compacting' in str(path) else ''}{path}",
    )
    with pytest.raises(ConfigError, match="does not write to this machine's disks") as refused:
        maintenance.compact_days(spark, archive, ("events",), before=LATER)
    assert refused.value.hint == "nothing was changed; compact with a Spark of this machine"
    assert len(list((tmp_path / "here").glob("events/*/*/batch=*"))) == 2
    assert layout.read_table(spark, archive, "events").count() == 2


def test_a_batch_that_was_killed_before_its_end_is_left_to_the_archive(
    spark: Any, link: Link, data_source_options: dict[str, str], queue: str, tmp_path: Path
) -> None:
    """Its files are there, but Spark will write it again."""
    archive = Archive(str(tmp_path))
    plan = ArchivePlan(archive, data_source_options, (queue,), ("events",), once=True, max_rows=1000)
    numbered_events(link, queue, 3000)
    archiver.archive_queues(spark, plan)
    newest = undo(tmp_path, "events")
    assert archive.last_committed_batch("events") == newest - 1

    [day] = maintenance.compact_days(spark, archive, ("events",), before=LATER)
    assert day.rows == 2000
    assert maintenance.compact_days(spark, archive, ("events",), before=LATER) == []
    archiver.archive_queues(spark, plan)
    ids = [row.stream_id for row in layout.read_table(spark, archive, "events").select("stream_id").collect()]
    assert sorted(ids) == sorted(one.decode() for one, _ in run_flow(link, "XRANGE", Keys(queue).events, "-", "+"))
    [day] = maintenance.compact_days(spark, archive, ("events",), before=LATER)
    assert (day.rows, day.repeated) == (3000, 0)


def test_a_batch_that_was_rewritten_during_a_killed_swap_stays_in_its_new_form(tmp_path: Path) -> None:
    old, day = (tmp_path / top / "events" / "queue=q" / "dt=2026-01-01" for top in ("_replaced", "."))
    for place in (old / "batch=1", old / "batch=2", day / "batch=2"):
        place.mkdir(parents=True)
        (place / "part.parquet").write_text(str(place))
    maintenance.recover_swaps(Archive(str(tmp_path)))
    assert sorted(one.name for one in day.iterdir()) == ["batch=1", "batch=2"]
    assert (day / "batch=2" / "part.parquet").read_text() == str(day / "batch=2")
    assert not old.exists()


def test_no_day_is_swapped_while_a_batch_is_written(
    spark: Any,
    link: Link,
    data_source_options: dict[str, str],
    queue: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    archive, held = Archive(str(tmp_path)), []

    def noting(work: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*words: Any) -> Any:
            with pytest.raises(Conflict), layout.file_lock(tmp_path / "_lock.events", Conflict("taken")):
                pass
            held.append(work.__name__)
            return work(*words)

        return noted

    monkeypatch.setattr(archiver, "_batch_directories", noting(archiver._batch_directories))
    monkeypatch.setattr(maintenance, "_swap_day", noting(maintenance._swap_day))
    numbered_events(link, queue, 10)
    archiver.archive_queues(spark, ArchivePlan(archive, data_source_options, (queue,), ("events",), once=True))
    maintenance.compact_days(spark, archive, ("events",), before=LATER)
    assert held == ["_batch_directories", "_swap_day"]


def test_an_archive_is_compacted_by_one_at_a_time(spark: Any, tmp_path: Path) -> None:
    import fcntl

    archive = Archive(str(tmp_path))
    with (tmp_path / "_lock.compact").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(Conflict, match=r"somebody else compacts .* already"):
            maintenance.compact_days(spark, archive, ("events",), before=LATER)
    assert maintenance.compact_days(spark, archive, ("events",), before=LATER) == []
