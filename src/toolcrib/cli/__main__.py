"""Run the command as `python -m toolcrib.cli`."""

from toolcrib.cli import main

__all__: list[str] = []

main()
