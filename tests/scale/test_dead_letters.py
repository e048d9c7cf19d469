"""100,000 dead letters, one in a hundred undecodable: the same rules as for few, and what it costs. See `make scale`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from chasqui.server.link import Link
from chasqui.wire.keys import Keys
from tests.support.cli.subprocess_cli import SubprocessCli
from tests.support.cli.subprocess_cli import cli_process as cli_process
from tests.support.seeds import many_dead_letters
from tests.support.seeds.dead_letters import DeadLetterSeeder
from tests.support.seeds.many_dead_letters import VIP, ManyDeadLetters
from tests.support.servers.server import Server

pytestmark = pytest.mark.timeout(600)
LETTERS = 100_000
CHEAP_S = 2
"""Of the processor's time, for a filter that need not decode: a second, half of one to start, and a busy machine."""


@pytest.fixture
def crowd(cli_process: SubprocessCli, any_server: Server, queue: str) -> Iterator[ManyDeadLetters]:
    with Link.open(any_server.url, timeout=60) as link:
        yield ManyDeadLetters(DeadLetterSeeder(link, Keys(queue)), cli_process, any_server.url, LETTERS)


def test_groups_count_every_letter_once(crowd: ManyDeadLetters) -> None:
    many_dead_letters.check_groups(crowd)


def test_exactly_what_was_shown_is_replayed_while_others_write(crowd: ManyDeadLetters) -> None:
    many_dead_letters.check_that_exactly_what_was_shown_is_replayed(crowd)


def test_a_replay_that_is_killed_loses_and_doubles_nothing_and_can_be_undone(crowd: ManyDeadLetters) -> None:
    many_dead_letters.check_that_a_kill_loses_and_doubles_nothing(crowd)


def test_five_hundred_a_second_are_five_hundred_a_second(crowd: ManyDeadLetters) -> None:
    crowd.seed()
    rate = many_dead_letters.rate_of(crowd, 5000, 500)
    print(f"\n--rps 500: {rate:.1f} a second")
    assert 475 <= rate <= 525


def test_cheap_filters_are_cheap(crowd: ManyDeadLetters) -> None:
    crowd.seed()
    for words in (
        ("--name", "nothing"),
        ("--reason", "nothing"),
        ("--where", "data.kind == 'nothing'"),
        ("--since", "@99999999999999-0"),
    ):
        ended, wall, cpu = crowd.cost("peek", "-o", "json", *words)
        print(f"\n{' '.join(words)}: {wall:.2f} s, {cpu:.2f} s of the processor")
        assert ended.json == []
        assert cpu < CHEAP_S, words
    for costly in (
        ("groups", "-q"),
        ("peek", "-q", "--where", "data.n > `10000000`"),
        ("replay", "--where", VIP, "--limit", "1000000", "--dry-run", "-o", "name"),
    ):
        _, wall, cpu = crowd.cost(*costly)
        print(f"\n{' '.join(costly)}: {wall:.2f} s, {cpu:.2f} s of the processor")
