from tests.support.cli.in_process import cli as cli
from tests.support.cli.subprocess_cli import cli_process as cli_process
