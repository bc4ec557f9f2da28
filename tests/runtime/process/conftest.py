"""A process sandbox and what can be seen of it from outside."""

from collections.abc import AsyncIterator

import pytest
from runtime.workbench import Bench

from toolcrib.runtime.process import ProcessSandbox


@pytest.fixture
async def bench(needs_bubblewrap: None) -> AsyncIterator[Bench]:  # noqa: ARG001 - skips where it cannot run
    async with ProcessSandbox(warm=1) as sandbox:
        yield Bench(sandbox)
