"""A call of a tool that may be given up: what does not stop when it is told to is left alone."""

from collections.abc import Awaitable, Callable
from typing import Any

from toolcrib.execution.background import Background

__all__ = ["bounded"]

_PATIENCE = 1.0
"""Seconds that a tool has to stop, once the code that called it has ended."""


async def bounded(call: Callable[[], Awaitable[Any]]) -> Any:
    """Return what a call gives; one that is cancelled is waited for only so long."""
    given: list[Any] = []
    raised: list[Exception] = []

    async def work() -> None:
        try:
            given.append(await call())
        except Exception as error:  # noqa: BLE001 - it is raised where the call is waited for
            raised.append(error)

    task = Background(work)
    try:
        await task.wait()
    except BaseException:
        await task.stop(_PATIENCE)
        raise
    if raised:
        raise raised[0]
    return given[0]
