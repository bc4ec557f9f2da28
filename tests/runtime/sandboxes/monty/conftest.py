"""Sandboxes that the tests of this folder share."""

from collections.abc import AsyncIterator, Iterator

import pytest
from runtime.sandboxes.monty.guests import Guests, guests
from runtime.workbench import descendants
from waiting import wait_until


@pytest.fixture(autouse=True)
def left_behind() -> Iterator[None]:
    """Fail the test that leaves a process behind, rather than the next one that looks."""
    before = descendants()
    yield
    wait_until(lambda: descendants().keys() <= before.keys(), "no process is left behind")


@pytest.fixture
async def box() -> AsyncIterator[Guests]:
    async with guests() as made:
        yield made


@pytest.fixture
async def bare() -> AsyncIterator[Guests]:
    async with guests(bubblewrap=False) as made:
        yield made
