"""Servers that die: callers get a typed error, other servers are not affected, and the next call works."""

from collections.abc import AsyncIterator

import anyio
import pytest
from execution.ward import Patient, failing, made, neighbour, wait_for_recovery, ward
from servers.launch import alive, faulty_alone, tiny
from servers.shop import Shop, opened
from waiting import until

from toolcrib.errors import BackendUnavailableError

pytestmark = pytest.mark.anyio


@pytest.fixture(
    scope="module",
    params=["stdio", *(pytest.param(kind, marks=pytest.mark.proof) for kind in ("http", "http-handshake"))],
)
async def dying(request: pytest.FixtureRequest, anyio_backend: str) -> AsyncIterator[tuple[Shop, Patient]]:  # noqa: ARG001 - of the same scope
    """A server that dies in every test, and a sound one."""
    with made(request.param, stdio=faulty_alone) as patient:
        async with ward(patient.config) as shop:
            yield shop, patient


async def test_a_server_that_is_killed_in_the_middle_of_a_call(dying: tuple[Shop, Patient]) -> None:
    shop, patient = dying
    async with neighbour(shop):
        async with failing(shop, "faulty:hang", key="killed") as errors:
            await patient.kill(shop)
        [error] = errors
        assert isinstance(error, BackendUnavailableError)  # and not that its time was over
        assert error.sent
        assert error.backend == "mcp:faulty"
        await patient.revive()
        await wait_for_recovery(shop)


async def test_a_server_that_ends_itself_in_the_middle_of_a_call(dying: tuple[Shop, Patient]) -> None:
    shop, patient = dying
    async with neighbour(shop):
        with pytest.raises(BackendUnavailableError) as caught:
            await shop.run("faulty:crash")
        assert caught.value.sent
        if patient.http is None:
            assert "I am going down" in shop.servers.status()["faulty"].stderr + str(caught.value)
        await patient.revive()
        await wait_for_recovery(shop)


async def test_all_calls_under_way_fail_when_their_server_dies(dying: tuple[Shop, Patient]) -> None:
    shop, patient = dying
    keys = {f"of many {number}" for number in range(10)}
    errors: list[type[BaseException]] = []

    async def hang(key: str) -> None:
        with pytest.raises(BackendUnavailableError) as caught:
            await shop.run("faulty:hang", key=key)
        errors.append(caught.type)

    async def begun() -> bool:
        return keys <= set((await shop.run("faulty:seen")).structured["begun"])

    async with anyio.create_task_group() as tasks:
        for key in keys:
            tasks.start_soon(hang, key)
        await until(begun)
        await patient.kill(shop)
    assert len(errors) == 10
    await patient.revive()
    await wait_for_recovery(shop)


async def test_a_server_that_died_while_nobody_called(dying: tuple[Shop, Patient]) -> None:
    shop, patient = dying
    async with neighbour(shop):
        await patient.kill(shop)
        if patient.http is not None:
            with pytest.raises(BackendUnavailableError):
                await shop.run("faulty:add", a=1, b=2)
        await patient.revive()
        await wait_for_recovery(shop)


async def test_a_server_that_dies_again_and_again_comes_back_each_time() -> None:
    async with opened(sound=tiny()) as shop:
        await shop.list("sound")
        pids = set()
        for _ in range(4):
            pids.add((await shop.run("sound:echo")).structured["pid"])
            with pytest.raises(BackendUnavailableError):
                await shop.run("sound:crash")
        assert len(pids) == 4
        await until(lambda: not any(map(alive, pids)), "all have ended")
