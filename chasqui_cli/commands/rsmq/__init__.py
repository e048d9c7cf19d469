"""`chasqui rsmq`: queues of RSMQ, in the words of its own tool and in those its users miss."""

from __future__ import annotations

import typer

from chasqui_cli.commands.rsmq._change import expire, hold, move, purge, release, sweep
from chasqui_cli.commands.rsmq._rsmqctl import message_app, queue_app
from chasqui_cli.commands.rsmq.doctor import doctor
from chasqui_cli.commands.rsmq.export import export, import_
from chasqui_cli.commands.rsmq.peek import counts, peek, show

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.callback(invoke_without_command=True)
def rsmq(ctx: typer.Context) -> None:
    """RSMQ queues: what rsmqctl does (`queue`, `message`), and looking, purging, moving, mending without receiving."""
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())


app.add_typer(queue_app, name="queue")
app.add_typer(message_app, name="message")
for _verb in (peek, show, counts, purge, move, sweep, expire, release, hold, export, doctor):
    app.command(_verb.__name__)(_verb)
app.command("import")(import_)
