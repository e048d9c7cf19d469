"""A certificate authority of one day and a server certificate for this machine, for tests that speak TLS.

Nothing here is ever trusted by anything but the test that made it.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Certificates:
    """Three files: who is trusted, who the server is, and its secret."""

    ca: Path
    certificate: Path
    key: Path


def make_certificates(directory: Path) -> Certificates:
    """Make them with openssl, which any machine that built a TLS server has."""
    made = Certificates(directory / "ca.crt", directory / "server.crt", directory / "server.key")
    authority = directory / "ca.key"
    new_key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1"]
    _openssl("req", "-x509", *new_key, "-keyout", authority, "-out", made.ca, "-subj", "/CN=chasqui test CA")
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    signer = ["-CA", str(made.ca), "-CAkey", str(authority)]
    _openssl("req", "-x509", *new_key, *names, *signer, "-keyout", made.key, "-out", made.certificate)
    return made


def _openssl(*words: str | Path) -> None:
    subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True)
