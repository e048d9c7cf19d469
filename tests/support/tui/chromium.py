"""A headless Chromium under a test's control: pages, keys, pictures, and what a page receives over its socket."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import shutil
import tempfile
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp

from chasqui import SystemClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

PATIENCE_S = 25


class Browser:
    """One page, over Chromium's own protocol."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._count = 0
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self.received = b""
        self.statuses: list[tuple[str, int]] = []

    async def listen(self) -> None:
        async for message in self._socket:
            event = json.loads(message.data)
            if event.get("id") in self._answers:
                self._answers.pop(event["id"]).set_result(event.get("result"))
            elif event.get("method") == "Network.webSocketFrameReceived":
                frame = event["params"]["response"]
                data = frame["payloadData"]
                self.received += base64.b64decode(data) if frame["opcode"] == 2 else data.encode()
            elif event.get("method") == "Network.responseReceived":
                response = event["params"]["response"]
                self.statuses.append((response["url"], response["status"]))

    async def ask(self, method: str, **params: Any) -> Any:
        self._count += 1
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._answers[self._count] = answer
        await self._socket.send_json({"id": self._count, "method": method, "params": params})
        async with asyncio.timeout(PATIENCE_S):
            return await answer

    async def go(self, url: str) -> None:
        await self.ask("Page.navigate", url=url)

    async def press(self, key: str) -> None:
        for kind in ("keyDown", "keyUp"):
            text = {"text": key} if kind == "keyDown" else {}
            await self.ask("Input.dispatchKeyEvent", type=kind, key=key, **text)

    async def click(self, x: int, y: int) -> None:
        for kind in ("mousePressed", "mouseReleased"):
            await self.ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    async def wait_for_terminal_text(self, text: str) -> None:
        """Wait until the terminal in the page received this text."""
        left = float(PATIENCE_S)
        while text not in self.text():
            await SystemClock().sleep(0.1)
            left -= 0.1
            assert left > 0, (
                f"{text!r} was never seen; the page shows {await self.body()!r}, received {self.text()[-2000:]!r}"
            )

    def text(self) -> str:
        """What the terminal received, without escape sequences."""
        return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", self.received.decode("utf-8", "replace"))

    async def body(self) -> str:
        found = await self.ask("Runtime.evaluate", expression="document.body.innerText")
        return str(found["result"]["value"])

    async def wait_for_page_text(self, text: str) -> None:
        """Wait until the page itself shows this text."""
        left = float(PATIENCE_S)
        while text not in await self.body():
            await SystemClock().sleep(0.1)
            left -= 0.1
            assert left > 0, f"{text!r} was never shown, but {await self.body()!r}"

    async def picture(self, path: Path) -> None:
        path.write_bytes(base64.b64decode((await self.ask("Page.captureScreenshot"))["data"]))


@asynccontextmanager
async def open_browser(program: str) -> AsyncIterator[Browser]:
    """A browser, and its end. The fixture `chromium` has the program."""
    profile = Path(tempfile.mkdtemp(prefix="cq-chromium-"))
    process = await asyncio.create_subprocess_exec(
        program, "--headless=new", "--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--disable-dev-shm-usage",
        "--remote-debugging-port=0", f"--user-data-dir={profile}", "--window-size=1300,900", "about:blank",
        stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        assert process.stderr
        async with asyncio.timeout(PATIENCE_S):
            while not (found := re.search(rb"DevTools listening on ws://([^/]+)/", await process.stderr.readline())):
                pass
        drain = asyncio.create_task(process.stderr.read())
        async with aiohttp.ClientSession() as session:
            async with session.get(f"http://{found[1].decode()}/json/list") as listing:
                [page, *_] = [one for one in await listing.json() if one["type"] == "page"]
            async with session.ws_connect(page["webSocketDebuggerUrl"], max_msg_size=0) as socket:
                browser = Browser(socket)
                listening = asyncio.create_task(browser.listen())
                await browser.ask("Page.enable")
                await browser.ask("Network.enable")
                await browser.ask("Emulation.setFocusEmulationEnabled", enabled=True)
                yield browser
                listening.cancel()
        drain.cancel()
    finally:
        process.terminate()
        await process.wait()
        shutil.rmtree(profile, ignore_errors=True)
