"""One call of a tool over a live connection, until there is a result."""

from typing import Any

import anyio
from mcp_types import LOG_LEVEL_META_KEY

from toolcrib.errors import ToolExecutionError
from toolcrib.execution.mcp.hooks import OnInput
from toolcrib.execution.mcp.link import Link
from toolcrib.execution.mcp.listing import own_name
from toolcrib.execution.mcp.results import describe_failure, result_size, result_value
from toolcrib.execution.mcp.updates import Updates
from toolcrib.execution.records import Answer, Call
from toolcrib.model.tool import Tool

__all__ = ["read_answer", "send_call"]

_MAX_TURNS = 10
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 1.0
_LOG_LEVEL = "info"


async def send_call(
    link: Link, call: Call, tool: Tool, *, updates: Updates | None, on_input: OnInput | None
) -> dict[str, Any]:
    """Return the raw result of a call; a server that asks for input is given it, if there is somebody to ask.

    Raises:
        MCPError: the server refused the call, or the connection ended.
        ToolExecutionError: it asks for input that nobody here can give, or for something unknown.
    """
    name = own_name(tool)
    headers = link.call_headers(name, tool.input_schema, call.args)
    params: dict[str, Any] = {"name": name, "arguments": call.args}
    if updates is not None and link.modern:
        params["_meta"] = {LOG_LEVEL_META_KEY: _LOG_LEVEL}
    progress = None if updates is None else updates.put_progress
    pause, turn = _FIRST_PAUSE, 0
    while True:
        turn += 1
        result = await link.request("tools/call", params, headers=headers, on_progress=progress)
        kind = result.get("resultType", "complete")
        if kind == "complete":
            return result
        asked = result.get("inputRequests")
        if kind != "input_required" or (asked and (on_input is None or turn > _MAX_TURNS)):
            raise _refusal(call, result, turn)
        params.pop("inputResponses", None)
        if asked and on_input is not None:
            params["inputResponses"] = await on_input(call, asked)
        else:  # it is not done, and wants to be asked again
            await anyio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
        params["requestState"] = result.get("requestState", "")


def _refusal(call: Call, result: dict[str, Any], turn: int) -> ToolExecutionError:
    kind = result.get("resultType")
    reason = f"the server answered with {kind!r:.80}, which is not a result that can be used here"
    if turn > _MAX_TURNS:
        reason = f"the server asked for input {turn} times, and gave no result"
    elif kind == "input_required":
        asked = result.get("inputRequests")
        wanted = asked.values() if isinstance(asked, dict) else ()
        methods = sorted({str(each.get("method")) for each in wanted if isinstance(each, dict)})
        reason = f"the server asks for input that nobody here can give: {', '.join(methods)}"
    return ToolExecutionError(tool_id=call.tool_id, backend=_backend(call), reason=reason, result=result)


def read_answer(call: Call, result: dict[str, Any], max_bytes: int) -> Answer:
    """Return the answer that a raw result holds.

    Raises:
        ToolExecutionError: the result is an error, is too large, or no JSON.
    """
    raw = {key: value for key, value in result.items() if value is not None}
    failed = raw.get("isError")
    if failed and failed != "false":  # some servers write it as a text or a number
        reason = describe_failure(raw)
        raise ToolExecutionError(tool_id=call.tool_id, backend=_backend(call), reason=reason, result=raw)
    value = result_value(raw if "resultType" not in result else result)
    try:
        size = result_size(value)
    except ValueError as error:
        raise ToolExecutionError(tool_id=call.tool_id, backend=_backend(call), reason=str(error)) from error
    if size > max_bytes:
        reason = f"its result of {size:,} bytes is larger than the {max_bytes:,} bytes that are allowed"
        raise ToolExecutionError(tool_id=call.tool_id, backend=_backend(call), reason=reason)
    return Answer(structured=value, mcp_result=raw)


def _backend(call: Call) -> str:
    return f"mcp:{getattr(call.backend, 'server_name', '')}"
