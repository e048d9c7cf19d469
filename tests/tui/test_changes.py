"""Every change a key offers, on every kind of server: one person walks through all dialogs. Each change is seen in Redis,
does the same as its command line in a shell, and is taken back by `u` where it can be.

One dialog runs its commands as processes of their own, as in life, and on one kind of server every printed line is run by a
shell; all else happens inside this process, for what differs there is the server.
"""

from __future__ import annotations

import io
import os
import shlex
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from textual import events
from textual.widgets import Button, Input, Static

from chasqui import Keys, SyncQueue
from chasqui.foreign import RsmqKeys, rsmq
from chasqui.wire import delayed_member, envelope, stream_entry
from chasqui_cli.app import run
from chasqui_cli.context.settings import RESULT_VARIABLE
from chasqui_cli.tui.command_line import add_options
from chasqui_cli.tui.command_runner import CommandResult, CommandRunner, _result_pipe
from tests.support.seeds import dashboard_queues
from tests.support.tui.driver import open_dashboard, write_config

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from chasqui import Link
    from tests.support.servers.server import Server
    from tests.support.tui.driver import DashboardDriver

Dump = dict[str, Any]
IN_LIFE = ("replay",)
"""The dialogs whose commands are processes of their own, on every kind of server; the others' run inside this one."""
PARTLY = 3


def dump(link: Link, queue: str) -> Dump:
    """What is in a queue, without the ids that a server gives."""
    keys = Keys(queue)
    entries = [
        stream_entry.decode(fields) for _, fields in dashboard_queues.command(link, "XRANGE", keys.stream, "-", "+")
    ]
    jobs = [envelope.decode(entry.d or b"") for entry in entries]
    members = dashboard_queues.command(link, "ZRANGE", keys.delayed, 0, -1, "WITHSCORES")
    due = {delayed_member.decode(one).envelope.id: int(at) for one, at in zip(members[::2], members[1::2], strict=True)}
    groups = dashboard_queues.command(link, "XINFO", "GROUPS", keys.stream) if entries else []
    return {
        "stream": sorted((job.id, entry.name, job.attempt) for job, entry in zip(jobs, entries, strict=True)),
        "dead": sorted(fields[1] for _, fields in dashboard_queues.command(link, "XRANGE", keys.dlq, "-", "+")),
        "delayed": due,
        "schedules": sorted(dashboard_queues.command(link, "ZRANGE", keys.repeat, 0, -1)),
        "holds": {
            row[1]: row[3]
            for _ in groups
            for row in dashboard_queues.command(link, "XINFO", "CONSUMERS", keys.stream, dashboard_queues.GROUP)
            if not row[1].startswith(b"chasqui") and (row[3] or row[1] != b"!released")
        },
    }


def change(before: Dump, after: Dump) -> Dump:
    """What became of a queue; times as distances, and jobs that got ids of their own by name: a twin has its own."""
    moved = {job: due - before["delayed"].get(job, due) for job, due in after["delayed"].items()}
    known = {job[0] for job in before["stream"]}
    jobs = [job if job[0] in known or not job[0].startswith("01") else job[1:] for job in after["stream"]]
    return after | {"delayed": moved, "stream": jobs}


@dataclass(frozen=True)
class Step:
    """A key that changes something. plant: fills a queue; holds: what must be true of it afterwards."""

    name: str
    plant: Callable[[Link, str], Any]
    tab: str
    table: str
    keys: Sequence[str]
    verb: str
    holds: Callable[[Dump, Dump], bool]
    options: str = ""
    code: int = 0
    undoes: bool = True
    first: str = field(default="")
    """The row under the cursor, if not the first one."""


def _two_groups(link: Link, queue: str) -> None:
    dashboard_queues.add_dead_letters(link, queue, 3)
    dashboard_queues.add_dead_letters(link, queue, 2, name="send-email", detail="SMTP timeout")


def _waits_and_is_delayed(link: Link, queue: str) -> None:
    """The same job once more, for later: that one can be cancelled."""
    dashboard_queues.add_waiting(link, queue, 1, name="remind")
    dashboard_queues.add_delayed(link, queue, 1)


def _add_consumers(link: Link, queue: str) -> None:
    dashboard_queues.add_in_flight(link, queue, 2, "holder")
    dashboard_queues.command(link, "XGROUP", "CREATECONSUMER", Keys(queue).stream, dashboard_queues.GROUP, "idler")


STEPS = (
    Step("replay", lambda link, queue: dashboard_queues.add_dead_letters(link, queue, 3), "4", "#letters", ["space", "space", "R"],
         "dlq replay --limit 2", lambda a, b: [job[0] for job in b["stream"]] == ["charge-dead-1", "charge-dead-2"]
         and len(b["dead"]) == 1),
    Step("canary", lambda link, queue: dashboard_queues.add_dead_letters(link, queue, 5), "4", "#groups", ["C"], "dlq replay --limit 5 --canary 3",
         lambda a, b: (len(b["stream"]), len(b["dead"])) == (3, 2), options="--canary-timeout 100ms", code=PARTLY),
    Step("edit", lambda link, queue: dashboard_queues.add_dead_letters(link, queue, 1), "4", "#letters", ["E"], "dlq edit",
         lambda a, b: len(b["dead"]) == 1 and a["dead"] != b["dead"], options="--set nth=99 --no-replay"),
    Step("delete", _two_groups, "4", "#groups", ["j", "j", "D"], "dlq purge", lambda a, b: len(b["dead"]) == 3),
    Step("now", lambda link, queue: dashboard_queues.add_delayed(link, queue, 3), "5", "#delayed", ["N"], "delayed now",
         lambda a, b: [job[0] for job in b["stream"]] == ["remind-0"] and list(b["delayed"]) == ["remind-1", "remind-2"]),
    Step("cancel", lambda link, queue: dashboard_queues.add_delayed(link, queue, 3), "5", "#delayed", ["a", "K"], "delayed cancel",
         lambda a, b: not b["delayed"]),
    Step("move", lambda link, queue: dashboard_queues.add_delayed(link, queue, 2), "5", "#delayed", ["M"], "delayed move",
         lambda a, b: {job: b["delayed"][job] - a["delayed"][job] for job in a["delayed"]}
         == {"remind-0": 3_600_000, "remind-1": 0}, options="--by 1h"),
    Step("cancel-job", _waits_and_is_delayed, "3", "#waiting", ["K"], "job cancel",
         lambda a, b: a["delayed"] and not b["delayed"] and a["stream"] == b["stream"]),
    Step("run", dashboard_queues.add_schedules, "6", "#specs", ["N"], "repeatable run",
         lambda a, b: [job[1] for job in b["stream"]] == ["tick"]),
    Step("remove", dashboard_queues.add_schedules, "6", "#specs", ["D"], "repeatable remove",
         lambda a, b: len(b["schedules"]) == len(a["schedules"]) - 1),
    Step("claim", _add_consumers, "7", "#workers", ["C"], "workers claim", lambda a, b: not b["holds"].get(b"holder"),
         undoes=False, first="default\0holder"),
    Step("prune", _add_consumers, "7", "#workers", ["space", "P"], "workers prune",
         lambda a, b: b["holds"] == {b"holder": 2}, options="--gone-after 0s", undoes=False, first="default\0idler"),
)  # fmt: skip


class InsideRunner(CommandRunner):
    """Runs lines in this process: what they do is the same, and a process takes a third of a second to start."""

    async def run(self, words: Sequence[str], **_: Any) -> CommandResult:
        return inside(self.environment["CHASQUI_REDIS_URL"], words)


def inside(url: str, words: Sequence[str]) -> CommandResult:
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setenv("CHASQUI_REDIS_URL", url)
        with _result_pipe() as (pipe, read_result):
            patch.setenv(RESULT_VARIABLE, str(pipe))
            code = run(list(words))
            return CommandResult(int(code), out.getvalue(), err.getvalue(), **read_result())


class Walk:
    """A user who opens one dialog after the other."""

    def __init__(self, server: Server, link: Link, person: DashboardDriver) -> None:
        self.server, self.link, self.person = server, link, person
        self._outside = person.app._runner
        self._inside = InsideRunner(self._outside.environment, self._outside.connection_words)

    async def go(self, step: Step, queue: str) -> None:
        """One dialog, from the fleet to consent and back, with the line on a twin in between."""
        twin = f"{queue}-twin"
        before, twin_before = dump(self.link, queue), dump(self.link, twin)
        person = self.person
        person.app._runner = self._outside if step.name in IN_LIFE else self._inside
        await self.look_at(step.tab, step.table, queue, step.first)
        await person.press(*step.keys)
        if step.options:
            await person.wait_until(lambda: len(person.app.screen_stack) > 1, f"{step.name}: a dialog opened")
            asked = person.dialog.query_one("#options", Input)
            asked.focus()
            asked.post_message(events.Paste(step.options))
            await person.settle()
            await person.press("enter")
        words = await person.wait_for_preview()
        if step.options:
            wanted = shlex.split(step.options)
            await person.wait_until(lambda: set(wanted) <= set(person.dialog._previewed or []), "it was tried again")
            words = list(person.dialog._previewed or [])
        assert " ".join(words).startswith(step.verb)
        assert dump(self.link, queue) == before, f"{step.name}: a preview changes nothing"
        shown = str(person.dialog.query_one("#line", Static).render())
        line = f"$ {person.app._runner.display_text(words)}"
        assert shown == line or (" more …" in shown and line.startswith(shown.partition(" … ")[0]))
        assert shown.endswith(step.options), "what was typed is seen"
        assert self.server.url not in shown, "the URL may hold a password: it travels in the environment"
        self.in_shell(self._on_twin(words, queue, twin), step.code)
        await person.confirm_change(step.code)
        after = dump(self.link, queue)
        assert step.holds(before, after), (step.name, before, after)
        assert change(before, after) == change(twin_before, dump(self.link, twin)), (
            f"{step.name}: the dialog and its line in a shell do the same"
        )
        if step.undoes:
            await person.press("u")
            await person.wait_for_preview()
            await person.confirm_change()
            assert dump(self.link, queue) == before, f"u takes {step.name} back"
        person.app.clear_notifications()
        await person.press("u")
        messages = [one.message for one in person.app._notifications]
        assert messages == ["the last change cannot be taken back, or was"], step.name
        assert len(person.app.screen_stack) == 1, "what was done before is not meant"

    async def look_at(self, tab: str, name: str, queue: str, first: str = "") -> None:
        """From the fleet to a table of a queue, and to a row in it."""
        person = self.person
        await person.press("1")
        await person.open(tab, queue)
        table = person.table(name)
        await person.wait_until(lambda: table.row_count, f"there is something to choose from in {queue}")
        table.focus()
        if first:
            await person.wait_until(lambda: first in table.row_keys, f"{first!r} is there")
            table.select(first)
            await person.settle()

    def _on_twin(self, words: list[str], queue: str, twin: str) -> list[str]:
        """The same line for the twin, whose dead letters have ids of their own."""
        places = [
            [row[0].decode() for row in dashboard_queues.command(self.link, "XRANGE", Keys(name).dlq, "-", "+")]
            for name in (queue, twin)
        ]
        names = dict(zip(*places, strict=True)) | {queue: twin}
        return [names.get(word, word) for word in words]

    def in_shell(self, words: list[str], code: int = 0) -> str:
        """Run the line as it is printed in a shell; return its stdout."""
        line = self.person.app._runner.display_text(add_options(words, "--yes"))
        variables = os.environ | {
            "CHASQUI_REDIS_URL": self.server.url,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        }
        done = subprocess.run(["bash", "-c", line], env=variables, capture_output=True, text=True, check=False)
        assert done.returncode == code, (line, done.stderr)
        return done.stdout


@pytest.mark.timeout(300)
async def test_every_dialog_changes_what_its_command_line_changes(own_server: Server, link: Link, home: Path) -> None:
    for step in STEPS:
        step.plant(link, f"w-{step.name}")
        step.plant(link, f"w-{step.name}-twin")
    letters = dashboard_queues.add_dead_letters(link, "w-x", 3)
    dashboard_queues.add_waiting(link, "w-k", 1)
    dashboard_queues.add_dead_letters(link, "w-many", 101)
    async with open_dashboard(own_server.url, size=(80, 24), interval_s=3) as person:
        walk = Walk(own_server, link, person)
        await person.wait_until(lambda: len(person.table("#fleet").row_keys) >= 2 * len(STEPS) + 3, "all are there")
        for step in STEPS:
            await walk.go(step, f"w-{step.name}")
        await _exports(walk, "w-x", letters, home / "dead.jsonl")
        await _explains_why_a_waiting_job_stays(walk, "w-k")
        await _wants_the_name_of_many(walk, "w-many")
        await _takes_lines_at_the_colon(walk, "w-x")


async def _exports(walk: Walk, queue: str, letters: list[str], file: Path) -> None:
    """Two marked dead letters into a file; the line prints the same."""
    person = walk.person
    await walk.look_at("4", "#letters", queue)
    await person.press("space", "space", "X")
    person.app.main_screen.query_one("#prompt", Input).value = str(file)
    await person.press("enter")
    await person.wait_until(file.exists, "the file was written")
    await person.output()
    words = list(person.app.screen._words)  # type: ignore[attr-defined]  # an OutputDialog
    await person.press("escape")
    text = file.read_text()
    assert [one for one in letters if one in text] == letters[1:]
    ended = inside(walk.server.url, [word for word in words if word not in ("--file", str(file))])
    assert ended.out == text, "without a file the line prints the same"


async def _explains_why_a_waiting_job_stays(walk: Walk, queue: str) -> None:
    """Only what is delayed can be cancelled, and the dialog shows it before anything happens."""
    before = dump(walk.link, queue)
    await walk.look_at("3", "#waiting", queue)
    await walk.person.press("K")
    await walk.person.wait_for_text("this cannot be done", f"chasqui job cancel {queue} send-email-0")
    await walk.person.press("y", "escape")
    assert dump(walk.link, queue) == before


async def _wants_the_name_of_many(walk: Walk, queue: str) -> None:
    person = walk.person
    await walk.look_at("4", "#groups", queue)
    await person.wait_until(lambda: person.table("#letters").row_count == 101, "all letters are there")
    await person.press("D")
    await person.wait_for_preview()
    dialog = person.dialog
    assert dialog.needs_typed_name
    await person.press("enter")
    await person.wait_for_text("type the queue's name first")
    assert dialog._ended is None
    await person.confirm_change()
    assert not dump(walk.link, queue)["dead"]


async def _takes_lines_at_the_colon(walk: Walk, queue: str) -> None:
    person = walk.person
    await person.press("1", "colon")
    await person.type(f"dlq groups {queue}")
    await person.press("enter")
    assert "card declined" in await person.output()
    await person.press("escape", "colon")
    await person.type(f"dlq purge {queue} --limit 1")
    await person.press("enter")
    await person.wait_for_preview()
    await person.confirm_change()
    assert len(dump(walk.link, queue)["dead"]) == 2
    for line, refusal in (
        ("worker run x:y", "terminal of its own"),
        ("events --follow", "never ends"),
        ('add "', "no command line"),
    ):
        await person.press("colon")
        await person.type(line)
        await person.press("enter")
        await person.wait_for_text(refusal)


async def test_a_protected_context_wants_the_name_of_the_queue_typed(
    one_server: Server, link: Link, queue: str, home: Path
) -> None:
    write_config(home, f'[contexts.prod]\nurl = "{one_server.url}"\nprotected = true\ncolor = "red"\n')
    dashboard_queues.add_dead_letters(link, queue, 2)
    async with open_dashboard(one_server.url, context="prod") as person:
        await person.open("4", queue)
        assert "prod" in person.frame
        await person.press("R")
        await person.wait_for_preview()
        dialog = person.dialog
        dialog.set_focus(None)
        await person.press("y")
        await person.wait_for_text("type the queue's name first")
        typed = dialog.query_one("#typed", Input)
        typed.value = "another"
        await person.press("enter")
        assert dump(link, queue)["dead"], "another name is no consent"
        typed.value = queue
        await person.press("enter")
        await person.wait_until(lambda: dialog._ended is not None, "the change was made")
        assert dialog._ended is not None
        assert dialog._ended.code == 0, dialog._ended
        assert not dump(link, queue)["dead"]


async def test_a_group_emptied_by_another_client_while_it_is_open(one_server: Server, link: Link, queue: str) -> None:
    dashboard_queues.add_dead_letters(link, queue, 3, name="charge", detail="card declined")
    dashboard_queues.add_dead_letters(link, queue, 1, name="mail", detail="no such host")
    async with open_dashboard(one_server.url) as person:
        await person.open("4", queue)
        await person.press("down")
        await person.wait_for_text("card declined")
        with SyncQueue(queue, link=link) as sync_queue:
            sync_queue.replay_dlq(limit=3)
        await person.wait_until(lambda: "1 dead" in person.screen(), "the others were gone")
        await person.press("R")
        words = await person.wait_for_preview()
        assert words[:2] == ["dlq", "replay"]
        await person.confirm_change()
        await person.wait_for_text("no dead letters")
        await person.press("R")
        assert len(person.app.screen_stack) == 1, "there is nothing to replay"


async def test_read_only_greys_every_change(one_server: Server, link: Link, queue: str, now_ms: int) -> None:
    dashboard_queues.add_every_state(link, queue, now_ms)
    before = dump(link, queue)
    async with open_dashboard(one_server.url, read_only=True) as person:
        await person.open("2", queue)
        assert "READ-ONLY" in person.frame
        for tab, keys in {"3": "K", "4": "RCED", "5": "NKM", "6": "ND", "7": "PC", "1": "u"}.items():
            await person.open_tab(tab)
            for key in keys:
                offered = person.app.screen.active_bindings[key]
                assert not offered.enabled, f"{key} of tab {tab} is not greyed"
                await person.press(key)
                assert len(person.app.screen_stack) == 1, f"{key} opened a dialog"
        await person.press("colon")
        await person.type(f"dlq purge {queue}")
        await person.press("enter")
        await person.wait_for_text("this dashboard is read-only")
    assert dump(link, queue) == before


async def test_a_line_about_another_queue_is_confirmed_with_that_queue(
    one_server: Server, link: Link, queue: str, home: Path
) -> None:
    """What a protected context wants typed is the queue that is changed, not the one on the screen; `u` as well."""
    write_config(home, f'[contexts.prod]\nurl = "{one_server.url}"\nprotected = true\n')
    orders = RsmqKeys("orders", queue)
    link.run(rsmq.create_queue(orders))
    link.run(rsmq.send_many(orders, [rsmq.Draft(b"one"), rsmq.Draft(b"two")]))
    dashboard_queues.add_dead_letters(link, queue, 1)

    def count() -> int:
        return int(dashboard_queues.command(link, "ZCARD", orders.messages))

    async with open_dashboard(one_server.url, context="prod") as person:
        await person.open("4", queue)
        await person.press("colon")
        await person.type(f"rsmq purge orders --all --ns {queue}")
        await person.press("enter")
        await person.wait_for_preview()
        assert person.dialog.queue == "orders"
        await person.confirm_change()
        assert not count()
        await person.press("u")
        await person.wait_for_preview()
        await person.confirm_change()
        assert count() == 2


async def test_what_cannot_be_changed_is_not_offered_for_consent(one_server: Server, link: Link, queue: str) -> None:
    dashboard_queues.command(link, "ZADD", Keys(queue).delayed, 1, b"not a job")
    async with open_dashboard(one_server.url) as person:
        await person.open("5", queue)
        await person.wait_until(lambda: person.table("#delayed").row_count, "the entry is there")
        await person.press("N")
        await person.wait_for_text("nothing to do")
        assert person.dialog.query_one("#do", Button).disabled
        await person.press("y", "escape")
    assert dashboard_queues.command(link, "ZCARD", Keys(queue).delayed) == 1
