"""A certificate authority of one day and a server certificate for this machine, for tests that speak TLS.

Nothing here is ever trusted by anything but the test that made it. Python 3.13 verifies strictly: an authority states
what its key is for, and each certificate names its key and its issuer's. A configuration of our own states all of it,
because the defaults of openssl differ from release to release.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

AUTHORITY_EXTENSIONS = (
    "basicConstraints = critical, CA:TRUE",
    "keyUsage = critical, keyCertSign, cRLSign",
    "subjectKeyIdentifier = hash",
)
SERVER_EXTENSIONS = (
    "basicConstraints = critical, CA:FALSE",
    "keyUsage = critical, digitalSignature",
    "extendedKeyUsage = serverAuth, clientAuth",
    "subjectKeyIdentifier = hash",
    "authorityKeyIdentifier = keyid",
    "subjectAltName = DNS:localhost, IP:127.0.0.1",
)
CONFIGURATION = "[req]\ndistinguished_name = name\nprompt = no\nx509_extensions = extensions\n"


@dataclass(frozen=True, slots=True)
class Certificates:
    """Three files: who is trusted, who the server is, and its secret."""

    ca: Path
    certificate: Path
    key: Path


def make_certificates(
    directory: Path,
    authority_extensions: Sequence[str] = AUTHORITY_EXTENSIONS,
    server_extensions: Sequence[str] = SERVER_EXTENSIONS,
) -> Certificates:
    """Make them with openssl, which comes with Python's venv on Debian."""
    made = Certificates(directory / "ca.crt", directory / "server.crt", directory / "server.key")
    authority = directory / "ca.key"
    _sign(made.ca, authority, "chasqui test CA", authority_extensions)
    _sign(made.certificate, made.key, "localhost", server_extensions, "-CA", made.ca, "-CAkey", authority)
    return made


def _sign(certificate: Path, key: Path, name: str, extensions: Sequence[str], *issuer: str | Path) -> None:
    """A certificate of a new key, self-signed when there is no issuer."""
    settings = certificate.with_suffix(".cnf")
    lines = "\n".join(extensions)
    settings.write_text(f"{CONFIGURATION}[name]\nCN = {name}\n[extensions]\n{lines}\n")
    new_key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1"]
    _openssl("req", "-x509", "-config", settings, *new_key, *issuer, "-keyout", key, "-out", certificate)


def _openssl(*words: str | Path) -> None:
    done = subprocess.run(["openssl", *map(str, words)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
