"""Tasks of servers, through the gateway, to clients that send their own JSON."""

import hashlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from gateway.little_face import serving
from gateway.tasks.raw import KNOWS, TASKS, RawClient, RefusedError
from servers.launch import conformance
from waiting import until

from toolcrib.gateway import Gateway

pytestmark = pytest.mark.anyio

UNKNOWN = -32602
WITHOUT_END = {"seconds": 3600, "label": "x"}
YES = {"action": "accept", "content": {"confirm": True}}


def tokens(*names: str) -> dict[str, Any]:
    """Return the settings of a gateway at which these have a token, which is their name."""
    return {name: {"hash": f"sha256:{hashlib.sha256(name.encode()).hexdigest()}"} for name in names}


@asynccontextmanager
async def gateway_at(expose: Any = "all", **settings: Any) -> AsyncIterator[str]:
    """Serve a server with tasks, unless the settings override that, and yield the address."""
    config = {"servers": {"jobs": conformance()}, **settings}
    async with Gateway(config, expose=expose) as gateway, serving(gateway) as url:
        yield url


async def expect_refusal(request: Any) -> RefusedError:
    with pytest.raises(RefusedError) as caught:
        await request
    return caught.value


async def test_a_task_of_a_server_is_asked_about_until_it_has_ended() -> None:
    async with gateway_at() as url:
        client = RawClient(url)
        declared = (await client.request("server/discover"))["capabilities"]
        assert declared["extensions"][TASKS] == {}
        handle = await client.call("slow_compute", seconds=0.05, label="x")
        assert (handle["resultType"], handle["status"]) == ("task", "working")
        assert handle["ttlMs"] == 600_000
        assert not {"content", "requestState"} & handle.keys()
        ended = await client.reaches(handle["taskId"])
        assert (ended["resultType"], ended["status"]) == ("complete", "completed")
        assert (ended["taskId"], ended["createdAt"]) == (handle["taskId"], handle["createdAt"])
        assert ended["result"]["content"] == [{"type": "text", "text": "computed x"}]
        assert ended["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "toolcrib"


async def test_a_tool_that_fails_and_a_server_that_refuses_are_told_apart() -> None:
    async with gateway_at() as url:
        client = RawClient(url)
        failed = await client.reaches(await client.begin("failing_job"))
        assert (failed["status"], failed["result"]["isError"]) == ("completed", True)
        broken = await client.reaches(await client.begin("protocol_error_job"))
        assert (broken["status"], broken["error"]["message"]) == ("failed", "the job has crashed")


async def test_the_task_of_a_tool_that_run_tool_runs_ends_with_the_result_of_run_tool() -> None:
    async with gateway_at("meta") as url:
        client = RawClient(url)
        args = {"seconds": 0.05, "label": "x"}
        ended = await client.reaches(await client.begin("run_tool", tool_id="jobs:slow_compute", args=args))
        assert ended["result"]["structuredContent"]["structured"] == "computed x"
        assert ended["result"]["structuredContent"]["toolId"] == "jobs:slow_compute"
        failed = await client.reaches(await client.begin("run_tool", tool_id="jobs:failing_job"))
        assert failed["result"]["structuredContent"]["error"]["code"] == "execution_failed"


async def test_a_task_that_asks_its_client_goes_on_with_the_answer() -> None:
    async with gateway_at() as url:
        client = RawClient(url, KNOWS | {"elicitation": {}})
        task = await client.begin("multi_input")
        asked = await client.reaches(task, "input_required")
        assert asked["inputRequests"].keys() == {"first", "second"}
        acknowledged = await client.update(task, first={"action": "accept", "content": {"name": "Ann"}})
        assert acknowledged.keys() == {"resultType", "_meta"}
        assert (await client.get(task))["inputRequests"].keys() == {"second"}
        await client.update(task, second=YES)
        ended = await client.reaches(task)
        assert ended["result"]["content"][0]["text"] == "collected ['first', 'second']"


async def test_a_call_that_asks_first_is_made_again_and_then_a_task() -> None:
    async with gateway_at() as url:
        client = RawClient(url, KNOWS | {"elicitation": {}})
        call = {"name": "test_tool_with_task", "arguments": {}}
        asked = await client.request("tools/call", call)
        assert asked["resultType"] == "input_required"
        given = {"user_name": {"action": "accept", "content": {"name": "Ann"}}}
        state = {"requestState": asked["requestState"]} if "requestState" in asked else {}
        handle = await client.request("tools/call", {**call, **state, "inputResponses": given})
        assert handle["resultType"] == "task"
        ended = await client.reaches(handle["taskId"])
        assert ended["result"]["content"][0]["text"] == "Hello, Ann!"


async def test_a_cancelled_task_is_cancelled_at_its_server() -> None:
    async with gateway_at() as url:
        client = RawClient(url)
        task = await client.begin("slow_compute", **WITHOUT_END)
        assert (await client.get(task))["status"] == "working"
        assert (await client.cancel(task)).keys() == {"resultType", "_meta"}
        assert (await client.reaches(task))["status"] == "cancelled"


async def test_tasks_of_two_servers_are_never_mixed_up() -> None:
    async with gateway_at(servers={"a": conformance(), "b": conformance()}) as url:
        client = RawClient(url)
        first = await client.begin("a__slow_compute", seconds=0.05, label="of a")
        second = await client.begin("b__slow_compute", **WITHOUT_END)
        assert first != second
        ended = await client.reaches(first)
        assert ended["result"]["content"][0]["text"] == "computed of a"
        assert (await client.get(second))["status"] == "working"


async def test_the_task_of_another_principal_does_not_exist() -> None:
    async with gateway_at(gateway={"tokens": tokens("ann", "bob")}) as url:
        ann, bob = RawClient(url, who="ann"), RawClient(url, who="bob")
        task = await ann.begin("slow_compute", **WITHOUT_END)
        absent = await expect_refusal(bob.get("there-never-was-one"))
        for request in (bob.get(task), bob.update(task), bob.cancel(task)):
            error = await expect_refusal(request)
            assert (error.code, error.message, error.data) == (UNKNOWN, absent.message, absent.data)
        assert (await ann.get(task))["status"] == "working"


async def test_a_client_that_does_not_know_tasks_gets_none_and_may_not_ask_about_any() -> None:
    async with gateway_at() as url:
        client = RawClient(url, {})
        answer = await client.call("slow_compute", seconds=0, label="x")
        assert (answer["resultType"], answer["content"][0]["text"]) == ("complete", "computed x")
        task = await RawClient(url).begin("slow_compute", **WITHOUT_END)
        for request in (client.get(task), client.update(task), client.cancel(task)):
            error = await expect_refusal(request)
            assert (error.code, error.data) == (
                -32021,
                {"requiredCapabilities": {"extensions": {TASKS: {}}}},
            )


async def test_a_request_whose_header_names_another_task_is_refused() -> None:
    async with gateway_at() as url:
        client = RawClient(url)
        task = await client.begin("slow_compute", **WITHOUT_END)
        error = await expect_refusal(client.request("tasks/get", {"taskId": task}, **{"mcp-name": "another"}))
        assert error.code == -32020


async def test_where_no_server_has_tasks_nothing_is_declared_and_asked_in_vain() -> None:
    async with Gateway({}, expose="all") as gateway, serving(gateway) as url:
        client = RawClient(url)
        assert "extensions" not in (await client.request("server/discover"))["capabilities"]
        assert (await expect_refusal(client.get("any"))).code == -32601


async def test_a_task_is_begun_by_the_rules_and_written_down_like_every_call(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    rules = [
        {"name": "not bob", "who": ["bob"], "tools": ["jobs:slow*"], "effect": "deny", "reason": "no"},
        {"name": "all", "effect": "allow"},
    ]
    settings = {"policy": rules, "audit": {"path": str(path)}, "gateway": {"tokens": tokens("ann", "bob")}}
    async with gateway_at(**settings) as url:
        await RawClient(url, who="ann").begin("slow_compute", **WITHOUT_END)
        denied = await RawClient(url, who="bob").call("slow_compute", **WITHOUT_END)
        assert denied["isError"]
        await until(lambda: path.exists() and path.read_text().count("\n") >= 2, "the calls are written")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [(line["user.id"], line["toolcrib.policy.effect"]) for line in lines] == [
        ("ann", "allow"),
        ("bob", "deny"),
    ]


async def test_a_server_is_kept_for_as_long_as_its_task_can_be_asked_about() -> None:
    brief = {**conformance(), "idle_timeout": 0.2}
    async with (
        Gateway({"servers": {"a": brief, "b": brief}}, expose="all") as gateway,
        serving(gateway) as url,
    ):
        client = RawClient(url)
        task = await client.begin("a__slow_compute", **WITHOUT_END)
        await client.call("b__greet", name="Ann")
        await until(lambda: gateway.status()["b"].state == "stopped", "the idle server was stopped")
        assert (await client.get(task))["status"] == "working"


async def test_the_task_of_a_server_that_was_removed_is_refused() -> None:
    both = {"jobs": conformance(), "more": conformance()}
    async with Gateway({"servers": both}, expose="all") as gateway, serving(gateway) as url:
        client = RawClient(url)
        task = await client.begin("more__slow_compute", **WITHOUT_END)
        await gateway.crib.reload({"servers": {"jobs": conformance()}})
        error = await expect_refusal(client.get(task))
        assert "no such server" in error.message


async def test_task_is_refused_once_the_rules_deny_its_tool() -> None:
    def config(effect: str) -> dict[str, Any]:
        rules = [
            {"name": "slow", "tools": ["jobs:slow*"], "effect": effect, "reason": "not now"},
            {"name": "all", "effect": "allow"},
        ]
        return {"servers": {"jobs": conformance()}, "policy": rules}

    async with Gateway(config("allow"), expose="all") as gateway, serving(gateway) as url:
        client = RawClient(url)
        task = await client.begin("slow_compute", **WITHOUT_END)
        other = await client.begin("failing_job")
        await gateway.crib.reload(config("deny"))
        assert "not now" in (await expect_refusal(client.get(task))).message
        assert "not now" in (await expect_refusal(client.update(task, first=YES))).message
        assert (await client.reaches(other))["status"] == "completed"
        assert (await client.cancel(task)).keys() == {"resultType", "_meta"}
        await gateway.crib.reload(config("allow"))
        assert (await client.reaches(task))["status"] == "cancelled"


async def test_task_of_a_tool_that_is_withheld_can_only_be_cancelled(tmp_path: Path) -> None:
    config = tmp_path / "toolcrib.json"
    config.write_text(json.dumps({"mcpServers": {"jobs": conformance()}}))
    async with Gateway(config, expose="all") as gateway, serving(gateway) as url:
        await gateway.crib.ready()
        await gateway.crib.trust.lock(by="ann")
        client = RawClient(url)
        task = await client.begin("slow_compute", **WITHOUT_END)
        await gateway.crib.trust.block("jobs:slow_compute", reason="it lies", by="ann")
        assert "it lies" in (await expect_refusal(client.get(task))).message
        assert (await client.cancel(task)).keys() == {"resultType", "_meta"}


SHAPED = {
    "jobs": {
        "namespaces": ["jobs"],
        "tools": {
            "jobs:slow_compute": {"name": "ponder", "fix": {"seconds": 0.05}},
            "jobs:failing_job": {"name": "try"},
        },
    }
}


async def test_task_of_a_shaped_tool_ends_under_the_name_of_its_toolset() -> None:
    servers = {"jobs": conformance()}
    async with (
        Gateway({"servers": servers, "toolsets": SHAPED}, expose="meta") as gateway,
        serving(gateway) as url,
    ):
        client = RawClient(url, path="/mcp/jobs")
        task = await client.begin("run_tool", tool_id="jobs:ponder", args={"label": "x"})
        ended = (await client.reaches(task))["result"]["structuredContent"]
        assert (ended["toolId"], ended["structured"]) == ("jobs:ponder", "computed x")
        failed = (await client.reaches(await client.begin("run_tool", tool_id="jobs:try")))["result"]
        assert "jobs:try" in failed["structuredContent"]["error"]["message"]
        assert "failing_job" not in json.dumps(failed)
