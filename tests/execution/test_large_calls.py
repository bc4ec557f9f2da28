"""Large arguments and results are checked and copied in another thread than that of the event loop."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any

import pytest
from execution.mcp.calling import says, scripted_server, tool_of
from execution.toolbox import bare, index_of, record, runner_of

from toolcrib import tool
from toolcrib.errors import InputValidationError, OutputValidationError
from toolcrib.execution import Runner
from toolcrib.execution.local import Handler
from toolcrib.execution.mcp import McpServers
from toolcrib.model import McpBackend
from toolcrib.model.plain import copy_json, copy_unless_large, is_large, measure
from toolcrib.model.schema.validator import DefaultValidator

pytestmark = pytest.mark.anyio

MANY = 20_000
HEAVY = (
    measure,
    copy_json,
    DefaultValidator.validate_input,
    DefaultValidator.validate_output,
    Handler.read_arguments,
)


@contextmanager
def heavy_work_here() -> Iterator[dict[str, bool]]:
    """Collect the heavy functions that this thread calls, and whether with anything large."""
    heavy: dict[CodeType, str] = {function.__code__: function.__name__ for function in HEAVY}
    called: dict[str, bool] = {}

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code in heavy:
            given = frame.f_locals.values()
            name = heavy[frame.f_code]
            called[name] = called.get(name, False) or any(map(is_large, given))

    sys.setprofile(note)
    try:
        yield called
    finally:
        sys.setprofile(None)


async def check(runner: Runner, name: str) -> None:
    """Check that the work for a small call is done here, and that for a large one elsewhere."""
    with heavy_work_here() as called:
        await runner.run(name, {"items": [1, 2]})
    assert {"validate_input"} <= called.keys()
    with heavy_work_here() as called:
        await runner.run(name, {"items": list(range(MANY))})
    assert [name for name, large in called.items() if large] == []


@tool
async def count(items: list[int]) -> int:
    """Count items."""
    return len(items)


@tool
async def texts(number: int) -> list[str]:
    """Return many texts."""
    many: Any = ["text", *range(number)]
    return many


async def test_a_large_call_of_a_typed_function_is_prepared_in_another_thread() -> None:
    await check(runner_of(count), "count")


async def test_a_large_call_of_a_plain_function_is_prepared_in_another_thread() -> None:
    await check(bare(count.function), "echo")


async def test_a_large_call_of_a_server_is_prepared_in_another_thread() -> None:
    server = scripted_server(calls={"eat": [says("eaten")]})
    index = index_of((tool_of("eat"), McpBackend(server_name="one")))
    async with McpServers({"one": server}) as servers:
        await check(Runner(index, mcp=servers), "one:eat")


async def test_a_large_result_is_checked_in_another_thread() -> None:
    with (
        heavy_work_here() as called,
        pytest.raises(OutputValidationError, match="too large to list the reasons"),
    ):
        await runner_of(texts).run("texts", {"number": 100_000})
    assert [name for name, large in called.items() if large] == []


@pytest.mark.parametrize(
    ("items", "why"),
    [(["a"] * MANY, "too large to list the reasons"), ([0] * 600_000, "holds more than 500,000 values")],
    ids=["of another type", "too many"],
)
async def test_large_arguments_that_do_not_fit_are_refused(items: list[Any], why: str) -> None:
    with pytest.raises(InputValidationError, match=f"^count: .*{why}"):
        await runner_of(count).run("count", {"items": items})


async def test_arguments_that_hold_themselves_are_refused() -> None:
    endless: dict[str, Any] = {}
    endless["items"] = [endless, endless]
    with pytest.raises(InputValidationError, match="or holds itself"):
        await bare(count.function).run("echo", endless)


async def test_large_arguments_run_as_they_were_validated() -> None:
    given: dict[str, Any] = {"items": [[1]] * 3, "rest": list(range(MANY))}
    seen: list[dict[str, Any]] = []

    async def keep(items: list[Any], rest: list[int]) -> None:
        seen.append({"items": items, "rest": rest})

    await bare(keep, record()).run("echo", given)
    given["items"][0].append(2)
    assert seen[0]["items"] == [[1]] * 3


@pytest.mark.parametrize(
    ("value", "large"),
    [
        (7, False),
        ("x" * 2_000_000, True),
        ({"a": ["x" * 2_000_000]}, True),
        ({"a": [{"b": [0] * MANY}]}, True),
        ({"a": [{"b": [0] * 20}] * 20}, False),
    ],
    ids=["a number", "a text", "a text inside", "many values", "some values"],
)
def test_sizes_that_count_as_large(value: Any, *, large: bool) -> None:
    assert is_large(value) is large
    assert copy_unless_large({"value": value}) == (None if large else {"value": value})


def test_copy_of_arguments_shares_no_container_with_them() -> None:
    given: dict[str, Any] = {"a": [{"b": [1]}], "c": "d"}
    copied = copy_unless_large(given)
    assert copied == given
    given["a"][0]["b"].append(2)
    assert copied == {"a": [{"b": [1]}], "c": "d"}
