"""The tools of a crib for agents of Strands."""

import base64
from collections.abc import AsyncGenerator, Iterable
from math import inf
from typing import Any

import anyio

from toolcrib.adapter.results import block_text
from toolcrib.concurrency.background import Background
from toolcrib.crib import SyncCrib, View
from toolcrib.crib.code import Named
from toolcrib.errors import MissingPackageError
from toolcrib.execution import Principal
from toolcrib.integrations.toolbox import AgentReply, CallFailedError, FoundTools, Toolbox
from toolcrib.integrations.toolbox import AgentTool as OfferedTool

try:
    from strands.types._events import ToolResultEvent, ToolStreamEvent
    from strands.types.tools import AgentTool, ToolSpec
except ImportError as error:
    raise MissingPackageError("toolcrib.integrations.strands", "strands-agents") from error


def tools(
    crib: View | SyncCrib,
    tools: Iterable[Named] | None = None,
    *,
    search: bool = False,
    timeout: float | None = None,
    principal: Principal | None = None,
) -> "list[AgentTool]":
    """Return tools of a crib for `Agent(tools=...)`: all, or those named.

    With `search` the agent has `search_tools` beside those named. What it finds is registered with the agent,
    and listed from the next turn on. A call that fails is a result with the status `error`; the progress of a
    tool is a stream event. Strands runs agents in an event loop of its own unless you use `invoke_async` or
    `stream_async`: use a `SyncCrib` with `agent(...)`.
    """
    toolbox = Toolbox(crib, tools, search=search, has_turns=True, timeout=timeout, principal=principal)
    return FoundTools(toolbox, lambda each, found: _CribTool(toolbox, each, found))


class _CribTool(AgentTool):
    """A tool of a crib in Strands."""

    def __init__(self, toolbox: Toolbox, offered: OfferedTool, found: "FoundTools[AgentTool]") -> None:
        super().__init__()
        self._toolbox, self._offered, self._found = toolbox, offered, found

    @property
    def tool_name(self) -> str:
        return self._offered.name

    @property
    def tool_spec(self) -> ToolSpec:
        offered = self._offered
        description = offered.description or offered.name
        return {
            "name": offered.name,
            "description": description,
            "inputSchema": {"json": offered.parameters},
        }

    @property
    def tool_type(self) -> str:
        return "toolcrib"

    async def stream(
        self, tool_use: Any, invocation_state: dict[str, Any], **_: Any
    ) -> AsyncGenerator[Any, None]:
        """Yield the progress of a call, then its result."""
        send, receive = anyio.create_memory_object_stream[dict[str, Any]](inf)
        ended: list[AgentReply | Exception] = []

        async def report(progress: float, total: float | None, message: str | None) -> None:
            await send.send({"progress": progress, "total": total, "message": message})

        async def work() -> None:
            with send:
                try:
                    ended.append(await self._toolbox.call(self._offered, tool_use["input"], progress=report))
                except Exception as failure:  # noqa: BLE001 - raised below, in the task of the agent
                    ended.append(failure)

        task = Background(work)
        try:
            async for update in receive:
                yield ToolStreamEvent(tool_use, update)
        finally:
            receive.close()
            await task.stop()
        (outcome,) = ended
        if isinstance(outcome, CallFailedError):
            content = [{"text": str(outcome)}]
            yield ToolResultEvent({"toolUseId": tool_use["toolUseId"], "status": "error", "content": content})
            return
        if isinstance(outcome, Exception):
            raise outcome
        self._register(outcome, invocation_state.get("agent"))
        content = _content(outcome)
        yield ToolResultEvent({"toolUseId": tool_use["toolUseId"], "status": "success", "content": content})

    def _register(self, reply: AgentReply, agent: Any) -> None:
        """Register the tools that a search found with the agent."""
        if not reply.found or agent is None:
            return
        self._found.add(reply.found)
        known = agent.tool_registry.registry
        for each in self._found:
            if each.tool_name not in known:
                agent.tool_registry.register_tool(each)


def _content(reply: AgentReply) -> list[dict[str, Any]]:
    """Return a result as the framework's content: JSON objects as such, images as bytes."""
    if not any(kind == "image" for kind, _, _ in reply.media):
        return [{"json": reply.value}] if isinstance(reply.value, dict) else [{"text": reply.text}]
    content: list[dict[str, Any]] = []
    for block in reply.blocks:
        if block["type"] == "image":
            source = {"bytes": base64.b64decode(block["data"])}
            content.append({"image": {"format": block["mimeType"].rpartition("/")[2], "source": source}})
        else:
            content.append({"text": block_text(block)})
    return content
