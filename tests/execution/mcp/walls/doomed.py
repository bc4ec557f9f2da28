"""A program with a server behind a wall, which it leaves to its fate: `python doomed.py KIND MARKER`."""

import sys
import time

from execution.mcp.walls.walled import attempt, intruder

from toolcrib import SyncCrib

DAEMON = """
import os, subprocess, sys
sleeper = subprocess.Popen(
    [sys.executable, "-S", "-c", "import time; time.sleep(600)", sys.argv[-1]],
    start_new_session=True, env={}, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
)
got = sleeper.pid
"""
"""Starts a daemon that has left the group, the session and the variables of the server."""

if __name__ == "__main__":
    kind, marker = sys.argv[1:]
    server = intruder(kind)
    with SyncCrib({"mcpServers": {"it": {**server, "args": [*server["args"], marker]}}}) as crib:
        sys.stdout.write(f"{attempt(crib, DAEMON)}\n")
        sys.stdout.flush()
        time.sleep(600)
