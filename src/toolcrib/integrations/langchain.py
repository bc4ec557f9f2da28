"""The tools of a crib for LangChain and LangGraph, and tools of LangChain in a crib."""

from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import Any

from pydantic import ConfigDict

from toolcrib.adapter.results import block_text
from toolcrib.crib import Crib, SyncCrib, View
from toolcrib.crib.code import Named
from toolcrib.errors import MissingPackageError, ToolExecutionError
from toolcrib.execution import Principal
from toolcrib.integrations.adopting import adopt
from toolcrib.integrations.toolbox import (
    SEARCH_TOOLS,
    AgentReply,
    AgentTool,
    CallFailedError,
    Consent,
    ConsentNeededError,
    Toolbox,
)
from toolcrib.model import LocalTool

try:
    from langchain_core.callbacks.manager import adispatch_custom_event
    from langchain_core.messages import BaseMessage, ToolMessage
    from langchain_core.runnables import RunnableConfig
    from langchain_core.tools import BaseTool, ToolException
    from langchain_core.tools import tool as make_tool
    from langchain_core.utils.function_calling import convert_to_openai_tool
except ImportError as error:
    raise MissingPackageError("toolcrib.integrations.langchain", "langchain-core") from error
try:
    from langchain.agents.middleware import AgentMiddleware, ModelRequest
except ImportError:  # langchain-core alone has no agents
    AgentMiddleware = None
try:
    from langgraph.config import get_stream_writer
    from langgraph.types import interrupt
except ImportError:
    get_stream_writer = interrupt = None

_FOUND = "toolcrib_found"
"""The key of the artifact of `search_tools` with the ids of the tools that it found."""
PROGRESS_EVENT = "toolcrib_progress"
"""The name of the custom event of a tool's progress; in LangGraph, the key in the custom stream."""


def tools(
    crib: View | SyncCrib,
    tools: Iterable[Named] | None = None,
    *,
    search: bool = False,
    timeout: float | None = None,
    principal: Principal | None = None,
) -> "list[BaseTool]":
    """Return tools of a crib for `bind_tools`, a `ToolNode` or `create_agent`: all, or those named.

    With `search` the agent has `search_tools` and `run_tool` beside those named; `middleware` lists what was
    found as tools of their own.

    A call that fails is a `ToolMessage` with the status `error`. In a LangGraph with a checkpointer, a rule
    that asks for consent interrupts the graph, and `Command(resume=True)` is a yes; outside of one it is a
    failure, unless the crib has an `approve`. With a `Crib`, use the asynchronous methods; a `SyncCrib` takes
    both.
    """
    return _offered(Toolbox(crib, tools, search=search, timeout=timeout, principal=principal))


def middleware(
    crib: View | SyncCrib,
    tools: Iterable[Named] | None = None,
    *,
    timeout: float | None = None,
    principal: Principal | None = None,
) -> Any:
    """Return a middleware for `create_agent(middleware=[...])` with `search_tools`, and the tools named.

    The tools that a search finds are listed from the next turn on. They are read from the messages of the
    thread, so that it can be continued anywhere.

    Raises:
        MissingPackageError: langchain, which has the agents, is not installed.
    """
    if AgentMiddleware is None:
        raise MissingPackageError("toolcrib.integrations.langchain.middleware", "langchain")
    return _make_middleware(
        Toolbox(crib, tools, search=True, has_turns=True, timeout=timeout, principal=principal)
    )


def _offered(toolbox: Toolbox) -> "list[BaseTool]":
    return [CribTool.make(toolbox, each) for each in toolbox.list_tools()]


class CribTool(BaseTool):
    """A tool of a crib in LangChain; made by `tools` and `middleware`."""

    model_config = ConfigDict(arbitrary_types_allowed=True)
    toolbox: Toolbox
    offered: AgentTool

    @classmethod
    def make(cls, toolbox: Toolbox, offered: AgentTool) -> "CribTool":
        """Return a tool of a toolbox."""
        return cls(
            name=offered.name,
            description=offered.description,
            args_schema=offered.parameters,
            response_format="content_and_artifact",
            handle_tool_error=True,
            metadata={"tool_id": offered.tool_id, "annotations": offered.annotations},
            toolbox=toolbox,
            offered=offered,
        )

    def _run(self, *, toolcrib_config: RunnableConfig, **args: Any) -> Any:
        consent, write = _consent(toolcrib_config), _stream_writer()
        report = None if write is None else _reporter(toolcrib_config, self.offered)
        while True:
            try:
                return _returned(self.toolbox.call_sync(self.offered, args, progress=report, consent=consent))
            except ConsentNeededError as needed:
                consent = _ask(needed)
            except CallFailedError as error:
                raise ToolException(str(error)) from error

    async def _arun(self, *, toolcrib_config: RunnableConfig, **args: Any) -> Any:
        consent, report = _consent(toolcrib_config), _reporter(toolcrib_config, self.offered)
        while True:
            try:
                return _returned(
                    await self.toolbox.call(self.offered, args, progress=report, consent=consent)
                )
            except ConsentNeededError as needed:
                consent = _ask(needed)
            except CallFailedError as error:
                raise ToolException(str(error)) from error


def _consent(config: RunnableConfig) -> Consent | None:
    """Return whether a person can be asked: in a graph with a checkpointer, which can be interrupted."""
    checkpointer = config.get("configurable", {}).get("__pregel_checkpointer")
    return None if interrupt is None or checkpointer is None else "needed"


def _ask(needed: ConsentNeededError) -> Consent:
    """Interrupt the graph; when it is resumed with a yes, return that.

    Raises:
        ToolException: it was resumed with a no.
    """
    if interrupt(needed.request) is not True:
        raise ToolException(f"{needed.tool_id}: the user did not agree")
    return "given"


def _returned(reply: AgentReply) -> tuple[Any, Any]:
    """Return a result as the content of a message and its artifact."""
    if reply.found:
        return reply.text, {_FOUND: list(reply.found)}
    if not reply.media:
        return reply.text, reply.value
    blocks: list[dict[str, Any]] = []
    for block in reply.blocks:
        if block["type"] in {"image", "audio"}:
            blocks.append({"type": block["type"], "base64": block["data"], "mime_type": block["mimeType"]})
        else:
            blocks.append({"type": "text", "text": block_text(block)})
    return blocks, reply.value


def _stream_writer() -> Callable[[Any], None] | None:
    """Return the writer of the graph's custom stream; None outside of a graph."""
    if get_stream_writer is not None:
        with suppress(RuntimeError, KeyError):  # not in a graph
            return get_stream_writer()
    return None


def _reporter(
    config: RunnableConfig, tool: AgentTool
) -> Callable[[float, float | None, str | None], Awaitable[None]]:
    """Return a function that reports progress: to the custom stream of a graph, else as a custom event."""
    write = _stream_writer()

    async def report(progress: float, total: float | None, message: str | None) -> None:
        data = {"tool": tool.name, "progress": progress, "total": total, "message": message}
        if write is not None:
            write({PROGRESS_EVENT: data})
        else:
            with suppress(RuntimeError):  # the call is no part of a run that has listeners
                await adispatch_custom_event(PROGRESS_EVENT, data, config=config)

    return report


def _found_in(messages: Iterable[BaseMessage]) -> list[str]:
    """Return the ids of the tools that the searches of a thread found, the latest last."""
    artifacts = (
        message.artifact
        for message in messages
        if isinstance(message, ToolMessage) and message.name == SEARCH_TOOLS
    )
    return [
        tool_id
        for artifact in artifacts
        if isinstance(artifact, dict)
        for tool_id in artifact.get(_FOUND, ())
    ]


def _make_middleware(toolbox: Toolbox) -> Any:
    class CribMiddleware(AgentMiddleware):  # its base is there in programs with langchain only
        """Lists the tools that the agent has found."""

        def __init__(self) -> None:
            super().__init__()
            self.tools = _offered(toolbox)

        def _widened(self, request: "ModelRequest[Any]") -> "ModelRequest[Any]":
            known = {each.name if isinstance(each, BaseTool) else each.get("name") for each in request.tools}
            found = toolbox.tools_of(_found_in(request.messages))
            more = [CribTool.make(toolbox, each) for each in found if each.name not in known]
            return request.override(tools=[*request.tools, *more])

        def wrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
            return handler(self._widened(request))

        async def awrap_model_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
            return await handler(self._widened(request))

        def _resolved(self, request: Any) -> Any:
            """Return the request of a call with the tool that a search found, if it is of one."""
            if request.tool is not None:
                return request
            found = toolbox.tools_of(_found_in(request.state["messages"]))
            named = {each.name: each for each in found}.get(request.tool_call["name"])
            return request if named is None else request.override(tool=CribTool.make(toolbox, named))

        def wrap_tool_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
            return handler(self._resolved(request))

        async def awrap_tool_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
            return await handler(self._resolved(request))

    return CribMiddleware()


def register(
    crib: Crib | SyncCrib, tools: "Iterable[BaseTool | Callable[..., Any]]", *, namespace: str | None = None
) -> list[LocalTool[..., Any]]:
    """Add tools of LangChain to a crib, and return them; functions are taken as `bind_tools` takes them.

    What is injected into a tool by a graph, such as its state, is not there in a call from a crib.
    """
    added = []
    for each in tools:
        wrapped = each if isinstance(each, BaseTool) else make_tool(each)
        definition = convert_to_openai_tool(wrapped)["function"]
        added.append(
            adopt(
                crib,
                _caller(wrapped),
                name=wrapped.name,
                namespace=namespace,
                description=wrapped.description,
                input_schema=definition.get("parameters", {}),
            )
        )
    return added


def _caller(tool: BaseTool) -> Callable[..., Any]:
    raising = tool.model_copy(update={"handle_tool_error": False, "handle_validation_error": False})

    async def call(**args: Any) -> Any:
        try:
            return await raising.ainvoke(args)
        except ToolException as error:
            raise ToolExecutionError(tool_id=tool.name, reason=str(error)) from error

    return call
