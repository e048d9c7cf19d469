"""Every hostile string at once, in every field of one queue, through every list and format, on a real terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from chasqui.server.link import Link
from tests.cli.hostile import STRINGS, is_harmless
from tests.cli.seed_look import GROUP, Seed
from tests.cli.shell import Shell, shell
from tests.cli.test_hostile_looks import FORMATS, command_lines, on_a_terminal, spoil

if TYPE_CHECKING:
    from pathlib import Path

    from tests.servers import Server

__all__ = ["shell"]


@pytest.mark.slow
def test_fault_40_hostile_text_everywhere_at_once_reaches_no_terminal(
    cruel_server: Server, queue: str, shell: Shell, tmp_path: Path
) -> None:
    with Link.open(cruel_server.url) as link:
        seed = Seed(link, queue)
        for text in STRINGS.values():
            spoil(seed, text)
            seed.say("XGROUP", "DESTROY", seed.keys.stream, GROUP)
        spoil(seed, "".join(STRINGS.values()))
    url = cruel_server.url
    lists = [
        ["dlq", "list", queue],
        ["delayed", "list", queue],
        ["repeatable", "list", queue],
        ["workers", queue],
    ]
    lines = [[*verb, "-o", how, "-u", url] for verb in lists for how in FORMATS]
    out, err, code = on_a_terminal(shell, [*command_lines(queue, url), *lines], tmp_path)
    assert code == 0, err
    assert "Traceback" not in err
    for told in (out, err):
        assert is_harmless(told), [line for line in told.splitlines() if not is_harmless(line)][:3]
    assert len(out) > 10_000, "hardly anything was shown"
