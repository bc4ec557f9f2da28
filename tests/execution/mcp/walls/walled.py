"""A server that runs any code, behind a wall."""

import sys
from pathlib import Path
from typing import Any

from toolcrib import SyncCrib

INTRUDER = Path(__file__).parents[3] / "servers" / "intruder.py"


def intruder(kind: str, **settings: Any) -> dict[str, Any]:
    """Return the settings of the server that runs any code, behind a wall of a kind."""
    return {"command": sys.executable, "args": [str(INTRUDER)], "sandbox": kind, **settings}


def attempt(crib: SyncCrib, code: str) -> dict[str, Any]:
    """Have the server `it` run code; return its result, or the error that stopped it."""
    found: dict[str, Any] = crib.run("it:attempt", {"code": code}).structured
    return found
