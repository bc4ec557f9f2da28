"""The tasks extension of 2026-07-28, which the SDK leaves to servers: calls that outlive their connection."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import anyio
import mcp_types as types
from anyio.abc import TaskGroup
from mcp import MCPError
from mcp.server.lowlevel import Server
from mcp.shared.inbound import MCP_NAME_HEADER, decode_header_value
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from servers.conformance.calls import TASKS, Call, Context, Json, missing

LIFETIME_MS = 600_000
POLL_MS = 100

REQUIRED = types.ClientCapabilities(extensions={TASKS: {}})


class TaskParams(types.RequestParams):
    """The parameters of `tasks/get` and `tasks/cancel`."""

    task_id: str


class UpdateParams(TaskParams):
    """The parameters of `tasks/update`."""

    input_responses: dict[str, Any]


class Task:
    """A call that goes on after its answer."""

    def __init__(self, work: "Work") -> None:
        self._work = work
        self._scope = anyio.CancelScope()
        self._answered = anyio.Event()
        self._asked: dict[str, types.InputRequest] = {}
        self._answers: dict[str, Any] = {}
        self._outcome: Json = {}
        self.id = uuid4().hex
        self._status = "working"
        self._created = self._updated = now()

    async def run(self) -> None:
        """Do the work, and store the outcome."""
        with self._scope:
            try:
                result = await self._work(self)
            except MCPError as error:
                self._end("failed", error={"code": error.code, "message": error.message})
            else:
                dumped = result.model_dump(mode="json", by_alias=True, exclude_none=True)
                self._end("completed", result=dumped)
        if self._scope.cancelled_caught:
            self._end("cancelled")

    def _end(self, status: str, **outcome: Json) -> None:
        self._asked.clear()
        self._status, self._outcome, self._updated = status, outcome, now()

    async def ask(self, **questions: types.InputRequest) -> Mapping[str, Any]:
        """Return the client's answers, which it gives by `tasks/update`."""
        self._status, self._updated, self._answered = "input_required", now(), anyio.Event()
        self._asked = dict(questions)
        await self._answered.wait()
        return self._answers

    def answer(self, answers: Mapping[str, Any]) -> None:
        """Store the client's answers to open questions, and go on once each has one."""
        known = {name: answers[name] for name in self._asked.keys() & answers.keys()}
        self._answers.update(known)
        for name in known:
            del self._asked[name]
        if known and not self._asked:
            self._status, self._updated = "working", now()
            self._answered.set()

    def cancel(self) -> None:
        """Stop the work; nothing happens where it has ended."""
        self._scope.cancel()

    def summary(self) -> Json:
        """Return the task object of the first response."""
        return {
            "taskId": self.id,
            "status": self._status,
            "createdAt": self._created,
            "lastUpdatedAt": self._updated,
            "ttlMs": LIFETIME_MS,
            "pollIntervalMs": POLL_MS,
        }

    def details(self) -> Json:
        """Return the task object of `tasks/get`."""
        asked = {
            name: question.model_dump(mode="json", by_alias=True, exclude_none=True)
            for name, question in self._asked.items()
        }
        return {**self.summary(), **({"inputRequests": asked} if asked else {}), **self._outcome}


Work = Callable[[Task], Awaitable[types.CallToolResult]]


class Tasks:
    """All tasks of a server, for as long as it runs."""

    def __init__(self, group: TaskGroup) -> None:
        self._group = group
        self._tasks: dict[str, Task] = {}

    def start(self, work: Work) -> Json:
        """Begin a task, and return its response."""
        task = Task(work)
        self._tasks[task.id] = task
        self._group.start_soon(task.run)
        return {"resultType": "task", **task.summary()}

    def find(self, ctx: Context, params: TaskParams) -> Task:
        """Return the task that a request is about.

        Raises:
            MCPError: The request may not ask for it, or there is no such task.
        """
        if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            raise MCPError(types.METHOD_NOT_FOUND, "Method not found", ctx.method)
        if not Call(ctx, {}).can_have_tasks:
            raise missing(REQUIRED)
        if ctx.request is not None:
            named = decode_header_value(ctx.request.headers.get(MCP_NAME_HEADER))
            if named != params.task_id:
                raise MCPError(types.HEADER_MISMATCH, "the mcp-name header does not name the task")
        task = self._tasks.get(params.task_id)
        if task is None:
            raise MCPError(types.INVALID_PARAMS, f"no task {params.task_id!r}")
        return task


def now() -> str:
    """Return the time in the format of the protocol."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@asynccontextmanager
async def lifespan(_: Server[Tasks]) -> AsyncIterator[Tasks]:
    """Run the tasks of a server until it stops."""
    async with anyio.create_task_group() as group:
        yield Tasks(group)
        group.cancel_scope.cancel()


async def get_task(ctx: Context, params: TaskParams) -> Json:
    """Answer `tasks/get`."""
    return ctx.lifespan_context.find(ctx, params).details()


async def update_task(ctx: Context, params: UpdateParams) -> Json:
    """Answer `tasks/update`."""
    ctx.lifespan_context.find(ctx, params).answer(params.input_responses)
    return {}


async def cancel_task(ctx: Context, params: TaskParams) -> Json:
    """Answer `tasks/cancel`."""
    ctx.lifespan_context.find(ctx, params).cancel()
    return {}


def add_tasks(server: Server[Tasks]) -> None:
    """Make a server serve the extension."""
    server.extensions[TASKS] = {}
    server.add_request_handler("tasks/get", TaskParams, get_task)
    server.add_request_handler("tasks/update", UpdateParams, update_task)
    server.add_request_handler("tasks/cancel", TaskParams, cancel_task)
