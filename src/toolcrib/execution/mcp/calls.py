"""Calls of tools over live connections.

`call_tool` is the way of one call: it waits for a slot of the server, connects, sends the request, and
repeats it where the server certainly did not run it. A modern server asks for input by its results, so that
one request may take several turns (`_take_turns`). `send_request` serves resources and prompts as well.
"""

import logging
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Any

import anyio
from mcp.shared.exceptions import MCPError
from mcp_types import (
    CLIENT_CAPABILITIES_META_KEY,
    HEADER_MISMATCH,
    LOG_LEVEL_META_KEY,
    MISSING_REQUIRED_CLIENT_CAPABILITY,
)

from toolcrib.concurrency.deadlines import PausableDeadline
from toolcrib.errors import (
    BackendUnavailableError,
    LoginRequiredError,
    ServerUnavailableError,
    ToolCancelledError,
    ToolError,
    ToolExecutionError,
    ToolLoginRequiredError,
    ToolTimeoutError,
)
from toolcrib.execution.call import Answer, Call
from toolcrib.execution.mcp.client_relay import LOG_LEVELS, TASKS, RelayedCall
from toolcrib.execution.mcp.connection import Connection
from toolcrib.execution.mcp.errors import call_failure, is_closed
from toolcrib.execution.mcp.own_names import own_name
from toolcrib.execution.mcp.results import TASK, describe_failure, result_size, result_value, task_ttl_ms
from toolcrib.execution.mcp.upstream import Upstream
from toolcrib.execution.oauth.persons import login_reason
from toolcrib.model.tool import Tool
from toolcrib.redaction import hide_secrets

_PARAMS_OF_ONE_TURN = frozenset({"inputResponses", "requestState"})
"""Parameters that answer the previous turn of a server, and are not repeated in the next one."""
_MAX_TURNS = 10
_FIRST_PAUSE_SECONDS = 0.05
_LONGEST_PAUSE_SECONDS = 1.0
_log = logging.getLogger(__name__)
_CLOSE_TIMEOUT = 0.5
"""Seconds to wait for a connection to end after an error says so, which a running server can send too."""
_EXIT_TIMEOUT = 5.0
"""Seconds to wait for a disconnected server to exit: its exit status becomes the reason."""


async def send_request(
    upstream: Upstream,
    connection: Connection,
    running: RelayedCall,
    method: str,
    params: dict[str, Any],
    headers: dict[str, str] | None = None,
) -> dict[str, Any]:
    """Return the raw result of a request, and relay the server's updates and requests to its client.

    Raises:
        MCPError: the server refused the request, or the connection ended.
        ToolExecutionError: it asks for input that nobody here can give, or for something unknown.
    """
    updates = running.updates
    with upstream.track(running, connection):
        if updates is None:
            return await _take_turns(connection, running, method, params, headers)
        turns = partial(_take_turns, connection, running, method, params, headers)
        return await updates.relay(running.make_emit(), turns)


async def _take_turns(
    connection: Connection,
    running: RelayedCall,
    method: str,
    params: dict[str, Any],
    headers: dict[str, str] | None,
) -> dict[str, Any]:
    """Return the result of a request, which is repeated with the input that a modern server asks for."""
    client, updates, params = running.client, running.updates, dict(params)
    on_progress = None if running.call.emit is None or updates is None else updates.put_progress
    await _declare_client(connection, running, params)
    if client is not None and connection.modern and (resumed := client.take_server_state()):
        params |= resumed
        running.note_asked()
    pause, turn = _FIRST_PAUSE_SECONDS, 0
    while True:
        turn += 1
        try:
            result = await connection.request(method, params, headers=headers, on_progress=on_progress)
        except MCPError as error:
            if error.code == MISSING_REQUIRED_CLIENT_CAPABILITY and client is not None:
                told = await running.check_answer({"message": error.message, "data": error.data})
                client.note_refusal(MCPError(error.code, told["message"], told["data"]))
            raise
        kind = result.get("resultType", "complete")
        if kind == "complete" or (kind == TASK and await running.offer_task(result)):
            return result
        asked = result.get("inputRequests")
        is_in_vain = running.on_input is None or turn > _MAX_TURNS or not isinstance(asked, dict)
        if kind != "input_required" or (asked and is_in_vain):
            raise _unusable_result(running.call, result, turn)
        params = {name: value for name, value in params.items() if name not in _PARAMS_OF_ONE_TURN}
        if asked:
            params["inputResponses"] = await _ask_client(running, result)
        else:  # the server is not done, and wants the request again
            await anyio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
        if result.get("requestState") is not None:
            params["requestState"] = result["requestState"]


async def _ask_client(running: RelayedCall, result: dict[str, Any]) -> dict[str, Any]:
    """Return the responses of the client to the questions of a modern server, by their names.

    Raises:
        ToolExecutionError: the client gets the questions as the answer to its request, or cannot answer.
        ResultBlockedError, RequestRefusedError: the questions have to be withheld.
    """
    question = await running.check_answer(result, without="requestState")
    if question["inputRequests"].keys() != result["inputRequests"].keys():
        reason = (
            "the server asks for input, and the name of a question contains something that is removed here"
        )
        raise _execution_error(running.call, reason)
    if running.client is not None and running.client.pass_on(question, running.findings):
        reason = "the client is asked for input, and repeats its request"
        raise _execution_error(running.call, reason)
    return await running.ask(question["inputRequests"])


async def _declare_client(connection: Connection, running: RelayedCall, params: dict[str, Any]) -> None:
    """Declare the client's capabilities and its log level to the server."""
    level, client = running.log_level, running.client
    if not connection.modern:
        if level is not None and client is not None:
            await _set_log_level(connection, level)
        return
    meta = dict(params.get("_meta", {}))
    if client is not None:
        extensions = client.extensions | ({TASKS: {}} if client.takes_tasks else {})
        more = {"extensions": extensions} if extensions else {}
        meta[CLIENT_CAPABILITIES_META_KEY] = client.capabilities | more
    if level is not None:
        meta[LOG_LEVEL_META_KEY] = level
    if meta:
        params["_meta"] = meta


async def _set_log_level(connection: Connection, level: str) -> None:
    """Have a legacy server send log messages of a level too; it has one level for all requests."""
    known = connection.log_level
    if not connection.sends_logs:
        return
    if known is not None and LOG_LEVELS.index(known) <= LOG_LEVELS.index(level):
        return
    connection.log_level = level
    try:
        await connection.request("logging/setLevel", {"level": level})
    except MCPError as error:
        _log.debug("a server does not set its log level: %s", error)


def _unusable_result(call: Call, result: dict[str, Any], turn: int) -> ToolExecutionError:
    kind = result.get("resultType")
    reason = f"the server answered with {kind!r:.80}, which is not a result that can be used here"
    if turn > _MAX_TURNS:
        reason = f"the server asked for input {turn} times, and gave no result"
    elif kind == "input_required":
        asked = result.get("inputRequests")
        wanted = asked.values() if isinstance(asked, dict) else ()
        methods = sorted({str(each.get("method")) for each in wanted if isinstance(each, dict)})
        reason = f"the server asks for input that cannot be given here: {', '.join(methods)}"
    return _execution_error(call, reason, result)


def _execution_error(call: Call, reason: str, result: Any = None) -> ToolExecutionError:
    return ToolExecutionError(tool_id=call.tool_id, backend=_backend(call), reason=reason, result=result)


@dataclass(frozen=True, slots=True)
class ServerReply:
    """The reply of a server to a call."""

    result: dict[str, Any]
    was_asked: bool
    """Whether the client was asked for input meanwhile."""


def read_answer(call: Call, reply: ServerReply, max_bytes: int) -> Answer:
    """Return the answer that a reply holds.

    Raises:
        ToolExecutionError: the result is an error, is too large, or no JSON.
    """
    result = {key: value for key, value in reply.result.items() if value is not None}
    failed = result.get("isError")
    if failed and failed != "false":  # some servers write it as a text or a number
        reason = describe_failure(result)
        raise ToolExecutionError(tool_id=call.tool_id, backend=_backend(call), reason=reason, result=result)
    if result.get("resultType") == TASK:
        return Answer(mcp_result=result, is_personal=True, is_task=True)
    value = result_value(reply.result)
    try:
        size = result_size(value)
    except ValueError as error:
        raise ToolExecutionError(tool_id=call.tool_id, backend=_backend(call), reason=str(error)) from error
    if size > max_bytes:
        reason = f"its result of {size:,} bytes is larger than the {max_bytes:,} bytes that are allowed"
        raise ToolExecutionError(tool_id=call.tool_id, backend=_backend(call), reason=reason)
    return Answer(structured=value, mcp_result=result, is_personal=reply.was_asked)


def _backend(call: Call) -> str:
    return f"mcp:{getattr(call.backend, 'server_name', '')}"


async def call_tool(upstream: Upstream, call: Call) -> ServerReply:
    """Return the reply to a call.

    A call that the server certainly did not run is repeated, once for each reason: the server no longer knows
    the session, or the headers no longer fit the definition of the tool.

    Raises:
        ToolError: as the contract of executors has it.
    """
    tool = call.tool
    is_reconnected = is_listed_again = False
    async with upstream.slot(call.context.principal):
        while True:
            try:
                used, connection = await upstream.connect_for(call.context.client, call.deadline)
            except ServerUnavailableError as error:
                raise _unreachable(upstream, call, error) from error
            try:
                return await _call_once(used, connection, call, tool)
            except MCPError as error:
                if error.code == HEADER_MISMATCH and not is_listed_again:
                    tool = await _list_tool_again(upstream, tool)
                    is_listed_again = True
                elif connection.is_forgotten(error) and not is_reconnected:
                    used.discard(connection, error)
                    is_reconnected = True
                else:
                    failure = await _call_failure(used, connection, call, error)
                    raise failure from failure.__cause__ or error


async def _call_once(upstream: Upstream, connection: Connection, call: Call, tool: Tool) -> ServerReply:
    """Send a call, and wait for its result for as long as the server's own `timeout` allows."""
    running = RelayedCall(call, upstream.on_input, connection.sends_logs)
    limit, scope = upstream.config.timeout or inf, None
    ends = anyio.current_time() + limit
    if ends < call.deadline:  # else the caller cancels it before
        scope = anyio.CancelScope(deadline=ends)
        running.pause = PausableDeadline(scope).pause
    params, headers = connection.describe_call(tool, call.args)
    with scope or nullcontext():
        result = await send_request(upstream, connection, running, "tools/call", params, headers)
        if result.get("resultType") == TASK:
            upstream.keep_for(task_ttl_ms(result) / 1000)
        return ServerReply(result, running.was_asked)
    raise ToolTimeoutError(tool_id=call.tool_id, backend=_backend_of(upstream), timeout=limit)


def _unreachable(upstream: Upstream, call: Call, error: ServerUnavailableError) -> ToolError:
    """Return the error for a call that its server could not be connected to for."""
    if upstream.cancels_calls:
        reason = upstream.close_reason or ""
        return ToolCancelledError(tool_id=call.tool_id, backend=_backend_of(upstream), reason=reason)
    return unsent(call, error)


def unsent(call: Call, error: ServerUnavailableError) -> ToolError:
    """Return the error for a call that its server could not be reached for."""
    backend, reason = f"mcp:{error.server}", hide_secrets(error.reason)
    advice = hide_secrets(error.advice)
    if isinstance(error, LoginRequiredError):
        reason = login_reason(reason, call.principal)
        return ToolLoginRequiredError(
            tool_id=call.tool_id, backend=backend, reason=reason, server=error.server
        )
    # What it wrote is for whoever runs it: it stays in the cause, and a model does not see it.
    return BackendUnavailableError(
        tool_id=call.tool_id, backend=backend, reason=reason, sent=False, advice=advice
    )


async def _list_tool_again(upstream: Upstream, tool: Tool) -> Tool:
    """Return the current definition of a tool; the known one where the server does not list it."""
    name = own_name(tool)
    try:
        catalogue = await upstream.list_tools()
    except ServerUnavailableError:
        return tool
    return next((each for each in catalogue.tools if own_name(each) == name), tool)


async def _call_failure(upstream: Upstream, connection: Connection, call: Call, error: MCPError) -> ToolError:
    """Return the error of a failed call, and discard the connection if it is unusable."""
    backend = _backend_of(upstream)
    if is_closed(error) and await _has_ended(connection):
        if upstream.cancels_calls:
            return ToolCancelledError(
                tool_id=call.tool_id, backend=backend, reason=upstream.close_reason or ""
            )
        reason = f"{connection.close_reason or 'the connection was lost'} during the call"
        lost = ServerUnavailableError(upstream.name, reason, upstream.stderr_tail())
        lost.__cause__ = error
        failure = BackendUnavailableError(tool_id=call.tool_id, backend=backend, reason=hide_secrets(reason))
        failure.__cause__ = lost
        return failure
    upstream.discard(connection, error)
    if connection.is_forgotten(error):
        reason = f"the server does not know the session, nor the one before: {error.message}"
        return BackendUnavailableError(tool_id=call.tool_id, backend=backend, reason=reason, sent=False)
    return call_failure(error, call, backend)


async def _has_ended(connection: Connection) -> bool:
    """Return whether a connection has ended; if so, it is known why, unless that takes long."""
    with anyio.move_on_after(_CLOSE_TIMEOUT):
        await connection.over.wait()
    if connection.gone:
        with anyio.move_on_after(_EXIT_TIMEOUT):
            await connection.over.wait()
    return connection.gone or connection.over.is_set()


def _backend_of(upstream: Upstream) -> str:
    return f"mcp:{upstream.name}"
