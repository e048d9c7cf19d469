"""`chasqui top --web`: the same dashboard in a browser, one process per visitor, for those who have the token.

The token stands in the URL that is printed, once; a cookie carries it from there. Without it nothing is served, and no
process is started. Nothing is fetched from other hosts.
"""

from __future__ import annotations

import asyncio
import hmac
import os
import secrets
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chasqui_cli.output.stdio import print_stderr

if TYPE_CHECKING:
    from aiohttp import web

    from chasqui_cli.context.command_context import CommandContext

LOOPBACK = {"127.0.0.1", "localhost", "::1"}
COOKIE = "chasqui"
TOKEN_VARIABLE = "CHASQUI_WEB_TOKEN"  # noqa: S105 - the name of a variable, not a token
HEADERS = {
    "Content-Security-Policy": "default-src 'self' 'unsafe-inline' data:; connect-src 'self' ws: wss:; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}


def serve(ctx: CommandContext, where: str, arguments: list[str], *, allow_changes: bool) -> None:
    """Serve until interrupted. arguments: the command line, of which each visitor's dashboard gets its part."""
    from chasqui.errors import ConfigError

    try:
        import textual_serve  # noqa: F401 - only whether it is there
    except ImportError:
        raise ConfigError("serving needs textual-serve", hint="pip install 'chasqui-cli[web]'") from None
    host, port = _parse_address(where)
    settings, _ = ctx.settings, ctx.address  # a URL that cannot be read is refused now
    if host not in LOOPBACK:
        print_stderr(f"warning: {host} is not loopback: whoever has the URL sees the queues, and nothing is encrypted")
    environment = {"CHASQUI_READONLY": "1"} if not allow_changes or settings.read_only else {}
    if ctx.connection.redis_url:
        environment["CHASQUI_REDIS_URL"] = ctx.connection.redis_url
    os.environ.update(environment)
    token = os.environ.pop(TOKEN_VARIABLE, "") or secrets.token_urlsafe(24)
    command = shlex.join([sys.executable, "-m", "chasqui_cli", *visitor_command(arguments)])
    _build_server(command, host, port, token).serve()


def visitor_command(arguments: list[str]) -> list[str]:
    """The command line of a visitor's dashboard: without what concerns serving, and without a URL, which may hold a
    password and is in the environment already.
    """
    words: list[str] = []
    skip = False
    for word in arguments:
        name = word.partition("=")[0]
        if skip:
            skip = False
        elif name in ("--web", "-u", "--redis-url"):
            skip = "=" not in word
        elif word.startswith("-u") and not word.startswith("--"):
            continue
        elif name != "--allow-changes":
            words.append(word)
    return words


def _parse_address(where: str) -> tuple[str, int]:
    """`8000`, `:8000`, `host:8000`, `[::1]:8000`."""
    from chasqui.errors import ConfigError

    host, _, port = where.rpartition(":")
    host = host.strip("[]") or "127.0.0.1"
    if not port.isdigit() or not 0 < int(port) < 65536:
        raise ConfigError(f"{where!r} is no place to serve at", hint="write it as 8000 or 127.0.0.1:8000")
    return host, int(port)


def _build_server(command: str, host: str, port: int, token: str) -> Any:
    """Textual's server behind a check_token that asks for the token."""
    from textual_serve.server import Server

    shown = f"[{host}]" if ":" in host else host

    class Guarded(Server):
        def initialize_logging(self) -> None:
            """Do not log requests: the token is in one of them."""

        async def on_startup(self, app: web.Application) -> None:
            print_stderr(f"the dashboard is at http://{shown}:{port}/?token={token}")
            print_stderr("keep that URL to yourself; ctrl+c ends it")

        async def _make_app(self) -> web.Application:
            app = await super()._make_app()
            app.middlewares.append(_token_middleware(token))
            return app

    templates = Path(__file__).with_name("web")
    return Guarded(
        command, host=host, port=port, title="chasqui", public_url=f"http://{shown}:{port}", templates_path=templates
    )


def _token_middleware(token: str) -> Any:
    """Refuses requests without the token, and other sites that would use a visitor's cookie."""
    from aiohttp import web

    def knows(given: str | None) -> bool:
        return given is not None and hmac.compare_digest(given.encode(), token.encode())

    @web.middleware
    async def check_token(request: web.Request, handler: Any) -> web.StreamResponse:
        if knows(request.query.get("token")):
            answer = web.HTTPSeeOther("/")
            answer.set_cookie(COOKIE, token, httponly=True, samesite="Strict")
            return answer
        origin = request.headers.get("Origin")
        if not knows(request.cookies.get(COOKIE)) or (origin and origin.partition("//")[2] != request.host):
            await asyncio.sleep(0.2)  # noqa: TID251 - who guesses tokens may wait
            return web.Response(status=403, text="this dashboard wants the token it printed at its start\n")
        found: web.StreamResponse = await handler(request)
        if not found.prepared:
            found.headers.update(HEADERS)
        return found

    return check_token
