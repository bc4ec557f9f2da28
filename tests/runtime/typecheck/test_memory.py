"""How much memory a process takes is told where the system tells it."""

import os
import sys

import anyio
import pytest
from waiting import PATIENCE

from toolcrib.runtime.typecheck.sessions import resident

pytestmark = pytest.mark.anyio


async def test_a_process_takes_what_its_children_take_as_well() -> None:
    code = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'x = b\"x\" * (64 << 20); print(1); input()'])"
    async with await anyio.open_process([sys.executable, "-c", code]) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        with anyio.fail_after(PATIENCE):
            await process.stdout.receive()
        assert resident(process.pid) > 64 << 20
        await process.stdin.send(b"\n")
        with anyio.fail_after(PATIENCE):
            await process.wait()
    assert resident(process.pid) == 0


async def test_nothing_is_told_of_what_is_not_there() -> None:
    assert resident(None) == 0
    assert resident(os.getpid()) > 0
