"""A worker that is started again when its source changes: a process of its own, asked to end and drained each time.

Files are looked at twice a second; that needs no package and works on every file system.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from chasqui_cli.streams import talk

LOOK_S = 0.5
DRAIN_S = 40.0
_PASSED_OVER = {"__pycache__", "node_modules"}


def run_reloading(app_dir: Path, words: list[str]) -> int:
    """Run `chasqui` with these words, again and again; answers its exit code once it ends well by itself."""
    from chasqui import SystemClock

    clock, seen = SystemClock(), sources(app_dir)
    child = _started(words)
    try:
        while True:
            clock.pause(LOOK_S)
            now = sources(app_dir)
            changed = sorted(path for path in now.keys() | seen.keys() if now.get(path) != seen.get(path))
            if changed:
                talk(f"{changed[0]} has changed: starting again")
                seen = now
                _ended(child)
                child = _started(words)
            elif child.poll() == 0:
                return 0
    finally:
        _ended(child)


def sources(place: Path) -> dict[str, int]:
    """Every Python file below a directory, and when it was written; environments and hidden places are passed over."""
    found: dict[str, int] = {}
    for root, folders, files in os.walk(place):
        folders[:] = [
            one
            for one in folders
            if not one.startswith(".")
            and one not in _PASSED_OVER
            and not (Path(root) / one / "pyvenv.cfg").exists()
        ]
        for name in files:
            if name.endswith(".py"):
                path = Path(root) / name
                try:
                    found[str(path)] = path.stat().st_mtime_ns
                except OSError:
                    continue  # gone between being listed and looked at
    return found


def _started(words: list[str]) -> subprocess.Popen[bytes]:
    """In a session of its own: Ctrl-C is for us, and passed on once, as a first request to end."""
    return subprocess.Popen([sys.executable, "-m", "chasqui_cli", *words], start_new_session=True)


def _ended(child: subprocess.Popen[bytes]) -> None:
    if child.poll() is None:
        child.terminate()
        try:
            child.wait(DRAIN_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
