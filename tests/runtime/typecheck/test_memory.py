"""Memory of a process, on systems that report it."""

import os
import sys

import anyio
import pytest
from waiting import PATIENCE

from toolcrib.runtime.typecheck.sessions import measure_memory

pytestmark = pytest.mark.anyio


async def test_measure_memory_includes_child_processes() -> None:
    code = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'x = b\"x\" * (64 << 20); print(1); input()'])"
    async with await anyio.open_process([sys.executable, "-c", code]) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        with anyio.fail_after(PATIENCE):
            await process.stdout.receive()
        assert measure_memory(process.pid) > 64 << 20
        await process.stdin.send(b"\n")
        with anyio.fail_after(PATIENCE):
            await process.wait()
    assert measure_memory(process.pid) == 0


async def test_measure_memory_of_a_missing_process_is_zero() -> None:
    assert measure_memory(None) == 0
    assert measure_memory(os.getpid()) > 0
