"""smolagents: the tools of a crib in its agents with a scripted model, and its tools in a crib."""

import runpy
from pathlib import Path
from typing import Any

import pytest
from anyio import to_thread

from toolcrib import Crib, SyncCrib
from toolcrib.errors import ToolExecutionError

pytest.importorskip("smolagents", reason="needs smolagents: make frameworks")

from smolagents import ActionStep, CodeAgent, Model, ToolCallingAgent, tool
from smolagents.models import ChatMessage, ChatMessageToolCall, ChatMessageToolCallFunction

from toolcrib.integrations.smolagents import register, tools


class Script(Model):
    """A model that gives one answer after another, and keeps the tools that it was offered."""

    def __init__(self, *turns: Any) -> None:
        super().__init__(model_id="script")
        self.turns = iter(turns)
        self.offered: list[list[str]] = []

    def generate(self, _: Any, **options: Any) -> ChatMessage:
        self.offered.append([each.name for each in options.get("tools_to_call_from") or ()])
        turn = next(self.turns)
        if isinstance(turn, str):
            return ChatMessage(role="assistant", content=turn)
        calls = turn if isinstance(turn, list) else [turn]
        return ChatMessage(
            role="assistant",
            content="",
            tool_calls=[
                ChatMessageToolCall(
                    id=f"call_{place}",
                    type="function",
                    function=ChatMessageToolCallFunction(name=name, arguments=args),
                )
                for place, (name, args) in enumerate(calls)
            ],
        )


def agent(crib: Any, *turns: Any, **options: Any) -> ToolCallingAgent:
    return ToolCallingAgent(tools(crib, **options), Script(*turns), verbosity_level=0)


def steps(run: ToolCallingAgent) -> list[ActionStep]:
    return [step for step in run.memory.steps if isinstance(step, ActionStep)]


def test_tools_are_described(sync_crib: SyncCrib) -> None:
    (total,) = tools(sync_crib, ["shop:order_total"])
    assert (total.name, total.description) == ("shop__order_total", "Add up the prices of an order.")
    assert total.inputs["prices"]["description"] == "The price of each item."
    assert total.inputs["discount"]["nullable"] is True


def test_an_agent_calls_tools(sync_crib: SyncCrib) -> None:
    calls = [("mail__send", {"to": "ada"}), ("shop__order_total", {"prices": [4, 6], "discount": None})]
    run = agent(sync_crib, calls, ("final_answer", {"answer": "Done."}))
    assert run.run("Go") == "Done."
    assert "10.0" in steps(run)[0].observations
    assert "'sent': 'ada'" in steps(run)[0].observations


def test_code_of_an_agent_calls_tools(sync_crib: SyncCrib) -> None:
    code = "<code>\nfinal_answer(shop__order_total([4, 6]) + shop__order_total(prices=[1]))\n</code>"
    assert CodeAgent(tools(sync_crib), Script(code), verbosity_level=0).run("Go") == 11


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (("shop__order_total", {"prices": ["x"]}), "/prices/0: must be a number, not 'x'"),
        (("mail__send", {"to": ""}), "there is no mailbox without a name"),
        (("shop__wipe", {}), "nobody wipes"),
    ],
)
def test_a_failed_call_is_shown_to_the_model(sync_crib: SyncCrib, call: Any, text: str) -> None:
    run = agent(sync_crib, call, ("final_answer", {"answer": "I cannot."}))
    run.run("Go")
    assert text in str(steps(run)[0].error)


def test_found_tool_is_run_by_run_tool(sync_crib: SyncCrib) -> None:
    run = agent(
        sync_crib,
        ("search_tools", {"query": "send an email message", "limit": 1}),
        ("run_tool", {"tool_id": "mail:send", "args": {"to": "ada"}}),
        ("final_answer", {"answer": "Sent."}),
        search=True,
    )
    assert run.run("Go") == "Sent."
    assert "mail:send" in steps(run)[0].observations
    assert "'sent': 'ada'" in steps(run)[1].observations


@pytest.mark.anyio
async def test_a_crib_runs_its_calls_while_the_agent_is_in_a_thread(crib: Crib) -> None:
    run = agent(crib, ("mail__send", {"to": "ada"}), ("final_answer", {"answer": "Sent."}))
    assert await to_thread.run_sync(run.run, "Go") == "Sent."


def test_a_run_is_streamed(sync_crib: SyncCrib) -> None:
    run = agent(sync_crib, ("mail__send", {"to": "ada"}), ("final_answer", {"answer": "Sent."}))
    kinds = [type(event).__name__ for event in run.run("Go", stream=True)]
    assert kinds.count("ToolOutput") == 2


@tool
def greet(name: str, loud: bool | None = None) -> dict:
    """Greet somebody.

    Args:
        name: Who it is.
        loud: Whether to shout.
    """
    if not name:
        raise ValueError("say whom to greet")
    return {"text": f"Hello, {name.upper() if loud else name}!"}


@pytest.mark.anyio
async def test_framework_tools_become_tools_of_a_crib() -> None:
    crib = Crib()
    (added,) = register(crib, [greet], namespace="smol")
    assert added.tool.input_schema["required"] == ["name"]
    assert (await crib.run("smol:greet", {"name": "Ada"})).structured == {"text": "Hello, Ada!"}
    assert (await crib.run("smol:greet", {"name": "Ada", "loud": True})).structured == {"text": "Hello, ADA!"}
    with pytest.raises(ToolExecutionError, match="say whom to greet"):
        await crib.run("smol:greet", {"name": ""})


def test_the_example_gives_an_answer(root: Path) -> None:
    names = runpy.run_path(str(root / "examples" / "with_smolagents.py"))
    assert (
        names["main"](
            Script("<code>\nfinal_answer(f'It is {shop__order_total([4, 6]):.0f}.')\n</code>"), "Go"
        )
        == "It is 10."
    )
