"""`chasqui top --web`: the dashboard in a real browser, and who is refused."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import aiohttp
import pytest

from chasqui import Keys, Link, SystemClock
from tests.support.cli.subprocess_cli import SubprocessCli, assert_error
from tests.support.seeds import dashboard_queues
from tests.support.servers.server import start_server
from tests.support.tui.chromium import open_browser

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from tests.support.servers.server import Server

TOKEN = "the-token-of-this-test"
PATIENCE_S = 60


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with start_server("valkey-9.1", tcp=True) as server:
        with Link.open(server.url) as link:
            dashboard_queues.add_every_state(link, "payments", 1_794_000_000_000)
        yield server


@asynccontextmanager
async def served(server: Server, home: Path, *options: str) -> AsyncIterator[str]:
    """The dashboard on a free port; answers its URL."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    variables = SubprocessCli(home).environment() | {
        "CHASQUI_REDIS_URL": server.url,
        "CHASQUI_WEB_TOKEN": TOKEN,
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "chasqui_cli", "top", "--web", f"127.0.0.1:{port}", "--interval", "300ms", *options,
        env=variables, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        assert process.stderr
        async with asyncio.timeout(PATIENCE_S):
            line = (await process.stderr.readline()).decode()
            assert f"http://127.0.0.1:{port}/?token={TOKEN}" in line, line
            url = f"http://127.0.0.1:{port}"
            async with aiohttp.ClientSession() as session:
                while True:
                    try:
                        await session.get(url)
                        break
                    except aiohttp.ClientConnectionError:
                        await SystemClock().sleep(0.05)
        yield url
    finally:
        process.terminate()
        await process.wait()


async def test_without_the_token_nothing_is_served(server: Server, home: Path) -> None:
    async with served(server, home) as url, aiohttp.ClientSession() as stranger:
        for path in ("/", "/static/js/textual.js", "/?token=guess", "/download/x"):
            assert (await stranger.get(url + path)).status == 403, path
        with pytest.raises(aiohttp.WSServerHandshakeError):
            await stranger.ws_connect(f"{url}/ws")
        async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as visitor:
            page = await visitor.get(f"{url}/?token={TOKEN}")
            assert page.status == 200
            assert str(page.url) == f"{url}/", "the token leaves the address bar"
            assert "frame-ancestors 'none'" in page.headers["Content-Security-Policy"]
            text = await page.text()
            assert "http://" not in text, "nothing is fetched from elsewhere"
            assert (await visitor.get(f"{url}/static/js/textual.js")).status == 200
            with pytest.raises(aiohttp.WSServerHandshakeError):
                await visitor.ws_connect(f"{url}/ws", origin="http://evil.example")


async def test_a_browser_sees_the_fleet_presses_keys_and_changes_nothing(
    server: Server, home: Path, tmp_path: Path, chromium: str
) -> None:
    with Link.open(server.url) as link:
        before = dashboard_queues.command(link, "XLEN", Keys("payments").dlq)
    async with served(server, home) as url, open_browser(chromium) as browser:
        await browser.go(url)
        await browser.wait_for_page_text("wants the token")
        assert (f"{url}/", 403) in browser.statuses
        await browser.go(f"{url}/?token={TOKEN}")
        await browser.wait_for_terminal_text("payments")
        await browser.click(600, 700)
        assert "READ-ONLY" in browser.text()
        await browser.press("4")
        await browser.wait_for_terminal_text("card declined")
        await browser.press("R")
        await browser.press("D")
        await browser.press(":")
        await browser.wait_for_terminal_text("a verb of chasqui")
        for key in "dlq purge payments":
            await browser.press(key)
        await browser.ask(
            "Input.dispatchKeyEvent",
            type="keyDown",
            key="Enter",
            code="Enter",
            windowsVirtualKeyCode=13,
            text="\r",
        )
        await browser.wait_for_terminal_text("this dashboard is read-only")
        assert "do it" not in browser.text()
        await browser.picture(tmp_path / "browser.png")
        if keep := os.environ.get("CHASQUI_KEEP_PICTURES"):
            await browser.picture(Path(keep) / "browser.png")
    with Link.open(server.url) as link:
        assert dashboard_queues.command(link, "XLEN", Keys("payments").dlq) == before


def test_a_place_that_is_none_is_refused(home: Path) -> None:
    assert_error(SubprocessCli(home)("top", "--web", "nowhere"), 2, "no place to serve at")
