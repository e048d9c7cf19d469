"""The rules for a great many dead letters, tried on a few thousand; `make scale` tries them on 100,000."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from chasqui.server.link import Link
from chasqui.wire.keys import Keys
from tests.cli import many_dead
from tests.cli.many_dead import ManyDeadLetters
from tests.cli.seed_dead import DeadLetterSeeder
from tests.cli.shell import SubprocessCli
from tests.servers import Server


@pytest.fixture
def crowd(cli_process: SubprocessCli, any_server: Server, queue: str) -> Iterator[ManyDeadLetters]:
    with Link.open(any_server.url) as link:
        yield ManyDeadLetters(DeadLetterSeeder(link, Keys(queue)), cli_process, any_server.url, 3000)


def test_groups_count_every_letter_once(crowd: ManyDeadLetters) -> None:
    many_dead.check_groups(crowd)


def test_exactly_what_was_shown_is_replayed_while_others_write(crowd: ManyDeadLetters) -> None:
    many_dead.check_that_exactly_what_was_shown_is_replayed(crowd)


def test_a_replay_that_is_killed_loses_and_doubles_nothing_and_can_be_undone(crowd: ManyDeadLetters) -> None:
    many_dead.check_that_a_kill_loses_and_doubles_nothing(crowd)
