"""Numbered jobs, so many at a time, until one of them says stop."""

from collections.abc import Awaitable, Callable

import anyio
import anyio.lowlevel

__all__ = ["run_side_by_side"]


async def run_side_by_side(job: Callable[[int], Awaitable[bool]], count: int, width: int) -> int | None:
    """Run the jobs from 0 to `count`, `width` at a time, and return which of them said False, if any.

    They begin in order. The first to say False, or to raise, ends the others; what it raised is raised here
    as it is.
    """
    places = iter(range(count))
    refused: list[int] = []
    raised: list[Exception] = []

    async def work() -> None:
        for place in places:
            await anyio.lowlevel.checkpoint()  # a deadline must be met also by jobs that never wait
            try:
                if await job(place):
                    continue
                refused.append(place)
            except Exception as error:  # noqa: BLE001 - whatever it is, the group would wrap it
                raised.append(error)
            group.cancel_scope.cancel()
            return

    async with anyio.create_task_group() as group:
        for _ in range(min(width, count)):
            group.start_soon(work)
    if raised:
        raise raised[0]
    return refused[0] if refused else None
