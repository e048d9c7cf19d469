"""The soak's account must report every way in which a queue can be wrong, or a green soak would mean nothing."""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.soak import Account, fault_plan

FATES = {"a": "sound", "b": "sound", "c": "doomed"}


def account(tmp_path: Path, *lines: str, dead: tuple[str, ...] = ("c",)) -> Account:
    (tmp_path / "4711").write_text("".join(line + "\n" for line in lines))
    found = Account(dict(FATES))
    found.read(tmp_path)
    for job_id in dead:
        found.add_dead_letter(job_id, "unrecoverable: as planned")
    return found


def test_nothing_is_wrong_when_every_job_ran_once(tmp_path: Path) -> None:
    found = account(tmp_path, "start a 0", "done a 0", "start b 0", "done b 0", "start c 0")
    assert (found.lost, found.wrongly_dead, found.unexpected, found.repeated) == ([], [], [], 0)


def test_a_job_that_was_started_but_never_done_is_lost(tmp_path: Path) -> None:
    assert account(tmp_path, "start a 0", "done a 0", "start b 0").lost == ["b"]


def test_a_sound_job_in_the_dlq_is_wrongly_dead_and_so_is_one_dead_twice(tmp_path: Path) -> None:
    assert account(tmp_path, dead=("a", "c", "c")).wrongly_dead == ["a", "c"]


def test_a_job_that_died_and_was_done_as_well_is_wrongly_dead(tmp_path: Path) -> None:
    assert account(tmp_path, "start c 0", "done c 0").wrongly_dead == ["c"]


def test_a_job_that_was_never_added_is_unexpected(tmp_path: Path) -> None:
    assert account(tmp_path, "start ghost 0").unexpected == ["ghost"]


def test_only_a_second_run_of_the_same_attempt_is_a_repetition(tmp_path: Path) -> None:
    assert account(tmp_path, "start a 0", "start a 1", "start b 0", "start b 0").repeated == 1


def test_a_half_written_last_line_of_a_killed_worker_is_no_run(tmp_path: Path) -> None:
    (tmp_path / "4712").write_text("start a 0\nstart b")
    found = account(tmp_path)
    assert found.starts == {("a", "0"): 1}


def test_the_same_seed_makes_the_same_plan() -> None:
    words = argparse.Namespace(seed=7, seconds=30.0, workers=4)
    plan = fault_plan(words)
    assert plan == fault_plan(words)
    assert len(plan) > 20
    assert {who for _, who in plan} == {0, 1, 2, 3}
