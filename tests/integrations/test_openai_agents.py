"""The OpenAI Agents SDK: the tools of a crib in its runs, with its scripted model."""

import json
import runpy
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio import to_thread

from toolcrib import Crib

pytest.importorskip("agents", reason="needs openai-agents: make frameworks")

from agents import Agent, RunConfig, Runner
from agents.testing import ScriptedModel
from agents.testing.model import ModelStep
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

from toolcrib.integrations.openai_agents import tools

pytestmark = pytest.mark.anyio
CONFIG = RunConfig(tracing_disabled=True)


def call(name: str, args: Any, call_id: str = "call_1") -> ResponseFunctionToolCall:
    text = args if isinstance(args, str) else json.dumps(args)
    return ResponseFunctionToolCall(
        type="function_call", call_id=call_id, name=name, arguments=text, id=call_id
    )


def say(text: str) -> ResponseOutputMessage:
    content = [ResponseOutputText(type="output_text", text=text, annotations=[])]
    return ResponseOutputMessage(
        id="m", type="message", role="assistant", status="completed", content=content
    )


def script(*turns: Any) -> ScriptedModel:
    steps = [say(turn) if isinstance(turn, str) else turn for turn in turns]
    return ScriptedModel([ModelStep(output=step if isinstance(step, list) else [step]) for step in steps])


def outputs(result: Any) -> list[Any]:
    return [item.output for item in result.new_items if item.type == "tool_call_output_item"]


def listed(model: ScriptedModel) -> list[list[str]]:
    return [[tool.name for tool in asked.tools] for asked in model.calls]


@pytest.mark.parametrize("kind", ["crib", "sync_crib"])
async def test_a_chosen_tool_is_described_and_called(kind: str, request: pytest.FixtureRequest) -> None:
    crib = request.getfixturevalue(kind)
    chosen = tools(crib, ["shop:order_total"])
    model = script(call("shop__order_total", {"prices": [4, 6]}), "It is 10.")
    result = await Runner.run(Agent("clerk", tools=chosen, model=model), "How much?", run_config=CONFIG)
    assert (result.final_output, outputs(result)) == ("It is 10.", ["10.0"])
    assert (chosen[0].name, chosen[0].description) == ("shop__order_total", "Add up the prices of an order.")
    assert chosen[0].params_json_schema["properties"]["prices"]["description"] == "The price of each item."


async def test_strict_schemas_translate_the_arguments_back(crib: Crib) -> None:
    (total,) = chosen = tools(crib, ["shop:order_total"], strict=True)
    assert total.params_json_schema["required"] == ["prices", "discount"]
    model = script(call("shop__order_total", {"prices": [4, 6], "discount": None}), "It is 10.")
    result = await Runner.run(Agent("clerk", tools=chosen, model=model), "How much?", run_config=CONFIG)
    assert outputs(result) == ["10.0"]


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize(
    ("name", "args", "text"),
    [
        ("shop__order_total", {"prices": ["x"], "discount": 0}, "/prices/0: must be a number, not 'x'"),
        ("mail__send", {"to": ""}, "there is no mailbox without a name"),
        ("shop__wipe", {}, "nobody wipes"),
    ],
)
async def test_a_failed_call_is_a_text(crib: Crib, name: str, args: Any, text: str, strict: bool) -> None:
    model = script(call(name, args), "I cannot.")
    agent = Agent("clerk", tools=tools(crib, strict=strict), model=model)
    (output,) = outputs(await Runner.run(agent, "Go", run_config=CONFIG))
    assert (output.startswith("Error: "), text in output) == (True, True)


@pytest.mark.parametrize("strict", [True, False])
async def test_arguments_that_are_not_json_are_a_text(strict: bool) -> None:
    crib = Crib()
    crib.add(len_of)
    agent = Agent(
        "clerk", tools=tools(crib, strict=strict), model=script(call("len_of", '{"text":'), "I cannot.")
    )
    (output,) = outputs(await Runner.run(agent, "Go", run_config=CONFIG))
    assert output.startswith("Error: ")


def len_of(text: str) -> int:
    """Count the characters of a text."""
    return len(text)


async def test_a_search_lists_what_it_found_from_the_next_turn_on(crib: Crib) -> None:
    model = script(
        call("search_tools", {"query": "send an email message", "limit": 1}),
        call("mail__send", {"to": "ada"}, "call_2"),
        "Sent.",
    )
    agent = Agent("clerk", tools=tools(crib, search=True), model=model)
    result = await Runner.run(agent, "Write to Ada", run_config=CONFIG)
    assert listed(model) == [["search_tools"], ["search_tools", "mail__send"], ["search_tools", "mail__send"]]
    assert json.loads(outputs(result)[1]) == {"sent": "ada"}


async def test_calls_of_a_streamed_turn_run_side_by_side(crib: Crib) -> None:
    calls = [call("mail__send", {"to": "ada"}, "call_1"), call("mail__send", {"to": "bob"}, "call_2")]
    agent = Agent("clerk", tools=tools(crib), model=script(calls, "Sent."))
    result = Runner.run_streamed(agent, "Write to both", run_config=CONFIG)
    kinds = [event.name async for event in result.stream_events() if event.type == "run_item_stream_event"]
    assert kinds.count("tool_output") == 2
    assert [json.loads(output)["sent"] for output in outputs(result)] == ["ada", "bob"]


@pytest.mark.parametrize("agreed", [True, False])
async def test_a_rule_that_asks_interrupts_the_run(crib: Crib, agreed: bool, watch: Any) -> None:
    agent = Agent("clerk", tools=tools(crib), model=script(call("shop__refund", {"order": 7}), "Done."))
    result = await Runner.run(agent, "Pay it back", run_config=CONFIG)
    (interruption,) = result.interruptions
    assert watch.outcomes == []
    state = result.to_state()
    (state.approve if agreed else state.reject)(interruption)
    result = await Runner.run(agent, state, run_config=CONFIG)
    assert result.final_output == "Done."
    assert watch.called == ["shop:refund"] * agreed
    assert (outputs(result)[-1] == "paid back order 7") == agreed


async def test_images_are_parts_of_the_output(crib: Crib) -> None:
    agent = Agent("clerk", tools=tools(crib), model=script(call("shop__picture", {}), "Nice."))
    (output,) = outputs(await Runner.run(agent, "Draw", run_config=CONFIG))
    text, image = output
    assert (text.text, image.image_url.startswith("data:image/png;base64,")) == ("a pixel", True)


async def test_cancelling_the_run_cancels_the_tool(crib: Crib, watch: Any) -> None:
    agent = Agent("clerk", tools=tools(crib), model=script(call("shop__wait", {})))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: Runner.run(agent, "Wait", run_config=CONFIG))
        await to_thread.run_sync(watch.waiting.wait)
        tasks.cancel_scope.cancel()
    assert watch.cancelled == ["wait"]


async def test_the_example_gives_an_answer(root: Path) -> None:
    names = runpy.run_path(str(root / "examples" / "with_openai_agents.py"))
    assert (
        await names["main"](
            script(call("shop__order_total", {"prices": [4, 6], "discount": None}), "It is 10."), "Go"
        )
        == "It is 10."
    )
