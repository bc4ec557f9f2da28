from typing import Any

import anyio
import anyio.lowlevel
import pytest
from waiting import PATIENCE

from toolcrib.execution import Update
from toolcrib.execution.mcp.updates import Updates, log_update, progress_update


def steps(updates: list[Update]) -> list[float]:
    return [update.data["progress"] for update in updates]


@pytest.mark.anyio
async def test_updates_are_passed_on_in_order_before_the_work_returns() -> None:
    heard: list[Update] = []

    async def emit(update: Update) -> None:
        await anyio.lowlevel.checkpoint()
        heard.append(update)

    async def work() -> str:
        for step in range(10):
            await updates.put_progress(step, None, None)
        return "done"

    updates = Updates()
    with anyio.fail_after(PATIENCE):
        assert await updates.relay(emit, work) == "done"
    assert steps(heard) == list(range(10))
    await updates.put_progress(11, None, None)
    assert len(heard) == 10


@pytest.mark.anyio
async def test_a_slow_listener_never_holds_up_the_work_and_gets_the_newest() -> None:
    heard: list[Update] = []
    finished = anyio.Event()

    async def emit(update: Update) -> None:
        await finished.wait()
        heard.append(update)

    async def work() -> None:
        for step in range(1000):
            await updates.put_progress(step, None, None)
            await anyio.lowlevel.checkpoint()
        finished.set()

    updates = Updates()
    with anyio.fail_after(PATIENCE):
        await updates.relay(emit, work)
    assert steps(heard)[0] == 0
    assert steps(heard)[1:] == list(range(936, 1000))


@pytest.mark.anyio
async def test_error_of_the_work_is_raised_unchanged_after_the_updates() -> None:
    heard: list[Update] = []

    async def emit(update: Update) -> None:
        heard.append(update)

    async def work() -> None:
        await updates.put_progress(1, 2, "half")
        raise LookupError("lost")

    updates = Updates()
    with pytest.raises(LookupError, match="lost"):
        await updates.relay(emit, work)
    assert heard == [progress_update(1, 2, "half")]


@pytest.mark.anyio
async def test_a_listener_that_fails_cancels_the_work() -> None:
    cancelled = False

    async def emit(_: Update) -> None:
        raise LookupError("deaf")

    async def work() -> None:
        nonlocal cancelled
        await updates.put_progress(1, None, None)
        try:
            await anyio.sleep_forever()
        finally:
            cancelled = True

    updates = Updates()
    with anyio.fail_after(PATIENCE), pytest.raises(LookupError, match="deaf"):
        await updates.relay(emit, work)
    assert cancelled


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("plain", "plain"),
        ({"msg": "from fastmcp", "extra": {}}, "from fastmcp"),
        ({"message": "m", "msg": "n"}, "m"),
        ({"message": 3}, '{"message": 3}'),
        ([1, "é"], '[1, "é"]'),
        (None, "null"),
    ],
)
def test_a_log_message_may_be_anything(data: Any, message: str) -> None:
    assert log_update({"data": data, "level": "error"}).data == {"message": message, "level": "error"}
