"""Limits of CPU time that mean the same on every machine."""

import gc
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from time import process_time, thread_time

import pytest
from anyio import create_task_group
from anyio.lowlevel import checkpoint

REFERENCE = 0.02
"""CPU seconds that `_work` takes on the machine on which a second is a second."""


TRACED = 5
"""The factor by which coverage tracing slows code down, at most; `_work` is not traced."""


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Fail a test whose block takes more CPU time; the limit grows with the slowness of the machine."""
    start = process_time()
    yield
    taken = process_time() - start
    if taken > seconds:
        allowed = seconds * slowness()
        if taken > allowed:
            pytest.fail(f"took {taken:.2f} s of CPU time, and {allowed:.2f} are allowed on this machine")


@asynccontextmanager
async def turns_of_at_most(seconds: float) -> AsyncIterator[None]:
    """Fail a test whose block has a turn of the event loop with more CPU time of its thread.

    The garbage collector is off meanwhile: how long it takes depends on all tests before.
    """
    longest = 0.0

    async def watch() -> None:
        nonlocal longest
        before = thread_time()
        while True:
            await checkpoint()
            now = thread_time()
            longest, before = max(longest, now - before), now

    gc.disable()
    try:
        async with create_task_group() as tasks:
            tasks.start_soon(watch)
            yield
            tasks.cancel_scope.cancel()
    finally:
        gc.enable()
    if longest > seconds and longest > seconds * slowness():
        pytest.fail(f"a turn of the event loop took {longest:.2f} s of CPU time, and {seconds:g} are allowed")


def slowness() -> float:
    """Return how many times as long as on the reference machine everything takes at this moment, at least 1."""
    machine = max(1.0, *(_seconds() / REFERENCE for _ in range(3)))
    return machine if sys.gettrace() is None else machine * TRACED


def _seconds() -> float:
    start = process_time()
    _work()
    return process_time() - start


def _work() -> None:
    """Do a typical mix of work: build and read small dicts, lists and texts."""
    for number in range(21_000):
        record = {"name": f"tool-{number}", "tags": [number % 7, number % 11], "schema": {"type": "object"}}
        assert sum(record["tags"]) + len(record["name"]) + len(record["schema"]["type"]) > 0  # type: ignore[call-overload, index]
