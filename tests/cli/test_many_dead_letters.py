"""The rules for a great many dead letters, tried on a few thousand; `make scale` tries them on 100,000."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from chasqui.server.link import Link
from chasqui.wire.keys import Keys
from tests.support.cli.subprocess_cli import SubprocessCli
from tests.support.seeds import many_dead_letters
from tests.support.seeds.dead_letters import DeadLetterSeeder
from tests.support.seeds.many_dead_letters import ManyDeadLetters
from tests.support.servers.server import Server


@pytest.fixture
def crowd(cli_process: SubprocessCli, any_server: Server, queue: str) -> Iterator[ManyDeadLetters]:
    with Link.open(any_server.url) as link:
        yield ManyDeadLetters(DeadLetterSeeder(link, Keys(queue)), cli_process, any_server.url, 3000)


def test_groups_count_every_letter_once(crowd: ManyDeadLetters) -> None:
    many_dead_letters.check_groups(crowd)


def test_exactly_what_was_shown_is_replayed_while_others_write(crowd: ManyDeadLetters) -> None:
    many_dead_letters.check_that_exactly_what_was_shown_is_replayed(crowd)


def test_a_replay_that_is_killed_loses_and_doubles_nothing_and_can_be_undone(crowd: ManyDeadLetters) -> None:
    many_dead_letters.check_that_a_kill_loses_and_doubles_nothing(crowd)
