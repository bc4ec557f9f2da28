"""The order in which runs of several callers proceed."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from runtime.test_runtime import Scripted
from waiting import PATIENCE, until

from toolcrib import Crib
from toolcrib.errors import LimitExceededError, RuntimeUnavailableError, explain
from toolcrib.gateway.frontends.shared.failures import describe_error
from toolcrib.runtime import Bridge, ExecuteRequest, Job, Runtime
from toolcrib.runtime.scheduler import RunQueue

pytestmark = pytest.mark.anyio


class Place:
    """A queue whose runs end when the test releases them."""

    def __init__(self, places: int) -> None:
        self.queue = RunQueue("scripted", places)
        self.begun: list[str] = []
        self.asked = 0
        self.refused: list[RuntimeUnavailableError] = []
        self._ends: dict[str, anyio.Event] = {}

    async def run(self, name: str) -> None:
        """Run a job whose caller is the first letter of its name; a dash means no caller."""
        self.asked += 1
        try:
            async with self.queue.turn(None if name[0] == "-" else name[0]):
                self.begun.append(name)
                self._ends[name] = anyio.Event()
                await self._ends[name].wait()
        except RuntimeUnavailableError as error:
            self.refused.append(error)

    def let_end(self, name: str) -> None:
        self._ends[name].set()

    async def end(self, name: str) -> None:
        self.let_end(name)
        await anyio.wait_all_tasks_blocked()


@asynccontextmanager
async def place_of(places: int, *names: str) -> AsyncIterator[Place]:
    """Yield a place with these runs queued in this order."""
    place = Place(places)
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as group:
            for name in names:
                group.start_soon(place.run, name)
                await anyio.wait_all_tasks_blocked()
            yield place
            group.cancel_scope.cancel()


async def test_queue_keeps_a_place_free_for_another_client() -> None:
    async with place_of(8, *(f"a{number}" for number in range(30)), "b0") as place:
        assert place.begun == ["a0", "a1", "a2", "a3", "a4", "a5", "b0"]


async def test_queue_alternates_between_clients() -> None:
    async with place_of(2, "a0", "b0", "a1", "a2", "a3", "b1", "c0", "b2") as place:
        assert place.begun == ["a0", "b0"]
        for ended, begins in (("a0", "c0"), ("c0", "a1"), ("b0", "b1"), ("a1", "a2"), ("b1", "b2")):
            await place.end(ended)
            assert place.begun[-1] == begins


async def test_queue_limits_waiting_runs_of_a_client() -> None:
    async with place_of(1, *(f"a{number}" for number in range(60)), "b0") as place:
        assert len(place.refused) == 27
        for error in place.refused:
            assert "busy: 32 runs of this client are already waiting; try again in" in str(error)
            told = explain(error)
            assert (told["code"], told["retryable"]) == ("backend_unavailable", True)
            assert told["details"]["retry_after"] == error.retry_after
            assert error.retry_after is not None
            assert error.retry_after >= 1
            assert "run_tool" not in describe_error(error)["message"]
        await place.end("a0")
        assert place.begun == ["a0", "b0"]


async def test_queue_limits_all_waiting_runs() -> None:
    names = [f"{chr(ord('a') + client)}{number}" for client in range(9) for number in range(31)]
    async with place_of(1, *names) as place:
        assert len(place.refused) == len(names) - 1 - 256


async def test_queue_never_refuses_the_program_itself() -> None:
    async with place_of(4, *(f"-{number}" for number in range(400))) as place:
        assert (len(place.begun), place.refused) == (4, [])


async def test_cancelled_run_takes_no_place() -> None:
    async with place_of(1, "a0") as place:
        async with anyio.create_task_group() as given_up:
            given_up.start_soon(place.run, "b0")
            await anyio.wait_all_tasks_blocked()
            given_up.cancel_scope.cancel()
        await place.end("a0")
        assert place.begun == ["a0"]
    async with place_of(1, "a0", "b0", "c0") as place:
        assert place.begun == ["a0"]
    with anyio.fail_after(PATIENCE):
        async with place.queue.turn("d"):
            assert place.begun == ["a0"]


async def test_run_cancelled_at_its_turn_passes_it_on() -> None:
    async with place_of(1, "a0") as place:
        async with anyio.create_task_group() as given_up:
            given_up.start_soon(place.run, "b0")
            await anyio.wait_all_tasks_blocked()
            place.let_end("a0")
            await anyio.lowlevel.checkpoint()
            given_up.cancel_scope.cancel()
        async with place.queue.turn("c"):
            pass


async def test_run_without_a_turn_fails_as_busy() -> None:
    hold = anyio.Event()
    begun = 0

    async def script(job: Job, bridge: Bridge) -> Any:  # noqa: ARG001 - the protocol's signature
        nonlocal begun
        begun += 1
        await hold.wait()

    sandbox = Scripted(script)
    sandbox.concurrency = 2
    async with Runtime(Crib(), sandboxes=[sandbox]) as runtime, anyio.create_task_group() as group:
        request = ExecuteRequest(code="x = 1", backend="scripted", timeout=PATIENCE)
        for caller in ("a", "b"):
            group.start_soon(lambda caller=caller: runtime.execute(request, caller=caller))
        await until(lambda: begun == 2)
        with pytest.raises(
            RuntimeUnavailableError, match=r"busy: its turn did not come within 0.2 s"
        ) as late:
            await runtime.serving(Crib()).execute(request.replace(timeout=0.2), caller="c")
        assert explain(late.value)["retryable"] is True
        hold.set()
    hold = anyio.Event()
    async with Runtime(Crib(), sandboxes=[Scripted(script)]) as runtime:
        with pytest.raises(LimitExceededError, match="the code did not end"):
            await runtime.execute(request.replace(timeout=0.2))
