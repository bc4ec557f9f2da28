"""Google's ADK: a crib as a toolset in its runner, with a scripted model."""

import runpy
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio import to_thread

from toolcrib import Crib

pytest.importorskip("google.adk", reason="needs google-adk: make frameworks")

from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LlmResponse
from google.adk.runners import InMemoryRunner
from google.genai import types

from toolcrib.integrations.adk import toolset

pytestmark = pytest.mark.anyio


class Script(BaseLlm):
    """A model that gives one answer after another, and keeps the tools that it was offered."""

    model: str = "script"
    turns: Any = None
    offered: list[list[str]] = []  # noqa: RUF012 - a field

    async def generate_content_async(self, llm_request: Any, stream: bool = False) -> Any:  # noqa: ARG002
        tools = llm_request.config.tools or []
        self.offered.append([each.name for tool in tools for each in tool.function_declarations or ()])
        turn = next(self.turns)
        calls = [] if isinstance(turn, str) else turn if isinstance(turn, list) else [turn]
        parts = [types.Part(function_call=types.FunctionCall(name=name, args=args)) for name, args in calls]
        yield LlmResponse(content=types.Content(role="model", parts=parts or [types.Part(text=turn)]))


def script(*turns: Any) -> Script:
    return Script(turns=iter(turns), offered=[])


class Talk:
    """A session with an agent."""

    def __init__(self, model: Script, tools: Any) -> None:
        self.runner = InMemoryRunner(agent=LlmAgent(name="clerk", model=model, tools=[tools]))
        self.session: Any = None

    async def say(self, part: Any) -> list[Any]:
        """Return the responses of the calls, and the last text."""
        if self.session is None:
            app = self.runner.app_name
            self.session = await self.runner.session_service.create_session(app_name=app, user_id="ada")
        message = types.Content(role="user", parts=[part])
        self.events = [
            event
            async for event in self.runner.run_async(
                user_id="ada", session_id=self.session.id, new_message=message
            )
        ]
        return [each.response for event in self.events for each in event.get_function_responses()]


async def ask(model: Script, tools: Any) -> list[Any]:
    return await Talk(model, tools).say(types.Part(text="Go"))


@pytest.mark.parametrize("kind", ["crib", "sync_crib"])
async def test_an_agent_calls_tools_side_by_side(kind: str, request: pytest.FixtureRequest) -> None:
    crib = request.getfixturevalue(kind)
    model = script([("mail__send", {"to": "ada"}), ("shop__order_total", {"prices": [4, 6]})], "Done.")
    assert await ask(model, toolset(crib)) == [{"sent": "ada"}, {"result": 10.0}]


async def test_tools_are_described(crib: Crib) -> None:
    (total,) = await toolset(crib, ["shop:order_total"]).get_tools()
    assert (total.name, total.description) == ("shop__order_total", "Add up the prices of an order.")
    schema = total._get_declaration().parameters_json_schema
    assert schema["properties"]["prices"]["description"] == "The price of each item."
    assert total.custom_metadata["annotations"] == {"readOnlyHint": True}


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (("shop__order_total", {"prices": ["x"]}), "/prices/0: must be a number, not 'x'"),
        (("mail__send", {"to": ""}), "there is no mailbox without a name"),
        (("shop__wipe", {}), "nobody wipes"),
    ],
)
async def test_a_failed_call_is_a_response_with_an_error(crib: Crib, call: Any, text: str) -> None:
    (response,) = await ask(script(call, "I cannot."), toolset(crib))
    assert text in response["error"]


async def test_a_search_lists_what_it_found_from_the_next_turn_on(crib: Crib) -> None:
    model = script(
        ("search_tools", {"query": "send an email message", "limit": 1}),
        ("mail__send", {"to": "ada"}),
        "Sent.",
    )
    responses = await ask(model, toolset(crib, search=True))
    assert model.offered == [["search_tools"], ["search_tools", "mail__send"], ["search_tools", "mail__send"]]
    assert responses[1] == {"sent": "ada"}


async def test_another_session_has_not_found_it(crib: Crib) -> None:
    tools = toolset(crib, search=True)
    await ask(script(("search_tools", {"query": "send an email message"}), "Found."), tools)
    model = script("Hello.")
    await ask(model, tools)
    assert model.offered == [["search_tools"]]


@pytest.mark.parametrize("agreed", [True, False])
async def test_a_rule_that_asks_requests_a_confirmation(crib: Crib, agreed: bool, watch: Any) -> None:
    talk = Talk(script(("shop__refund", {"order": 7}), "Done."), toolset(crib))
    await talk.say(types.Part(text="Pay it back"))
    calls = [call for event in talk.events for call in event.get_function_calls()]
    (asked,) = [call for call in calls if call.name == "adk_request_confirmation"]
    assert asked.args["toolConfirmation"]["payload"]["args"] == {"order": 7}
    answer = types.FunctionResponse(id=asked.id, name=asked.name, response={"confirmed": agreed})
    responses = await talk.say(types.Part(function_response=answer))
    refused = {"error": "shop:refund: the user did not agree"}
    assert responses[-1] == ({"result": "paid back order 7"} if agreed else refused)
    assert [outcome.error for outcome in watch.outcomes if not outcome.is_suspended] == [None] * agreed


async def test_cancelling_the_run_cancels_the_tool(crib: Crib, watch: Any) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask, script(("shop__wait", {}), "Done."), toolset(crib))
        await to_thread.run_sync(watch.waiting.wait)
        tasks.cancel_scope.cancel()
    await to_thread.run_sync(watch.ended.wait)
    assert watch.cancelled == ["wait"]


async def test_the_example_gives_an_answer(root: Path) -> None:
    names = runpy.run_path(str(root / "examples" / "with_adk.py"))
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
