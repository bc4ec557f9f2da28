"""LlamaIndex: the tools of a crib in a function agent with its mock model, and its tools in a crib."""

import runpy
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio import to_thread

from toolcrib import Crib, SyncCrib
from toolcrib.errors import ToolExecutionError

pytest.importorskip("llama_index.core", reason="needs llama-index-core: make frameworks")

from llama_index.core.agent.workflow import FunctionAgent, ToolCallResult
from llama_index.core.base.llms.types import ChatMessage, ImageBlock, TextBlock, ToolCallBlock
from llama_index.core.llms.mock import MockFunctionCallingLLM
from llama_index.core.tools import FunctionTool

from toolcrib.integrations.llama_index import register, retriever, tools

pytestmark = pytest.mark.anyio


class Script(MockFunctionCallingLLM):
    """The framework's mock model, which keeps the tools that it was offered."""

    offered: list[list[str]] = []  # noqa: RUF012 - a field

    async def astream_chat_with_tools(self, tools: Any, *args: Any, **kwargs: Any) -> Any:
        self.offered.append([tool.metadata.name for tool in tools])
        return await super().astream_chat_with_tools(tools, *args, **kwargs)


def script(*turns: Any) -> Script:
    left = iter(turns)

    def respond(_: Any, **__: Any) -> ChatMessage:
        turn = next(left)
        calls = [] if isinstance(turn, str) else turn if isinstance(turn, list) else [turn]
        blocks = [
            ToolCallBlock(tool_call_id=f"call_{place}", tool_name=name, tool_kwargs=args)
            for place, (name, args) in enumerate(calls)
        ]
        return ChatMessage(role="assistant", blocks=blocks or [TextBlock(text=turn)])

    return Script(response_generator=respond, offered=[])


async def run(agent: FunctionAgent) -> tuple[list[Any], Any]:
    """Return the results of the calls, and the answer."""
    handler = agent.run(user_msg="Go")
    events = [event async for event in handler.stream_events() if type(event) is ToolCallResult]
    return [event.tool_output for event in events], await handler


def test_tools_are_described(crib: Crib) -> None:
    (total,) = tools(crib, ["shop:order_total"])
    function = total.metadata.to_openai_tool()["function"]
    assert (function["name"], function["description"]) == (
        "shop__order_total",
        "Add up the prices of an order.",
    )
    assert function["parameters"]["properties"]["prices"]["description"] == "The price of each item."


@pytest.mark.parametrize("kind", ["crib", "sync_crib"])
async def test_an_agent_calls_tools_side_by_side(kind: str, request: pytest.FixtureRequest) -> None:
    crib = request.getfixturevalue(kind)
    model = script([("mail__send", {"to": "ada"}), ("shop__order_total", {"prices": [4, 6]})], "Done.")
    outputs, answer = await run(FunctionAgent(tools=tools(crib), llm=model))
    assert sorted(str(output.raw_output) for output in outputs) == ["10.0", "{'sent': 'ada'}"]
    assert str(answer) == "Done."


def test_a_sync_crib_needs_no_loop(sync_crib: SyncCrib) -> None:
    (total,) = tools(sync_crib, ["shop:order_total"])
    assert total(prices=[4, 6]).raw_output == 10


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (("shop__order_total", {"prices": ["x"]}), "/prices/0: must be a number, not 'x'"),
        (("mail__send", {"to": ""}), "there is no mailbox without a name"),
        (("shop__wipe", {}), "nobody wipes"),
    ],
)
async def test_a_failed_call_is_an_output_with_an_error(crib: Crib, call: Any, text: str) -> None:
    (output,), _ = await run(FunctionAgent(tools=tools(crib), llm=script(call, "I cannot.")))
    assert (output.is_error, text in output.content) == (True, True)


async def test_without_turns_what_a_search_found_is_run_by_run_tool(crib: Crib) -> None:
    model = script(
        ("search_tools", {"query": "send an email message", "limit": 1}),
        ("run_tool", {"tool_id": "mail:send", "args": {"to": "ada"}}),
        "Sent.",
    )
    outputs, _ = await run(FunctionAgent(tools=tools(crib, search=True), llm=model))
    assert [tool["tool_id"] for tool in outputs[0].raw_output["tools"]] == ["mail:send"]
    assert outputs[1].raw_output == {"sent": "ada"}


async def test_a_retriever_lists_what_was_found_from_the_next_turn_on(crib: Crib) -> None:
    model = script(
        ("search_tools", {"query": "send an email message", "limit": 1}),
        ("mail__send", {"to": "ada"}),
        "Sent.",
    )
    outputs, _ = await run(FunctionAgent(tool_retriever=retriever(crib), llm=model))
    assert model.offered == [["search_tools"], ["search_tools", "mail__send"], ["search_tools", "mail__send"]]
    assert outputs[1].raw_output == {"sent": "ada"}


async def test_images_are_blocks(crib: Crib) -> None:
    (picture,) = tools(crib, ["shop:picture"])
    text, image = (await picture.acall()).blocks
    assert (text.text, type(image), image.image_mimetype) == ("a pixel", ImageBlock, "image/png")


async def test_cancelling_the_call_cancels_the_tool(crib: Crib, watch: Any) -> None:
    (wait,) = tools(crib, ["shop:wait"])
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait.acall)
        await to_thread.run_sync(watch.waiting.wait)
        tasks.cancel_scope.cancel()
    assert watch.cancelled == ["wait"]


def greet(name: str) -> dict[str, str]:
    """Greet somebody."""
    if not name:
        raise ValueError("say whom to greet")
    return {"text": f"Hello, {name}!"}


async def test_framework_tools_become_tools_of_a_crib() -> None:
    async def shout(text: str) -> str:
        """Say it loudly."""
        return text.upper()

    crib = Crib()
    added = register(crib, [FunctionTool.from_defaults(greet), shout], namespace="llama")
    assert [str(each.tool.id) for each in added] == ["llama:greet", "llama:shout"]
    assert (await crib.run("llama:greet", {"name": "Ada"})).structured == {"text": "Hello, Ada!"}
    assert (await crib.run("llama:shout", {"text": "a"})).structured == "A"
    with pytest.raises(ToolExecutionError, match="say whom to greet"):
        await crib.run("llama:greet", {"name": ""})


async def test_the_example_gives_an_answer(root: Path) -> None:
    names = runpy.run_path(str(root / "examples" / "with_llama_index.py"))
    assert (
        await names["main"](
            script(
                ("search_tools", {"query": "add up the prices of an order", "limit": 1}),
                ("shop__order_total", {"prices": [4, 6]}),
                "It is 10.",
            ),
            "Go",
        )
        == "It is 10."
    )
