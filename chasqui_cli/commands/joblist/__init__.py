"""`chasqui joblist`: list job queues, as Redis' guide describes them in nine languages."""

from __future__ import annotations

import typer

from chasqui_cli.commands.joblist._change import cancel, enqueue, move, purge, reclaim, retry
from chasqui_cli.commands.joblist.doctor import doctor
from chasqui_cli.commands.joblist.overview import events, list_jobs, overview, show
from chasqui_cli.commands.joblist.work import work

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.callback(invoke_without_command=True)
def joblist(ctx: typer.Context) -> None:
    """List job queues: look, enqueue, reclaim, retry, cancel, move, purge, mend, work."""
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())


for _verb in (overview, show, enqueue, reclaim, retry, cancel, move, purge, doctor, events, work):
    app.command(_verb.__name__)(_verb)
app.command("list")(list_jobs)
