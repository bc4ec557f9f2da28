"""Starts a server, prints the process ids, and waits for its own death."""

import json
import signal
import sys
from pathlib import Path

import anyio

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

from execution.mcp.support import call, connect, plain

from toolcrib.execution.mcp.transport.watchdog import watchdog_pid


async def main() -> None:
    async with connect(plain()) as session:
        pids = json.loads(await call(session, "pids"))
        print(json.dumps([*pids, watchdog_pid()]), flush=True)  # noqa: T201 - for the test to read
        if "--exit" in sys.argv:
            return
        await anyio.sleep_forever()


if __name__ == "__main__":
    # Tests that run in the background inherit that these are ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    anyio.run(main)
