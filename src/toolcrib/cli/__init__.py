"""The same verbs in a terminal."""

import os
import sys
from io import TextIOWrapper

from toolcrib.cli import interrupt
from toolcrib.cli.resident import client

__all__ = ["main"]

_MISSING = "toolcrib: the command needs the 'cli' extra: pip install 'toolcrib[cli]'"
_EXTRA = ("click", "rich")


def main() -> None:
    """Run the `toolcrib` command with the arguments of this process, and end the process.

    Exit codes: 0 ok, 1 the tool failed, 2 usage or bad input, 3 not found, 4 a server is unavailable,
    5 refused by policy, 130 interrupted.
    """
    interrupt.leave_at_once()
    for name in ("stdout", "stderr"):
        _tolerate_output(name)
    code = None if "_TOOLCRIB_COMPLETE" in os.environ else client.relay(sys.argv[1:])
    if code is not None:
        sys.exit(code)
    import logging  # noqa: PLC0415 - not where a running gateway does the work

    logging.basicConfig(level=logging.CRITICAL, format="%(levelname)s %(name)s: %(message)s")
    # Warn whoever named a model that another one answers, and whoever's catalogue was damaged.
    for name in ("toolcrib.crib.search", "toolcrib.crib.catalogue"):
        logging.getLogger(name).setLevel(logging.WARNING)
    try:
        from toolcrib.cli.app import app  # noqa: PLC0415 - behind an extra
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in _EXTRA:
            raise
        sys.stderr.write(f"{_MISSING}\n")
        sys.exit(2)
    app()


def _tolerate_output(name: str) -> None:
    """Make an output accept all text: it may be closed, or have an encoding without some characters."""
    stream = getattr(sys, name)
    if stream is None:
        setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115 - for good, and light
    elif isinstance(stream, TextIOWrapper):
        stream.reconfigure(errors="backslashreplace")
