"""Answers what clients ask about tasks: those of the gateway itself, and those of its servers."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import mcp_types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import MCP_NAME_HEADER, decode_header_value
from mcp_types import SERVER_INFO_META_KEY
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from toolcrib.execution import Principal
from toolcrib.execution.call import Call
from toolcrib.execution.mcp.relays import TASKS
from toolcrib.execution.mcp.results import task_ttl_ms
from toolcrib.gateway.frontends.shared.frontend import Frontend, StartedTask, TaskFrontend
from toolcrib.gateway.identity.principals import authenticated_principal, principal_of, request_of
from toolcrib.gateway.passing import wire
from toolcrib.gateway.request.client import RequestClient
from toolcrib.gateway.request.held import HeldCall, HeldCalls
from toolcrib.gateway.resources.handlers import ContentHandlers, translate_errors
from toolcrib.gateway.tasks.own import OwnTask
from toolcrib.gateway.tasks.table import TaskTable, new_id
from toolcrib.model import RunResult

_RELAYED = 1_000, 10_000
"""How many tasks of servers a principal may have, and all together."""
_OWN = 50, 500
"""The same of tasks of the gateway, each with its result."""
_MAX_BODY = 256 * 1024
"""How many bytes a request may have that goes on as a task, and is kept meanwhile."""
_MAX_ID = 1_000
"""How many characters the id of a server's task may have."""
_REQUIRED: dict[str, Any] = {"requiredCapabilities": {"extensions": {TASKS: {}}}}
_Context = ServerRequestContext[Any, Any]


class _TaskParams(mcp_types.RequestParams):
    """The parameters of `tasks/get` and `tasks/cancel`."""

    task_id: str


class _UpdateParams(_TaskParams):
    """The parameters of `tasks/update`."""

    input_responses: dict[str, Any]


@dataclass(slots=True, eq=False)
class _RelayedTask:
    """A task that goes on at a server, under an id of its own here."""

    owner: Principal
    name: str
    """The tool that was called, by the name that the client knows."""
    call: Call
    """What has begun it, without its arguments."""
    server: str
    own_id: str
    """The id that the server knows it by."""
    ttl_ms: int
    id: str = field(default_factory=new_id)
    created: float = field(default_factory=time.monotonic)

    def is_expired(self, now: float) -> bool:
        """Return whether its time is over."""
        return now - self.created > self.ttl_ms / 1000


class TaskHandlers:
    """Answers `tasks/get`, `tasks/update` and `tasks/cancel` of the clients of one endpoint.

    A chain or code that takes long goes on as a task here. A server that answers a call with a task is asked
    about it as its client asks here. The client gets an id of ours, so that those of several servers are
    never the same, and only the principal that made the call can use it.
    """

    def __init__(
        self, content: ContentHandlers, calls: HeldCalls, frontend: Callable[[Principal | None], Frontend]
    ) -> None:
        """Ask servers by way of `content` and `calls`; `frontend` gives what a principal sees."""
        self._content, self._calls, self._frontend = content, calls, frontend
        self._relayed: TaskTable[_RelayedTask] = TaskTable(*_RELAYED)
        self._own: TaskTable[OwnTask] = TaskTable(*_OWN)

    def add_to(self, server: Server[Any]) -> None:
        """Have a server answer what is asked about tasks."""
        server.add_request_handler("tasks/get", _TaskParams, self._get)
        server.add_request_handler("tasks/update", _UpdateParams, self._update)
        server.add_request_handler("tasks/cancel", _TaskParams, self._cancel)

    def extensions(self) -> dict[str, dict[str, Any]]:
        """Return the extension, if there may be tasks; a server that was not started yet may have some."""
        if self._has_own(self._frontend(authenticated_principal())):
            return {TASKS: {}}
        content = self._content.content()
        known = [] if content is None else [content.servers.capabilities(name) for name in content.names]
        is_there = any(each is None or TASKS in each.get("extensions", {}) for each in known)
        return {TASKS: {}} if is_there else {}

    def may_begin(self, context: _Context, *, is_own: bool) -> bool:
        """Return whether a call may be answered with a task: a server's, or one of the gateway's own."""
        if not _knows_tasks(context):
            return False
        principal = principal_of(context)
        if is_own:
            scope = {} if context.request is None else context.request.scope
            is_small = len(scope.get("toolcrib.body", b"")) <= _MAX_BODY
            return is_small and self._has_own(self._frontend(principal)) and self._own.has_room(principal)
        return self._relayed.has_room(principal)

    @staticmethod
    def _has_own(frontend: Frontend) -> bool:
        return isinstance(frontend, TaskFrontend) and frontend.has_own_tasks

    def begun(self, given: Any, context: _Context, name: str) -> dict[str, Any]:
        """Return the answer to the call of a tool: what was given, or the handle of a task that has begun.

        Raises:
            MCPError: the handle cannot be used.
        """
        if isinstance(given, HeldCall):
            own = OwnTask(principal_of(context), given)
            self._own.add(own)
            return own.handle()
        if not isinstance(given, StartedTask):
            return wire(given)
        server, own_id = getattr(given.call.backend, "server_name", ""), given.handle.get("taskId")
        if not isinstance(own_id, str) or not 0 < len(own_id) <= _MAX_ID:
            raise MCPError(mcp_types.INTERNAL_ERROR, "the server has begun a task without an id of use")
        ttl_ms = task_ttl_ms(given.handle)
        task = _RelayedTask(principal_of(context), name, given.call, server, own_id, ttl_ms)
        self._relayed.add(task)
        return _written(task, given.handle)

    async def _get(self, context: _Context, params: _TaskParams) -> dict[str, Any]:
        task = self._found(context, params)
        if isinstance(task, OwnTask):
            return task.details()
        answer = await self._ask(context, task, "tasks/get")
        task.ttl_ms = max(task.ttl_ms, task_ttl_ms(answer))
        result = answer.get("result")
        if isinstance(result, dict):
            answer = answer | {"result": self._finished(context, task, result)}
        return _written(task, answer) | {"resultType": "complete"}

    async def _update(self, context: _Context, params: _UpdateParams) -> dict[str, Any]:
        task = self._found(context, params)
        if isinstance(task, OwnTask):
            task.update(params.input_responses)
        else:
            await self._ask(context, task, "tasks/update", inputResponses=params.input_responses)
        return {}

    async def _cancel(self, context: _Context, params: _TaskParams) -> dict[str, Any]:
        task = self._found(context, params)
        if isinstance(task, OwnTask):
            task.cancel()
        else:
            await self._ask(context, task, "tasks/cancel")
        return {}

    def _found(self, context: _Context, params: _TaskParams) -> _RelayedTask | OwnTask:
        """Return the task that a request is about.

        Raises:
            MCPError: there is no such task for this principal, or the request may not ask for it.
        """
        is_there = len(self._own) or len(self._relayed) or self.extensions()
        if context.protocol_version not in MODERN_PROTOCOL_VERSIONS or not is_there:
            raise MCPError(mcp_types.METHOD_NOT_FOUND, "Method not found", context.method)
        if not _knows_tasks(context):
            message = "the client has not declared the tasks extension"
            raise MCPError(mcp_types.MISSING_REQUIRED_CLIENT_CAPABILITY, message, _REQUIRED)
        if context.request is not None:
            named = decode_header_value(context.request.headers.get(MCP_NAME_HEADER))
            if named != params.task_id:
                raise MCPError(mcp_types.HEADER_MISMATCH, "the mcp-name header does not name the task")
        owner, task_id = principal_of(context), params.task_id
        task = self._relayed.find(task_id, owner) or self._own.find(task_id, owner)
        if task is None:
            raise _unknown()
        if isinstance(task, OwnTask):
            task.follow(context)
        return task

    async def _ask(self, context: _Context, task: _RelayedTask, method: str, **params: Any) -> dict[str, Any]:
        """Return what the server of a task answers.

        Raises:
            MCPError: it answered with an error, does not answer, or is not there any more.
        """

        async def ask(client: RequestClient) -> dict[str, Any]:
            content = self._content.content_of(client)
            if content is None:
                raise _unknown()
            server, payload = content.check(task.server), {"taskId": task.own_id, **params}
            return await content.servers.request(server, method, payload, task.own_id)

        blank = mcp_types.InputResponseRequestParams()
        try:
            with request_of(context):
                given: Any = await self._calls.answer(
                    context,
                    blank,
                    lambda client: translate_errors(partial(ask, client)),
                    is_single=True,
                    takes_tasks=True,
                )
        except MCPError as error:
            if method == "tasks/get" and error.code == mcp_types.INVALID_PARAMS:
                self._relayed.drop(task)
                raise _unknown() from error
            raise MCPError(error.code, error.message.replace(task.own_id, task.id)) from error
        return given.handle if isinstance(given, StartedTask) else wire(given)

    def _finished(self, context: _Context, task: _RelayedTask, result: dict[str, Any]) -> dict[str, Any]:
        """Return the result of a task's tool as the client would have got it from the call itself."""
        frontend, content = self._frontend(principal_of(context)), self._content.content()
        if content is None or not isinstance(frontend, TaskFrontend):
            return result
        call, servers = task.call, content.servers

        def finish() -> RunResult:
            answer = servers.read_result(call, result)
            return RunResult.of_checked(
                tool=call.tool,
                backend=call.backend,
                structured=answer.structured,
                mcp_result=answer.mcp_result,
                duration=time.monotonic() - task.created,
            )

        with request_of(context):
            return wire(frontend.finished(task.name, finish))


def _knows_tasks(context: _Context) -> bool:
    """Return whether the client of a request declares the extension."""
    declared = context.session.client_capabilities
    is_modern = context.protocol_version in MODERN_PROTOCOL_VERSIONS
    return is_modern and declared is not None and TASKS in (declared.extensions or {})


def _written(task: _RelayedTask, answer: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a server says of a task, with our id of it."""
    answer = {**answer, "taskId": task.id, "ttlMs": task.ttl_ms}
    meta = answer.get("_meta")
    if isinstance(meta, Mapping):  # this gateway answers, not the server
        answer["_meta"] = {name: value for name, value in meta.items() if name != SERVER_INFO_META_KEY}
    return answer


def _unknown() -> MCPError:
    return MCPError(mcp_types.INVALID_PARAMS, "there is no such task, or not any more")
