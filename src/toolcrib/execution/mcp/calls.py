"""One call of a tool over a live connection: sent, waited for, and its answer read."""

import logging
from dataclasses import dataclass
from functools import partial
from typing import Any

import anyio
from mcp.shared.dispatcher import ProgressFnT
from mcp.shared.exceptions import MCPError
from mcp_types import (
    CLIENT_CAPABILITIES_META_KEY,
    HEADER_MISMATCH,
    LOG_LEVEL_META_KEY,
    MISSING_REQUIRED_CLIENT_CAPABILITY,
)

from toolcrib.concurrency.backoff import Backoff
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
from toolcrib.execution.mcp.connection import Connection
from toolcrib.execution.mcp.errors import call_failure, is_closed, was_answered
from toolcrib.execution.mcp.relays import LOG_LEVELS, TASKS, RelayedCall
from toolcrib.execution.mcp.results import TASK, describe_failure, result_size, result_value, task_ttl_ms
from toolcrib.execution.mcp.tool_watcher import own_name
from toolcrib.execution.mcp.upstream import Upstream
from toolcrib.execution.oauth.persons import login_reason
from toolcrib.model.tool import Tool
from toolcrib.redaction import hide_secrets

_OF_A_TURN = frozenset({"inputResponses", "requestState"})
"""The parameters that answer one turn of a server, and belong to no other."""
_MAX_TURNS = 10
_FIRST_PAUSE_SECONDS = 0.05
_LONGEST_PAUSE_SECONDS = 1.0
_log = logging.getLogger(__name__)
_CLOSE_TIMEOUT = 0.5
"""Seconds to wait for a connection to end after an error says so, which a running server can send too."""
_EXIT_TIMEOUT = 5.0
"""Seconds to wait for a server to exit whose connection is gone: how it did is the reason."""


async def exchange(
    connection: Connection,
    running: RelayedCall,
    method: str,
    params: dict[str, Any],
    *,
    headers: dict[str, str] | None = None,
    on_progress: ProgressFnT | None = None,
) -> dict[str, Any]:
    """Return the raw result of a request; a stateless server that asks for input is given it.

    Raises:
        MCPError: the server refused the request, or the connection ended.
        ToolExecutionError: it asks for input that nobody here can give, or for something unknown.
    """
    client, params = running.client, dict(params)
    await _prepare(connection, running, params)
    if client is not None and connection.modern and (resumed := client.take_server_state()):
        params |= resumed
        running.note_asked()
    backoff, turn = Backoff(_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS), 0
    while True:
        turn += 1
        try:
            result = await connection.request(method, params, headers=headers, on_progress=on_progress)
        except MCPError as error:
            if error.code == MISSING_REQUIRED_CLIENT_CAPABILITY and client is not None:
                client.note_refusal(error)
            raise
        kind = result.get("resultType", "complete")
        if kind == "complete" or (kind == TASK and running.offer_task(result)):
            return result
        asked = result.get("inputRequests")
        is_in_vain = running.on_input is None or turn > _MAX_TURNS or not isinstance(asked, dict)
        if kind != "input_required" or (asked and is_in_vain):
            raise _useless(running.call, result, turn)
        params = {name: value for name, value in params.items() if name not in _OF_A_TURN}
        if asked and client is not None and client.pass_on(result):
            reason = "the client is asked for input, and makes its request again"
            raise _refused(running.call, reason)
        if asked:
            params["inputResponses"] = await running.ask(asked)
        else:  # it is not done, and wants to be asked again
            await backoff.sleep()
        if result.get("requestState") is not None:
            params["requestState"] = result["requestState"]


async def _prepare(connection: Connection, running: RelayedCall, params: dict[str, Any]) -> None:
    """Have the server know what the client can be asked, and which log messages it wants."""
    level, client = running.log_level, running.client
    if not connection.modern:
        if level is not None and client is not None:
            await _set_level(connection, level)
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


async def _set_level(connection: Connection, level: str) -> None:
    """Have a server of the handshake era send messages of a level too; it has one level for all of us."""
    known = connection.log_level
    if not connection.logs:
        return
    if known is not None and LOG_LEVELS.index(known) <= LOG_LEVELS.index(level):
        return
    connection.log_level = level
    try:
        await connection.request("logging/setLevel", {"level": level})
    except MCPError as error:
        _log.debug("a server does not set its log level: %s", error)


def _useless(call: Call, result: dict[str, Any], turn: int) -> ToolExecutionError:
    kind = result.get("resultType")
    reason = f"the server answered with {kind!r:.80}, which is not a result that can be used here"
    if turn > _MAX_TURNS:
        reason = f"the server asked for input {turn} times, and gave no result"
    elif kind == "input_required":
        asked = result.get("inputRequests")
        wanted = asked.values() if isinstance(asked, dict) else ()
        methods = sorted({str(each.get("method")) for each in wanted if isinstance(each, dict)})
        reason = f"the server asks for input that nobody here can give: {', '.join(methods)}"
    return _refused(call, reason, result)


def _refused(call: Call, reason: str, result: Any = None) -> ToolExecutionError:
    return ToolExecutionError(tool_id=call.tool_id, backend=_backend(call), reason=reason, result=result)


async def send_call(connection: Connection, running: RelayedCall, tool: Tool) -> dict[str, Any]:
    """Return the raw result of a call; a server that asks for input is given it, if there is somebody to ask.

    Raises:
        MCPError: the server refused the call, or the connection ended.
        ToolExecutionError: it asks for input that nobody here can give, or for something unknown.
    """
    call, name = running.call, own_name(tool)
    return await exchange(
        connection,
        running,
        "tools/call",
        {"name": name, "arguments": call.args},
        headers=connection.call_headers(name, tool.shared("input_schema"), call.args),
        on_progress=None if call.emit is None or running.updates is None else running.updates.put_progress,
    )


@dataclass(frozen=True, slots=True)
class Raw:
    """The raw result of a call."""

    result: dict[str, Any]
    was_asked: bool
    """Whether the client was asked for input meanwhile."""


def read_answer(call: Call, raw_result: Raw, max_bytes: int) -> Answer:
    """Return the answer that a raw result holds.

    Raises:
        ToolExecutionError: the result is an error, is too large, or no JSON.
    """
    result = raw_result.result
    raw = {key: value for key, value in result.items() if value is not None}
    failed = raw.get("isError")
    if failed and failed != "false":  # some servers write it as a text or a number
        reason = describe_failure(raw)
        raise ToolExecutionError(tool_id=call.tool_id, backend=_backend(call), reason=reason, result=raw)
    if raw.get("resultType") == TASK:
        return Answer(mcp_result=raw, is_personal=True, is_task=True)
    value = result_value(raw if "resultType" not in result else result)
    try:
        size = result_size(value)
    except ValueError as error:
        raise ToolExecutionError(tool_id=call.tool_id, backend=_backend(call), reason=str(error)) from error
    if size > max_bytes:
        reason = f"its result of {size:,} bytes is larger than the {max_bytes:,} bytes that are allowed"
        raise ToolExecutionError(tool_id=call.tool_id, backend=_backend(call), reason=reason)
    return Answer(structured=value, mcp_result=raw, is_personal=raw_result.was_asked)


def _backend(call: Call) -> str:
    return f"mcp:{getattr(call.backend, 'server_name', '')}"


async def dispatch(upstream: Upstream, call: Call) -> Raw:
    """Return the raw result of a call.

    A call that a server certainly did not run is made again, once for each reason: because it no longer knows
    the session, or because the headers no longer fit the definition.

    Raises:
        ToolError: as the contract of executors has it.
    """
    async with upstream.slot(call.principal):
        return await _dispatched(upstream, call)


async def _dispatched(upstream: Upstream, call: Call) -> Raw:
    tool, lost = call.tool, False
    while True:
        used, connection = await _connected(upstream, call)
        try:
            return await _within_limit(used, connection, call, tool)
        except MCPError as error:
            if error.code == HEADER_MISMATCH and tool is call.tool:
                tool = await _relisted(upstream, tool)
            elif connection.is_forgotten(error) and not lost:
                lost = used.discarded(connection, error)
            else:
                failure = await _failure(used, connection, call, error)
                raise failure from failure.__cause__ or error


async def _connected(upstream: Upstream, call: Call) -> tuple[Upstream, Connection]:
    try:
        return await upstream.connect_for(call.context.client, call.deadline)
    except ServerUnavailableError as error:
        if upstream.cancels:
            reason = upstream.closed or ""
            raise ToolCancelledError(
                tool_id=call.tool_id, backend=_backend_of(upstream), reason=reason
            ) from error
        raise unsent(call, error) from error


def unsent(call: Call, error: ServerUnavailableError) -> ToolError:
    """Return the error for a call that its server could not be reached for."""
    backend, reason = f"mcp:{error.server}", hide_secrets(error.reason)
    if isinstance(error, LoginRequiredError):
        reason = login_reason(reason, call.principal)
        return ToolLoginRequiredError(
            tool_id=call.tool_id, backend=backend, reason=reason, server=error.server
        )
    # What it wrote is for whoever runs it: it stays in the cause, and a model does not see it.
    return BackendUnavailableError(tool_id=call.tool_id, backend=backend, reason=reason, sent=False)


async def _within_limit(upstream: Upstream, connection: Connection, call: Call, tool: Tool) -> Raw:
    """Return what the server answers within the time that its settings give a call."""
    running = RelayedCall(call, upstream.on_input, connection.logs)
    limit = upstream.config.timeout
    if limit is None or call.deadline <= anyio.current_time() + limit:  # its caller ends it by then
        return await _noted(upstream, connection, running, tool)
    with anyio.move_on_after(limit) as scope:
        running.pause = PausableDeadline(scope).paused
        return await _noted(upstream, connection, running, tool)
    raise ToolTimeoutError(tool_id=call.tool_id, backend=_backend_of(upstream), timeout=limit)


async def _noted(upstream: Upstream, connection: Connection, running: RelayedCall, tool: Tool) -> Raw:
    """Return what the server answers, and let its updates and questions pass meanwhile."""
    answered = False
    upstream.began(running)
    try:
        send = partial(send_call, connection, running, tool)
        updates = running.updates
        result = await (send() if updates is None else updates.relay(running.make_emit(), send))
        answered = True
        if result.get("resultType") == TASK:
            upstream.keep_for(task_ttl_ms(result) / 1000)
    except MCPError as error:
        answered = was_answered(error)
        raise
    except ToolExecutionError:  # it answered with a question
        answered = True
        raise
    finally:
        upstream.finished(running, connection, answered=answered)
    return Raw(result, running.was_asked)


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
    if connection.gone:
        with anyio.move_on_after(_EXIT_TIMEOUT):
            await connection.over.wait()
    return connection.gone or connection.over.is_set()


def _backend_of(upstream: Upstream) -> str:
    return f"mcp:{upstream.name}"
