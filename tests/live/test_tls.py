"""TLS against a real server: who is trusted, who is not, and what is said about it."""

from __future__ import annotations

import select
import ssl
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from chasqui.errors import AuthRefused, ConfigError, ServerError, Unreachable
from chasqui.server.address import Address, Tls, parse_address
from chasqui.server.connection_setup import tls_context
from chasqui.server.error_kinds import error_from_exception
from chasqui.server.link import Link
from tests.support.links import Opener, both_links, command
from tests.support.servers.certificates import AUTHORITY_EXTENSIONS, SERVER_EXTENSIONS, Certificates, make_certificates
from tests.support.servers.server import Server, start_server

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.servers.pool import ServerPool


@pytest.fixture(scope="module")
def tls_server(servers: ServerPool) -> Iterator[Server]:
    servers.get("redis-8.6")  # which decides what a missing server means
    with start_server("redis-8.6", tls=True) as server:
        yield server


@pytest.fixture(scope="module")
def strict_server(servers: ServerPool) -> Iterator[Server]:
    """It wants a certificate from its clients too."""
    servers.get("redis-8.6")
    with start_server("redis-8.6", tls=True, args=("--tls-auth-clients", "yes")) as server:
        yield server


@pytest.fixture(scope="module")
def strangers(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """Certificates of an authority that has nothing to do with the servers here."""
    return make_certificates(tmp_path_factory.mktemp("strangers"))


def own(server: Server) -> Certificates:
    assert server.certificates
    return server.certificates


def at(server: Server, tls: Tls, *, host: str = "127.0.0.1") -> Address:
    return parse_address(f"rediss://{host}:{server.port}", tls=tls)


@both_links
async def test_a_server_of_a_named_authority_is_trusted(tls_server: Server, open_link: Opener) -> None:
    async with open_link(at(tls_server, Tls(ca=own(tls_server).ca))) as link:
        assert await link.run(command("PING")) == b"PONG"
        large = b"x" * 3_000_000
        await link.run(command("SET", "large", large))
        assert await link.run(command("GET", "large")) == large


def test_tickets_after_the_handshake_do_not_make_a_new_connection_look_used(tls_server: Server) -> None:
    with Link.open(at(tls_server, Tls(ca=own(tls_server).ca))) as link:
        connection: Any = link._setup.pool(link.address.nodes[0]).make_connection()
        connection.connect()
        assert select.select([connection._sock], [], [], 5)[0], "the server has sent its tickets"
        assert connection.can_read() is False
        connection.send_command("PING")
        assert select.select([connection._sock], [], [], 5)[0], "a reply that nobody takes"
        assert connection.can_read() is True
        connection.disconnect()


def test_a_connection_that_the_server_closed_is_not_used_again(tls_server: Server) -> None:
    with Link.open(at(tls_server, Tls(ca=own(tls_server).ca))) as link:
        assert link.run(command("PING")) == b"PONG"
        tls_server.run_command("CLIENT", "KILL", "TYPE", "normal")
        assert link.run(command("PING")) == b"PONG"


@both_links
async def test_a_server_of_an_unknown_authority_is_refused(tls_server: Server, open_link: Opener) -> None:
    async with open_link(at(tls_server, Tls())) as link:
        with pytest.raises(ServerError, match="cannot be trusted") as caught:
            await link.run(command("PING"))
    assert not caught.value.transient
    assert "--tls-ca" in str(caught.value.hint)


@both_links
async def test_a_server_of_another_authority_is_refused(
    tls_server: Server, open_link: Opener, strangers: Certificates
) -> None:
    async with open_link(at(tls_server, Tls(ca=strangers.ca))) as link:
        with pytest.raises(ServerError, match="cannot be trusted"):
            await link.run(command("PING"))


@pytest.fixture
def strict_verification(monkeypatch: pytest.MonkeyPatch) -> None:
    """As it is by default since Python 3.13."""
    create = ssl.create_default_context

    def create_strict(**settings: Any) -> ssl.SSLContext:
        context = create(**settings)
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        return context

    monkeypatch.setattr(ssl, "create_default_context", create_strict)


NO_KEY_IDENTIFIER = tuple(line for line in SERVER_EXTENSIONS if "authorityKeyIdentifier" not in line)
AS_PYTHON_REFUSES = "and Python 3.13 and newer refuse that: "
LAX_CERTIFICATES = {
    "no key usage": (
        ("basicConstraints = critical, CA:TRUE", "subjectKeyIdentifier = hash"),
        SERVER_EXTENSIONS,
        (
            f"the CA certificate has no keyUsage extension, {AS_PYTHON_REFUSES}"
            "re-issue the CA with keyUsage=critical,keyCertSign,cRLSign"
        ),
    ),
    "no critical constraints": (
        ("basicConstraints = CA:TRUE", "keyUsage = critical, keyCertSign", "subjectKeyIdentifier = hash"),
        SERVER_EXTENSIONS,
        (
            f"the CA certificate does not mark its basicConstraints as critical, {AS_PYTHON_REFUSES}"
            "re-issue the CA with basicConstraints=critical,CA:TRUE"
        ),
    ),
    "no authority key": (
        AUTHORITY_EXTENSIONS,
        (*NO_KEY_IDENTIFIER, "authorityKeyIdentifier = none"),
        (
            f"the server's certificate has no authorityKeyIdentifier extension, {AS_PYTHON_REFUSES}"
            "re-issue it with authorityKeyIdentifier=keyid, by a CA that has subjectKeyIdentifier=hash"
        ),
    ),
    "no constraints": (
        ("keyUsage = critical, keyCertSign", "subjectKeyIdentifier = hash"),
        SERVER_EXTENSIONS,
        (
            "the CA certificate does not state that it is one: re-issue it with "
            "basicConstraints=critical,CA:TRUE and keyUsage=critical,keyCertSign,cRLSign"
        ),
    ),
}


@pytest.mark.parametrize(("authority", "subject", "hint"), LAX_CERTIFICATES.values(), ids=LAX_CERTIFICATES)
@pytest.mark.usefixtures("strict_verification")
def test_a_certificate_that_only_older_pythons_trust_is_refused_with_its_remedy(
    tmp_path: Path, authority: tuple[str, ...], subject: tuple[str, ...], hint: str
) -> None:
    files = make_certificates(tmp_path, authority, subject)
    with start_server("redis-8.6", tls=True, certificates=files) as server:
        with Link.open(at(server, Tls(ca=files.ca))) as link:
            with pytest.raises(ServerError, match="cannot be trusted") as caught:
                link.run(command("PING"))
    assert caught.value.hint == hint


@pytest.mark.parametrize(
    ("code", "remedy"),
    [(86, "re-issue the CA with subjectKeyIdentifier=hash"), (88, "`openssl verify -x509_strict` names")],
)
def test_other_strict_errors_have_a_remedy_too(code: int, remedy: str) -> None:
    refused = ssl.SSLCertVerificationError(1, "certificate verify failed")
    refused.reason, refused.verify_code, refused.verify_message = "CERTIFICATE_VERIFY_FAILED", code, "strict"
    assert remedy in str(error_from_exception(refused, "somewhere:6379").hint)


@both_links
async def test_the_name_in_the_certificate_counts(tls_server: Server, open_link: Opener) -> None:
    ca = own(tls_server).ca
    async with open_link(at(tls_server, Tls(ca=ca, server_name="elsewhere.example"))) as link:
        with pytest.raises(ServerError, match="mismatch") as caught:
            await link.run(command("PING"))
    assert "--tls-server-name" in str(caught.value.hint)
    async with open_link(at(tls_server, Tls(ca=ca, server_name="localhost"))) as link:
        assert await link.run(command("PING")) == b"PONG"


@both_links
async def test_insecure_means_no_verification_and_a_warning(
    tls_server: Server, open_link: Opener, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_link(at(tls_server, Tls(insecure=True))) as link:
        assert await link.run(command("PING")) == b"PONG"
    assert "without verification" in caplog.text


@both_links
async def test_a_client_certificate_lets_us_in(strict_server: Server, open_link: Opener) -> None:
    files = own(strict_server)
    async with open_link(at(strict_server, Tls(ca=files.ca, cert=files.certificate, key=files.key))) as link:
        assert await link.run(command("PING")) == b"PONG"


@both_links
async def test_a_missing_client_certificate_is_reported(strict_server: Server, open_link: Opener) -> None:
    async with open_link(at(strict_server, Tls(ca=own(strict_server).ca))) as link:
        with pytest.raises((AuthRefused, Unreachable)) as caught:  # the server's alert may drown in its reset
            await link.run(command("PING"))
    assert "--tls-cert" in str(caught.value.hint)


def test_a_server_that_goes_without_a_word_is_a_broken_connection_and_passes() -> None:
    gone = ssl.SSLEOFError(ssl.SSL_ERROR_EOF, "EOF occurred in violation of protocol")
    error = error_from_exception(gone, "somewhere:6379", Tls(insecure=True))
    assert isinstance(error, Unreachable)
    assert error.transient
    assert "--tls-cert" in str(error.hint)


@both_links
async def test_a_server_that_does_not_answer_in_tls_is_suspected_to_speak_none(open_link: Opener) -> None:
    with start_server("valkey-9.1", tcp=True) as server:
        async with open_link(at(server, Tls(insecure=True)), connect_timeout=0.5) as link:
            with pytest.raises(Unreachable, match="in time") as caught:
                await link.run(command("PING"))
    assert "use redis://" in str(caught.value.hint)


@both_links
async def test_a_plain_connection_to_a_tls_port_breaks_cleanly(tls_server: Server, open_link: Opener) -> None:
    async with open_link(f"redis://127.0.0.1:{tls_server.port}", timeout=1) as link:
        with pytest.raises(Unreachable, match="broke"):
            await link.run(command("PING"))


def test_nothing_older_than_tls_1_2_is_spoken() -> None:
    context = tls_context(Tls())
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)


def test_unreadable_files_are_reported_before_anything_is_sent(tmp_path: Path, strangers: Certificates) -> None:
    nonsense = tmp_path / "nonsense.pem"
    nonsense.write_text("no certificate")
    for tls in (Tls(ca=Path("/no/such/ca.pem")), Tls(ca=nonsense), Tls(cert=nonsense, key=nonsense)):
        with pytest.raises(ConfigError, match="cannot use the TLS files"):
            tls_context(tls)
    with pytest.raises(ConfigError, match="cannot use the TLS files"):
        tls_context(Tls(cert=strangers.certificate, key=_locked(strangers.key, tmp_path)))


def _locked(key: Path, place: Path) -> Path:
    locked = place / "locked.key"
    words = ["openssl", "pkey", "-in", str(key), "-aes256", "-passout", "pass:letmein", "-out", str(locked)]
    subprocess.run(words, check=True, capture_output=True)
    return locked
