"""Every change a key offers: seen in Redis, the same as its command line in a shell, and taken back by `u`."""

from __future__ import annotations

import io
from contextlib import redirect_stderr, redirect_stdout
from typing import TYPE_CHECKING, Any

import pytest
from textual.widgets import Input

from chasqui import Keys
from chasqui.wire import delayed_member, envelope, stream_entry
from chasqui_cli.app import run
from tests.tui import seed
from tests.tui.cockpit import cockpit

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from chasqui import Link
    from tests.servers import Server

Dump = dict[str, Any]


def dump(link: Link, queue: str) -> Dump:
    """What is in a queue, without the ids that a server gives."""
    keys = Keys(queue)
    entries = [stream_entry.decode(fields) for _, fields in seed.say(link, "XRANGE", keys.stream, "-", "+")]
    jobs = [envelope.decode(entry.d or b"") for entry in entries]
    members = seed.say(link, "ZRANGE", keys.delayed, 0, -1, "WITHSCORES")
    due = {
        delayed_member.decode(one).envelope.id: int(at)
        for one, at in zip(members[::2], members[1::2], strict=True)
    }
    return {
        "stream": sorted((job.id, entry.name, job.attempt) for job, entry in zip(jobs, entries, strict=True)),
        "dead": sorted(fields[1] for _, fields in seed.say(link, "XRANGE", keys.dlq, "-", "+")),
        "delayed": due,
        "schedules": sorted(seed.say(link, "ZRANGE", keys.repeat, 0, -1)),
    }


class Both:
    """A change made by a dialog, and its line run on a twin of the queue: the same comes of both."""

    def __init__(self, server: Server, link: Link, queue: str) -> None:
        self.server, self.link, self.queue = server, link, queue
        self.twin = f"{queue}-twin"

    async def try_out(
        self, plant: Callable[[Link, str], Any], tab: str, table: str, *keys: str, options: str = ""
    ) -> tuple[Dump, Dump, list[str]]:
        """Answers how it was before and after, and the line. `plant` fills a queue."""
        plant(self.link, self.queue)
        plant(self.link, self.twin)
        before, twin_before = dump(self.link, self.queue), dump(self.link, self.twin)
        async with cockpit(self.server.url) as person:
            await person.open(tab, self.queue)
            await person.until(lambda: person.table(table).row_count, "there is something to choose from")
            person.table(table).focus()
            await person.press(*keys)
            if options:
                await person.type(options)
                await person.press("enter")
            words = await person.previewed()
            assert dump(self.link, self.queue) == before, "a preview changes nothing"
            line = person.app._runner.shown(words)
            assert self.server.url not in line, "the URL may hold a password: it travels in the environment"
            self._in_shell([*self._on_twin(words), "--yes"])
            await person.consents()
            after = dump(self.link, self.queue)
            assert after != before
            told = difference(before, after), difference(twin_before, dump(self.link, self.twin))
            assert told[0] == told[1], "the dialog and its line in a shell do the same"
            await person.press("u")
            await person.previewed()
            await person.consents()
            assert dump(self.link, self.queue) == before, "u takes it back"
        return before, after, words

    def _on_twin(self, words: list[str]) -> list[str]:
        """The same line for the twin, whose letters have ids of their own."""
        places = [
            [row[0].decode() for row in seed.say(self.link, "XRANGE", Keys(queue).dlq, "-", "+")]
            for queue in (self.queue, self.twin)
        ]
        names = dict(zip(*places, strict=True)) | {self.queue: self.twin}
        return [names.get(word, word) for word in words]

    def _in_shell(self, words: list[str]) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("CHASQUI_REDIS_URL", self.server.url)
            told = io.StringIO()
            with redirect_stderr(told), redirect_stdout(io.StringIO()):
                assert run(words) == 0, told.getvalue()


def difference(before: Dump, after: Dump) -> Dump:
    """What became of a queue; times as distances, for a twin has its own."""
    moved = {job: due - before["delayed"].get(job, due) for job, due in after["delayed"].items()}
    return after | {"delayed": moved}


@pytest.fixture
def both(one_server: Server, link: Link, queue: str) -> Both:
    return Both(one_server, link, queue)


async def test_dead_letters_are_replayed(own_server: Server, link: Link, queue: str) -> None:
    both = Both(own_server, link, queue)
    before, after, words = await both.try_out(
        lambda link, queue: seed.dead(link, queue, 3), "4", "#letters", "space", "space", "R"
    )
    assert words[:5] == ["dlq", "replay", "--limit", "2", both.queue]
    assert len(words) == 7, "the ids of the two that were marked"
    assert len(before["dead"]) - len(after["dead"]) == 2
    assert [job[0] for job in after["stream"]] == ["charge-dead-1", "charge-dead-2"]
    assert {job[2] for job in after["stream"]} == {0}


async def test_a_whole_group_is_deleted(both: Both) -> None:
    def plant(link: Link, queue: str) -> None:
        seed.dead(link, queue, 3)
        seed.dead(link, queue, 2, name="send-email", detail="SMTP timeout")

    _, after, words = await both.try_out(plant, "4", "#groups", "j", "j", "D")
    assert words[:3] == ["dlq", "purge", both.queue]
    assert len(words) == 5, "the two ids of the second group"
    assert len(after["dead"]) == 3


async def test_a_dead_letter_is_edited(both: Both) -> None:
    _, after, words = await both.try_out(
        lambda link, queue: seed.dead(link, queue, 1),
        "4",
        "#letters",
        "E",
        options="--set nth=99 --no-replay",
    )
    assert words[:2] == ["dlq", "edit"]
    assert b"c" in after["dead"][0]


async def test_a_delayed_job_runs_now(both: Both) -> None:
    _, after, words = await both.try_out(
        lambda link, queue: seed.delayed(link, queue, 3), "5", "#delayed", "N"
    )
    assert words == ["delayed", "now", both.queue, "remind-0"]
    assert [job[0] for job in after["stream"]] == ["remind-0"]
    assert list(after["delayed"]) == ["remind-1", "remind-2"]


async def test_delayed_jobs_are_cancelled(both: Both) -> None:
    _, after, words = await both.try_out(
        lambda link, queue: seed.delayed(link, queue, 3), "5", "#delayed", "a", "K"
    )
    assert words[:3] == ["delayed", "cancel", both.queue]
    assert not after["delayed"]


async def test_a_delayed_job_is_moved(both: Both) -> None:
    before, after, _ = await both.try_out(
        lambda link, queue: seed.delayed(link, queue, 2), "5", "#delayed", "M", options="--by 1h"
    )
    assert after["delayed"]["remind-0"] - before["delayed"]["remind-0"] == 3_600_000
    assert after["delayed"]["remind-1"] == before["delayed"]["remind-1"]


async def test_a_schedule_is_removed(both: Both) -> None:
    before, after, words = await both.try_out(seed.schedules, "6", "#specs", "D")
    assert words[:3] == ["repeatable", "remove", both.queue]
    assert len(after["schedules"]) == len(before["schedules"]) - 1


async def test_a_schedule_runs_once(one_server: Server, link: Link, queue: str) -> None:
    """Each run makes a job with an id of its own, so only the number of jobs can be compared."""
    seed.schedules(link, queue)
    async with cockpit(one_server.url) as person:
        await person.open("6", queue)
        await person.until(lambda: person.table("#specs").row_count == 2, "both schedules are there")
        await person.press("N")
        assert (await person.previewed())[:3] == ["repeatable", "run", queue]
        await person.consents()
        assert [job[1] for job in dump(link, queue)["stream"]] == ["tick"]
        await person.press("u")
        await person.previewed()
        await person.consents()
        assert not dump(link, queue)["stream"]


async def test_workers_that_are_gone_are_pruned_and_what_they_hold_is_freed(
    one_server: Server, link: Link, queue: str
) -> None:
    keys = Keys(queue)
    seed.in_flight(link, queue, 2, "dead-1")
    seed.say(link, "XGROUP", "CREATECONSUMER", keys.stream, "default", "dead-2")
    async with cockpit(one_server.url) as person:
        await person.open("7", queue)
        table = person.table("#workers")
        await person.until(lambda: table.row_count == 2, "both are there")
        table.select("default\0dead-1")
        await person.press("C")
        assert await person.previewed() == ["workers", "claim", queue, "dead-1"]
        await person.consents()
        held = {row[1]: row[3] for row in seed.say(link, "XINFO", "CONSUMERS", keys.stream, "default")}
        assert held.get(b"dead-1", 0) == 0
        await person.press("P")
        await person.sees("nobody here is gone")


async def test_a_canary_goes_first_and_the_rest_stays_when_nobody_answers(
    one_server: Server, link: Link, queue: str
) -> None:
    seed.dead(link, queue, 5)
    async with cockpit(one_server.url) as person:
        await person.open("4", queue)
        await person.until(lambda: person.table("#letters").row_count == 5, "all letters are there")
        await person.press("C")
        words = await person.previewed()
        assert "--canary" in words
        dialog = person.dialog
        await person.press("tab", "tab")
        dialog.query_one("#options").focus()
        await person.type("--canary-timeout 500ms")
        await person.press("enter")
        await person.previewed()
        await person.press("y")
        await person.until(lambda: dialog._ended is not None, "the canary's time was over")
        assert dialog._ended
        assert dialog._ended.code == 3
        told = dump(link, queue)
        assert len(told["stream"]) == 3
        assert len(told["dead"]) == 2


async def test_many_want_the_name_typed(one_server: Server, link: Link, queue: str) -> None:
    seed.dead(link, queue, 101)
    async with cockpit(one_server.url) as person:
        await person.open("4", queue)
        await person.until(lambda: person.table("#letters").row_count == 101, "all letters are there")
        await person.press("D")
        await person.previewed()
        dialog = person.dialog
        assert dialog.must_type
        await person.press("enter")
        await person.sees("type the queue's name first")
        assert dialog._ended is None
        await person.consents()
        assert not dump(link, queue)["dead"]


async def test_letters_are_exported_to_a_file(one_server: Server, link: Link, queue: str, home: Path) -> None:
    ids = seed.dead(link, queue, 3)
    async with cockpit(one_server.url) as person:
        await person.open("4", queue)
        person.table("#letters").focus()
        await person.until(lambda: person.table("#letters").row_count == 3, "all letters are there")
        await person.press("space", "space", "X")
        prompt = person.app.home.query_one("#prompt", Input)
        prompt.value = str(home / "dead.jsonl")
        await person.press("enter")
        await person.until((home / "dead.jsonl").exists, "the file was written")
        await person.output()
    told = (home / "dead.jsonl").read_text()
    assert [one for one in ids if one in told] == ids[1:]


async def test_commands_are_taken_at_the_colon(one_server: Server, link: Link, queue: str) -> None:
    seed.dead(link, queue, 2)
    async with cockpit(one_server.url) as person:
        await person.until(lambda: queue in person.table("#fleet").shown, "the queue is there")
        await person.press("colon")
        await person.type(f"dlq groups {queue}")
        await person.press("enter")
        assert "card declined" in await person.output()
        await person.press("escape", "colon")
        await person.type(f"dlq purge {queue} --limit 1")
        await person.press("enter")
        await person.previewed()
        await person.consents()
        assert len(dump(link, queue)["dead"]) == 1
        for line, refusal in (
            ("worker run x:y", "terminal of its own"),
            ("events --follow", "never ends"),
            ('add "', "no command line"),
        ):
            await person.press("colon")
            await person.type(line)
            await person.press("enter")
            await person.sees(refusal)


async def test_read_only_greys_every_change(one_server: Server, link: Link, queue: str, now_ms: int) -> None:
    seed.everything(link, queue, now_ms)
    before = dump(link, queue)
    async with cockpit(one_server.url, read_only=True) as person:
        await person.open("2", queue)
        assert "READ-ONLY" in person.frame
        for tab, keys in {"3": "K", "4": "RCED", "5": "NKM", "6": "ND", "7": "PC", "1": "u"}.items():
            await person.press(tab)
            await person.until(lambda: person.app.pane.view is not None, "the tab had something to show")
            for key in keys:
                offered = person.app.screen.active_bindings[key]
                assert not offered.enabled, f"{key} of tab {tab} is not greyed"
                await person.press(key)
                assert len(person.app.screen_stack) == 1, f"{key} opened a dialog"
        await person.press("colon")
        await person.type(f"dlq purge {queue}")
        await person.press("enter")
        await person.sees("this dashboard is read-only")
    assert dump(link, queue) == before
