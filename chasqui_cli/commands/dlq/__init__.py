"""`chasqui dlq`: the dead letters. Each verb lives in a module of its own kind; here they only get their words."""

from __future__ import annotations

import typer

from chasqui_cli.commands.dlq.edit import edit
from chasqui_cli.commands.dlq.export import export, import_
from chasqui_cli.commands.dlq.peek import groups, peek
from chasqui_cli.commands.dlq.purge import purge
from chasqui_cli.commands.dlq.replay import replay

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.callback(invoke_without_command=True)
def dlq(ctx: typer.Context) -> None:
    """Dead letters: see why jobs died, put them back to work, mend, export, import or purge them."""
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())


for _word, _verb in {
    "peek": peek,
    "groups": groups,
    "replay": replay,
    "edit": edit,
    "export": export,
    "import": import_,
    "purge": purge,
}.items():
    app.command(_word)(_verb)
