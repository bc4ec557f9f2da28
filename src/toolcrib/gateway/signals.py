"""Signals that stop a process: gracefully, or at once."""

import signal
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio
from anyio.abc import TaskStatus


class Stop:
    """A request to stop: `asked`, and `urged` when it is made again."""

    def __init__(self) -> None:
        self.asked = anyio.Event()
        self.urged = anyio.Event()

    def ask(self) -> None:
        """Ask to stop; the second time, at once."""
        (self.urged if self.asked.is_set() else self.asked).set()


@asynccontextmanager
async def stop_signals() -> AsyncGenerator[Stop, None]:
    """Yield the `Stop` of SIGINT and SIGTERM; outside of the main thread signals cannot be received."""
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    async def listen(*, task_status: TaskStatus[None]) -> None:
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            task_status.started()
            async for _ in signals:
                stop.ask()

    async with anyio.create_task_group() as tasks:
        await tasks.start(listen)
        try:
            yield stop
        finally:
            tasks.cancel_scope.cancel()


async def until_urged(work: Callable[[], Awaitable[None]], stop: Stop, within: float) -> None:
    """Run work until it ends, is urged, or has taken so many seconds."""
    with anyio.move_on_after(within):
        async with anyio.create_task_group() as race:

            async def run() -> None:
                await work()
                race.cancel_scope.cancel()

            race.start_soon(run)
            await stop.urged.wait()
            race.cancel_scope.cancel()
