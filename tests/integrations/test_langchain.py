"""LangChain and LangGraph: the tools of a crib with fake chat models, in agents and graphs; and their tools in a crib."""

import runpy
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio import to_thread

from toolcrib import Crib, SyncCrib
from toolcrib.errors import CribStateError, InputValidationError, ToolExecutionError

pytest.importorskip("langchain_core")

from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import ToolException, tool
from langchain_core.utils.function_calling import convert_to_openai_tool

from toolcrib.integrations.langchain import PROGRESS_EVENT, middleware, register, tools

pytestmark = pytest.mark.anyio


def call(name: str, args: dict[str, Any], call_id: str = "call_1") -> dict[str, Any]:
    return {"type": "tool_call", "id": call_id, "name": name, "args": args}


class Script(GenericFakeChatModel):
    """A model that gives one message after another, and keeps which tools it was offered."""

    offered: list[list[str]] = []  # noqa: RUF012 - a field

    def bind_tools(self, tools: Any, **_: Any) -> Any:
        self.offered.append([convert_to_openai_tool(each)["function"]["name"] for each in tools])
        return self


def script(*turns: Any) -> Script:
    messages = [
        AIMessage(turn) if isinstance(turn, str) else AIMessage("", tool_calls=[call(*each) for each in turn])
        for turn in turns
    ]
    return Script(messages=iter(messages), offered=[])


def results(messages: list[BaseMessage]) -> list[ToolMessage]:
    return [message for message in messages if isinstance(message, ToolMessage)]


def agents() -> Any:
    return pytest.importorskip("langchain.agents", reason="needs langchain: make frameworks")


def test_tools_are_described(crib: Crib) -> None:
    (total,) = tools(crib, ["shop:order_total"])
    function = convert_to_openai_tool(total)["function"]
    assert (function["name"], function["description"]) == (
        "shop__order_total",
        "Add up the prices of an order.",
    )
    assert function["parameters"]["properties"]["prices"]["description"] == "The price of each item."
    assert total.metadata == {"tool_id": "shop:order_total", "annotations": {"readOnlyHint": True}}
    assert {each.name for each in tools(crib)} >= {"mail__send", "shop__order_total"}


async def test_a_tool_runs_and_keeps_its_value_as_an_artifact(crib: Crib) -> None:
    (total,) = tools(crib, ["shop:order_total"])
    assert await total.ainvoke({"prices": [4, 6]}) == "10.0"
    message = await total.ainvoke(call("shop__order_total", {"prices": [4, 6]}))
    assert (message.content, message.artifact, message.status) == ("10.0", 10.0, "success")


def test_a_sync_crib_needs_no_loop(sync_crib: SyncCrib) -> None:
    (total,) = tools(sync_crib, ["shop:order_total"])
    assert total.invoke({"prices": [4, 6]}) == "10.0"


def test_a_crib_without_servers_needs_no_loop(crib: Crib) -> None:
    (total,) = tools(crib, ["shop:order_total"])
    assert total.invoke({"prices": [4, 6]}) == "10.0"


async def test_a_crib_is_called_from_a_thread_in_its_own_loop(crib: Crib) -> None:
    (total,) = tools(crib, ["shop:order_total"])
    assert await to_thread.run_sync(total.invoke, {"prices": [4, 6]}) == "10.0"
    with pytest.raises(CribStateError, match="called synchronously in an event loop"):
        total.invoke({"prices": [4, 6]})


async def test_arguments_that_the_framework_uses_itself_reach_the_tool(crib: Crib) -> None:
    (config,) = tools(crib, ["shop:config"])
    message = await config.ainvoke(call("shop__config", {"config": "a", "callbacks": 1, "run_manager": "b"}))
    assert message.artifact == {"config": "a", "callbacks": 1, "run_manager": "b"}


@pytest.mark.parametrize(
    ("name", "args", "text"),
    [
        ("shop:order_total", {"prices": ["x"]}, "/prices/0: must be a number, not 'x'"),
        ("mail:send", {"to": ""}, "there is no mailbox without a name"),
        ("shop:wipe", {}, "nobody wipes"),
        ("shop:refund", {"order": 7}, "money leaves"),
    ],
)
async def test_a_failed_call_is_a_message_with_the_status_error(
    crib: Crib, name: str, args: Any, text: str
) -> None:
    (failing,) = tools(crib, [name])
    message = await failing.ainvoke(call(failing.name, args))
    assert (message.status, text in message.content) == ("error", True)


async def test_images_are_content_blocks(crib: Crib) -> None:
    (picture,) = tools(crib, ["shop:picture"])
    message = await picture.ainvoke(call("shop__picture", {}))
    assert [block["type"] for block in message.content_blocks] == ["text", "image"]
    assert message.content_blocks[1]["mime_type"] == "image/png"
    assert message.artifact == {"width": 1}


async def test_cancelling_the_call_cancels_the_tool(crib: Crib, watch: Any) -> None:
    (wait,) = tools(crib, ["shop:wait"])
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait.ainvoke, {})
        await to_thread.run_sync(watch.waiting.wait)
        tasks.cancel_scope.cancel()
    assert watch.cancelled == ["wait"]


async def test_progress_is_a_custom_event(crib: Crib) -> None:
    (send,) = tools(crib, ["mail:send"])
    chain = RunnableLambda(lambda _: {"to": "ada"}) | send
    events = [event async for event in chain.astream_events("go", version="v2")]
    (data,) = [event["data"] for event in events if event["name"] == PROGRESS_EVENT]
    assert data == {"tool": "mail__send", "progress": 1, "total": 2, "message": "connecting"}


async def test_without_turns_what_a_search_found_is_run_by_run_tool(crib: Crib) -> None:
    search, run = tools(crib, search=True)
    assert (search.name, run.name) == ("search_tools", "run_tool")
    found = await search.ainvoke(call("search_tools", {"query": "send an email message", "limit": 1}))
    assert '"tool_id":"mail:send"' in found.content
    assert '"inputSchema":{' in found.content
    sent = await run.ainvoke(call("run_tool", {"tool_id": "mail:send", "args": {"to": "ada"}}))
    assert sent.artifact == {"sent": "ada"}
    lost = await run.ainvoke(call("run_tool", {"tool_id": "mail:sent"}))
    assert (lost.status, "did you mean 'mail:send'" in lost.content) == ("error", True)
    unnamed = await run.ainvoke(call("run_tool", {}))
    assert "name the tool that search_tools has found" in unnamed.content


async def test_an_agent_calls_tools_side_by_side(crib: Crib) -> None:
    create_agent = agents().create_agent
    model = script(
        [("mail__send", {"to": "ada"}, "call_1"), ("shop__order_total", {"prices": []}, "call_2")], "Done."
    )
    state = await create_agent(model, tools(crib)).ainvoke({"messages": [("user", "Go")]})
    assert [(each.tool_call_id, each.artifact) for each in results(state["messages"])] == [
        ("call_1", {"sent": "ada"}),
        ("call_2", 0),
    ]
    assert state["messages"][-1].content == "Done."


@pytest.mark.parametrize("asynchronous", [True, False])
async def test_an_agent_lists_what_it_found_from_the_next_turn_on(
    asynchronous: bool, crib: Crib, sync_crib: SyncCrib
) -> None:
    create_agent = agents().create_agent
    model = script(
        [("search_tools", {"query": "send an email message", "limit": 1})],
        [("mail__send", {"to": "ada"}, "call_2")],
        "Sent.",
    )
    agent = create_agent(model, middleware=[middleware(crib if asynchronous else sync_crib)])
    asked = {"messages": [("user", "Write to Ada")]}
    state = await agent.ainvoke(asked) if asynchronous else await to_thread.run_sync(agent.invoke, asked)
    assert model.offered == [["search_tools"], ["search_tools", "mail__send"], ["search_tools", "mail__send"]]
    assert results(state["messages"])[1].artifact == {"sent": "ada"}


async def test_a_stream_of_an_agent_has_the_progress(crib: Crib) -> None:
    create_agent = agents().create_agent
    agent = create_agent(script([("mail__send", {"to": "ada"})], "Sent."), tools(crib, ["mail:send"]))
    stream = agent.astream({"messages": [("user", "Go")]}, stream_mode="custom")
    assert [part async for part in stream] == [
        {PROGRESS_EVENT: {"tool": "mail__send", "progress": 1, "total": 2, "message": "connecting"}}
    ]


@pytest.mark.parametrize("agreed", [True, False])
async def test_a_rule_that_asks_interrupts_the_graph(crib: Crib, agreed: bool, watch: Any) -> None:
    create_agent = agents().create_agent
    from langgraph.checkpoint.memory import InMemorySaver  # noqa: PLC0415 - only with langgraph
    from langgraph.types import Command  # noqa: PLC0415

    model = script([("shop__refund", {"order": 7})], "Done.")
    agent = create_agent(model, tools(crib, ["shop:refund"]), checkpointer=InMemorySaver())
    thread: Any = {"configurable": {"thread_id": "1"}}
    state = await agent.ainvoke({"messages": [("user", "Pay it back")]}, thread)
    (interrupt,) = state["__interrupt__"]
    assert interrupt.value == {"tool_id": "shop:refund", "args": {"order": 7}, "reason": "money leaves"}
    state = await agent.ainvoke(Command(resume=agreed), thread)
    (message,) = results(state["messages"])
    assert message.status == ("success" if agreed else "error")
    ended = [outcome.error for outcome in watch.outcomes if not outcome.is_suspended]
    assert ended == [None] * agreed


@tool
def greet(name: str) -> dict[str, str]:
    """Greet somebody.

    Args:
        name: Who it is.
    """
    if not name:
        raise ToolException("say whom to greet")
    return {"text": f"Hello, {name}!"}


async def test_framework_tools_become_tools_of_a_crib() -> None:
    def shout(text: str, times: int = 1) -> str:
        """Say it loudly."""
        return text.upper() * times

    crib = Crib()
    added = register(crib, [greet, shout], namespace="chain")
    assert [str(each.tool.id) for each in added] == ["chain:greet", "chain:shout"]
    assert crib["chain:greet"].description.startswith("Greet somebody.")
    assert (await crib.run("chain:greet", {"name": "Ada"})).structured == {"text": "Hello, Ada!"}
    assert (await crib.run("chain:shout", {"text": "a", "times": 2})).structured == "AA"
    with pytest.raises(ToolExecutionError, match="say whom to greet"):
        await crib.run("chain:greet", {"name": ""})
    with pytest.raises(InputValidationError):
        await crib.run("chain:greet", {"name": 1})


async def test_the_example_gives_an_answer(root: Path) -> None:
    agents()
    names = runpy.run_path(str(root / "examples" / "with_langchain.py"))
    assert (
        await names["main"](
            script(
                [("search_tools", {"query": "add up the prices of an order", "limit": 1})],
                [("shop__order_total", {"prices": [4, 6]}, "call_2")],
                "It is 10.",
            ),
            "Go",
        )
        == "It is 10."
    )
