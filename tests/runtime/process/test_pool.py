"""The pool of guests, with guests that are nothing but a process that waits."""

import anyio
import pytest
from contracts.sandbox import eventually

from toolcrib.errors import RuntimeUnavailableError
from toolcrib.runtime.process.child import Child, spawn
from toolcrib.runtime.process.pool import Pool

LIMIT = 30.0


class Starter:
    """Starts guests, or says that it cannot."""

    def __init__(self) -> None:
        self.disks: list[int] = []
        self.failing = False
        self.gate = anyio.Event()
        self.gate.set()

    async def __call__(self, disk: int) -> Child:
        self.disks.append(disk)
        await self.gate.wait()
        if self.failing:
            raise RuntimeUnavailableError("process", "it fails")
        return spawn(["/bin/sh", "-c", "read line <&0; sleep 1000", "sh"], limit=100)


@pytest.mark.anyio
async def test_guests_are_kept_with_the_disk_that_was_last_asked_for() -> None:
    start = Starter()
    pool = Pool(start, disk=1, size=2, most=4)
    first = await pool.take(7)
    await pool.warm()
    assert start.disks == [7, 7, 7]
    second = await pool.take(7)
    await pool.warm()
    assert start.disks == [7] * 4
    third = await pool.take(8)
    await pool.warm()
    assert start.disks == [7] * 4 + [8] * 3
    for child in (first, second, third):
        pool.give_back(child)
    await pool.close()
    assert all(child.ended() for child in (first, second, third))


@pytest.mark.anyio
async def test_an_idle_guest_that_died_is_replaced() -> None:
    start = Starter()
    pool = Pool(start, disk=1, size=1, most=4)
    await pool.warm()
    idle = await pool.take(1)
    idle.kill()
    await eventually(idle.ended)
    pool.give_back(idle)
    await pool.warm()
    kept = await pool.take(1)
    await pool.warm()
    assert not kept.ended()
    pool.give_back(kept)
    await pool.close()


@pytest.mark.anyio
async def test_a_guest_that_cannot_be_started_leaves_its_place_to_others() -> None:
    start = Starter()
    pool = Pool(start, disk=1, size=0, most=1)
    start.failing = True
    for _ in range(3):
        with pytest.raises(RuntimeUnavailableError):
            await pool.take(1)
    start.failing = False
    pool.give_back(await pool.take(1))
    await pool.close()


@pytest.mark.anyio
async def test_guests_that_cannot_be_kept_ready_are_no_error() -> None:
    start = Starter()
    start.failing = True
    pool = Pool(start, disk=1, size=2, most=1)
    with anyio.fail_after(LIMIT):
        await pool.warm()
    await pool.close()


@pytest.mark.anyio
async def test_a_guest_that_starts_while_the_pool_closes_is_killed() -> None:
    start = Starter()
    pool = Pool(start, disk=1, size=0, most=1)
    taken: list[Child] = []

    async def take() -> None:
        taken.append(await pool.take(1))
        await eventually(taken[0].ended)
        pool.give_back(taken[0])

    start.gate = anyio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(take)
        await eventually(lambda: start.disks)
        await pool.close()
        start.gate.set()
    assert taken[0].ended()
    await pool.close()


@pytest.mark.anyio
async def test_closing_while_guests_are_being_started_stops_that() -> None:
    start = Starter()
    start.gate = anyio.Event()
    pool = Pool(start, disk=1, size=2, most=1)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(pool.warm)
        await eventually(lambda: start.disks)
        await pool.close()
    assert start.disks == [1]
