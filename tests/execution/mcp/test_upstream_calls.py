"""One call to a server: its result, errors, progress and requests to the client."""

from typing import Any

import anyio
import pytest
from execution.mcp.calling import call, says, scripted_server, tool_of
from servers.launch import tiny
from waiting import PATIENCE, until

from toolcrib.concurrency.deadlines import MAX_PAUSE_SECONDS
from toolcrib.discovery import Index
from toolcrib.errors import (
    ToolExecutionError,
)
from toolcrib.execution import Runner
from toolcrib.execution.mcp import McpServers

pytestmark = pytest.mark.anyio

PID = {"result": {"structuredContent": {"pid": "$pid"}}}
ECHO = {"result": {"structuredContent": "$params"}}


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        ({"error": {"code": -32603, "message": "out of memory"}}, "out of memory"),
        ({"error": {"code": -32050, "message": "no", "data": {"why": 1}}}, "no ({'why': 1})"),
        ({"error": {"code": -32050, "message": ""}}, "the server refused the call with code -32050"),
        ({"error": {"code": -32001, "message": "Request timed out"}}, "Request timed out"),
        ({"error": {"code": -32600, "message": "no session here"}}, "no session here"),
        ({"result": {"isError": True, "content": [{"type": "text", "text": "bad"}]}}, "bad"),
        ({"result": {"resultType": "task"}}, "the server answered with 'task', which is not a result"),
    ],
)
async def test_request_refused_by_the_server_is_an_error_of_the_tool(step: Any, reason: str) -> None:
    async with McpServers({"one": scripted_server(discover="modern", calls={"say": [step]})}) as servers:
        with pytest.raises(ToolExecutionError) as caught:
            await call(servers, "say")
        assert caught.value.reason.startswith(reason)
        assert caught.value.backend == "mcp:one"
        assert servers.status()["one"].state == "ready"


@pytest.mark.parametrize("flag", [True, 1, "true", "yes", {"code": 1}])
async def test_whatever_says_that_a_result_is_an_error_is_believed(flag: Any) -> None:
    result = {"isError": flag, "content": [{"type": "text", "text": "bad"}]}
    async with McpServers({"one": scripted_server(calls={"say": [{"result": result}]})}) as servers:
        with pytest.raises(ToolExecutionError, match="bad"):
            await call(servers, "say")


@pytest.mark.parametrize("flag", [False, 0, "false", "", None])
async def test_a_result_that_says_it_is_no_error_is_none(flag: Any) -> None:
    result = {"isError": flag, "content": [{"type": "text", "text": "good"}]}
    async with McpServers({"one": scripted_server(calls={"say": [{"result": result}]})}) as servers:
        assert (await call(servers, "say")).structured == "good"


async def test_changes_to_an_answer_do_not_affect_the_next() -> None:
    config = scripted_server(calls={"say": [{"result": {"structuredContent": {"a": [1]}}}]})
    async with McpServers({"one": config}) as servers:
        answer = await call(servers, "say")
        answer.structured["a"].append(2)
        answer.mcp_result.clear()
        again = await call(servers, "say")
        assert again.structured == {"a": [1]}
        assert again.mcp_result == {"structuredContent": {"a": [1]}}


async def test_a_tool_that_the_server_does_not_know_is_told_in_its_words() -> None:
    async with McpServers({"one": scripted_server()}) as servers:
        with pytest.raises(ToolExecutionError, match="no tool named 'unheard'"):
            await call(servers, "unheard")


async def test_the_raw_result_of_an_error_is_kept() -> None:
    result = {"isError": True, "content": [{"type": "text", "text": "bad"}], "structuredContent": {"code": 3}}
    async with McpServers({"one": scripted_server(calls={"say": [{"result": result}]})}) as servers:
        with pytest.raises(ToolExecutionError) as caught:
            await call(servers, "say")
        assert caught.value.result == result


async def test_the_raw_result_comes_with_the_value() -> None:
    result = {"content": [{"type": "text", "text": "[1]"}], "_meta": {"a": 1}, "structuredContent": None}
    async with McpServers({"one": scripted_server(calls={"say": [{"result": result}]})}) as servers:
        answer = await call(servers, "say")
        assert answer.structured == [1]
        assert answer.mcp_result == {"content": result["content"], "_meta": {"a": 1}}


@pytest.mark.parametrize("size", [1000, 1001])
async def test_a_value_above_the_limit_is_refused_with_both_sizes(size: int) -> None:
    config = scripted_server(calls={"say": [says("x" * (size - 2))]})
    async with McpServers({"one": config}, max_result_bytes=1000) as servers:
        if size <= 1000:
            assert len((await call(servers, "say")).structured) == 998
            return
        with pytest.raises(ToolExecutionError, match=r"1,001 bytes is larger than the 1,000 bytes"):
            await call(servers, "say")
        assert servers.status()["one"].state == "ready"


async def test_a_value_that_is_no_json_is_refused() -> None:
    config = scripted_server(calls={"say": [{"result": {"structuredContent": {"a": float("nan")}}}]})
    async with McpServers({"one": config}) as servers:
        with pytest.raises(ToolExecutionError, match="NaN"):
            await call(servers, "say")


async def test_a_tool_of_a_mended_name_is_called_by_its_own() -> None:
    config = scripted_server(calls={"what is/this?": [ECHO]})
    async with McpServers({"one": config}) as servers:
        (tool,) = await servers.tools("one")
        assert (await call(servers, tool, {"a": 1})).structured["name"] == "what is/this?"


async def hear(servers: McpServers, tool: str) -> list[dict[str, Any]]:
    heard: list[dict[str, Any]] = []

    async def emit(update: Any) -> None:
        heard.append(update.data)

    await call(servers, tool, emit=emit)
    return heard


LOG = {"notify": "notifications/message", "params": {"level": "warning", "data": "hot"}}
PROGRESS = {
    "notify": "notifications/progress",
    "params": {"progressToken": "$token", "progress": 1, "total": 2},
}


@pytest.mark.parametrize("era", ["refuse", "modern"])
async def test_progress_and_log_messages_reach_the_call(era: str) -> None:
    config = scripted_server(discover=era, calls={"tell": [PROGRESS, LOG, says("done")], "seen": [ECHO]})
    async with McpServers({"one": config}) as servers:
        heard = await hear(servers, "tell")
        assert heard == [{"progress": 1.0, "total": 2.0}, {"message": "hot", "level": "warning"}]
        assert (await call(servers, "tell")).structured == "done"


async def test_log_messages_are_asked_for_where_somebody_listens() -> None:
    config = scripted_server(discover="modern", calls={"seen": [ECHO]})
    async with McpServers({"one": config}) as servers:
        quiet = (await call(servers, "seen")).structured

        async def emit(_: Any) -> None: ...

        loud = (await call(servers, "seen", emit=emit)).structured
        assert "io.modelcontextprotocol/logLevel" not in quiet["_meta"]
        assert loud["_meta"]["io.modelcontextprotocol/logLevel"] == "info"
        assert quiet["_meta"]["io.modelcontextprotocol/clientInfo"]["name"] == "toolcrib"


@pytest.mark.parametrize(("era", "told"), [("refuse", 0), ("modern", 1)])
async def test_a_log_message_that_may_belong_to_several_calls_is_given_to_none(era: str, told: int) -> None:
    config = scripted_server(discover=era, calls={"wait": [], "tell": [LOG, says("done")]})
    async with McpServers({"one": config}) as servers, anyio.create_task_group() as tasks:
        tasks.start_soon(call, servers, "wait")
        await until(lambda: servers.status()["one"].in_flight == 1, "one is under way")
        # In the stateless era only a call that asked for messages is sent any.
        assert len(await hear(servers, "tell")) == told
        tasks.cancel_scope.cancel()


ASKS = {"a": {"method": "elicitation/create", "params": {"message": "name?"}}}
ASKING = {"resultType": "input_required", "inputRequests": ASKS, "requestState": "s1"}
WAITING = {"resultType": "input_required", "requestState": "s2"}
GIVEN = {"resultType": "complete", "structuredContent": "$params"}


async def test_a_server_that_asks_for_input_is_refused_where_nobody_can_give_it() -> None:
    config = scripted_server(discover="modern", calls={"ask": [{"turns": [ASKING]}]})
    async with McpServers({"one": config}) as servers:
        with pytest.raises(ToolExecutionError, match="cannot be given here: elicitation/create") as caught:
            await call(servers, "ask")
        assert caught.value.result == ASKING


async def test_a_server_that_asks_for_input_without_a_state_gets_none_back() -> None:
    async def on_input(_: Any, __: dict[str, Any]) -> dict[str, Any]:
        return {"a": {"action": "cancel"}}

    later = {key: value for key, value in ASKING.items() if key != "requestState"}
    config = scripted_server(discover="modern", calls={"ask": [{"turns": [ASKING, later, GIVEN]}]})
    async with McpServers({"one": config}, on_input=on_input) as servers:
        given = (await call(servers, "ask", {"x": 1})).structured
        assert given["inputResponses"] == {"a": {"action": "cancel"}}
        assert "requestState" not in given


async def test_a_server_that_asks_for_input_is_given_it() -> None:
    asked: list[Any] = []

    async def on_input(made: Any, requests: dict[str, Any]) -> dict[str, Any]:
        asked.append((made.tool_id, requests))
        return {"a": {"action": "accept", "content": {"name": "Ada"}}}

    config = scripted_server(discover="modern", calls={"ask": [{"turns": [ASKING, WAITING, GIVEN]}]})
    async with McpServers({"one": config}, on_input=on_input) as servers:
        given = (await call(servers, "ask", {"x": 1})).structured
        assert asked == [("one:ask", ASKS)]
        assert given["requestState"] == "s2"
        assert "inputResponses" not in given
        assert given["_meta"]["io.modelcontextprotocol/clientCapabilities"].keys() == {
            "elicitation",
            "extensions",
            "roots",
            "sampling",
        }


async def test_the_time_of_a_call_is_not_used_up_by_whoever_is_asked() -> None:
    left: list[float] = []

    async def on_input(_: Any, requests: dict[str, Any]) -> dict[str, Any]:
        left.append(anyio.current_effective_deadline() - anyio.current_time())
        return {key: {"action": "accept"} for key in requests}

    script = {"discover": "modern", "calls": {"ask": [{"turns": [ASKING, GIVEN] * 2}]}}
    async with McpServers(
        {"one": scripted_server(settings={"timeout": PATIENCE}, **script)}, on_input=on_input
    ) as servers:
        tool = tool_of("ask", backend={"kind": "mcp", "serverName": "one"})
        index = Index()
        index.register(tool)
        await Runner(index, mcp=servers).run("one:ask")
        await Runner(index, mcp=servers).run("one:ask", timeout=PATIENCE)
    assert left[0] > MAX_PAUSE_SECONDS
    assert left[1] <= PATIENCE  # what a caller asks for holds


async def test_a_server_that_never_has_enough_input_is_given_up() -> None:
    async def on_input(_: Any, requests: dict[str, Any]) -> dict[str, Any]:
        return {key: {"action": "accept"} for key in requests}

    config = scripted_server(discover="modern", calls={"ask": [{"turns": [ASKING]}]})
    async with McpServers({"one": config}, on_input=on_input) as servers:
        with pytest.raises(ToolExecutionError, match="asked for input 11 times"):
            await call(servers, "ask")


async def test_a_definition_is_not_needed_to_be_listed_before_it_is_called() -> None:
    tool = tool_of("echo", output_schema={"type": "string"})
    async with McpServers({"one": tiny()}) as servers:
        assert (await call(servers, tool)).structured["got"] == {}
        assert servers.status()["one"].tools is None
