"""`chasqui top`: the dashboard, on this terminal or in a browser."""

from __future__ import annotations

import gc
import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from chasqui_cli.context.command_context import CommandContext, command
from chasqui_cli.context.command_spec import Effect
from chasqui_cli.context.completion import complete_queues
from chasqui_cli.context.settings import key_overrides

if TYPE_CHECKING:
    from chasqui_cli.tui.command_runner import CommandRunner
    from chasqui_cli.tui.dashboard import DashboardApp


@command("top", writes_data=False, effect=Effect.RUNS)
def top(
    ctx: CommandContext,
    queue: Annotated[
        str | None, typer.Argument(metavar="[QUEUE]", help="Open this queue at once.", autocompletion=complete_queues)
    ] = None,
    interval: Annotated[str, typer.Option("--interval", metavar="TIME", help="How often to read: 2s, 500ms.")] = "2s",
    light: Annotated[bool, typer.Option("--light", help="Dark on light.")] = False,
    keep_awake: Annotated[
        bool, typer.Option("--keep-awake", help="Go on reading while the terminal has no focus.")
    ] = False,
    web: Annotated[
        str | None, typer.Option("--web", metavar="[HOST:]PORT", help="Serve it to a browser, on loopback by default.")
    ] = None,
    allow_changes: Annotated[
        bool, typer.Option("--allow-changes", help="With --web: let the browser change things, too.")
    ] = False,
) -> None:
    """The dashboard: every queue, worst first; jobs, dead letters, delays, schedules, workers, events, health.

    Lower-case keys look, upper-case keys change; every change shows the command line it is, tries it dry, and asks. `?`
    lists the keys. With --web the same is served to a browser, read-only unless --allow-changes, to whoever has the
    token in the URL.
    """
    from chasqui_cli.output.times import parse_duration_ms

    if web is not None:
        from chasqui_cli.tui.web_server import serve

        serve(ctx, web, sys.argv[1:], allow_changes=allow_changes)
        return
    _require_terminal()
    seconds = max(0.2, parse_duration_ms(interval) / 1000)
    dashboard = build_dashboard(ctx, queue, seconds, light=light, keep_awake=keep_awake)
    dashboard.run()
    if dashboard.return_code:
        raise typer.Exit(dashboard.return_code)


def build_dashboard(
    ctx: CommandContext, queue: str | None, interval_s: float, *, light: bool, keep_awake: bool
) -> DashboardApp:
    """The app, ready to run. Until it stands, nothing is searched for cycles: there is nothing to be found, and it would
    cost an eighth of the start.
    """
    gc.disable()
    from chasqui import SystemClock
    from chasqui_cli.tui.dashboard import DashboardApp
    from chasqui_cli.tui.dashboard_options import DashboardOptions
    from chasqui_cli.tui.feed import Feed
    from chasqui_cli.tui.widgets.styled_text import DARK, LIGHT

    settings = ctx.settings
    setup = DashboardOptions(
        address=str(ctx.address),
        context=settings.context,
        colour=settings.color,
        read_only=settings.read_only,
        protected=settings.protected,
        is_web=_is_web_session(),
        keeps_awake=keep_awake,
        theme=LIGHT if light else DARK,
        queue=queue,
        keys=_key_overrides(),
    )
    feed = Feed(ctx.async_link, interval_s=interval_s, names=ctx.name_cache())
    return DashboardApp(feed, _command_runner(ctx), setup, SystemClock())


def _command_runner(ctx: CommandContext) -> CommandRunner:
    """Runs verbs on the server this dashboard looks at. A URL may hold a password, so it goes into the environment."""
    from chasqui_cli.tui.command_runner import CommandRunner

    given, settings = ctx.connection, ctx.settings
    environment = dict(os.environ)
    reach: list[str] = []
    if given.redis_url:
        environment["CHASQUI_REDIS_URL"] = given.redis_url
    elif given.context:
        reach += ["--context", given.context]
    for flag in ("url_file", "password_file", "tls_ca", "tls_cert", "tls_key", "tls_server_name"):
        if value := getattr(given, flag):
            reach += [f"--{flag.replace('_', '-')}", str(value)]
    if given.tls_insecure:
        reach.append("--tls-insecure")
    if settings.read_only:
        environment["CHASQUI_READONLY"] = "1"
    return CommandRunner(environment, reach)


def _key_overrides() -> dict[str, str]:
    chosen = key_overrides()
    if not chosen:
        return {}
    from chasqui_cli.tui.dashboard import binding_ids
    from chasqui_cli.tui.key_overrides import check_key_overrides

    return check_key_overrides(chosen, binding_ids())


def _is_web_session() -> bool:
    return bool(os.environ.get("TEXTUAL_DRIVER"))


def _require_terminal() -> None:
    from chasqui.errors import ConfigError

    # Textual draws on stderr; with one of the three elsewhere, nothing would be seen.
    if not _is_web_session() and not all(one.isatty() for one in (sys.stdin, sys.stdout, sys.stderr)):
        raise ConfigError("the dashboard needs a terminal", hint="for a pipe or a file: chasqui watch QUEUE -o jsonl")
