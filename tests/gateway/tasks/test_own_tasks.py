"""Chains and code that take long go on as tasks of the gateway, for clients that know tasks."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
import pytest
from gateway.little_face import LittleFace, serving
from gateway.tasks.raw import KNOWS, TASKS, RawClient
from gateway.tasks.test_relayed_tasks import UNKNOWN, expect_refusal, tokens
from servers.launch import conformance
from waiting import until

from toolcrib import tool
from toolcrib.gateway import Confirmation, Gateway

pytestmark = pytest.mark.anyio

WAIT = {"steps": [{"tool_id": "office:wait"}]}
CAN_ASK = KNOWS | {"elicitation": {}}


@dataclass
class Office:
    """A tool that waits until it is released, and the outcome of its calls."""

    url: str
    gateway: Gateway
    go_on: anyio.Event = field(default_factory=anyio.Event)
    started: int = 0
    cancelled: int = 0

    async def wait(self) -> str:
        """Wait until the office opens."""
        self.started += 1
        try:
            await self.go_on.wait()
        except anyio.get_cancelled_exc_class():
            self.cancelled += 1
            raise
        return "open"

    async def fail(self) -> str:
        """Fail."""
        raise ValueError("the office is on fire")


@asynccontextmanager
async def office(expose: Any = "meta", **settings: Any) -> AsyncIterator[Office]:
    """Serve a tool that waits, one that fails and one that destroys something."""

    @tool(namespace="office", annotations={"destructiveHint": True})
    def burn() -> str:
        """Burn the files."""
        return "burnt"

    async with Gateway(settings, expose=expose) as gateway, serving(gateway) as url:
        place = Office(url, gateway)
        gateway.crib.add(namespace="office")(place.wait)
        gateway.crib.add(namespace="office")(place.fail)
        gateway.crib.add(burn)
        yield place


async def call_until_answered(client: RawClient, kind: str, call: dict[str, Any]) -> dict[str, Any]:
    """Return the response of a kind to a call; repeat the call if a busy machine did not respond in time."""

    async def given() -> dict[str, Any] | None:
        answer = await client.request("tools/call", call)
        return answer if answer["resultType"] == kind else None

    answer: dict[str, Any] = await until(given, f"a call is answered with {kind}")
    return answer


class SlowToAsk(LittleFace):
    """A face whose chain requests consent after a while."""

    has_own_tasks = True

    def __init__(self) -> None:
        super().__init__()
        self.names = ["run_chain"]

    def finished(self, name: str, finish: Any) -> Any:
        raise AssertionError(name, finish)

    async def _run_chain(self, _: Any, client: Any) -> Any:
        await self.go_on.wait()
        return str(await client.confirm(Confirmation("sure", "Are you sure?")))


async def test_a_long_chain_is_a_task_that_outlives_its_connection() -> None:
    async with office() as place:
        client = RawClient(place.url)
        declared = (await client.request("server/discover"))["capabilities"]
        assert declared["extensions"] == {TASKS: {}}
        handle = await client.call("run_chain", **WAIT)
        assert (handle["resultType"], handle["status"]) == ("task", "working")
        assert (type(handle["ttlMs"]), type(handle["pollIntervalMs"])) == (int, int)
        running = await client.get(handle["taskId"])
        assert (running["resultType"], running["status"]) == ("complete", "working")
        place.go_on.set()
        ended = await client.reaches(handle["taskId"])
        assert ended["status"] == "completed"
        assert ended["result"]["structuredContent"]["final"] == "open"
        assert ended["createdAt"] == handle["createdAt"] < ended["lastUpdatedAt"]
        assert (await client.get(handle["taskId"]))["result"] == ended["result"]
        assert place.started == 1


async def test_long_code_is_a_task() -> None:
    async with office(code={"timeout": 60}) as place:
        client = RawClient(place.url)
        tools = {each["name"] for each in (await client.request("tools/list"))["tools"]}
        if "execute_code" not in tools:
            pytest.skip("no sandbox runs here")
        task = await client.begin("execute_code", code="__out = await office.wait()")
        await until(lambda: place.started, "the code has called the tool")
        place.go_on.set()
        ended = await client.reaches(task)
        assert ended["result"]["structuredContent"]["value"] == "open"


async def test_a_short_chain_is_answered_at_once_and_a_client_without_tasks_waits() -> None:
    async with office() as place:
        place.go_on.set()
        answer = await call_until_answered(
            RawClient(place.url), "complete", {"name": "run_chain", "arguments": WAIT}
        )
        assert answer["structuredContent"]["final"] == "open"
        place.go_on = anyio.Event()
        given: list[dict[str, Any]] = []

        async def call() -> None:
            given.append(await RawClient(place.url, {}).call("run_chain", **WAIT))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call)
            await RawClient(place.url).begin("run_chain", **WAIT)
            assert given == []
            place.go_on.set()
        assert given[0]["structuredContent"]["final"] == "open"


async def test_a_cancelled_task_stops_what_it_runs() -> None:
    async with office() as place:
        client = RawClient(place.url)
        task = await client.begin("run_chain", **WAIT)
        assert (await client.cancel(task)).keys() == {"resultType", "_meta"}
        ended = await client.reaches(task)
        assert (ended["status"], place.cancelled) == ("cancelled", 1)
        assert not {"result", "error"} & ended.keys()
        await client.cancel(task)
        assert (await client.get(task))["status"] == "cancelled"


async def test_a_chain_that_fails_is_a_task_that_has_ended() -> None:
    async with office() as place:
        client = RawClient(place.url)
        task = await client.begin("run_chain", steps=[*WAIT["steps"], {"tool_id": "office:fail"}])
        place.go_on.set()
        ended = await client.reaches(task)
        assert (ended["status"], ended["result"]["isError"]) == ("completed", True)
        assert ended["result"]["structuredContent"]["results"][0]["structured"] == "open"


async def test_a_principal_has_so_many_tasks_and_waits_for_what_it_begins_beyond() -> None:
    async with office() as place:
        client, given = RawClient(place.url), list[dict[str, Any]]()

        async def call() -> None:
            given.append(await client.call("run_chain", **WAIT))

        async with anyio.create_task_group() as tasks:
            for _ in range(50):
                tasks.start_soon(call)
        assert {each["resultType"] for each in given} == {"task"}
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call)
            await until(lambda: place.started == 51, "it runs")
            place.go_on.set()
        assert given[50]["structuredContent"]["final"] == "open"


async def test_a_task_that_asks_its_client_goes_on_with_the_answer() -> None:
    async with office(servers={"jobs": conformance()}) as place:
        client = RawClient(place.url, CAN_ASK)
        steps = [*WAIT["steps"], {"tool_id": "jobs:test_input_required_result_elicitation"}]
        task = await client.begin("run_chain", steps=steps)
        place.go_on.set()
        asked = await client.reaches(task, "input_required")
        ((key, request),) = asked["inputRequests"].items()
        assert request["method"] == "elicitation/create"
        await client.update(task, **{key: "nonsense", "another": {"action": "accept"}})
        assert (await client.get(task))["status"] == "input_required"
        await client.update(task, **{key: {"action": "accept", "content": {"name": "Ann"}}})
        ended = await client.reaches(task)
        assert "Ann" in str(ended["result"]["structuredContent"]["final"])


async def test_a_chain_with_a_destructive_tool_asks_first_and_is_a_task_then() -> None:
    async with office() as place:
        client = RawClient(place.url, CAN_ASK)
        call = {"name": "run_chain", "arguments": {"steps": [*WAIT["steps"], {"tool_id": "office:burn"}]}}
        asked = await call_until_answered(client, "input_required", call)
        (key,) = asked["inputRequests"]
        yes = {key: {"action": "accept", "content": {"confirm": True}}}
        again = {**call, "inputResponses": yes, "requestState": asked["requestState"]}
        handle = await client.request("tools/call", again)
        assert handle["resultType"] == "task"
        place.go_on.set()
        assert (await client.reaches(handle["taskId"]))["result"]["structuredContent"]["final"] == "burnt"


async def test_a_task_asks_for_consent_itself() -> None:
    face = SlowToAsk()
    async with Gateway({}, frontends=lambda *_: face) as gateway, serving(gateway) as url:
        client = RawClient(url, CAN_ASK)
        task = await client.begin("run_chain")
        face.go_on.set()
        asked = await client.reaches(task, "input_required")
        assert asked["inputRequests"]["sure"]["params"]["message"] == "Are you sure?"
        await client.update(task, sure={"action": "accept", "content": {"confirm": True}})
        assert (await client.reaches(task))["result"]["structuredContent"] == {"value": "accepted"}


async def test_the_task_of_another_principal_does_not_exist() -> None:
    async with office(gateway={"tokens": tokens("ann", "bob")}) as place:
        ann, bob = RawClient(place.url, who="ann"), RawClient(place.url, who="bob")
        task = await ann.begin("run_chain", **WAIT)
        absent = await expect_refusal(bob.get("there-never-was-one"))
        for request in (bob.get(task), bob.update(task), bob.cancel(task)):
            error = await expect_refusal(request)
            assert (error.code, error.message) == (UNKNOWN, absent.message)
        assert place.cancelled == 0
        place.go_on.set()
        assert (await ann.reaches(task))["status"] == "completed"


async def test_tasks_that_run_are_cancelled_when_the_gateway_ends() -> None:
    async with office() as place:
        await RawClient(place.url).begin("run_chain", **WAIT)
    await until(lambda: place.cancelled == 1, "the tool was cancelled")
