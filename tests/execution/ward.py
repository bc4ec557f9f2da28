"""A faulty server beside a sound one: ways to kill and revive it, and the effects on callers."""

import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import anyio
from servers.launch import Config, HttpServer, faulty, tiny
from servers.shop import Shop, opened
from waiting import PATIENCE, until

from toolcrib.errors import BackendUnavailableError, ToolError


@dataclass
class Patient:
    """A faulty server, and the way to kill it and to have it back."""

    config: Config
    http: HttpServer | None

    async def kill(self, shop: Shop) -> None:
        """Kill its process."""
        pid = (await shop.run("faulty:seen")).structured["pid"]
        if self.http is None:
            os.kill(pid, signal.SIGKILL)
        else:
            self.http.kill()

    async def revive(self) -> None:
        """Start it again, unless connecting starts it."""
        if self.http is not None:
            await self.http.restart()


@contextmanager
def made(transport: str, *flags: str, stdio: Callable[..., Config] = faulty) -> Iterator[Patient]:
    """Make a faulty server for a transport and an era, such as `stdio` or `http-handshake`."""
    kind, _, era = transport.partition("-")
    flags = (*flags, *(["--handshake"] if era else []))
    if kind == "stdio":
        yield Patient(stdio(*flags), None)
    else:
        with HttpServer(*flags, transport=kind) as server:
            yield Patient(server.config, server)


@asynccontextmanager
async def ward(config: Config, **others: Config) -> AsyncIterator[Shop]:
    """Open a shop with the faulty server and a sound one, both started."""
    async with opened(faulty=config, sound=tiny(), **others) as shop:
        await shop.list("faulty", "sound")
        yield shop


@asynccontextmanager
async def neighbour(shop: Shop) -> AsyncIterator[None]:
    """Call a sound server during the whole block, and once more after it."""
    calls = 0

    async def call() -> None:
        nonlocal calls
        while True:
            await shop.run("sound:echo")
            calls += 1
            await anyio.sleep(0.02)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(call)
        yield
        before = calls
        await until(lambda: calls > before + 1, "one that began after what was tried is answered")
        tasks.cancel_scope.cancel()


class Begun:
    """Waits for the notification that a tool has begun."""

    def __init__(self) -> None:
        self.event = anyio.Event()

    def __call__(self, _: float, __: float | None, message: str | None) -> None:
        if message == "begun":
            self.event.set()


@asynccontextmanager
async def failing(shop: Shop, tool: str, **args: Any) -> AsyncIterator[list[ToolError]]:
    """Run a tool that is going to fail, wait until it has begun, and collect its error at the end of the block."""
    begun = Begun()
    errors: list[ToolError] = []

    async def run() -> None:
        try:
            await shop.runner.run(tool, args, timeout=PATIENCE, progress=begun)
        except ToolError as error:
            errors.append(error)

    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            await begun.event.wait()
            yield errors


async def wait_for_recovery(shop: Shop) -> None:
    """Wait until the faulty server answers again."""

    async def answers() -> bool:
        with suppress(BackendUnavailableError):
            return (await shop.run("faulty:add", a=1, b=2)).structured == {"sum": 3}
        return False

    await until(answers)
