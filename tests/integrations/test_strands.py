"""Strands: the tools of a crib in its agents, with a scripted model."""

import json
import runpy
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio import to_thread

from toolcrib import Crib, SyncCrib

pytest.importorskip("strands", reason="needs strands-agents: make frameworks")

from strands import Agent
from strands.models import Model

from toolcrib.integrations.strands import tools

pytestmark = pytest.mark.anyio


class Script(Model):
    """A model that gives one answer after another, and keeps the tools that it was offered."""

    def __init__(self, *turns: Any) -> None:
        self.turns = iter(turns)
        self.offered: list[list[str]] = []

    def update_config(self, **_: Any) -> None: ...

    def get_config(self) -> Any:
        return {}

    def structured_output(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    async def stream(self, _: Any, tool_specs: Any = None, *__: Any, **___: Any) -> Any:
        self.offered.append([spec["name"] for spec in tool_specs or ()])
        turn = next(self.turns)
        yield {"messageStart": {"role": "assistant"}}
        calls = [] if isinstance(turn, str) else turn if isinstance(turn, list) else [turn]
        if isinstance(turn, str):
            yield {"contentBlockStart": {"start": {}}}
            yield {"contentBlockDelta": {"delta": {"text": turn}}}
            yield {"contentBlockStop": {}}
        for place, (name, args) in enumerate(calls):
            use = {"name": name, "toolUseId": f"{len(self.offered)}_{place}"}
            yield {"contentBlockStart": {"start": {"toolUse": use}}}
            yield {"contentBlockDelta": {"delta": {"toolUse": {"input": json.dumps(args)}}}}
            yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "tool_use" if calls else "end_turn"}}


def agent(crib: Any, *turns: Any, **options: Any) -> Agent:
    return Agent(Script(*turns), tools=tools(crib, **options), callback_handler=None)


def results(used: Agent) -> list[dict[str, Any]]:
    blocks = [block for message in used.messages for block in message["content"]]
    return [block["toolResult"] for block in blocks if "toolResult" in block]


@pytest.mark.parametrize("kind", ["crib", "sync_crib"])
async def test_an_agent_calls_tools_side_by_side(kind: str, request: pytest.FixtureRequest) -> None:
    crib = request.getfixturevalue(kind)
    calls = [("mail__send", {"to": "ada"}), ("shop__order_total", {"prices": [4, 6]})]
    used = agent(crib, calls, "Done.")
    assert str(await used.invoke_async("Go")).strip() == "Done."
    assert [result["content"] for result in results(used)] == [
        [{"json": {"sent": "ada"}}],
        [{"text": "10.0"}],
    ]


def test_a_sync_crib_needs_no_loop(sync_crib: SyncCrib) -> None:
    used = agent(sync_crib, ("shop__order_total", {"prices": [4, 6]}), "Done.")
    used("Go")
    assert results(used)[0]["content"] == [{"text": "10.0"}]


def test_tools_are_described(crib: Crib) -> None:
    (total,) = tools(crib, ["shop:order_total"])
    spec = total.tool_spec
    assert (spec["name"], spec["description"]) == ("shop__order_total", "Add up the prices of an order.")
    assert spec["inputSchema"]["json"]["properties"]["prices"]["description"] == "The price of each item."


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (("shop__order_total", {"prices": ["x"]}), "/prices/0: must be a number, not 'x'"),
        (("mail__send", {"to": ""}), "there is no mailbox without a name"),
        (("shop__wipe", {}), "nobody wipes"),
    ],
)
async def test_a_failed_call_is_a_result_with_the_status_error(crib: Crib, call: Any, text: str) -> None:
    used = agent(crib, call, "I cannot.")
    await used.invoke_async("Go")
    (result,) = results(used)
    assert (result["status"], text in result["content"][0]["text"]) == ("error", True)


async def test_a_search_lists_what_it_found_from_the_next_turn_on(crib: Crib) -> None:
    used = agent(
        crib,
        ("search_tools", {"query": "send an email message", "limit": 1}),
        ("mail__send", {"to": "ada"}),
        "Sent.",
        search=True,
    )
    await used.invoke_async("Write to Ada")
    assert used.model.offered == [
        ["search_tools"],
        ["search_tools", "mail__send"],
        ["search_tools", "mail__send"],
    ]
    assert results(used)[1]["content"] == [{"json": {"sent": "ada"}}]


async def test_the_progress_of_a_tool_is_streamed(crib: Crib) -> None:
    used = agent(crib, ("mail__send", {"to": "ada"}), "Sent.")
    events = [
        event["tool_stream_event"] async for event in used.stream_async("Go") if "tool_stream_event" in event
    ]
    assert [event["data"] for event in events] == [{"progress": 1, "total": 2, "message": "connecting"}]


async def test_images_are_content(crib: Crib) -> None:
    used = agent(crib, ("shop__picture", {}), "Nice.")
    await used.invoke_async("Draw")
    text, image = results(used)[0]["content"]
    assert (text, image["image"]["format"]) == ({"text": "a pixel"}, "png")


async def test_cancelling_the_run_cancels_the_tool(crib: Crib, watch: Any) -> None:
    used = agent(crib, ("shop__wait", {}), "Done.")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(used.invoke_async, "Wait")
        await to_thread.run_sync(watch.waiting.wait)
        tasks.cancel_scope.cancel()
    await to_thread.run_sync(watch.ended.wait)
    assert watch.cancelled == ["wait"]


def test_the_example_gives_an_answer(root: Path) -> None:
    names = runpy.run_path(str(root / "examples" / "with_strands.py"))
    assert (
        names["main"](
            Script(
                ("search_tools", {"query": "add up the prices of an order", "limit": 1}),
                ("shop__order_total", {"prices": [4, 6]}),
                "It is 10.",
            ),
            "Go",
        )
        == "It is 10."
    )
