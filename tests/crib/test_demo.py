"""The catalogue that is built in."""

from typing import Any

import pytest

from toolcrib import Crib
from toolcrib.crib.demo import open_with_demo
from toolcrib.errors import ToolExecutionError

pytestmark = pytest.mark.anyio


@pytest.fixture
async def crib() -> Any:
    made = Crib()
    async with open_with_demo(made):
        yield made


async def test_there_are_a_dozen_tools_in_four_namespaces(crib: Crib) -> None:
    assert len(await crib.tools()) == 12
    assert await crib.namespaces() == ("math", "notes", "text", "time")


async def test_every_example_runs(crib: Crib) -> None:
    for summary in await crib.tools():
        (example,) = await crib.examples(summary.id)
        await crib.run(summary.id, example.args)


async def test_every_tool_says_what_it_does_to_the_world(crib: Crib) -> None:
    hints = {}
    for summary in await crib.tools():
        doc = await crib.describe(summary.id)
        assert doc.tool is not None
        assert doc.tool.annotations is not None
        hints[summary.id] = doc.tool.annotations.destructive_hint
    assert [name for name, destructive in hints.items() if destructive] == ["notes:delete_all"]


@pytest.mark.parametrize(
    ("expression", "value"), [("2 ** 10", 1024), ("-(7 // 2) % 3", 0), ("+1.5 - 0.5", 1), ("3 / 2", 1.5)]
)
async def test_arithmetic_is_worked_out(crib: Crib, expression: str, value: float) -> None:
    assert (await crib.run("math:evaluate", {"expression": expression})).structured == value


@pytest.mark.parametrize(
    "expression", ["1 / 0", "2 ** 9999", "__import__('os')", "1 +", "(" * 400, "'a' * 3", "x", "10.0 ** 999"]
)
async def test_what_is_no_arithmetic_is_refused(crib: Crib, expression: str) -> None:
    with pytest.raises(ToolExecutionError, match="cannot work out"):
        await crib.run("math:evaluate", {"expression": expression})


async def test_a_time_zone_that_is_none_is_refused(crib: Crib) -> None:
    assert "+00:00" in (await crib.run("time:current_time", {})).structured
    for name in ("Mars/Olympus", "Europe", "../etc/passwd"):
        with pytest.raises(ToolExecutionError, match="there is no time zone"):
            await crib.run("time:current_time", {"timezone": name})


async def test_a_date_beyond_the_calendar_is_refused(crib: Crib) -> None:
    with pytest.raises(ToolExecutionError, match="no date"):
        await crib.run("time:add_days", {"day": "9999-12-31", "days": 1})


async def test_notes_are_kept_until_they_are_deleted(crib: Crib) -> None:
    await crib.run("notes:add", {"text": "return the drill"})
    await crib.run("notes:add", {"text": "oil the saw"})
    found = await crib.run("notes:show", {"containing": "DRILL"})
    assert found.structured == [{"number": 1, "text": "return the drill"}]
    assert (await crib.run("notes:delete_all")).structured == 2
    assert (await crib.run("notes:show")).structured == []
