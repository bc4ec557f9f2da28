"""Uses of the public API as a type checker sees them; test_types.py has mypy check this file in strict mode.

A line with `type: ignore` is a mistake that the checker must find: strict mode refuses an ignore that is not needed.
"""

from collections.abc import AsyncIterator, Callable, Generator
from typing import assert_type

from toolcrib import Crib, SyncCrib, Tool, tool
from toolcrib.adapter import Conversion
from toolcrib.crib import SyncToolSession, ToolSession
from toolcrib.discovery import DetailLevel, Page, Result, Summary
from toolcrib.execution import StreamEvent
from toolcrib.execution.chains import ChainResult, Plan
from toolcrib.execution.mcp import ServerStatus
from toolcrib.model import LocalTool, RunResult, ToolDoc
from toolcrib.runs import RunRecord
from toolcrib.runtime import ExecuteResult, SecurityProfile

crib = SyncCrib()
waiting = Crib()


@crib.add
def double(number: int) -> int:
    """Double a number."""
    return 2 * number


@crib.add(namespace="shop", version="1.2.0", tags=["orders"])
def order_total(prices: list[float], discount: float = 0) -> float:
    """Add up an order."""
    return sum(prices) * (1 - discount)


@waiting.add(namespace="text")
async def shout(text: str) -> str:
    """Write in capitals."""
    return text.upper()


@tool(name="halve")
def half(number: int) -> float:
    """Halve a number."""
    return number / 2


def named(number: int) -> str:
    """Name a number."""
    return str(number)


def check_functions() -> None:
    assert_type(double(2), int)
    assert_type(order_total([1.0], discount=0.5), float)
    assert_type(half(3), float)
    assert_type(crib.add(half)(3), float)
    assert_type(crib.add(named, name="name_of")(3), str)
    assert_type(tool(named, name="name_of")(3), str)
    assert_type(order_total.tool, Tool)
    assert_type(crib.add(order_total.tool), Tool)
    function: Callable[[int], int] = double
    assert_type(function(1), int)
    made: LocalTool[..., float] = order_total
    assert_type(made.tool.id.name, str)


def check_wrong_functions() -> None:
    double("2")  # type: ignore[arg-type]
    order_total([1.0], discont=0.5)  # type: ignore[call-arg]
    crib.add(named, nmae="name_of")  # type: ignore[call-overload]
    crib.add(3)  # type: ignore[call-overload]


def check_finding() -> None:
    found = crib.search("sum", limit=3)
    assert_type(found, Page[Result])
    assert_type(found[0].id, str)
    for one in found:
        assert_type(one, Result)
    assert_type(crib.tools(), Page[Summary])
    assert_type(crib.describe("double"), ToolDoc)
    assert_type(crib.describe("double", DetailLevel.FULL), ToolDoc)
    assert_type(crib.describe("double", "full"), ToolDoc)
    assert_type(crib["double"], Tool)
    assert_type("double" in crib, bool)
    assert_type(waiting["text:shout"], Tool)
    crib.describe("double", "fully")  # type: ignore[arg-type]
    crib.search("sum", limt=3)  # type: ignore[call-arg]


def check_running() -> None:
    assert_type(crib.run("double", {"number": 2}), RunResult)
    assert_type(crib.run(double, {"number": 2}), RunResult)
    assert_type(crib.run(named, {"number": 2}, timeout=1), RunResult)
    assert_type(crib.stream(double, {"number": 2}), Generator[StreamEvent])
    steps = [{"toolId": "double", "args": {"number": 2}}]
    assert_type(crib.run_chain(steps, timeout=3, durable=True), ChainResult)
    assert_type(crib.run_chain(steps, dry_run=True), Plan)
    assert_type(crib.execute("__out = 1", backend="monty", profile="dev"), ExecuteResult)
    assert_type(crib.execute("__out = 1", profile=SecurityProfile.HARDENED), ExecuteResult)
    assert_type(crib.resume("run", repeat=True, answers={"1": 2}), ExecuteResult | ChainResult)
    assert_type(crib.runs(), tuple[RunRecord, ...])
    assert_type(crib.save_as_tool(crib.execute("__out = 1"), name="one", version="1.0.0"), Tool)
    assert_type(crib.ready(1), dict[str, ServerStatus])
    crib.run_chain(steps, timout=3)  # type: ignore[call-overload]
    crib.execute("__out = 1", profile="strong")  # type: ignore[arg-type]
    crib.resume("run", answer={})  # type: ignore[call-arg]
    crib.save_as_tool(crib.execute("__out = 1"), nmae="one")  # type: ignore[call-arg]


def check_formats() -> None:
    assert_type(crib.convert("openai", strict=True, api="responses"), list[Conversion])
    assert_type(crib.convert("gemini", tools=[double.tool], style="openapi"), list[Conversion])
    assert_type(crib.convert("a format of my own", nested=True), list[Conversion])
    assert_type(crib.session("anthropic", tools=["double"], timeout=3, strict=True), SyncToolSession)
    crib.session("a2a")  # type: ignore[arg-type]
    crib.session("openai", api="chats")  # type: ignore[arg-type]
    crib.session("openai", strct=True)  # type: ignore[call-arg]


def check_making() -> None:
    SyncCrib("mcp.json", environ={"A": "b"}, policy=None)
    SyncCrib("mcp.json", enviro={})  # type: ignore[call-arg]


async def check_waiting() -> AsyncIterator[StreamEvent]:
    assert_type(await shout("a"), str)
    assert_type(await waiting.run(shout, {"text": "a"}), RunResult)
    assert_type(await waiting.session("gemini", style="openapi"), ToolSession)
    assert_type(await waiting.run_chain([], dry_run=True), Plan)
    async for event in waiting.stream(shout, {"text": "a"}):
        yield event
