"""The README's two commands on bare Debian machines: `make demo` and `make test`, as an ordinary user.

`make fresh` builds a bare root for each release by debootstrap (once, in the user's cache), clones the checkout's HEAD
into the home of a new user without compiler or sudo, runs both commands there, and prints the seconds of each. Needs
root. No address is written here: Debian's comes from this machine's apt configuration, PyPI's from its pip.
"""

from __future__ import annotations

import argparse
import ast
import configparser
import fcntl
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from tests.support.servers.binaries import DEBIAN_KEYRING, cache_directory, debian_addresses

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

REPOSITORY = Path(__file__).parents[2]
RELEASES = {"12": "bookworm", "13": "trixie"}
PACKAGES = ("git", "make", "python3", "python3-venv")
FORBIDDEN_PROGRAMS = ("cc", "gcc", "sudo")
COMMANDS = ("make demo", "make test")
USER = "visitor"
CA_BUNDLE = Path("/etc/ssl/certs/ca-certificates.crt")
NETWORK_FILES = (Path("/etc/resolv.conf"), Path("/etc/hosts"), CA_BUNDLE)
PROXY_VARIABLES = ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
# In a mount and process namespace of its own, so that nothing stays mounted and no process outlives the command.
ENTER = """\
set -e
root=$1 user=$2 command=$3; shift 3
mount --rbind /dev "$root/dev"
mount -t proc proc "$root/proc"
for directory; do mkdir -p "$root$directory"; mount --bind -o ro "$directory" "$root$directory"; done
exec chroot "$root" su - "$user" --command "$command"
"""


@dataclass(frozen=True, slots=True)
class SourcesForm:
    """How a release writes down, below /etc/apt, where its packages come from."""

    path: str
    text: str


SOURCES_FORMS = {
    "12": SourcesForm("sources.list", "deb {address} {suite} main\n"),
    "13": SourcesForm(
        "sources.list.d/debian.sources",
        f"Types: deb\nURIs: {{address}}\nSuites: {{suite}}\nComponents: main\nSigned-By: {DEBIAN_KEYRING}\n",
    ),
}


class FreshMachineError(Exception):
    """A machine could not be built; the text gives the reason."""


@dataclass(frozen=True, slots=True)
class PipSettings:
    """How pip on this machine finds packages, environment variables included."""

    values: dict[str, dict[str, str]]

    @classmethod
    def of_this_machine(cls) -> PipSettings:
        words = [sys.executable, "-m", "pip", "config", "list"]
        return cls.parse(subprocess.run(words, capture_output=True, text=True).stdout)

    @classmethod
    def parse(cls, listed: str) -> PipSettings:
        """The lines of `pip config list`; what the environment sets wins, as in pip."""
        values: dict[str, dict[str, str]] = {}
        found = re.findall(r"^(.+?)\.([\w-]+)=(.+)$", listed, re.MULTILINE)
        for section, key, value in sorted(found, key=lambda line: line[0] == ":env:"):
            name = "global" if section == ":env:" else section
            values.setdefault(name, {})[key] = ast.literal_eval(value)
        return cls(values)

    def local_paths(self) -> list[Path]:
        """Directories and files on this machine that the settings name: local indexes, certificates."""
        words = [word for section in self.values.values() for value in section.values() for word in value.split()]
        paths = [Path(urlsplit(word).path) for word in words if word.startswith(("/", "file://"))]
        roots = [path.parent if path.name == "simple" else path for path in paths]  # an index lists files next to it
        return sorted({path for path in roots if path.exists()})

    def write(self, path: Path) -> None:
        config = configparser.RawConfigParser()
        config.read_dict(self.values)
        with path.open("w") as file:
            config.write(file)


@dataclass(frozen=True, slots=True)
class Machine:
    """A bare root of one Debian release. An ordinary user can change nothing of it but the home and /tmp."""

    release: str
    root: Path

    @property
    def home(self) -> Path:
        return self.root / "home" / USER

    def build(self, address: str) -> None:
        """By debootstrap, unless it is in the cache."""
        if self.root.exists():
            return
        _require_debootstrap()
        unfinished = self.root.with_suffix(".new")
        shutil.rmtree(unfinished, ignore_errors=True)
        _print_step(f"Debian {self.release}: building a bare root in {self.root}")
        keyring = [f"--keyring={DEBIAN_KEYRING}"] if DEBIAN_KEYRING.is_file() else []
        words = ["debootstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}", *keyring]
        _run([*words, RELEASES[self.release], str(unfinished), address])
        unfinished.rename(self.root)

    def connect(self, address: str, pip: PipSettings) -> None:
        """Let it reach what this machine reaches: name resolution, certificates, proxies, Debian, PyPI."""
        for path in [*NETWORK_FILES, *filter(Path.is_file, pip.local_paths())]:
            if path.is_file():
                (self.root / path.relative_to("/")).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, self.root / path.relative_to("/"))
        pip.write(self.root / "etc/pip.conf")
        apt = self.root / "etc/apt"
        (apt / "apt.conf.d/90network").write_text(_apt_network_settings())
        form = SOURCES_FORMS[self.release]
        for path in (apt / "sources.list", apt / "sources.list.d/debian.sources"):
            path.unlink(missing_ok=True)
        (apt / form.path).write_text(form.text.format(address=address, suite=RELEASES[self.release]))

    def add_user(self, bundle: Path) -> None:
        """A user of this run, with nothing in the home but a clone."""
        if self.home.exists():
            _run(["chroot", str(self.root), "userdel", "--remove", USER])
        for leftover in (self.root / "tmp").iterdir():
            _remove(leftover)
        _run(["chroot", str(self.root), "useradd", "--create-home", "--shell", "/bin/bash", USER])
        shutil.copyfile(bundle, self.root / "tmp" / "chasqui.bundle")

    def run(self, command: str, directories: Iterable[Path]) -> int:
        """The exit code of a command that the user runs in a login shell."""
        script = ["sh", "-c", ENTER, "enter", str(self.root), USER, command, *map(str, directories)]
        words = ["unshare", "--mount", "--pid", "--fork", "--kill-child", *script]
        environment = {**os.environ, "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
        return subprocess.run(words, stdin=subprocess.DEVNULL, env=environment).returncode


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 1 if a command failed, 2 if there is no machine to run it on."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("releases", nargs="*", metavar="RELEASE", help="12 or 13 (default: both)")
    parser.add_argument("--command", action="append", help="instead of `make demo` and `make test`; repeatable")
    parser.add_argument("--keep", action="store_true", help="go on in the clone of the last run, as it was left")
    options = parser.parse_args(arguments)
    releases = options.releases or list(RELEASES)
    if unknown := [name for name in releases if name not in RELEASES]:
        parser.error(f"invalid release: {', '.join(unknown)} (12 or 13)")
    try:
        results = [
            result
            for release in releases
            for result in _try_release(release, options.command or COMMANDS, keep=options.keep)
        ]
    except FreshMachineError as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 2
    for release, command, seconds, code in results:
        _print_step(f"Debian {release}  {command:<12} {seconds:>5.0f} s  {'ok' if code == 0 else f'FAILED ({code})'}")
    return int(any(code for *_, code in results))


def _try_release(release: str, commands: Sequence[str], *, keep: bool) -> Iterator[tuple[str, str, float, int]]:
    if os.geteuid() != 0:
        raise FreshMachineError("a bare root is built and entered as root")
    pip = PipSettings.of_this_machine()
    directories = [path for path in pip.local_paths() if path.is_dir()]
    machines = cache_directory().with_name("machines")
    machine = Machine(release, machines / f"debian-{release}")
    with _locked(machines / f".debian-{release}.lock"):
        address = _debian_address()
        machine.build(address)
        machine.connect(address, pip)
        if not keep:
            bundle = _bundle_head(machine.root.with_suffix(".bundle"))
            machine.add_user(bundle)
            _check(
                machine,
                "git -c init.defaultBranch=main -c advice.detachedHead=false clone --quiet /tmp/chasqui.bundle chasqui",
                "could not clone",
            )
        absent = " && ".join(f"! command -v {name}" for name in FORBIDDEN_PROGRAMS)
        _check(machine, f"{absent} && test $(id -u) != 0", "not a bare machine")
        for command in commands:
            _print_step(f"Debian {release}: {command}")
            begin = time.perf_counter()
            code = machine.run(f"cd chasqui && {_proxies()}{command}", directories)
            yield release, command, time.perf_counter() - begin, code


def _check(machine: Machine, command: str, problem: str) -> None:
    if machine.run(command, ()) != 0:
        raise FreshMachineError(f"Debian {machine.release}: {problem}")


def _bundle_head(bundle: Path) -> Path:
    """The commits of HEAD in one file, readable for another user than the owner of the checkout."""
    git = ["git", "-c", "safe.directory=*", "-C", str(REPOSITORY)]
    if _run([*git, "status", "--porcelain"]).strip():
        _print_step("note: changes that are not committed are not tried")
    _run([*git, "bundle", "create", str(bundle), "HEAD"])
    bundle.chmod(0o644)
    return bundle


def _debian_address() -> str:
    """Where this machine takes Debian from; debootstrap cannot read apt's lists of mirrors, so the first of one."""
    for address in debian_addresses(Path("/etc/apt")):
        if not address.startswith("mirror+file:"):
            return address
        for line in Path(urlsplit(address).path).read_text().splitlines():
            if words := line.partition("#")[0].split():
                return words[0]
    raise FreshMachineError("no source of Debian main in the apt configuration")


def _apt_network_settings() -> str:
    """This machine's proxies and patience; its sources are not taken over."""
    dumped = _run(["apt-config", "dump"])
    wanted = r'^Acquire::(?:https?::.*|Check-Valid-Until|Retries) "[^"]+";$'
    return "".join(f"{line}\n" for line in re.findall(wanted, dumped, re.MULTILINE))


def _proxies() -> str:
    """Words before a command: a login shell begins without the caller's variables."""
    named = [f"{name}={shlex.quote(os.environ[name])}" for name in PROXY_VARIABLES if os.environ.get(name)]
    return f"{' '.join(named)} " if named else ""


def _require_debootstrap() -> None:
    if shutil.which("debootstrap"):
        return
    if shutil.which("apt-get") is None:
        raise FreshMachineError("no debootstrap here, and no apt-get to install it with")
    _run(["apt-get", "update"])
    _run(["apt-get", "install", "--yes", "--no-install-recommends", "debootstrap"])


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _run(words: Sequence[str]) -> str:
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        raise FreshMachineError(f"{words[0]} failed:\n{done.stdout[-2000:]}")
    return done.stdout


def _print_step(line: str) -> None:
    print(f"== {line}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
