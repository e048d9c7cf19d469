"""`chasqui pipeline`: history, reports and bulk work on Spark. Each verb has its file; Spark is imported inside them."""

from __future__ import annotations

import typer

from chasqui_cli.commands.pipeline import _load, archive, demo, report, up

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.callback(invoke_without_command=True)
def pipeline(ctx: typer.Context) -> None:
    """Keep what happened, report on it, and move jobs by the million, on Spark."""
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())


app.command("archive")(archive.archive)
app.command("compact")(archive.compact)
app.command("rollup")(archive.rollup)
app.command("report")(report.report)
app.command("produce")(_load.produce)
app.command("replay")(_load.replay)
app.command("up")(up.up)
app.command("down")(up.down)
app.command("status")(up.status)
app.command("doctor")(up.doctor)
app.command("demo")(demo.demo)
