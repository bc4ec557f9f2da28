"""CrewAI: the tools of a crib in its crews, with a scripted model, and its tools in a crib."""

import json
import runpy
from pathlib import Path
from typing import Any

import pytest
from anyio import to_thread

from toolcrib import Crib, SyncCrib
from toolcrib.errors import ToolExecutionError

pytest.importorskip("crewai", reason="needs crewai: make frameworks")

from crewai import Agent, BaseLLM, Crew, Task
from crewai.tools import tool

from toolcrib.integrations.crewai import register, tools


class Script(BaseLLM):
    """A model with scripted answers, which records its prompts."""

    turns: Any = None
    told: list[str] = []  # noqa: RUF012 - a field

    def call(self, messages: Any, *_: Any, **__: Any) -> str:
        self.told.append(json.dumps(messages, default=str))
        turn = next(self.turns)
        if isinstance(turn, str):
            return f"Thought: I now know the final answer\nFinal Answer: {turn}"
        name, args = turn
        return f"Thought: I use a tool\nAction: {name}\nAction Input: {json.dumps(args)}"

    def supports_function_calling(self) -> bool:
        return False


def crew(crib: Any, *turns: Any, **options: Any) -> tuple[Crew, Script]:
    model = Script(model="script", turns=iter(turns), told=[])
    clerk = Agent(
        role="Clerk",
        goal="Serve",
        backstory="You serve.",
        llm=model,
        tools=tools(crib, **options),
        cache=False,
        max_retry_limit=0,
    )
    task = Task(description="Go", expected_output="Done", agent=clerk)
    return Crew(agents=[clerk], tasks=[task], verbose=False), model


def test_tools_are_described(sync_crib: SyncCrib) -> None:
    (total,) = tools(sync_crib, ["shop:order_total"])
    assert total.name == "shop__order_total"
    assert "Add up the prices of an order." in total.description
    schema = total.args_schema.model_json_schema()
    assert schema["properties"]["prices"]["description"] == "The price of each item."


def test_a_tool_runs(sync_crib: SyncCrib) -> None:
    (total,) = tools(sync_crib, ["shop:order_total"])
    assert total.run(prices=[4, 6]) == "10.0"


def test_a_crew_calls_tools(sync_crib: SyncCrib) -> None:
    made, model = crew(sync_crib, ("shop__order_total", {"prices": [4, 6]}), "It is 10.")
    assert made.kickoff().raw == "It is 10."
    assert "Observation: 10.0" in model.told[1]


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (("shop__order_total", {"prices": ["x"]}), "/prices/0: must be a number"),
        (("mail__send", {"to": ""}), "there is no mailbox without a name"),
        (("shop__wipe", {}), "nobody wipes"),
    ],
)
def test_a_failed_call_is_shown_to_the_model(sync_crib: SyncCrib, call: Any, text: str) -> None:
    made, model = crew(sync_crib, call, "I cannot.")
    made.kickoff()
    assert text in model.told[1]


def test_found_tool_is_run_by_run_tool(sync_crib: SyncCrib) -> None:
    made, model = crew(
        sync_crib,
        ("search_tools", {"query": "send an email message", "limit": 1}),
        ("run_tool", {"tool_id": "mail:send", "args": {"to": "ada"}}),
        "Sent.",
        search=True,
    )
    assert made.kickoff().raw == "Sent."
    assert "mail:send" in model.told[1]
    assert "sent" in model.told[2]


@pytest.mark.anyio
async def test_a_crib_runs_its_calls_while_the_crew_is_in_a_thread(crib: Crib) -> None:
    made, model = crew(crib, ("shop__order_total", {"prices": [4, 6]}), "It is 10.")
    assert (await to_thread.run_sync(made.kickoff)).raw == "It is 10."
    assert "Observation: 10.0" in model.told[1]


@tool("Greet somebody")
def greet(name: str) -> str:
    """Greet somebody."""
    if not name:
        raise ValueError("say whom to greet")
    return f"Hello, {name}!"


@pytest.mark.anyio
async def test_framework_tools_become_tools_of_a_crib() -> None:
    crib = Crib()
    (added,) = register(crib, [greet], namespace="crew")
    assert str(added.tool.id) == "crew:Greet_somebody"
    assert (await crib.run(str(added.tool.id), {"name": "Ada"})).structured == "Hello, Ada!"
    with pytest.raises(ToolExecutionError, match="say whom to greet"):
        await crib.run(str(added.tool.id), {"name": ""})


def test_the_example_gives_an_answer(root: Path) -> None:
    names = runpy.run_path(str(root / "examples" / "with_crewai.py"))
    assert (
        names["main"](
            Script(
                model="script", turns=iter([("shop__order_total", {"prices": [4, 6]}), "It is 10."]), told=[]
            ),
            "Go",
        )
        == "It is 10."
    )
