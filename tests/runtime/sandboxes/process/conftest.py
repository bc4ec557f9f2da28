"""A process sandbox for the tests of a file, and its processes as seen by the system."""

from collections.abc import AsyncIterator

import pytest
from runtime.workbench import Bench

from toolcrib.runtime.sandboxes.process import ProcessSandbox


@pytest.fixture(scope="module")
async def sandbox(needs_bubblewrap: None) -> AsyncIterator[ProcessSandbox]:  # noqa: ARG001 - skips where it cannot run
    async with ProcessSandbox(warm=1) as sandbox:
        yield sandbox


@pytest.fixture
def bench(sandbox: ProcessSandbox) -> Bench:
    return Bench(sandbox)
