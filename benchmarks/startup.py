"""What the command line costs before it does anything: CPU time as a ratio to bare imports, interleaved in one run.

The goals: `--help` within 1.5 of importing Typer, `inspect` within 1.3 of importing what it cannot do without.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
from pathlib import Path

from tests.support.servers.server import start_server

ROOT = Path(__file__).parents[1]
ENVELOPE = "94a161c40481a16101cf000001a1e23c61d600"
CHASQUI = [
    sys.executable,
    "-c",
    "from chasqui_cli.__main__ import main; main()",
]  # what the installed word does
CONTENDERS: dict[str, list[str]] = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "import typer": [sys.executable, "-c", "import typer"],
    "import redis, typer, rich": [sys.executable, "-c", "import redis, typer, rich"],
    "chasqui --help": [*CHASQUI, "--help"],
    "chasqui decode": [*CHASQUI, "decode", "--hex", ENVELOPE],
    "chasqui server status": [*CHASQUI, "server", "status", "-u", "unix:///nowhere"],
}
BASE = {
    "chasqui --help": "import typer",
    "chasqui decode": "import typer",
    "chasqui server status": "import redis, typer, rich",
    "chasqui inspect": "import redis, typer, rich",
}
GOALS = {"chasqui --help": 1.5, "chasqui inspect": 1.3}


def cpu_ms(command: list[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    paths = {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "engine")])}
    subprocess.run(command, env=os.environ | paths, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1000 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def main(rounds: int = 11) -> None:
    with start_server("valkey-9.1") as server:
        contenders = CONTENDERS | {"chasqui inspect": [*CHASQUI, "inspect", "q", "-q", "-u", server.url]}
        seen: dict[str, list[float]] = {name: [] for name in contenders}
        for _ in range(rounds):
            for name, command in contenders.items():
                seen[name].append(cpu_ms(command))
    medians = {name: statistics.median(times) for name, times in seen.items()}
    print(f"{'':<28}{'CPU ms':>8}  ratio")
    for name, median in medians.items():
        print(f"{name:<28}{median:>8.0f}  {_ratio(name, medians)}")


def _ratio(name: str, medians: dict[str, float]) -> str:
    if name not in BASE:
        return ""
    ratio, goal = medians[name] / medians[BASE[name]], GOALS.get(name)
    outcome = "" if goal is None else f"   goal {goal}: {'held' if ratio <= goal else 'missed'}"
    return f"{ratio:.2f} × {BASE[name]}{outcome}"


if __name__ == "__main__":
    main()
