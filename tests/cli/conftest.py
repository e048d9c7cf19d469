from tests.cli.inside import cli as cli
from tests.cli.shell import cli_process as cli_process
