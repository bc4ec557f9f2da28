"""Errors as clients see them."""

import logging
import sys
from collections.abc import Callable
from typing import Any

import anyio
import pytest
from gateway.frontends.meta.asking import Asking, call_refused, call_tool, crib_of_tools, face_of
from mcp import MCPError
from waiting import PATIENCE

from toolcrib import Crib, tool
from toolcrib.errors import (
    CodeError,
    ConfigError,
    RuntimeUnavailableError,
    ServerUnavailableError,
    StoreError,
    StreamNotSupportedError,
    ToolcribError,
)
from toolcrib.gateway import ConfirmationResult
from toolcrib.gateway.frontends.meta.definitions import CODES
from toolcrib.gateway.frontends.shared.failures import describe_error
from toolcrib.model import Tool

pytestmark = pytest.mark.anyio
NOBODY = Tool(
    name="nobody", input_schema={}, backend={"kind": "provider", "providerId": "none", "toolId": "t"}
)


def failing_crib() -> Crib:
    """Return a crib whose tools fail in every way."""
    crib = crib_of_tools()
    crib.add(NOBODY)

    @crib.add
    async def cancels() -> None:
        """Wait for something that is cancelled."""
        raise anyio.get_cancelled_exc_class()

    @crib.add
    async def sleeps() -> None:
        """Never end."""
        await anyio.sleep_forever()

    @tool
    def lies() -> str:
        """Return a value that contradicts the output schema."""
        return "x"

    lies.tool = lies.tool.replace(output_schema={"type": "object", "required": ["n"]})
    crib.add(lies)
    return crib


def raising(error: Callable[[str], Exception]) -> Crib:
    """Return a crib with a middleware that raises an error."""

    async def broken(call: Any, following: Any) -> Any:  # noqa: ARG001 - as middleware is called
        raise error(call.tool_id)

    crib = Crib(middleware=[broken])
    crib.add(any_tool)
    return crib


@tool(name="any")
def any_tool() -> None:
    """Do anything."""


TABLE: dict[str, tuple[Callable[[], Crib], str, dict[str, Any]]] = {
    "tool_not_found": (failing_crib, "run_tool", {"tool_id": "shop:ordr"}),
    "no_backends": (failing_crib, "run_tool", {"tool_id": "nobody"}),
    "validation_input": (failing_crib, "run_tool", {"tool_id": "shop:order", "args": {"number": "x"}}),
    "validation_output": (failing_crib, "run_tool", {"tool_id": "lies"}),
    "execution_failed": (failing_crib, "run_tool", {"tool_id": "breaks"}),
    "chain_step_failed": (failing_crib, "run_chain", {"steps": [{"tool_id": "breaks"}]}),
    "cancelled": (failing_crib, "run_tool", {"tool_id": "cancels"}),
    "timeout": (failing_crib, "run_tool", {"tool_id": "sleeps", "timeout_ms": 20}),
    "limit_exceeded": (
        failing_crib,
        "execute_code",
        {"code": "await nothing()\nawait nothing()", "max_tool_calls": 1},
    ),
    "denied": (failing_crib, "run_tool", {"tool_id": "shop:drop_order", "args": {"number": 1}}),
    "internal": (lambda: raising(lambda _: KeyError("/root/secret")), "run_tool", {"tool_id": "any"}),
}


@pytest.mark.parametrize("code", TABLE)
async def test_each_code_is_told_where_it_belongs(code: str, caplog: pytest.LogCaptureFixture) -> None:
    make, name, args = TABLE[code]
    client = Asking(ConfirmationResult.DECLINED)
    with caplog.at_level(logging.CRITICAL, "toolcrib"):
        error = await call_refused(face_of(make()), name, args, client)
    assert error["code"] == code
    assert error["message"]
    assert isinstance(error["retryable"], bool)
    assert "Traceback" not in error["message"]
    assert "/root" not in str(error)


async def test_a_server_that_cannot_start_is_unavailable() -> None:
    servers = {"gone": {"command": "there-is-no-such-program"}}
    async with Crib({"mcpServers": servers, "store": "memory"}) as crib:
        with anyio.fail_after(PATIENCE):
            for name, args in (
                ("run_tool", {"tool_id": "gone:t"}),
                ("describe_tool", {"tool_id": "gone:t"}),
                ("run_chain", {"steps": [{"tool_id": "gone:t"}]}),
            ):
                error = await call_refused(face_of(crib, code=False), name, args, Asking())
                assert error["code"] == "backend_unavailable"
                assert error["retryable"]


async def test_a_server_that_is_not_ready_in_time_is_unavailable() -> None:
    servers = {"slow": {"command": sys.executable, "args": ["-c", "import time; time.sleep(60)"]}}
    async with Crib({"mcpServers": servers, "store": "memory"}) as crib:
        with anyio.fail_after(PATIENCE):
            args = {"tool_id": "slow:t", "timeout_ms": 50}
            error = await call_refused(face_of(crib, code=False), "run_tool", args, Asking())
    assert error["code"] == "backend_unavailable"
    assert error["op"] == "resolve"
    assert error["retryable"]


async def test_errors_say_what_to_do_next() -> None:
    face = face_of(failing_crib())
    missing = await call_refused(face, "run_tool", {"tool_id": "shop:ordr"})
    assert missing["message"] == (
        "no tool named 'shop:ordr'; did you mean 'shop:order' or 'shop:drop_order'? Call search_tools to find the tool that you need"
    )
    assert missing["details"]["suggestions"] == ["shop:order", "shop:drop_order"]
    wrong = await call_refused(face, "run_tool", {"tool_id": "shop:order", "args": {"number": "x"}})
    assert "call describe_tool with tool_id 'shop:order'" in wrong["message"]
    assert wrong["details"]["problems"][0]["path"] == "/number"
    slow = await call_refused(face, "run_tool", {"tool_id": "sleeps", "timeout_ms": 20})
    assert "larger timeout_ms" in slow["message"]
    odd = await call_refused(face, "describe_tool", {"tool_id": "a:b:c:d"})
    assert (odd["code"], odd["message"]) == (
        "validation_input",
        "invalid tool id 'a:b:c:d': it has more than two colons; write namespace:name:version",
    )


async def test_a_failure_of_our_own_is_logged_and_tells_nothing_of_the_machine(
    caplog: pytest.LogCaptureFixture,
) -> None:
    face = face_of(raising(lambda _: KeyError("/root/secret")))
    with caplog.at_level(logging.ERROR, "toolcrib"):
        error = await call_refused(face, "run_tool", {"tool_id": "any"})
    assert error["code"] == "internal"
    assert "in its log" in error["message"]
    assert "/root/secret" in caplog.text


async def test_a_closed_crib_is_answered_for() -> None:
    crib = crib_of_tools()
    async with crib:
        face = face_of(crib, code=False)
    assert (await call_refused(face, "search_tools", {"query": "x"}))["code"] == "internal"


async def test_a_tool_that_is_not_in_the_list_is_an_error_of_the_protocol() -> None:
    face = face_of(crib_of_tools())
    with pytest.raises(MCPError, match="did you mean 'run_tool'") as caught:
        await face.call("runtool", {}, Asking())
    assert caught.value.code == -32602
    with pytest.raises(MCPError, match="there are search_tools"):
        await face.call("github_create_issue", {}, Asking())


@pytest.mark.parametrize(
    ("error", "code", "said", "unsaid"),
    [
        (
            ServerUnavailableError("far", "gone", "token=sk-4f8a91c2d7e6aa"),
            "backend_unavailable",
            "'far'",
            "sk-",
        ),
        (StoreError("/root/c.db", "full"), "internal", "its log", "/root"),
        (StreamNotSupportedError(tool_id="a:b"), "stream_not_supported", "use run_tool", "Error"),
        (RuntimeUnavailableError("monty", "pip install x"), "backend_unavailable", "use run_tool", "log"),
        (CodeError("no", unsupported=True), "execution_failed", "correct the code", "line"),
    ],
    ids=["server", "store", "stream", "sandbox", "code"],
)
def test_errors_are_told_without_what_is_nobodys_business(
    error: ToolcribError, code: str, said: str, unsaid: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.CRITICAL, "toolcrib"):
        told = describe_error(error)
    assert told["code"] == code
    assert said in told["message"]
    assert unsaid not in told["message"]


async def test_an_error_is_shown_as_text_too() -> None:
    result = await call_tool(face_of(crib_of_tools()), "run_tool", {"tool_id": "breaks"})
    assert '"code":"execution_failed"' in result.content[0].text


def test_every_code_is_tried() -> None:
    raised_elsewhere = {"backend_unavailable", "stream_not_supported"}  # by servers, and by others' executors
    assert {*TABLE} | raised_elsewhere == {*CODES}
    assert describe_error(ConfigError("x", ()))["code"] == "validation_input"
