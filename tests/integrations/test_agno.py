"""Agno: the tools of a crib in its agents, with a scripted model."""

import json
import runpy
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio import to_thread

from toolcrib import Crib, SyncCrib

pytest.importorskip("agno", reason="needs agno: make frameworks")

from agno.agent import Agent
from agno.models.base import Model
from agno.models.response import ModelResponse

from toolcrib.integrations.agno import tools

pytestmark = pytest.mark.anyio


class Script(Model):
    """A model that gives one answer after another, and keeps the tools that it was offered."""

    def __init__(self, *turns: Any) -> None:
        super().__init__(id="script", name="Script", provider="test")
        self.turns, self.offered = iter(turns), []

    def _next(self, tools: Any = None) -> ModelResponse:
        self.offered.append([each["function"]["name"] for each in tools or ()])
        turn = next(self.turns)
        if isinstance(turn, str):
            return ModelResponse(role="assistant", content=turn)
        calls = turn if isinstance(turn, list) else [turn]
        return ModelResponse(
            role="assistant",
            tool_calls=[
                {
                    "id": f"{len(self.offered)}_{place}",
                    "type": "function",
                    "function": {"name": name, "arguments": json.dumps(args)},
                }
                for place, (name, args) in enumerate(calls)
            ],
        )

    def invoke(self, *_: Any, tools: Any = None, **__: Any) -> ModelResponse:
        return self._next(tools)

    async def ainvoke(self, *_: Any, tools: Any = None, **__: Any) -> ModelResponse:
        return self._next(tools)

    def invoke_stream(self, *_: Any, tools: Any = None, **__: Any) -> Any:
        yield self._next(tools)

    async def ainvoke_stream(self, *_: Any, tools: Any = None, **__: Any) -> Any:
        yield self._next(tools)

    def _parse_provider_response(self, response: Any, **_: Any) -> Any:
        return response

    def _parse_provider_response_delta(self, response: Any) -> Any:
        return response


def agent(crib: Any, *turns: Any, **options: Any) -> Agent:
    return Agent(model=Script(*turns), tools=tools(crib, **options), telemetry=False)


async def test_an_agent_calls_tools_side_by_side(crib: Crib) -> None:
    used = agent(crib, [("mail__send", {"to": "ada"}), ("shop__order_total", {"prices": [4, 6]})], "Done.")
    run = await used.arun("Go")
    assert run.content == "Done."
    assert [each.result for each in run.tools] == ['{"sent":"ada"}', "10.0"]


def test_a_sync_crib_needs_no_loop(sync_crib: SyncCrib) -> None:
    run = agent(sync_crib, ("shop__order_total", {"prices": [4, 6]}), "Done.").run("Go")
    assert [each.result for each in run.tools] == ["10.0"]


def test_tools_are_described(crib: Crib) -> None:
    (total,) = tools(crib, ["shop:order_total"])
    assert (total.name, total.description) == ("shop__order_total", "Add up the prices of an order.")
    assert total.parameters["properties"]["prices"]["description"] == "The price of each item."
    assert (total.annotations, total.has_side_effects) == ({"readOnlyHint": True}, False)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (("shop__order_total", {"prices": ["x"]}), "/prices/0: must be a number, not 'x'"),
        (("mail__send", {"to": ""}), "there is no mailbox without a name"),
        (("shop__wipe", {}), "nobody wipes"),
    ],
)
async def test_a_failed_call_is_shown_to_the_model(crib: Crib, call: Any, text: str) -> None:
    run = await agent(crib, call, "I cannot.").arun("Go")
    (result,) = run.tools
    assert (result.tool_call_error, text in result.result) == (True, True)


async def test_found_tool_is_run_by_run_tool(crib: Crib) -> None:
    used = agent(
        crib,
        ("search_tools", {"query": "send an email message", "limit": 1}),
        ("run_tool", {"tool_id": "mail:send", "args": {"to": "ada"}}),
        "Sent.",
        search=True,
    )
    run = await used.arun("Write to Ada")
    assert sorted(used.model.offered[0]) == ["run_tool", "search_tools"]
    assert [each.result for each in run.tools][1] == '{"sent":"ada"}'


async def test_a_run_is_streamed(crib: Crib) -> None:
    stream = agent(crib, ("mail__send", {"to": "ada"}), "Sent.").arun("Go", stream=True, stream_events=True)
    events = [event.event async for event in stream]
    assert [events.count(kind) for kind in ("ToolCallStarted", "ToolCallCompleted")] == [1, 1]


async def test_images_are_media(crib: Crib) -> None:
    (picture,) = tools(crib, ["shop:picture"])
    result = await picture.entrypoint()
    assert (result.content, result.images[0].mime_type) == ("a pixel", "image/png")


async def test_cancelling_the_call_cancels_the_tool(crib: Crib, watch: Any) -> None:
    (wait,) = tools(crib, ["shop:wait"])
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait.entrypoint)
        await to_thread.run_sync(watch.waiting.wait)
        tasks.cancel_scope.cancel()
    assert watch.cancelled == ["wait"]


async def test_the_example_gives_an_answer(root: Path) -> None:
    names = runpy.run_path(str(root / "examples" / "with_agno.py"))
    assert (
        await names["main"](Script(("shop__order_total", {"prices": [4, 6]}), "It is 10."), "Go")
        == "It is 10."
    )
