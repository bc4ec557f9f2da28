"""One call of a tool over a live connection: sent, waited for, and its answer read."""

from functools import partial
from typing import Any

import anyio
from mcp.shared.exceptions import MCPError
from mcp_types import HEADER_MISMATCH, LOG_LEVEL_META_KEY

from toolcrib.concurrency.backoff import Backoff
from toolcrib.errors import (
    BackendUnavailableError,
    ServerUnavailableError,
    ToolCancelledError,
    ToolError,
    ToolExecutionError,
    ToolTimeoutError,
)
from toolcrib.execution.mcp.config import OnInput
from toolcrib.execution.mcp.connection import Connection
from toolcrib.execution.mcp.errors import call_failure, is_closed, was_answered
from toolcrib.execution.mcp.results import describe_failure, result_size, result_value
from toolcrib.execution.mcp.tool_watcher import own_name
from toolcrib.execution.mcp.updates import Updates
from toolcrib.execution.mcp.upstream import Upstream
from toolcrib.execution.records import Answer, Call
from toolcrib.model.tool import Tool
from toolcrib.redaction import hide_secrets

__all__ = ["dispatch", "read_answer", "send_call"]

_MAX_TURNS = 10
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 1.0
_LOG_LEVEL = "info"
_CLOSE_TIMEOUT = 0.5
"""Seconds to wait for the reason when a connection ends under a call."""


async def send_call(
    connection: Connection, call: Call, tool: Tool, *, updates: Updates | None, on_input: OnInput | None
) -> dict[str, Any]:
    """Return the raw result of a call; a server that asks for input is given it, if there is somebody to ask.

    Raises:
        MCPError: the server refused the call, or the connection ended.
        ToolExecutionError: it asks for input that nobody here can give, or for something unknown.
    """
    name = own_name(tool)
    headers = connection.call_headers(name, tool.input_schema, call.args)
    params: dict[str, Any] = {"name": name, "arguments": call.args}
    if updates is not None and connection.modern:
        params["_meta"] = {LOG_LEVEL_META_KEY: _LOG_LEVEL}
    progress = None if updates is None else updates.put_progress
    backoff, turn = Backoff(_FIRST_PAUSE, _LONGEST_PAUSE), 0
    while True:
        turn += 1
        result = await connection.request("tools/call", params, headers=headers, on_progress=progress)
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
            await backoff.sleep()
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


async def dispatch(upstream: Upstream, call: Call, on_input: OnInput | None) -> dict[str, Any]:
    """Return the raw result of a call.

    A call that a server certainly did not run is made again, once for each reason: because it no longer knows
    the session, or because the headers no longer fit the definition.

    Raises:
        ToolError: as the contract of executors has it.
    """
    with upstream.visits:
        async with upstream.slots:
            return await _dispatched(upstream, call, on_input)


async def _dispatched(upstream: Upstream, call: Call, on_input: OnInput | None) -> dict[str, Any]:
    tool, lost = call.tool, False
    while True:
        connection = await _connected(upstream, call)
        try:
            return await _within_limit(upstream, connection, call, tool, on_input)
        except MCPError as error:
            if error.code == HEADER_MISMATCH and tool is call.tool:
                tool = await _relisted(upstream, tool)
            elif connection.is_forgotten(error) and not lost:
                lost = upstream.discarded(connection, error)
            else:
                failure = await _failure(upstream, connection, call, error)
                raise failure from failure.__cause__ or error


async def _connected(upstream: Upstream, call: Call) -> Connection:
    try:
        return await upstream.connected(call.deadline)
    except ServerUnavailableError as error:
        backend = _backend_of(upstream)
        if upstream.cancels:
            reason = upstream.closed or ""
            raise ToolCancelledError(tool_id=call.tool_id, backend=backend, reason=reason) from error
        # What it wrote is for whoever runs it: it stays in the cause, and a model does not see it.
        raise BackendUnavailableError(
            tool_id=call.tool_id, backend=backend, reason=hide_secrets(error.reason), sent=False
        ) from error


async def _within_limit(
    upstream: Upstream, connection: Connection, call: Call, tool: Tool, on_input: OnInput | None
) -> dict[str, Any]:
    """Return what the server answers within the time that its settings give a call."""
    limit = upstream.config.timeout
    if limit is None:
        return await _noted(upstream, connection, call, tool, on_input)
    with anyio.move_on_after(limit):
        return await _noted(upstream, connection, call, tool, on_input)
    raise ToolTimeoutError(tool_id=call.tool_id, backend=_backend_of(upstream), timeout=limit)


async def _noted(
    upstream: Upstream, connection: Connection, call: Call, tool: Tool, on_input: OnInput | None
) -> dict[str, Any]:
    """Return what the server answers, and let its updates pass meanwhile."""
    updates = None if call.emit is None else Updates()
    key, answered = object(), False
    upstream.began(key, updates)
    try:
        send = partial(send_call, connection, call, tool, updates=updates, on_input=on_input)
        if updates is None or call.emit is None:
            result = await send()
        else:
            result = await updates.relay(call.emit, send)
        answered = True
    except MCPError as error:
        answered = was_answered(error)
        raise
    finally:
        upstream.finished(key, connection, answered=answered)
    return result


async def _relisted(upstream: Upstream, tool: Tool) -> Tool:
    """Return a tool as its server defines it at this moment, or a copy where that cannot be found out."""
    name = own_name(tool)
    try:
        catalogue = await upstream.listed()
    except ServerUnavailableError:
        return tool.model_copy()
    return next((each for each in catalogue.tools if own_name(each) == name), tool.model_copy())


async def _failure(upstream: Upstream, connection: Connection, call: Call, error: MCPError) -> ToolError:
    """Return what a call has failed with."""
    backend = _backend_of(upstream)
    if is_closed(error) and await _is_over(connection):
        if upstream.cancels:
            return ToolCancelledError(tool_id=call.tool_id, backend=backend, reason=upstream.closed or "")
        reason = f"{connection.close_reason or 'the connection was lost'} during the call"
        lost = ServerUnavailableError(upstream.name, reason, upstream.stderr_tail())
        lost.__cause__ = error
        failure = BackendUnavailableError(tool_id=call.tool_id, backend=backend, reason=hide_secrets(reason))
        failure.__cause__ = lost
        return failure
    upstream.discarded(connection, error)
    if connection.is_forgotten(error):
        reason = f"the server does not know the session, nor the one before: {error.message}"
        return BackendUnavailableError(tool_id=call.tool_id, backend=backend, reason=reason, sent=False)
    return call_failure(error, call, backend)


async def _is_over(connection: Connection) -> bool:
    """Return whether a connection has ended; if so, it is known why, unless that takes long."""
    with anyio.move_on_after(_CLOSE_TIMEOUT):
        await connection.over.wait()
    return connection.gone or connection.over.is_set()


def _backend_of(upstream: Upstream) -> str:
    return f"mcp:{upstream.name}"
