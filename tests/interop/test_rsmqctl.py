"""`chasqui rsmq queue` and `rsmq message` compared with the real rsmqctl: the same words, the same stdout, the same exit codes."""

from __future__ import annotations

import re
import subprocess

from tests.support.cli.subprocess_cli import SubprocessCli
from tests.support.cli.subprocess_cli import cli_process as cli_process
from tests.support.processes.rsmq_clients import NoClientError, _place, open_client
from tests.support.servers.pool import do_without
from tests.support.servers.server import Server

# Words are said to both; Q is a queue of each one's own, ID the last id that was printed.
WORDS = """
queue create -n Q
queue create -n Q
queue create -n Q2 -t 7 -d 3 -m 2048
queue describe -n Q
queue describe -n Q2
queue describe -n missing
message receive -n Q
message pop -n Q
message send -n Q -m hällo
message receive -n Q
message receive -n Q
message visibility -n Q -i ID -t 0
message pop -n Q
message visibility -n Q -i ID -t 3
message delete -n Q -i ID
message send -n Q -m {"a":1}
message receive -n Q -t 60
message delete -n Q -i ID
message send -n missing -m x
message receive -n missing
message pop -n missing
message delete -n missing -i nothing
queue describe -n Q
message send -n Q
queue describe
queue nonsense
queue delete -n Q
queue delete -n Q
queue delete -n Q2
"""


def _alike(text: str, queue: str) -> str:
    """Without what differs from run to run: the queue's name, ids and times."""
    text = re.sub(r"\b[0-9a-z]{10}[A-Za-z0-9]{22}\b", "ID", text.replace(queue, "Q"))
    return re.sub(r"\b1\d{12}\b|\b1\d{9}\b", "TIME", text)


def test_the_same_words_end_alike(redis: Server, cli_process: SubprocessCli, queue: str) -> None:
    try:
        with open_client("rsmqctl", redis.port or 0):
            program = _place("rsmqctl") / "bin" / "rsmqctl"
    except NoClientError as missing:
        do_without(str(missing))
    outputs: dict[str, list[tuple[str, int, str]]] = {}
    for who in ("theirs", "ours"):
        own, last, rows = f"{queue}-{who}", "nothing", list[tuple[str, int, str]]()
        for line in WORDS.split("\n")[1:-1]:
            words = [{"Q": own, "Q2": f"{own}2", "ID": last}.get(word, word) for word in line.split()]
            if who == "theirs":
                done = subprocess.run(
                    [program, "-r", redis.url, *words],
                    capture_output=True,
                    text=True,
                    env=cli_process.environment(),
                )
                code, out = done.returncode, done.stdout
            else:
                ended = cli_process("rsmq", *words, CHASQUI_REDIS_URL=redis.url)
                code, out = ended.code, ended.out
            found = re.search(r"\b[0-9a-z]{10}[A-Za-z0-9]{22}\b", out)
            last = found[0] if found else last
            rows.append((line, code, _alike(out, own)))
        outputs[who] = rows
    assert outputs["ours"] == outputs["theirs"]
