"""Pydantic AI: a crib as a toolset, over function models; and its tools in a crib."""

import runpy
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio import to_thread

from toolcrib import Crib, SyncCrib
from toolcrib.errors import ToolExecutionError

pytest.importorskip("pydantic_ai")

from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, RunContext, ToolReturn
from pydantic_ai import Tool as FrameworkTool
from pydantic_ai.exceptions import ModelRetry, UnexpectedModelBehavior
from pydantic_ai.messages import (
    BinaryContent,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel

from toolcrib.integrations.pydantic_ai import ToolProgressEvent, register, toolset

pytestmark = pytest.mark.anyio


def script(*turns: Any, seen: list[AgentInfo] | None = None) -> FunctionModel:
    """Return a model that makes these calls turn by turn, then answers with the last text."""

    def respond(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if seen is not None:
            seen.append(info)
        done = sum(isinstance(message, ModelResponse) for message in messages)
        turn = turns[min(done, len(turns) - 1)]
        return ModelResponse(parts=[TextPart(turn) if isinstance(turn, str) else ToolCallPart(*turn)])

    return FunctionModel(respond)


def parts(messages: list[ModelMessage], kind: type[Any]) -> list[Any]:
    return [part for message in messages for part in message.parts if isinstance(part, kind)]


@pytest.mark.parametrize("kind", ["crib", "sync_crib"])
async def test_a_chosen_tool_is_described_and_called(
    kind: str, request: pytest.FixtureRequest, watch: Any
) -> None:
    crib, seen = request.getfixturevalue(kind), []
    model = script(("shop__order_total", {"prices": [4, 6], "discount": 0.5}), "It is 5.", seen=seen)
    tools = toolset(crib, ["shop:order_total"]).include_return_schemas()
    result = await Agent(model, toolsets=[tools]).run("How much is it?")
    assert result.output == "It is 5."
    assert parts(result.all_messages(), ToolReturnPart)[0].content == 5.0
    (definition,) = seen[0].function_tools
    assert definition.name == "shop__order_total"
    assert definition.description.startswith("Add up the prices of an order.")
    assert (
        definition.parameters_json_schema["properties"]["prices"]["description"] == "The price of each item."
    )
    assert definition.metadata["annotations"] == {"readOnlyHint": True}
    assert '"type": "number"' in definition.description.partition("Return schema:")[2]
    assert watch.called == ["shop:order_total"]


async def test_without_names_all_tools_are_listed(crib: Crib) -> None:
    seen: list[AgentInfo] = []
    await Agent(script("Hello.", seen=seen), toolsets=[toolset(crib)]).run("Hello")
    assert {tool.name for tool in seen[0].function_tools} >= {"mail__send", "shop__order_total", "shop__wipe"}


async def test_a_search_lists_what_it_found_from_the_next_turn_on(crib: Crib) -> None:
    seen: list[AgentInfo] = []
    model = script(
        ("search_tools", {"query": "send an email message", "limit": 1}),
        ("mail__send", {"to": "ada"}),
        "Sent.",
        seen=seen,
    )
    agent = Agent(model, toolsets=[toolset(crib, search=True)])
    result = await agent.run("Write to Ada")
    assert [[tool.name for tool in info.function_tools] for info in seen] == [
        ["search_tools"],
        ["search_tools", "mail__send"],
        ["search_tools", "mail__send"],
    ]
    found, sent = parts(result.all_messages(), ToolReturnPart)
    assert found.content == {"tools": [{"name": "mail__send", "description": "Send an email message."}]}
    assert sent.content == {"sent": "ada"}


async def test_a_conversation_that_was_stored_keeps_what_was_found(crib: Crib) -> None:
    first = Agent(
        script(("search_tools", {"query": "send an email message", "limit": 1}), "Found."),
        toolsets=[toolset(crib, search=True)],
    )
    stored = (await first.run("Find it")).all_messages_json()
    seen: list[AgentInfo] = []
    again = Agent(script("Yes.", seen=seen), toolsets=[toolset(crib, ["shop:order_total"], search=True)])
    await again.run("Go on", message_history=ModelMessagesTypeAdapter.validate_json(stored))
    names = [tool.name for tool in seen[0].function_tools]
    assert names == ["shop__order_total", "search_tools", "mail__send"]


async def test_another_conversation_has_not_found_it(crib: Crib) -> None:
    tools = toolset(crib, search=True)
    await Agent(script(("search_tools", {"query": "send an email"}), "Found."), toolsets=[tools]).run(
        "Find it"
    )
    seen: list[AgentInfo] = []
    await Agent(script("Hello.", seen=seen), toolsets=[tools]).run("Hello")
    assert [tool.name for tool in seen[0].function_tools] == ["search_tools"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        pytest.param(
            ("shop__order_total", {"prices": ["x"]}), "/prices/0: must be a number, not 'x'", id="arguments"
        ),
        pytest.param(("mail__send", {"to": ""}), "there is no mailbox without a name", id="tool"),
    ],
)
async def test_a_call_that_can_be_corrected_is_a_retry(crib: Crib, call: Any, message: str) -> None:
    model = script(call, "I give up.")
    result = await Agent(model, toolsets=[toolset(crib)]).run("Go")
    (retry,) = parts(result.all_messages(), ToolReturnPart)
    assert (retry.outcome, message in retry.content) == ("retried", True)


async def test_retries_are_limited(crib: Crib) -> None:
    model = script(("shop__order_total", {}))
    with pytest.raises(UnexpectedModelBehavior, match="exceeded max retries"):
        await Agent(model, toolsets=[toolset(crib, max_retries=2)]).run("Go")


async def test_a_denied_call_is_a_failure_without_a_retry(crib: Crib) -> None:
    result = await Agent(script(("shop__wipe", {}), "I may not."), toolsets=[toolset(crib)]).run("Go")
    (failed,) = parts(result.all_messages(), ToolReturnPart)
    assert (failed.outcome, "nobody wipes" in failed.content) == ("failed", True)


async def test_a_deadline_is_a_failure(crib: Crib, watch: Any) -> None:
    tools = toolset(crib, ["shop:wait"], timeout=0.05)
    result = await Agent(script(("shop__wait", {}), "Too slow."), toolsets=[tools]).run("Go")
    (failed,) = parts(result.all_messages(), ToolReturnPart)
    assert failed.outcome == "failed"
    assert watch.cancelled == ["wait"]


@pytest.mark.parametrize("approved", [True, False])
async def test_a_rule_that_asks_becomes_an_approval_of_the_framework(
    crib: Crib, approved: bool, watch: Any
) -> None:
    model = script(("shop__refund", {"order": 7}), "Done.")
    agent = Agent(model, toolsets=[toolset(crib)], output_type=[str, DeferredToolRequests])
    asked = await agent.run("Pay it back")
    assert isinstance(asked.output, DeferredToolRequests)
    (call,) = asked.output.approvals
    assert asked.output.metadata[call.tool_call_id] == {
        "tool_id": "shop:refund",
        "args": {"order": 7},
        "reason": "money leaves",
    }
    results = DeferredToolResults(approvals={call.tool_call_id: approved})
    answered = await agent.run(message_history=asked.all_messages(), deferred_tool_results=results)
    assert answered.output == "Done."
    returned = parts(answered.all_messages(), ToolReturnPart)[-1].content
    assert returned == ("paid back order 7" if approved else "The tool call was denied.")
    assert [outcome.error is None for outcome in watch.outcomes if not outcome.is_suspended] == [
        True
    ] * approved


async def test_an_approver_of_the_crib_decides_itself() -> None:
    crib = Crib(
        {"policy": [{"name": "ask", "who": ["*"], "tools": ["*"], "effect": "ask"}]},
        approve=lambda request, _: request.args["n"] > 1,
    )

    @crib.add
    def pay(n: int) -> int:
        return n

    result = await Agent(script(("pay", {"n": 2}), "Paid."), toolsets=[toolset(crib)]).run("Pay")
    assert parts(result.all_messages(), ToolReturnPart)[0].content == 2
    result = await Agent(script(("pay", {"n": 1}), "No."), toolsets=[toolset(crib)]).run("Pay")
    assert parts(result.all_messages(), ToolReturnPart)[0].outcome == "failed"


async def test_images_are_binary_content(crib: Crib) -> None:
    result = await Agent(script(("shop__picture", {}), "Nice."), toolsets=[toolset(crib)]).run("Draw")
    (returned,) = parts(result.all_messages(), ToolReturnPart)
    text, image = returned.content
    assert text == "a pixel"
    assert isinstance(image, BinaryContent)
    assert (image.media_type, image.data) == ("image/png", b"\x89PNG\r\n\x1a\n")


async def test_calls_of_a_streamed_turn_run_side_by_side_and_report_progress(crib: Crib) -> None:
    async def stream(messages: list[ModelMessage], _: AgentInfo) -> Any:
        if len(messages) > 1:
            yield "Sent."
            return
        yield {
            place: DeltaToolCall(name="mail__send", json_args='{"to": ', tool_call_id=f"call_{place}")
            for place in (0, 1)
        }
        yield {place: DeltaToolCall(json_args=f'"{name}"}}') for place, name in enumerate(("ada", "bob"))}

    agent = Agent(FunctionModel(stream_function=stream), toolsets=[toolset(crib)])
    events = []
    async with agent.run_stream_events("Write to both") as stream_of_events:
        events = [event async for event in stream_of_events]
    reported = [event for event in events if isinstance(event, ToolProgressEvent)]
    assert {event.tool_call_id for event in reported} == {"call_0", "call_1"}
    assert {(event.progress, event.total, event.message) for event in reported} == {(1, 2, "connecting")}
    sent = [event.part.content for event in events if event.event_kind == "function_tool_result"]
    assert sorted(each["sent"] for each in sent) == ["ada", "bob"]


@pytest.mark.parametrize("kind", ["crib", "sync_crib"])
async def test_cancelling_the_run_cancels_the_tool(
    kind: str, request: pytest.FixtureRequest, watch: Any
) -> None:
    crib = request.getfixturevalue(kind)
    agent = Agent(script(("shop__wait", {})), toolsets=[toolset(crib)])
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(agent.run, "Wait")
        await to_thread.run_sync(watch.waiting.wait)
        tasks.cancel_scope.cancel()
    await to_thread.run_sync(watch.ended.wait)
    assert watch.cancelled == ["wait"]


def greet(name: str) -> str:
    """Greet somebody.

    Args:
        name: Who it is.
    """
    if not name:
        raise ModelRetry("say whom to greet")
    return f"Hello, {name}!"


async def test_framework_tools_become_tools_of_a_crib() -> None:
    def whose(ctx: RunContext[str], shout: bool) -> ToolReturn[str]:
        """Say whose agent it is."""
        return ToolReturn(return_value=ctx.deps.upper() if shout else ctx.deps)

    crib = Crib()
    added = register(crib, [FrameworkTool(greet), whose], namespace="agent", deps="ada")
    assert [str(each.tool.id) for each in added] == ["agent:greet", "agent:whose"]
    assert crib["agent:greet"].input_schema["properties"]["name"]["description"] == "Who it is."
    assert (await crib.run("agent:greet", {"name": "Ada"})).structured == "Hello, Ada!"
    assert (await crib.run("agent:whose", {"shout": True})).structured == "ADA"
    with pytest.raises(ToolExecutionError, match="say whom to greet"):
        await crib.run("agent:greet", {"name": ""})


def test_framework_tools_become_tools_of_a_sync_crib() -> None:
    crib = SyncCrib()
    register(crib, [greet])
    assert crib.run("greet", {"name": "Ada"}).structured == "Hello, Ada!"


async def test_the_example_gives_an_answer(root: Path) -> None:
    names = runpy.run_path(str(root / "examples" / "with_pydantic_ai.py"))
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
