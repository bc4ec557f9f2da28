"""A client of the stateless era that sends its own JSON over HTTP, each request on a connection of its own."""

import json
from dataclasses import dataclass, field
from typing import Any

import httpx
from waiting import PATIENCE, until

TASKS = "io.modelcontextprotocol/tasks"
ERA = "2026-07-28"
KNOWS: dict[str, Any] = {"extensions": {TASKS: {}}}
"""The capabilities of a client that supports tasks."""
ENDED = {"completed", "failed", "cancelled"}


class RefusedError(Exception):
    """The error that a request was answered with."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(str(error))
        self.code: int = error["code"]
        self.message: str = error["message"]
        self.data: Any = error.get("data")


@dataclass(frozen=True)
class RawClient:
    """A client that keeps nothing between its requests."""

    url: str
    capabilities: dict[str, Any] = field(default_factory=lambda: KNOWS)
    who: str = ""
    """Its token; without one it is anonymous."""
    path: str = "/mcp"
    """The endpoint that it uses."""

    async def request(
        self, method: str, params: dict[str, Any] | None = None, **headers: str
    ) -> dict[str, Any]:
        """Return the result of a request, made on a connection that is closed then.

        Raises:
            RefusedError: it was answered with an error.
        """
        params = {} if params is None else params
        meta = {
            "io.modelcontextprotocol/protocolVersion": ERA,
            "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": self.capabilities,
        }
        sent = {
            "accept": "application/json, text/event-stream",
            "mcp-protocol-version": ERA,
            "mcp-method": method,
            **({"mcp-name": str(params.get("name", params.get("taskId")))} if params else {}),
            **({"authorization": f"Bearer {self.who}"} if self.who else {}),
            **headers,
        }
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
        async with httpx.AsyncClient(timeout=PATIENCE) as http:
            response = await http.post(f"{self.url}{self.path}", json=message, headers=sent)
        events = [
            line.removeprefix("data:") for line in response.text.splitlines() if line.startswith("data:")
        ]
        answer = json.loads(events[-1] if events else response.text)  # a slow one comes as a stream
        if "error" in answer:
            raise RefusedError(answer["error"])
        result: dict[str, Any] = answer["result"]
        return result

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Return the answer to the call of a tool."""
        return await self.request("tools/call", {"name": tool, "arguments": arguments})

    async def begin(self, tool: str, **arguments: Any) -> str:
        """Return the id of the task that the call of a tool is answered with."""
        handle = await self.call(tool, **arguments)
        assert handle["resultType"] == "task", handle
        task_id: str = handle["taskId"]
        return task_id

    async def get(self, task_id: str) -> dict[str, Any]:
        """Return how a task is."""
        return await self.request("tasks/get", {"taskId": task_id})

    async def update(self, task_id: str, **responses: Any) -> dict[str, Any]:
        """Send the input that a task requires."""
        return await self.request("tasks/update", {"taskId": task_id, "inputResponses": responses})

    async def cancel(self, task_id: str) -> dict[str, Any]:
        """Ask for a task to be cancelled."""
        return await self.request("tasks/cancel", {"taskId": task_id})

    async def reaches(self, task_id: str, *statuses: str) -> dict[str, Any]:
        """Return how a task is when it has come to one of some statuses, or else to its end."""

        async def reached() -> dict[str, Any] | None:
            found = await self.get(task_id)
            return found if found["status"] in (statuses or ENDED) else None

        found: dict[str, Any] = await until(reached, f"the task is {statuses or ENDED}")
        return found
