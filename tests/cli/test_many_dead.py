"""The rules for a great many dead letters, tried on a few thousand; `make scale` tries them on 100,000."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from chasqui.server.link import Link
from chasqui.wire.keys import Keys
from tests.cli import many_dead
from tests.cli.many_dead import Crowd
from tests.cli.seed_dead import Yard
from tests.cli.shell import Shell
from tests.servers import Server


@pytest.fixture
def crowd(shell: Shell, any_server: Server, queue: str) -> Iterator[Crowd]:
    with Link.open(any_server.url) as link:
        yield Crowd(Yard(link, Keys(queue)), shell, any_server.url, 3000)


def test_groups_count_every_letter_once(crowd: Crowd) -> None:
    many_dead.check_groups(crowd)


def test_exactly_what_was_shown_is_replayed_while_others_write(crowd: Crowd) -> None:
    many_dead.check_that_exactly_what_was_shown_is_replayed(crowd)


def test_a_replay_that_is_killed_loses_and_doubles_nothing_and_can_be_undone(crowd: Crowd) -> None:
    many_dead.check_that_a_kill_loses_and_doubles_nothing(crowd)
