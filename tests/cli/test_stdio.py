"""The standard streams in every state a shell can leave them in, and signals at any moment."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.test_decode import ENVELOPE
from tests.support.cli.subprocess_cli import SubprocessCli
from tests.support.processes.engines import wait_until

ACCENTS = "81a161a7" + "żó→".encode().hex()
QUESTION = json.dumps({"kind": "envelope", "hex": ENVELOPE}).encode() + b"\n"


def in_sh(shell: SubprocessCli, script: str, **variables: str) -> subprocess.CompletedProcess[bytes]:
    """`script` in a real shell, in which `chasqui` is the program."""
    program = f'chasqui() {{ "{sys.executable}" -m chasqui_cli "$@"; }}\n'
    return subprocess.run(
        ["bash", "-c", program + script],
        capture_output=True,
        env=shell.environment() | variables,
        timeout=60,
    )


@pytest.mark.parametrize(
    ("redirection", "code"),
    [
        (f"decode --hex {ENVELOPE} >&-", 0),
        ("decode --hex zz 2>&-", 2),
        ("decode --hex zz >&- 2>&-", 2),
        ("decode - <&-", 1),
        ("decode --stdin-jsonl <&-", 0),
    ],
)
def test_a_closed_stream_is_an_empty_one(cli_process: SubprocessCli, redirection: str, code: int) -> None:
    ended = in_sh(cli_process, f"chasqui {redirection}")
    assert ended.returncode == code
    assert b"Traceback" not in ended.stderr


@pytest.mark.parametrize("words", [f"decode --hex {ENVELOPE}", f"decode --hex {ENVELOPE} -o table", "--help"])
def test_output_that_finds_no_space_is_a_reported_failure(cli_process: SubprocessCli, words: str) -> None:
    ended = in_sh(cli_process, f"chasqui {words} >/dev/full")
    assert ended.returncode == 1
    lines = ended.stderr.decode().splitlines()
    assert lines[0] == "error: No space left on device"
    assert [line.split(":")[0] for line in lines] == ["error", "hint"]


def test_a_remark_that_finds_no_space_does_not_stop_the_work(cli_process: SubprocessCli) -> None:
    ended = in_sh(
        cli_process,
        f"chasqui server status -u embedded:// -o name 2>/dev/full; chasqui decode --hex {ENVELOPE}",
    )
    assert ended.returncode == 0
    assert in_sh(cli_process, "chasqui decode --hex zz 2>/dev/full").returncode == 2
    ended = in_sh(cli_process, "chasqui demo -o name 2>/dev/full")
    assert (ended.returncode, len(ended.stdout.splitlines())) == (0, 9)


@pytest.mark.parametrize("words", [f"decode --hex {ENVELOPE}", "--help", f"decode --hex {ENVELOPE} -o csv"])
def test_a_reader_that_left_is_no_failure(cli_process: SubprocessCli, words: str) -> None:
    ended = in_sh(cli_process, f"set -o pipefail; chasqui {words} | true")
    assert (ended.returncode, ended.stderr) == (0, b"")


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
@pytest.mark.parametrize("how", ["json", "jsonl", "yaml"])
def test_what_an_encoding_lacks_is_escaped_and_still_means_the_same(
    cli_process: SubprocessCli, how: str, encoding: str
) -> None:
    import yaml

    ended = in_sh(cli_process, f"chasqui decode --kind result --hex {ACCENTS} -o {how}", PYTHONIOENCODING=encoding)
    text = ended.stdout.decode(encoding)
    record = yaml.safe_load(text) if how == "yaml" else json.loads(text)
    assert record["data"] == {"a": "żó→"}


@pytest.mark.parametrize("how", ["table", "wide", "csv", "name"])
def test_every_format_can_be_written_in_ascii(cli_process: SubprocessCli, how: str) -> None:
    ended = in_sh(cli_process, f"chasqui decode --kind result --hex {ACCENTS} -o {how}", PYTHONIOENCODING="ascii")
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert ended.stdout.isascii()


def test_a_batch_answers_each_line_before_it_asks_for_the_next(cli_process: SubprocessCli) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "chasqui_cli", "decode", "--stdin-jsonl"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=cli_process.environment(),
    ) as program:
        assert program.stdin
        assert program.stdout
        for _ in range(3):
            program.stdin.write(QUESTION)
            program.stdin.flush()
            assert json.loads(program.stdout.readline())["id"] == "a"
        program.stdin.close()
    assert program.returncode == 0


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_demo_that_is_asked_to_go_leaves_nothing_behind(
    cli_process: SubprocessCli, number: signal.Signals, code: int, tmp_path: Path
) -> None:
    """Asked at its first remark: by then the server runs, and nothing has been shown yet."""
    with subprocess.Popen(
        [sys.executable, "-m", "chasqui_cli", "demo"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=cli_process.environment() | {"TMPDIR": str(tmp_path)},
    ) as program:
        assert program.stderr
        assert b"started a private" in program.stderr.readline()
        [place] = tmp_path.glob("chasqui-demo-*")
        program.send_signal(number)
        _, err = program.communicate(timeout=60)
    assert b"Traceback" not in err
    # it may have got to its end before the signal got to it
    assert program.returncode in {code, 0, -number}
    assert not place.exists()
    wait_until(lambda: not _who_works_in(place), "its server is gone too")


def _who_works_in(place: Path) -> list[str]:
    """The processes whose directory this is; it may be gone already."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if str((process / "cwd").readlink()).startswith(str(place)):
                found.append(process.name)
        except OSError:
            continue
    return found


def test_a_terminal_gets_no_escapes_when_colour_is_not_wanted(cli_process: SubprocessCli) -> None:
    assert b"\x1b[" in _on_a_terminal(cli_process)
    assert b"\x1b[" not in _on_a_terminal(cli_process, "--color", "never")
    assert b"\x1b[" not in _on_a_terminal(cli_process, NO_COLOR="1")
    assert b"\x1b[" not in _on_a_terminal(cli_process, TERM="dumb")


def _on_a_terminal(shell: SubprocessCli, *words: str, **variables: str) -> bytes:
    """What is drawn on a real terminal."""
    ours, theirs = os.openpty()
    with os.fdopen(ours, "rb", buffering=0) as screen:
        with subprocess.Popen(
            [sys.executable, "-m", "chasqui_cli", "decode", "--hex", ENVELOPE, "-o", "table", *words],
            stdout=theirs,
            env=shell.environment() | {"TERM": "xterm-256color"} | variables,
        ):
            os.close(theirs)
            return _all_of(screen.fileno())


def _all_of(screen: int) -> bytes:
    drawn = b""
    while True:
        try:
            piece = os.read(screen, 1 << 16)
        except OSError:  # how a terminal reports that its other end is closed
            return drawn
        if not piece:
            return drawn
        drawn += piece
