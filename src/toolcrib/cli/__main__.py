"""Run the command as `python -m toolcrib.cli`."""

from toolcrib.cli import main

main()
