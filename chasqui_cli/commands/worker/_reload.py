"""A worker that is started again when its source changes: a process of its own, asked to end and drained each time.

Files are looked at twice a second; that needs no package and works on every file system.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from chasqui_cli.output.stdio import print_stderr

POLL_INTERVAL_S = 0.5
DRAIN_TIMEOUT_S = 40.0
_SKIPPED_DIRECTORIES = {"__pycache__", "node_modules"}


def run_with_reload(app_dir: Path, words: list[str]) -> int:
    """Run `chasqui` with these words, again and again; returns its exit code once it ends without an error."""
    from chasqui import SystemClock

    clock, seen = SystemClock(), source_mtimes(app_dir)
    child = _start_child(words)
    try:
        while True:
            clock.sleep_sync(POLL_INTERVAL_S)
            now = source_mtimes(app_dir)
            changed = sorted(path for path in now.keys() | seen.keys() if now.get(path) != seen.get(path))
            if changed:
                print_stderr(f"{changed[0]} has changed: starting again")
                seen = now
                _stop_child(child)
                child = _start_child(words)
            elif child.poll() == 0:
                return 0
    finally:
        _stop_child(child)


def source_mtimes(place: Path) -> dict[str, int]:
    """Every Python file below a directory, and when it was written; environments and hidden places are passed over."""
    found: dict[str, int] = {}
    for root, folders, files in os.walk(place):
        folders[:] = [
            one
            for one in folders
            if not one.startswith(".")
            and one not in _SKIPPED_DIRECTORIES
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


def _start_child(words: list[str]) -> subprocess.Popen[bytes]:
    """In a session of its own: Ctrl-C is for us, and passed on once, as a first request to end."""
    return subprocess.Popen([sys.executable, "-m", "chasqui_cli", *words], start_new_session=True)


def _stop_child(child: subprocess.Popen[bytes]) -> None:
    if child.poll() is None:
        child.terminate()
        try:
            child.wait(DRAIN_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
