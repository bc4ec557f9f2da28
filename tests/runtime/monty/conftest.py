"""Sandboxes that the tests of this folder share."""

from collections.abc import AsyncIterator, Iterator
from time import monotonic, sleep

import pytest
from runtime.monty.guests import LIMIT, Guests, guests
from runtime.workbench import descendants


@pytest.fixture(autouse=True)
def left_behind() -> Iterator[None]:
    """Fail the test that leaves a process behind, rather than the next one that looks."""
    before = descendants()
    yield
    deadline = monotonic() + LIMIT / 3
    while (
        left := {pid: name for pid, name in descendants().items() if pid not in before}
    ) and monotonic() < deadline:
        sleep(0.02)
    assert not left


@pytest.fixture
async def box() -> AsyncIterator[Guests]:
    async with guests() as made:
        yield made


@pytest.fixture
async def bare() -> AsyncIterator[Guests]:
    async with guests(bubblewrap=False) as made:
        yield made
