"""The pool of guests, with guests that are nothing but a process that waits."""

from collections.abc import Callable

import anyio
import pytest
from waiting import PATIENCE, until

from toolcrib.errors import RuntimeUnavailableError
from toolcrib.runtime.sandboxes.process.child import Child, spawn
from toolcrib.runtime.sandboxes.process.pool import GuestPool


class Starter:
    """Starts guests, or fails to."""

    def __init__(self) -> None:
        self.disks: list[int] = []
        self.failing = False
        self.gate = anyio.Event()
        self.gate.set()
        self.started: list[Child] = []
        self.ready: Callable[[], None] = lambda: None

    async def __call__(self, disk: int) -> Child:
        self.disks.append(disk)
        await self.gate.wait()
        if self.failing:
            raise RuntimeUnavailableError("process", "it fails")
        self.started.append(spawn("process", ["/bin/sh", "-c", "read line <&0; sleep 1000", "sh"]))
        self.ready()
        return self.started[-1]


@pytest.mark.anyio
async def test_pool_keeps_guests_of_the_last_requested_size() -> None:
    start = Starter()
    pool = GuestPool("process", start, size=1, keep=2, most=4)
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
    assert all(child.has_ended() for child in (first, second, third))


@pytest.mark.anyio
async def test_dead_idle_guest_is_replaced() -> None:
    start = Starter()
    pool = GuestPool("process", start, size=1, keep=1, most=4)
    await pool.warm()
    idle = await pool.take(1)
    idle.kill()
    await until(idle.has_ended)
    pool.give_back(idle)
    await pool.warm()
    kept = await pool.take(1)
    await pool.warm()
    assert not kept.has_ended()
    pool.give_back(kept)
    await pool.close()


@pytest.mark.anyio
async def test_failed_start_releases_its_slot() -> None:
    start = Starter()
    pool = GuestPool("process", start, size=1, keep=0, most=1)
    start.failing = True
    for _ in range(3):
        with pytest.raises(RuntimeUnavailableError):
            await pool.take(1)
    start.failing = False
    pool.give_back(await pool.take(1))
    await pool.close()


@pytest.mark.anyio
async def test_failed_refill_is_no_error() -> None:
    start = Starter()
    start.failing = True
    pool = GuestPool("process", start, size=1, keep=2, most=1)
    with anyio.fail_after(PATIENCE):
        await pool.warm()
    await pool.close()


@pytest.mark.anyio
async def test_guest_of_a_cancelled_take_boots_and_becomes_idle() -> None:
    start = Starter()
    start.gate = anyio.Event()
    pool = GuestPool("process", start, size=1, keep=1, most=1)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(pool.take, 1)
        await until(lambda: start.disks)
        tasks.cancel_scope.cancel()
    start.gate.set()
    kept = await pool.take(1)
    assert start.disks == [1]
    assert not kept.has_ended()
    pool.give_back(kept)
    await pool.close()


@pytest.mark.anyio
async def test_guest_of_a_cancelled_take_is_disposed_if_none_are_kept() -> None:
    start = Starter()
    start.gate = anyio.Event()
    pool = GuestPool("process", start, size=1, keep=0, most=1)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(pool.take, 1)
        await until(lambda: start.disks)
        tasks.cancel_scope.cancel()
    start.gate.set()
    await until(lambda: start.started)
    await until(start.started[0].has_ended)
    await pool.close()


@pytest.mark.anyio
async def test_booting_guest_of_a_cancelled_take_holds_its_slot() -> None:
    start = Starter()
    start.gate = anyio.Event()
    pool = GuestPool("process", start, size=1, keep=0, most=2)
    for _ in range(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(pool.take, 1)
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
    assert len(start.disks) == 2
    start.gate.set()
    pool.give_back(await pool.take(1))
    assert len(start.disks) == 3
    await pool.close()
    assert all(child.has_ended() for child in start.started)


@pytest.mark.anyio
async def test_guest_booted_while_its_take_is_cancelled_becomes_idle() -> None:
    start = Starter()
    pool = GuestPool("process", start, size=1, keep=1, most=1)
    with anyio.CancelScope() as scope:
        start.ready = scope.cancel
        await pool.take(1)
    assert scope.cancelled_caught
    start.ready = lambda: None
    pool.give_back(await pool.take(1))
    await pool.warm()
    await pool.close()
    assert all(child.has_ended() for child in start.started)


@pytest.mark.anyio
async def test_close_waits_for_booting_guests_and_ends_them() -> None:
    start = Starter()
    start.gate = anyio.Event()
    pool = GuestPool("process", start, size=1, keep=1, most=1)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_refused, pool)
        tasks.start_soon(pool.warm)
        await until(lambda: start.disks)
        tasks.start_soon(pool.close)
        await anyio.wait_all_tasks_blocked()
        start.gate.set()
    assert start.started
    assert all(child.has_ended() for child in start.started)


@pytest.mark.anyio
async def test_close_does_not_wait_longer_than_its_patience() -> None:
    start = Starter()
    start.gate = anyio.Event()
    pool = GuestPool("process", start, size=1, keep=1, most=1, patience=0.01)
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_refused, pool)
            await until(lambda: start.disks)
            await pool.close()
    assert start.started == []


@pytest.mark.anyio
async def test_take_waiting_for_a_slot_fails_when_the_pool_closes() -> None:
    start = Starter()
    pool = GuestPool("process", start, size=1, keep=0, most=1)
    taken = await pool.take(1)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_refused, pool)
        await anyio.wait_all_tasks_blocked()
        tasks.start_soon(pool.close)
        await until(taken.has_ended)
        pool.give_back(taken)
    assert start.disks == [1]


async def _refused(pool: GuestPool) -> None:
    with pytest.raises(RuntimeUnavailableError, match="it was closed"):
        await pool.take(1)


@pytest.mark.anyio
async def test_close_during_a_refill_starts_no_more_guests() -> None:
    start = Starter()
    start.gate = anyio.Event()
    pool = GuestPool("process", start, size=1, keep=2, most=1, patience=0.01)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(pool.warm)
        await until(lambda: start.disks)
        await pool.close()
    assert start.disks == [1]
