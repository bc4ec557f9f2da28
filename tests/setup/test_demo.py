"""The catalogue that is built in."""

import sys
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from waiting import until

from toolcrib import Crib
from toolcrib.errors import ToolExecutionError
from toolcrib.execution import Request
from toolcrib.execution.call import Decision
from toolcrib.execution.principal import local_user
from toolcrib.setup.demo import open_with_demo, play_demo, write_demo_config

pytestmark = pytest.mark.anyio


@pytest.fixture
async def crib() -> Any:
    made = Crib()
    async with open_with_demo(made):
        yield made


async def test_there_are_a_dozen_tools_in_four_namespaces(crib: Crib) -> None:
    assert len(await crib.tools()) == 12
    assert await crib.namespaces() == ("math", "notes", "text", "time")


GIVES: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "math:convert_length": ("42.16...", lambda value: int(value * 100) == 4216),
    "math:describe_numbers": (
        "count, mean, median, ...",
        lambda value: (value["count"], value["mean"], value["median"]) == (5, 2.8, 3),
    ),
    "math:evaluate": ("42.0", lambda value: value == 42),
    "notes:add": (
        "the note with its number",
        lambda value: value == {"number": 1, "text": "return the drill"},
    ),
    "notes:show": (
        "the notes that contain it",
        lambda value: value == [{"number": 1, "text": "return the drill"}],
    ),
    "notes:delete_all": ("how many there were", lambda value: value == 1),
    "text:compare": ("a unified diff", lambda value: value.endswith(" one\n-two\n+2")),
    "text:count_words": ("6 words, ...", lambda value: value["words"] == 6),
    "text:make_slug": ("tools-kept-found", lambda value: value == "tools-kept-found"),
    "time:add_days": ("2026-03-30, Monday", lambda value: value == "2026-03-30, Monday"),
    "time:current_time": ("a date and a time", lambda value: bool(datetime.fromisoformat(value).tzinfo)),
    "time:days_between": ("357", lambda value: value == 357),
}
"""The result in the example of each tool, and a check of an actual result against it."""


async def test_every_example_gives_what_it_says(crib: Crib) -> None:
    assert sorted(GIVES) == [summary.id for summary in await crib.tools()]
    for name, (hint, is_given) in GIVES.items():
        (example,) = await crib.examples(name)
        assert example.result_hint == hint
        value = (await crib.run(name, example.args)).structured
        assert is_given(value), f"{name} gave {value!r}, not {hint}"


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
async def test_invalid_arithmetic_is_refused(crib: Crib, expression: str) -> None:
    with pytest.raises(ToolExecutionError, match="cannot work out"):
        await crib.run("math:evaluate", {"expression": expression})


async def test_a_time_zone_that_is_none_is_refused(crib: Crib) -> None:
    assert "+00:00" in (await crib.run("time:current_time", {})).structured
    for name in ("Mars/Olympus", "Europe", "../etc/passwd"):
        with pytest.raises(ToolExecutionError, match="there is no time zone"):
            await crib.run("time:current_time", {"timezone": name})


async def test_a_date_beyond_the_calendar_is_refused(crib: Crib) -> None:
    with pytest.raises(ToolExecutionError, match="not a date"):
        await crib.run("time:add_days", {"day": "9999-12-31", "days": 1})


async def test_notes_are_kept_until_they_are_deleted(crib: Crib) -> None:
    await crib.run("notes:add", {"text": "return the drill"})
    await crib.run("notes:add", {"text": "oil the saw"})
    found = await crib.run("notes:show", {"containing": "DRILL"})
    assert found.structured == [{"number": 1, "text": "return the drill"}]
    assert (await crib.run("notes:delete_all")).structured == 2
    assert (await crib.run("notes:show")).structured == []


async def test_the_demonstration_has_a_server_whose_tool_changes_and_a_call_that_waits() -> None:
    library = {"command": sys.executable, "args": ["-m", "toolcrib.setup.demo_server"]}
    crib = Crib({"servers": {"library": library}, "runs": {"store": "memory"}})
    asked: list[str] = []

    async def ask(request: Request, decision: Decision) -> None:
        assert decision.is_risky
        asked.append(request.tool_id)

    async with open_with_demo(crib):
        await crib.ready()
        assert "days" not in _properties(crib)
        await play_demo(crib, ask)
        await until(lambda: "days" in _properties(crib))
        (run,) = await crib.runs(principal=local_user("console"))
        books = (await crib.run("library:find", {"text": "cities"})).structured
    assert asked == ["notes:delete_all"]
    assert (run.kind, run.state) == ("chain", "done")
    assert books == {"books": {"Invisible Cities": 0}}


async def test_tool_that_changes_has_to_be_approved_in_the_lock_of_the_demonstration(tmp_path: Path) -> None:
    crib = Crib(write_demo_config(tmp_path))

    async def ask(*_: Any) -> None:
        return None

    async with open_with_demo(crib):
        await crib.ready()
        await crib.trust.lock(by="demo")
        await play_demo(crib, ask)
        await until(lambda: crib.index.list_all(namespace="library")[1:] == ())
        report = await crib.trust.report()
        (drift,) = report.drifts
        assert (drift.id, drift.level, report.is_locked) == ("library:lend", "minor", True)
        assert any("days" in line for line in drift.lines)
        assert [each.id for each in report.withheld] == ["library:lend"]
        await crib.trust.approve("library:lend", by="anna")
        assert "days" in _properties(crib)
        assert (await crib.trust.report()).drifts == ()


def _properties(crib: Crib) -> Any:
    return crib.index.get("library:lend").input_schema["properties"]
