"""URLs become addresses, and passwords stay where they are."""

from __future__ import annotations

import logging
import traceback
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chasqui.errors import ConfigError
from chasqui.server.address import Address, Login, Node, Tls, parse_address
from chasqui.server.link import Link
from chasqui.server.secret import Secret, read_password_file, redact

if TYPE_CHECKING:
    from collections.abc import Callable

LOCAL = Node("127.0.0.1", 6379)
PASSWORD = "hunter2-s3cr3t"


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("redis://", Address("server", (LOCAL,))),
        ("redis://example.org", Address("server", (Node("example.org", 6379),))),
        ("redis://example.org:7000/3", Address("server", (Node("example.org", 7000),), db=3)),
        ("redis://example.org/?db=4", Address("server", (Node("example.org", 6379),), db=4)),
        ("REDIS://Example.org", Address("server", (Node("Example.org", 6379),))),
        ("redis://[::1]:7000/1", Address("server", (Node("::1", 7000),), db=1)),
        ("rediss://[fe80::1%25eth0]", Address("server", (Node("fe80::1%25eth0", 6379),), tls=Tls())),
        ("unix:///run/redis.sock", Address("unix", (Node("/run/redis.sock"),))),
        ("unix:///run/my%20redis.sock?db=2", Address("unix", (Node("/run/my redis.sock"),), db=2)),
        ("redis+cluster://a:1,b:2", Address("cluster", (Node("a", 1), Node("b", 2)))),
        ("rediss+cluster://a,b", Address("cluster", (Node("a", 6379), Node("b", 6379)), tls=Tls())),
        ("redis+sentinel://s/mail", Address("sentinel", (Node("s", 26379, is_sentinel=True),), "mail")),
        ("redis+sentinel://[::1]:9/m/5", Address("sentinel", (Node("::1", 9, is_sentinel=True),), "m", 5)),
        ("embedded://", Address("embedded")),
        ("embedded://demo", Address("embedded", name="demo")),
    ],
)
def test_a_url_names_a_deployment(url: str, address: Address) -> None:
    assert parse_address(url) == address


@pytest.mark.parametrize(
    ("url", "username", "password"),
    [
        ("redis://:pw@h", None, "pw"),
        ("redis://ada:pw@h", "ada", "pw"),
        ("redis://ada@h", "ada", None),
        ("redis://:p%40ss%2Fword%3F@h", None, "p@ss/word?"),
        ("redis://:p@ss/word@h", None, "p@ss/word"),
        ("redis://h?password=p%40ss&username=ada", "ada", "p@ss"),
        ("unix://ada:pw@/run/redis.sock", "ada", "pw"),
        ("redis+cluster://:pw@h1,h2", None, "pw"),
        ("redis+sentinel://:pw@s1,s2/mail", None, "pw"),
    ],
)
def test_a_login_is_read_from_the_url(url: str, username: str | None, password: str | None) -> None:
    assert parse_address(url).login == Login(username, Secret.wrap(password))


def test_a_login_that_is_passed_wins_over_the_url() -> None:
    address = parse_address("redis://ada:old@h", username="bob", password="new")
    assert address.login == Login("bob", Secret("new"))


def test_sentinels_have_a_login_of_their_own() -> None:
    address = parse_address("redis+sentinel://:master@s/mail?sentinel_password=guard&sentinel_username=g")
    assert (address.login, address.sentinel_login) == (
        Login(None, Secret("master")),
        Login("g", Secret("guard")),
    )


@pytest.mark.parametrize(
    "url",
    [
        "redis://example.org:7000/3",
        "rediss://[::1]:7",
        "unix:///s?db=2",
        "redis+cluster://a:1,b:2",
        "embedded://demo",
    ],
)
def test_an_address_is_shown_as_a_url(url: str) -> None:
    assert str(parse_address(url)) == url
    assert parse_address(str(parse_address(url))) == parse_address(url)


@pytest.mark.parametrize(
    ("url", "message", "hint"),
    [
        ("localhost:6379", "what kind of server", "redis://"),
        ("http://example.org", "what kind of server", "redis://"),
        ("", "what kind of server", "redis://"),
        ("redis://h:port", "no readable host and port", "host:6379"),
        ("redis://h:99999", "no readable host and port", "host:6379"),
        ("redis://h/database", "not a number", "/0 to /15"),
        ("redis://a,b", "several servers", "redis+cluster://"),
        ("redis+sentinel://s", "no service", "/service/db"),
        ("unix://run/redis.sock", "no socket", "three slashes"),
        ("redis://h?ssl_cert_reqs=none", "option nobody knows", "known are db"),
        ("redis://:what?now@h", "option nobody knows", "%3F"),
    ],
)
def test_a_wrong_url_is_refused_with_a_hint(url: str, message: str, hint: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        parse_address(url)
    assert caught.value.hint is not None
    assert hint in caught.value.hint


@pytest.mark.parametrize("url", ["redis://h:{}", "redis://h/{}", "redis://h?db={}", "redis+sentinel://h:{}/m/0"])
def test_a_number_of_very_many_digits_is_refused_without_quoting_it(url: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_address(url.format("7" * 5000))
    assert "777" not in str(caught.value)


def test_a_port_may_have_leading_zeros() -> None:
    assert parse_address("redis://h:0000006380").nodes == (Node("h", 6380),)


def test_tls_options_on_a_plain_url_are_refused_rather_than_ignored() -> None:
    with pytest.raises(ConfigError, match="need a rediss URL"):
        parse_address("redis://h", tls=Tls(ca=Path("ca.pem")))


@pytest.mark.parametrize(
    "url",
    [
        f"redis://:{PASSWORD}@h:port",
        f"redis://ada:{PASSWORD}@h/database",
        f"redis://:{PASSWORD}",
        f"redis://h?password={PASSWORD}&what=1",
        f"redis://:{PASSWORD}?x@h",
        f"redis:/:{PASSWORD}@h",
        f"redis//:{PASSWORD}@h",
        f":{PASSWORD}@h",
        f"unix://:{PASSWORD}@run/s",
        f"redis+sentinel://:{PASSWORD}@s",
        f"redis://h:{PASSWORD}",
        f"redis://h/{PASSWORD}",
        f"redis://h?{PASSWORD}",
        PASSWORD,
    ],
)
@pytest.mark.parametrize("ask", [parse_address, Link.open], ids=["parse", "open"])
def test_no_error_about_a_url_repeats_its_password(url: str, ask: Callable[[Secret], object]) -> None:
    with pytest.raises(ConfigError) as caught:
        ask(Secret(url))
    assert PASSWORD not in f"{caught.value} {caught.value.hint} {caught.value!r}"
    shown = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
    ours = [frame for frame in shown.stack if "chasqui" in frame.filename and "tests" not in frame.filename]
    assert ours
    assert PASSWORD not in "".join(f"{frame.line} {frame.locals}" for frame in ours)
    assert shown.__context__ is None


@pytest.mark.parametrize("text", ["redis://:{}@h", "redis://a:{}@h:1/2", "unix://:{}@/s", "redis://h?password={}"])
def test_an_address_never_shows_its_password(text: str, caplog: pytest.LogCaptureFixture) -> None:
    address = parse_address(text.format(PASSWORD))
    logging.getLogger("test").warning("opening %s %r", address, address)
    shown = f"{address} {address!r} {[address]} {caplog.text} {Link.open(address)!r}"
    assert address.login.password == Secret(PASSWORD)
    assert PASSWORD not in shown


passwords = st.text(st.characters(codec="utf-8", exclude_characters="\n\r"), min_size=8, max_size=30).map(
    lambda text: f"S{text}E"
)


@given(passwords)
def test_any_password_can_be_carried_percent_encoded(password: str) -> None:
    assert parse_address(f"redis://:{quote(password, safe='')}@h").login.password == Secret(password)


@given(passwords)
def test_redaction_hides_any_user_part(password: str) -> None:
    shown = redact(f"cannot reach redis://ada:{password}@example.org:6379/0 now")
    assert password not in shown
    assert "redis://***@" in shown or "://***@" in shown
    assert shown.endswith("example.org:6379/0 now")


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("redis://:pw@h:1", "redis://***@h:1"),
        ("see redis://a:b@h and rediss://c:d@i", "see redis://***@h and rediss://***@i"),
        ("redis://h?password=pw&db=1", "redis://h?password=***&db=1"),
        ("redis+sentinel://s/m?db=1&sentinel_password=pw", "redis+sentinel://s/m?db=1&sentinel_password=***"),
        ("redis://:a b@h", "redis://***@h"),
        ("redis://h:6379/0 is fine", "redis://h:6379/0 is fine"),
    ],
)
def test_redaction_leaves_what_is_no_secret(text: str, redacted: str) -> None:
    assert redact(text) == redacted


def test_a_password_file_gives_its_line(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text(f"{PASSWORD}\n")
    file.chmod(0o600)
    assert read_password_file(file) == Secret(PASSWORD)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620])
def test_a_password_file_that_others_can_touch_is_refused(tmp_path: Path, mode: int) -> None:
    file = tmp_path / "password"
    file.write_text(PASSWORD)
    file.chmod(mode)
    with pytest.raises(ConfigError, match="by others") as caught:
        read_password_file(file)
    assert caught.value.hint == f"chmod 600 {file}"


@pytest.mark.parametrize("content", [b"", b"\n", b"one\ntwo\n", b"\xff\xfe"])
def test_a_password_file_without_one_readable_line_is_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "password"
    file.write_bytes(content)
    file.chmod(0o600)
    with pytest.raises(ConfigError, match="password file"):
        read_password_file(file)


def test_a_missing_password_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        read_password_file(tmp_path / "none")
