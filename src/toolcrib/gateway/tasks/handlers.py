"""Handlers for the tasks of the gateway itself, and of its servers."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import mcp_types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import MCP_NAME_HEADER, decode_header_value
from mcp_types import SERVER_INFO_META_KEY
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import TypeAdapter
from pydantic import ValidationError as PydanticError

from toolcrib.errors import ToolError
from toolcrib.execution import Principal
from toolcrib.execution.call import Call
from toolcrib.execution.mcp.client_relay import TASKS
from toolcrib.execution.mcp.results import task_ttl_ms
from toolcrib.gateway.app.asgi import http_request_of, name_at, send_elsewhere
from toolcrib.gateway.frontends.shared.frontend import Frontend, StartedTask, TaskFrontend
from toolcrib.gateway.identity.principals import authenticated_principal, principal_of
from toolcrib.gateway.passing import add_findings, wire
from toolcrib.gateway.request.client import RequestClient
from toolcrib.gateway.request.held import HeldCall, HeldCalls
from toolcrib.gateway.request.input import UNSAFE_PAGE, is_safe_page, passed_error, without_context
from toolcrib.gateway.resources.handlers import ContentHandlers, translate_errors
from toolcrib.gateway.tasks.own import OwnTask
from toolcrib.gateway.tasks.table import TaskTable, new_id
from toolcrib.model import RunResult
from toolcrib.model.findings import ResultFinding, describe_removed

_RELAYED = 1_000, 10_000
"""Tasks of servers that a principal may have, and all together."""
_OWN = 50, 500
"""The same for tasks of the gateway, each with its result."""
_MAX_BODY = 256 * 1024
"""Longest request, in bytes, that may become a task: it stays in memory."""
_MAX_ID = 1_000
"""Longest id of a server's task, in characters."""
_RESULT = "/result"
"""Where the result of the tool stands in the answer about a task."""
_REQUESTS: TypeAdapter[dict[str, mcp_types.InputRequest]] = TypeAdapter(dict[str, mcp_types.InputRequest])
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
    """A task of a server, with another id here."""

    id: str
    owner: Principal
    name: str
    """The tool that was called, by the name that the client knows."""
    call: Call
    """The call that started it, without its arguments."""
    server: str
    own_id: str
    """Its id at the server."""
    ttl_ms: int
    created: float = field(default_factory=time.monotonic)

    def is_expired(self, now: float) -> bool:
        """Return whether it has expired."""
        return now - self.created > self.ttl_ms / 1000


class TaskHandlers:
    """Answers `tasks/get`, `tasks/update` and `tasks/cancel` of the clients of one endpoint.

    A chain or code that takes long becomes a task of the gateway. For a task of a server, each request is
    relayed to it. The client gets another id, so that ids of several servers never collide, and only the
    principal of the call can use it.
    """

    def __init__(
        self,
        content: ContentHandlers,
        calls: HeldCalls,
        frontend: Callable[[Principal | None], Frontend],
        *,
        worker: int | None = None,
    ) -> None:
        """Send requests to servers through `content` and `calls`; `frontend` returns that of a principal.

        The ids of tasks name the `worker` that has them, which answers requests about them.
        """
        self._worker = worker
        self._content, self._calls, self._frontend = content, calls, frontend
        self._relayed: TaskTable[_RelayedTask] = TaskTable(*_RELAYED)
        self._own: TaskTable[OwnTask] = TaskTable(*_OWN)

    def add_to(self, server: Server[Any]) -> None:
        """Register the handlers at a server."""
        server.add_request_handler("tasks/get", _TaskParams, self._handle_get)
        server.add_request_handler("tasks/update", _UpdateParams, self._handle_update)
        server.add_request_handler("tasks/cancel", _TaskParams, self._handle_cancel)

    def extensions(self) -> dict[str, dict[str, Any]]:
        """Return the extension, if there may be tasks; a server that was not started yet may have some."""
        return self._extensions_of(authenticated_principal())

    def _extensions_of(self, principal: Principal | None) -> dict[str, dict[str, Any]]:
        if self._has_own_tasks(self._frontend(principal)):
            return {TASKS: {}}
        content = self._content.content_for(principal)
        known = [] if content is None else [content.servers.capabilities(name) for name in content.names]
        is_there = any(each is None or TASKS in each.get("extensions", {}) for each in known)
        return {TASKS: {}} if is_there else {}

    def has_room(self, client: RequestClient) -> bool:
        """Return whether a call of a client may be answered with a task: of its server, or of the gateway."""
        principal = client.principal
        if client.is_single:
            return self._relayed.has_room(principal)
        is_small = client.request is None or len(client.request.body) <= _MAX_BODY
        return is_small and self._has_own_tasks(self._frontend(principal)) and self._own.has_room(principal)

    @staticmethod
    def _has_own_tasks(frontend: Frontend) -> bool:
        return isinstance(frontend, TaskFrontend) and frontend.has_own_tasks

    def add_task(self, given: HeldCall | StartedTask, principal: Principal, name: str) -> dict[str, Any]:
        """Store the task that the call of a tool has become, and return the answer to that call.

        Raises:
            MCPError: the handle of the server cannot be used.
        """
        if isinstance(given, HeldCall):
            own = OwnTask(principal, given, name_at(new_id(), self._worker))
            self._own.add(own)
            return own.handle()
        server, own_id = getattr(given.call.backend, "server_name", ""), given.handle.get("taskId")
        if not isinstance(own_id, str) or not 0 < len(own_id) <= _MAX_ID:
            raise MCPError(mcp_types.INTERNAL_ERROR, "the server has started a task without a usable id")
        ttl_ms = task_ttl_ms(given.handle)
        task_id = name_at(new_id(), self._worker)
        task = _RelayedTask(task_id, principal, name, given.call, server, own_id, ttl_ms)
        self._relayed.add(task)
        return _with_own_id(task, add_findings(given.handle, given.findings))

    async def _handle_get(self, context: _Context, params: _TaskParams) -> dict[str, Any]:
        task = self._find_task(context, params)
        if isinstance(task, OwnTask):
            return task.details()
        answer = await self._request(context, task, "tasks/get")
        task.ttl_ms = max(task.ttl_ms, task_ttl_ms(answer))
        findings = self._findings_in(context, task, answer)
        result, error = answer.get("result"), answer.get("error")
        if isinstance(result, dict):
            answer = answer | {"result": self._finish(context, task, result, findings)}
        if isinstance(error, dict) and isinstance(error.get("code"), int):
            told = passed_error(MCPError(error["code"], str(error.get("message")), error.get("data")))
            answer = answer | {"error": wire(told.error)}
        if answer.get("inputRequests"):
            answer = answer | {"inputRequests": _relayable(answer["inputRequests"])}
        return _with_own_id(task, add_findings(answer, findings)) | {"resultType": "complete"}

    def _findings_in(
        self, context: _Context, task: _RelayedTask, answer: Mapping[str, Any]
    ) -> tuple[ResultFinding, ...]:
        """Return what the check of results has found in an answer about a task."""
        content = self._content.content_for(principal_of(context))
        found = None if content is None else content.servers.findings_in(task.server, answer)
        return tuple(map(ResultFinding.from_json, found or ()))

    async def _handle_update(self, context: _Context, params: _UpdateParams) -> dict[str, Any]:
        task = self._find_task(context, params)
        if isinstance(task, OwnTask):
            task.update(params.input_responses)
        else:
            await self._request(context, task, "tasks/update", inputResponses=params.input_responses)
        return {}

    async def _handle_cancel(self, context: _Context, params: _TaskParams) -> dict[str, Any]:
        task = self._find_task(context, params)
        if isinstance(task, OwnTask):
            task.cancel()
        else:
            await self._request(context, task, "tasks/cancel")
        return {}

    def _find_task(self, context: _Context, params: _TaskParams) -> _RelayedTask | OwnTask:
        """Return the task that a request is about.

        Raises:
            MCPError: there is no such task for this principal, or the request may not ask for it.
        """
        send_elsewhere(http_request_of(context), params.task_id, self._worker)
        is_there = len(self._own) or len(self._relayed) or self._extensions_of(principal_of(context))
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
            raise _no_such_task()
        if isinstance(task, OwnTask):
            task.follow_request(http_request_of(context))
        return task

    async def _request(
        self, context: _Context, task: _RelayedTask, method: str, **params: Any
    ) -> dict[str, Any]:
        """Send a request about a task to its server.

        Raises:
            MCPError: it answered with an error, does not answer, or is not there any more.
        """

        async def request_task() -> dict[str, Any]:
            content = self._content.content_of(client)
            if content is None:
                raise _no_such_task()
            if method != "tasks/cancel":
                try:
                    content.check_tool(task.call.tool)
                except ToolError as error:
                    raise _told(task.call, error) from error
            server, payload = content.check(task.server), {"taskId": task.own_id, **params}
            return await content.servers.request(server, method, payload, task.own_id)

        client = self._calls.client_of(context, is_single=True)
        client.takes_tasks = True
        try:
            given: Any = await self._calls.answer(
                context,
                client,
                mcp_types.InputResponseRequestParams(),
                lambda: translate_errors(request_task, client.principal),
            )
        except MCPError as error:
            if method == "tasks/get" and error.code == mcp_types.INVALID_PARAMS:
                self._relayed.drop(task)
                raise _no_such_task() from error
            raise MCPError(error.code, error.message.replace(task.own_id, task.id)) from error
        if isinstance(given, StartedTask):
            return add_findings(given.handle, given.findings)
        return wire(given)

    def _finish(
        self,
        context: _Context,
        task: _RelayedTask,
        result: dict[str, Any],
        findings: tuple[ResultFinding, ...],
    ) -> dict[str, Any]:
        """Return the result of a task's tool as the client would have got it from the call itself."""
        principal = principal_of(context)
        frontend, content = self._frontend(principal), self._content.content_for(principal)
        if content is None or not isinstance(frontend, TaskFrontend):
            return result
        call, servers = task.call, content.servers
        inside = tuple(
            each.replace(path=each.path.removeprefix(_RESULT))
            for each in findings
            if each.path.startswith(_RESULT)
        )

        def finish() -> RunResult:
            try:
                answer = servers.read_result(call, result)
            except ToolError as error:
                error.findings = inside
                raise _told(call, error) from error.__cause__
            return RunResult.from_valid(
                tool=call.shaped or call.tool,
                backend=call.backend,
                structured=answer.structured,
                mcp_result=answer.mcp_result,
                duration=time.monotonic() - task.created,
                notes=describe_removed(inside),
                findings=inside,
            )

        return wire(frontend.finished(task.name, finish, principal))


def _knows_tasks(context: _Context) -> bool:
    """Return whether the client of a request declares the extension."""
    declared = context.session.client_capabilities
    is_modern = context.protocol_version in MODERN_PROTOCOL_VERSIONS
    return is_modern and declared is not None and TASKS in (declared.extensions or {})


def _told(call: Call, error: ToolError) -> ToolError:
    """Return an error about a call under the names that its caller knows."""
    return error if call.shaped is None else call.shaped.retell(error)


def _relayable(requests: Any) -> dict[str, Any]:
    """Return the requests of a server for input as they may be relayed.

    Raises:
        MCPError: there is one that may not.
    """
    try:
        asked = _REQUESTS.validate_python(requests, by_name=False)
    except PydanticError as error:
        message = "the server asks for input in a form that cannot be passed on"
        raise MCPError(mcp_types.INTERNAL_ERROR, message) from error
    if not all(map(is_safe_page, asked.values())):
        message = f"the server asks for input that is not passed on: {UNSAFE_PAGE}"
        raise MCPError(mcp_types.INTERNAL_ERROR, message)
    return {key: wire(without_context(each)) for key, each in asked.items()}


def _with_own_id(task: _RelayedTask, answer: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answer of a server about a task, with the id that its client knows."""
    answer = {**answer, "taskId": task.id, "ttlMs": task.ttl_ms}
    meta = answer.get("_meta")
    if isinstance(meta, Mapping):  # this gateway answers, not the server
        answer["_meta"] = {name: value for name, value in meta.items() if name != SERVER_INFO_META_KEY}
    return answer


def _no_such_task() -> MCPError:
    return MCPError(mcp_types.INVALID_PARAMS, "there is no such task, or it no longer exists")
