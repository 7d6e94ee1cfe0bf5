"""`python -m autopatch`: the command line."""

from autopatch.cli.main import main

main()
