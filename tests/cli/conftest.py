from tests.cli.inside import inside as inside
from tests.cli.shell import shell as shell
