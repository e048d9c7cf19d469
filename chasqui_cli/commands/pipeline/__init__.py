"""`chasqui pipeline`: history, reports and bulk work on Spark. Each verb has its file; Spark is imported inside them."""

from __future__ import annotations

import typer

from chasqui_cli.commands.pipeline import archiving, loading, reporting, touring, warming

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.callback(invoke_without_command=True)
def pipeline(ctx: typer.Context) -> None:
    """Keep what happened, report on it, and move jobs by the million, on Spark."""
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())


app.command("archive")(archiving.archive)
app.command("compact")(archiving.compact)
app.command("rollup")(archiving.rollup)
app.command("report")(reporting.report)
app.command("produce")(loading.produce)
app.command("replay")(loading.replay)
app.command("up")(warming.up)
app.command("down")(warming.down)
app.command("status")(warming.status)
app.command("doctor")(warming.doctor)
app.command("demo")(touring.demo)
