"""Durable runs by the API: begun, followed, cancelled, resumed."""

from typing import Any

import anyio
import pytest
from gateway.api.support import Browser, console, read_event
from waiting import until

from toolcrib.errors import RunStateError
from toolcrib.execution.principal import local_user
from toolcrib.gateway.api.runs import _as_in_code

pytestmark = pytest.mark.anyio

MEMORY = {"store": "memory"}
CODE = """\
first = await math.evaluate(expression="2 + 3")
second = await notes.add(text=str(first))
__out = second["number"]
"""
CHAIN = [
    {"id": "sum", "toolId": "math:evaluate", "args": {"expression": "2 + 3"}},
    {
        "parallel": [
            {"id": "a", "toolId": "notes:add", "args": {"text": "one"}},
            {"id": "b", "toolId": "text:make_slug", "args": {"title": "One Two"}},
        ]
    },
    {
        "id": "each",
        "toolId": "math:evaluate",
        "forEach": ["1", "2"],
        "args": {"expression": {"$ref": "item"}},
    },
    {
        "id": "last",
        "toolId": "text:make_slug",
        "args": {"title": {"$ref": "steps.b"}},
        "when": {"exists": {"$ref": "steps.sum"}},
    },
]


async def begin(browser: Browser, **body: Any) -> tuple[str, Any]:
    """Run something, and return how it ended."""
    answer = await browser.send("POST", "/runs", json=body)
    assert answer.status_code == 200, answer.text
    (end,) = [read_event(part) for part in answer.text.split("\n\n") if part]
    return end


async def test_code_is_shown_line_by_line() -> None:
    async with console(runs=MEMORY) as (_, browser):
        kind, result = await begin(browser, code=CODE)
        (listed,) = (await browser.get("/runs"))["items"]
        run = await browser.get(f"/runs/{listed['id']}")
        again = await browser.post(f"/runs/{listed['id']}/resume")
    assert (kind, result["value"], again["value"]) == ("result", 1, 1)
    assert run["code"] == CODE
    assert run["run"]["state"] == "done"
    assert [(call["toolId"], call["state"], call["lines"]) for call in run["calls"]] == [
        ("math:evaluate", "answered", [1]),
        ("notes:add", "answered", [2]),
    ]
    assert run["result"]["value"] == 1


async def test_a_chain_is_shown_as_a_graph() -> None:
    async with console(runs=MEMORY) as (_, browser):
        kind, result = await begin(browser, steps=CHAIN)
        assert kind == "result", result
        (listed,) = (await browser.get("/runs"))["items"]
        graph = (await browser.get(f"/runs/{listed['id']}"))["graph"]
    assert [(node["slot"], node["depth"], node["name"], node["kind"]) for node in graph] == [
        (0, 0, "sum", "call"),
        (1, 0, "2", "parallel"),
        (2, 1, "a", "call"),
        (3, 1, "b", "call"),
        (4, 0, "each", "for_each"),
        (5, 0, "last", "call"),
    ]
    assert [node["dependsOn"] for node in graph] == [[], [], [], [], [], [0, 3]]
    assert graph[3]["end"]["structured"] == "one-two"
    assert graph[4]["items"] == 2
    assert graph[5]["conditional"]


async def test_a_run_is_followed_cancelled_and_resumed() -> None:
    may_end = anyio.Event()

    async def hold(text: str) -> str:
        """Hold."""
        await may_end.wait()
        return text

    steps = [
        {"toolId": "hold", "args": {"text": "one"}},
    ]
    async with console(tools=[hold], runs=MEMORY) as (gateway, browser), anyio.create_task_group() as tasks:
        ends: list[tuple[str, Any]] = []

        async def run() -> None:
            ends.append(await begin(browser, steps=steps))

        tasks.start_soon(run)
        listed: list[Any] = []

        async def is_running() -> bool:
            listed[:] = (await browser.get("/runs"))["items"]
            return bool(listed)

        while not await is_running():
            await anyio.lowlevel.checkpoint()
        path = f"/runs/{listed[0]['id']}"
        while not (held := (await browser.get(path))["graph"][0])["calls"]:
            await anyio.lowlevel.checkpoint()
        assert held["calls"][0]["state"] == "open"
        await browser.post(f"{path}/cancel")
        await until(lambda: ends)
        assert ends[0][0] == "error"
        assert "was cancelled, and can be resumed" in ends[0][1]["message"]
        assert (await browser.get(path))["run"]["state"] == "suspended"
        twice = await browser.send("POST", f"{path}/cancel")
        unsure = await browser.send("POST", f"{path}/resume", json={})
        assert f"run '{listed[0]['id']}': it is suspended, not running" in twice.text
        assert "may have run" in unsure.text
        assert (await browser.post(f"{path}/resume", answers={"0.0": "by hand"}))["final"] == "by hand"
        with pytest.raises(RunStateError, match="it is done"):
            await gateway.crib.cancel_run(listed[0]["id"], principal=local_user("console"))


async def test_a_run_is_its_owners_alone() -> None:
    async with console(runs=MEMORY) as (gateway, browser):
        await gateway.crib.execute("__out = 1", durable=True, principal=local_user("somebody else"))
        (hidden,) = await gateway.crib.runs(principal=local_user("somebody else"))
        answers = [
            await browser.send("GET", f"/runs/{hidden.id}"),
            await browser.send("POST", f"/runs/{hidden.id}/cancel"),
            await browser.send("POST", f"/runs/{hidden.id}/resume", json={}),
        ]
        neither = await browser.send("POST", "/runs", json={})
    assert [answer.status_code for answer in answers] == [404, 404, 404]
    assert neither.status_code == 400


async def test_destructive_call_of_a_run_waits_for_an_operator() -> None:
    async with console(runs=MEMORY) as (gateway, browser), anyio.create_task_group() as tasks:
        ends: list[tuple[str, Any]] = []

        async def run() -> None:
            ends.append(await begin(browser, steps=[{"toolId": "notes:delete_all"}]))

        tasks.start_soon(run)
        await until(gateway.approvals.waiting)
        (call,) = gateway.approvals.waiting()
        await browser.post(f"/approvals/{call.id}", approve=False)
        await until(lambda: ends)
    assert ends[0][0] == "error"
    assert "declined at the console" in ends[0][1]["message"]


@pytest.mark.parametrize(
    ("tool_id", "name"),
    [("math:evaluate", "math.evaluate"), ("a-b:c.d:1.0.0", "a_b.c_d"), ("order", "order")],
)
def test_names_are_those_of_code(tool_id: str, name: str) -> None:
    assert _as_in_code(tool_id) == name
