"""Memory of long-running processes: garbage collection, and memory returned to the system."""

import platform
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from servers.launch import python

from toolcrib.gateway import Gateway


def test_survivors_of_a_long_collection_are_frozen() -> None:
    survivor = """
import gc
from toolcrib.cli.memory import freezing_survivors
for limit in (float("inf"), 0.0):
    kept = [[]]
    with freezing_survivors(limit):
        gc.collect()
    print(gc.get_freeze_count() > 0, any(each is kept for each in gc.get_objects()))
"""
    assert run_program(survivor) == ["False True", "True False"]


def test_short_lived_objects_are_collected_however_long_collections_take() -> None:
    moment = """
import gc
from weakref import ref
from toolcrib.cli.memory import freezing_survivors
class Request:
    pass
gc.collect()
gc.freeze()  # as at the start
with freezing_survivors(0.0):
    request = Request()
    request.itself, left = request, ref(request)
    gc.collect()  # in the middle of it
    del request
    gc.collect()
print(left())
"""
    assert run_program(moment) == ["None"]


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc's malloc_trim")
def test_the_memory_of_large_results_goes_back_to_the_system_after_their_end() -> None:
    among_others = """
import os
from pathlib import Path
import anyio
from toolcrib.cli.memory import memory_upkeep
def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20
async def main():
    bytearray(8 << 20)  # freeing a mapped block raises the size of the next that is mapped: below is the heap
    before, small, large = resident(), [], []
    for _ in range(200):
        large.append(bytearray(b"x" * 300_000))
        small.append(bytearray(5_000))  # which lives on
    del large
    kept = resident() - before
    async with memory_upkeep(every=0.01):
        with anyio.move_on_after(120):
            while resident() - before > 10:
                await anyio.sleep(0.01)
    print(kept > 30, resident() - before <= 10)
anyio.run(main)
"""
    assert run_program(among_others) == ["True True"]


def test_a_gateway_is_served_with_it(toolcrib: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []

    @asynccontextmanager
    async def upkeep() -> AsyncIterator[None]:
        events.append("begins")
        yield
        events.append("ends")

    async def serve(*_: Any) -> None:
        events.append("serves")

    monkeypatch.setattr("toolcrib.cli.memory.memory_upkeep", upkeep)
    monkeypatch.setattr(Gateway, "serve_stdio", serve)
    assert toolcrib("serve", "--demo").exit_code == 0
    assert events == ["begins", "serves", "ends"]


def run_program(program: str) -> list[str]:
    """Return the lines that a program prints in a process of its own, where nothing else has been frozen."""
    return subprocess.check_output(python("-c", program), text=True).splitlines()
