"""Wait for conditions that set no event: another process, a thread, a folder."""

import inspect
import time
from collections.abc import Awaitable, Callable
from typing import Any

import anyio

PATIENCE = 120.0
"""Seconds after which something hangs. Nothing takes so long, however busy the machine is."""
PAUSE = 0.01


async def until(holds: Callable[[], Any | Awaitable[Any]], what: str = "") -> Any:
    """Wait until a condition holds, and return its value; a coroutine function is awaited."""
    found: Any = None
    with anyio.move_on_after(PATIENCE):
        while True:
            found = holds()
            if inspect.isawaitable(found):
                found = await found
            if found:
                return found
            await anyio.sleep(PAUSE)
    raise AssertionError(_late(holds, what, found))


def wait_until(holds: Callable[[], Any], what: str = "") -> Any:
    """Wait in a thread until a condition holds, and return its value."""
    end = time.monotonic() + PATIENCE
    while not (found := holds()):
        assert time.monotonic() < end, _late(holds, what, found)
        time.sleep(PAUSE)
    return found


def _late(holds: Callable[[], Any], what: str, found: Any) -> str:
    """Describe a condition that did not hold: its last value, and the variables that it reads."""
    seen = inspect.getclosurevars(holds).nonlocals if inspect.isfunction(holds) else {}
    what = what or inspect.getsource(holds).strip()
    return f"not within {PATIENCE:g} s: {what}; at last it gave {found!r:.500}, with {seen!r:.2000}"
