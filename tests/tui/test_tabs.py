"""Every tab on every kind of server: what is in Redis is on the screen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.widgets import Input

from chasqui import Keys
from chasqui.foreign import RsmqKeys, rsmq
from chasqui.wire import envelope
from tests.support.seeds import dashboard_queues
from tests.support.tui.driver import open_dashboard

if TYPE_CHECKING:
    from chasqui import Link
    from tests.support.servers.server import Server


async def test_every_tab_shows_what_is_there(own_server: Server, link: Link, queue: str, now_ms: int) -> None:
    dashboard_queues.add_every_state(link, queue, now_ms)
    async with open_dashboard(own_server.url) as person:
        await person.wait_for_text("QUEUE", queue[:12], "1 RTT")
        await person.open("2", queue)
        await person.wait_for_text(
            "waiting   7", "in flight 3", "by name", "send-email", "8 dead letters", "chasqui dlq groups"
        )
        await person.press("3")
        await person.wait_for_text("send-email-0", "user0@example.com", "«redacted»", "3 in flight", "worker-1")
        await person.press("4")
        await person.wait_for_text("8 dead, all read", "card declined", "SMTP timeout after <n> ms", "decode_failed")
        await person.press("5")
        await person.wait_for_text("6 delayed", "remind-0", "fall due")
        await person.press("6")
        await person.wait_for_text("2 schedules", "every 1m00s", "at 09:00, on Monday to Friday", "next fires")
        await person.press("7")
        await person.wait_for_text("1 consumer, 3 in flight", "worker-1")
        await person.press("8")
        await person.wait_for_text("events reach back", "● completed", "◆ failed", "SMTP timeout after 3000 ms")
        await person.press("9")
        await person.wait_for_text("noeviction", "dead-letters")
        await person.press("1")
        await person.wait_for_text("FORECAST")


async def test_what_happens_is_seen_without_a_key(own_server: Server, link: Link, queue: str, now_ms: int) -> None:
    dashboard_queues.add_waiting(link, queue, 1)
    async with open_dashboard(own_server.url) as person:
        await person.open("4", queue)
        await person.wait_for_text("no dead letters")
        dashboard_queues.add_dead_letters(link, queue, 2)
        await person.wait_for_text("2 dead, all read", "charge-dead-1")
        dashboard_queues.add_dead_letters(link, queue, 1, name="late", detail="another error")
        await person.wait_for_text("3 dead, all read", "another error")
        dashboard_queues.command(link, "DEL", Keys(queue).dlq)
        await person.wait_for_text("no dead letters")
        await person.press("8")
        await person.wait_for_text("no events yet")
        dashboard_queues.add_failed_event(link, queue, "job-77", "disk full")
        await person.wait_for_text("job-77", "disk full")
        await person.press("t")
        await person.wait_for_text("frozen")
        dashboard_queues.add_failed_event(link, queue, "job-78", "disk fuller")
        await person.wait_for_text("frozen, 1 more")
        assert "job-78" not in person.screen()
        await person.press("t")
        await person.wait_for_text("job-78")


async def test_a_new_queue_joins_the_fleet_and_a_deleted_one_leaves(one_server: Server, link: Link, queue: str) -> None:
    dashboard_queues.add_waiting(link, queue, 1)
    async with open_dashboard(one_server.url) as person:
        await person.wait_until(lambda: queue in person.table("#fleet").row_keys, "the queue is there")
        dashboard_queues.add_waiting(link, f"{queue}-new", 1)
        await person.wait_until(
            lambda: f"{queue}-new" in person.table("#fleet").row_keys, "the new queue is there, too"
        )
        dashboard_queues.command(link, "DEL", Keys(queue).stream)
        await person.wait_until(lambda: queue not in person.table("#fleet").row_keys, "the deleted one is gone")


async def test_the_worst_queue_is_on_top_and_healthy_ones_hide(one_server: Server, link: Link, queue: str) -> None:
    names = [f"{queue}-{word}" for word in ("dead", "waiting", "quiet")]
    dashboard_queues.add_dead_letters(link, names[0], 2)
    dashboard_queues.add_waiting(link, names[1], 3)
    dashboard_queues.add_in_flight(link, names[2], 1)
    dashboard_queues.command(link, "XACK", Keys(names[2]).stream, "default", "0-0")
    async with open_dashboard(one_server.url) as person:
        fleet = person.table("#fleet")
        await person.wait_until(lambda: {*names} <= {*fleet.row_keys}, "all are there")
        ours = [name for name in fleet.row_keys if name in names]
        assert ours == [names[1], names[0], names[2]], (
            "no workers is worse than dead letters, which are worse than work"
        )
        await person.press("h")
        await person.wait_until(lambda: names[2] not in fleet.row_keys, "the healthy one is hidden")
        assert {names[0], names[1]} <= {*fleet.row_keys}


async def test_filters_marks_and_sorting(one_server: Server, link: Link, queue: str) -> None:
    dashboard_queues.add_dead_letters(link, queue, 3)
    dashboard_queues.add_dead_letters(link, queue, 2, name="send-email", detail="SMTP timeout")
    async with open_dashboard(one_server.url) as person:
        await person.open("4", queue)
        letters = person.table("#letters")
        await person.wait_until(lambda: letters.row_count == 5, "all letters are there")
        await person.press("slash")
        await person.type("name:send* -reason:unrec")
        await person.wait_until(lambda: letters.row_count == 2, "the filter works while it is typed")
        await person.press("q")
        assert person.app.is_running, "q in a prompt is a letter, not the end"
        await person.press("escape", "slash", "p", "D", "q")
        assert len(person.app.screen_stack) == 1, "what is typed at once after / is typed, too"
        assert person.app.query_one("#prompt", Input).value == "pDq"
        await person.press("escape")
        await person.wait_until(lambda: letters.row_count == 5, "escape forgets the filter")
        letters.focus()
        await person.press("a")
        assert len(letters.marked) == 5
        await person.press("i")
        assert not letters.marked
        await person.press("j", "space")
        assert len(letters.marked) == 1
        before = letters.row_keys
        await person.press("s")
        assert letters.row_keys != before
        assert sorted(letters.row_keys) == sorted(before)


async def test_hidden_tabs_are_not_read_for(one_server: Server, link: Link, queue: str) -> None:
    """A tick on a tab of one queue asks for that queue, and nothing else; a dashboard without focus asks nothing."""
    dashboard_queues.add_waiting(link, queue, 1)
    dashboard_queues.add_waiting(link, f"{queue}-other", 1)
    async with open_dashboard(one_server.url) as person:
        await person.open("7", queue)
        await person.wait_for_text("0 in flight")
        dashboard_queues.command(link, "CONFIG", "RESETSTAT")
        await person.pilot.pause(1.2)
        asked = dashboard_queues.command(link, "INFO", "commandstats").decode()
        assert "cmdstat_scan" not in asked
        assert "cmdstat_xrevrange" not in asked
        person.app.app_focus = False
        await person.wait_for_text("asleep without focus")
        dashboard_queues.command(link, "CONFIG", "RESETSTAT")
        await person.pilot.pause(1.2)
        asked = dashboard_queues.command(link, "INFO", "commandstats").decode()
        assert "evalsha" not in asked
        await person.press("j")
        await person.wait_until(lambda: "asleep" not in person.frame, "a key woke it")


async def test_a_first_run_is_counted_from_one(one_server: Server, link: Link, queue: str) -> None:
    dashboard_queues.add_dead_letters(link, queue, 1)
    [(_, fields)] = dashboard_queues.command(link, "XRANGE", Keys(queue).dlq, "-", "+")
    attempt = envelope.decode(fields[1]).attempt
    async with open_dashboard(one_server.url) as person:
        await person.open("4", queue)
        await person.wait_for_text("card declined")
        table = person.table("#letters")
        assert table._rows[0][1]["attempt"].text == str(attempt + 1)
        await person.wait_for_text(f"attempt   {attempt + 1}")


async def test_a_queue_named_like_another_systems_is_examined_itself(
    one_server: Server, link: Link, queue: str
) -> None:
    name = f"rsmq:{queue}"
    dashboard_queues.add_dead_letters(link, name, 1)
    link.run(rsmq.create_queue(RsmqKeys(queue)))
    async with open_dashboard(one_server.url) as person:
        await person.open("9", f"chasqui:{name}")
        await person.press("d")
        text = await person.output()
        assert f"chasqui dlq groups {name}" in text.replace("\n", ""), text
        await person.press("escape")
