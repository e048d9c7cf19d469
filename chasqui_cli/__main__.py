"""`python -m chasqui_cli` is `chasqui`."""

from chasqui_cli.app import main

main()
