"""Layers that outlive an event loop: a call cancelled in one loop does not block the next."""

import asyncio  # noqa: TID251 - a loop that is left as it is cannot be had otherwise
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import anyio
import pytest
from waiting import PATIENCE

from toolcrib.discovery import Index
from toolcrib.execution import Answer, Call, Runner
from toolcrib.execution.middleware import Cache, ConcurrencyLimit, RateLimit
from toolcrib.model import LocalBackend, Tool

MakeCall = Callable[..., Call]
Layer = Callable[[Call, Callable[[Call], Awaitable[Answer]]], Awaitable[Answer]]

LAYERS = pytest.mark.parametrize(
    "make",
    [lambda: ConcurrencyLimit(1), lambda: RateLimit(1, 0.01), Cache],
    ids=["concurrency", "rate", "cache"],
)


async def answers(call: Call) -> Answer:
    return Answer(structured=call.args)


async def hangs(_call: Call) -> Answer:
    await anyio.sleep_forever()
    raise AssertionError("nobody wakes it")


async def passes(layer: Layer, call: Call) -> None:
    """Check that a few concurrent calls pass."""
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            for _ in range(4):
                tasks.start_soon(layer, call, answers)


async def broken_off(layer: Layer, call: Call) -> None:
    """Begin a few calls, and cancel them while one runs and the others wait."""
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            for _ in range(4):
                tasks.start_soon(layer, call, hangs)
            await anyio.lowlevel.checkpoint()
            await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()


@LAYERS
def test_a_layer_may_be_used_by_one_loop_after_another(
    make_call: MakeCall, make: Callable[[], Layer]
) -> None:
    layer = make()
    for _ in range(3):
        anyio.run(passes, layer, make_call())
        anyio.run(broken_off, layer, make_call(args={"other": 1}))
        anyio.run(broken_off, layer, make_call())


@LAYERS
def test_a_loop_that_was_left_with_calls_under_way_does_not_hold_up_the_next(
    make_call: MakeCall, make: Callable[[], Layer]
) -> None:
    layer, call = make(), make_call()
    loop = asyncio.new_event_loop()
    left: list[asyncio.Task[Any]] = []

    async def leave() -> None:
        left.extend(asyncio.ensure_future(layer(call, hangs)) for _ in range(2))
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    loop.run_until_complete(leave())
    loop.close()
    try:
        anyio.run(passes, layer, call)
    finally:
        for task in left:  # what the interpreter does when it comes across them
            with suppress(RuntimeError):
                task.get_coro().close()  # type: ignore[union-attr]
            task._log_destroy_pending = False  # type: ignore[attr-defined]
    anyio.run(passes, layer, call)


def test_a_runner_with_all_of_them_may_be_used_by_one_loop_after_another() -> None:
    async def slow(wait: bool) -> str:
        """Wait, or not."""
        if wait:
            await anyio.sleep_forever()
        return "done"

    index = Index()
    index.register(Tool(name="slow", input_schema={"type": "object"}), LocalBackend(name="slow"))
    runner = Runner(
        index, local={"slow": slow}, middleware=(Cache(), RateLimit(1, 0.001), ConcurrencyLimit(1))
    )

    async def main() -> None:
        with anyio.fail_after(PATIENCE):
            async with anyio.create_task_group() as tasks:
                for _ in range(3):
                    tasks.start_soon(runner.run, "slow", {"wait": True})
                await anyio.wait_all_tasks_blocked()
                tasks.cancel_scope.cancel()
            assert (await runner.run("slow", {"wait": False})).structured == "done"

    for _ in range(3):
        anyio.run(main)
