"""The latest calls that a gateway keeps for the console."""

import anyio
import pytest
from waiting import until

from toolcrib import Crib
from toolcrib.gateway.api.calls import CallFilter, CallLog

pytestmark = pytest.mark.anyio
_EVERYTHING = CallFilter()


def double(number: int) -> int:
    """Double a number."""
    return number * 2


async def test_rows_are_there_for_whoever_reads_them_at_once() -> None:
    log = CallLog()
    log.open(10)
    async with Crib(observers=[log]) as crib:
        crib.add(double)
        await crib.run("double", {"number": 1})
        assert log.last_id == 2
        await crib.run("double", {"number": 2})
        newest = next(log.newest(_EVERYTHING))
        found = log.find(newest.id)
    assert found is not None
    assert found[1] is not None
    assert found[1].args == b'{"number":2}'
    assert (log.count(_EVERYTHING), len(log)) == (2, 2)
    assert [row.id for row in log.since(2)] == [newest.id]
    assert [row.id for row in log.of_trace(newest.trace)] == [newest.id]


async def test_nothing_of_a_call_is_held_for_long_where_nobody_reads() -> None:
    log = CallLog()
    log.open(10)
    async with Crib(observers=[log]) as crib, anyio.create_task_group() as tasks:
        crib.add(double)
        tasks.start_soon(log.run)
        await crib.run("double", {"number": 1})
        assert log._ended
        await until(lambda: not log._ended)
        tasks.cancel_scope.cancel()
    assert [row.tool_id for row in log.newest(_EVERYTHING)] == ["double"]


async def test_many_calls_at_once_get_their_rows_without_waiting() -> None:
    log = CallLog()
    log.open(1_000)
    async with Crib(observers=[log]) as crib:
        crib.add(double)
        for number in range(510):
            await crib.run("double", {"number": number})
        assert len(log._ended) == 10
    assert len(log) == 510
