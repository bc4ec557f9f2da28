"""Signals that stop a process, at its leisure or at once."""

import signal
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio
from anyio.abc import TaskStatus


class Stop:
    """Whether to stop: `asked` once, and `urged` when asked again."""

    def __init__(self) -> None:
        self.asked = anyio.Event()
        self.urged = anyio.Event()

    def ask(self) -> None:
        """Ask to stop; the second time, at once."""
        (self.urged if self.asked.is_set() else self.asked).set()


@asynccontextmanager
async def stop_signals() -> AsyncGenerator[Stop, None]:
    """Yield what SIGINT and SIGTERM ask for; outside of the main thread nobody hears them."""
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
    """Wait for something, until it is urgent, for at most so many seconds."""
    with anyio.move_on_after(within):
        async with anyio.create_task_group() as race:

            async def run() -> None:
                await work()
                race.cancel_scope.cancel()

            race.start_soon(run)
            await stop.urged.wait()
            race.cancel_scope.cancel()
