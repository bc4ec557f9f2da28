"""The tools of a crib for agents of LlamaIndex, and tools of LlamaIndex in a crib."""

import base64
from collections.abc import Callable, Iterable
from typing import Any

from toolcrib.adapter.results import block_text
from toolcrib.crib import Crib, SyncCrib, View
from toolcrib.crib.code import Named
from toolcrib.errors import MissingPackageError, ToolExecutionError
from toolcrib.errors.text import truncate
from toolcrib.execution import Principal
from toolcrib.integrations.adopting import adopt
from toolcrib.integrations.toolbox import AgentReply, AgentTool, CallFailedError, FoundTools, Toolbox
from toolcrib.model import LocalTool

try:
    from llama_index.core.llms import AudioBlock, ImageBlock, TextBlock
    from llama_index.core.objects import ObjectRetriever
    from llama_index.core.tools import AsyncBaseTool, FunctionTool, ToolMetadata, ToolOutput
except ImportError as error:
    raise MissingPackageError("toolcrib.integrations.llama_index", "llama-index-core") from error

_MAX_DESCRIPTION = 1024
"""Characters of a description that the framework takes."""


def tools(
    crib: View | SyncCrib,
    tools: Iterable[Named] | None = None,
    *,
    search: bool = False,
    timeout: float | None = None,
    principal: Principal | None = None,
) -> "list[AsyncBaseTool]":
    """Return tools of a crib for `FunctionAgent(tools=...)`: all, or those named.

    With `search` the agent has `search_tools` and `run_tool` beside those named; `retriever` lists what was
    found as tools of their own. A call that fails is a `ToolOutput` with `is_error`.
    """
    toolbox = Toolbox(crib, tools, search=search, timeout=timeout, principal=principal)
    return [_CribTool(toolbox, each, None) for each in toolbox.list_tools()]


def retriever(
    crib: View | SyncCrib,
    tools: Iterable[Named] | None = None,
    *,
    timeout: float | None = None,
    principal: Principal | None = None,
) -> "ObjectRetriever[Any]":
    """Return what gives an agent `search_tools`, the tools named, and those that it has found.

    It is for `FunctionAgent(tool_retriever=...)`, which asks it before each turn. Give each conversation one
    of its own.
    """
    toolbox = Toolbox(crib, tools, search=True, has_turns=True, timeout=timeout, principal=principal)
    return _CribRetriever(FoundTools(toolbox, lambda each, found: _CribTool(toolbox, each, found)))


class _CribRetriever(ObjectRetriever[Any]):
    """The tools that an agent has at this moment, whatever it is asked."""

    def __init__(self, found: "FoundTools[AsyncBaseTool]") -> None:
        self._found = found

    def retrieve(self, _: Any) -> list[Any]:
        """Return the tools."""
        return list(self._found)

    async def aretrieve(self, _: Any) -> list[Any]:
        """Return the tools."""
        return list(self._found)


class _Metadata(ToolMetadata):
    """A name, a description, and the JSON Schema of the arguments as it is."""

    def __init__(self, offered: AgentTool) -> None:
        super().__init__(truncate(offered.description, _MAX_DESCRIPTION), offered.name, None)
        self._parameters = offered.parameters

    def get_parameters_dict(self) -> dict[str, Any]:
        return self._parameters


class _CribTool(AsyncBaseTool):
    """A tool of a crib in LlamaIndex."""

    def __init__(
        self, toolbox: Toolbox, offered: AgentTool, found: "FoundTools[AsyncBaseTool] | None"
    ) -> None:
        self._toolbox, self._offered, self._found = toolbox, offered, found
        self._metadata = _Metadata(offered)

    @property
    def metadata(self) -> ToolMetadata:
        return self._metadata

    def call(self, /, **args: Any) -> ToolOutput:
        """Call the tool."""
        try:
            return self._output(args, self._toolbox.call_sync(self._offered, args))
        except CallFailedError as failure:
            return self._failure(args, failure)

    async def acall(self, /, **args: Any) -> ToolOutput:
        """Call the tool."""
        try:
            return self._output(args, await self._toolbox.call(self._offered, args))
        except CallFailedError as failure:
            return self._failure(args, failure)

    def _output(self, args: dict[str, Any], reply: AgentReply) -> ToolOutput:
        if self._found is not None:
            self._found.add(reply.found)
        return ToolOutput(self._offered.name, blocks=_blocks(reply), raw_input=args, raw_output=reply.value)

    def _failure(self, args: dict[str, Any], failure: CallFailedError) -> ToolOutput:
        return ToolOutput(
            self._offered.name,
            content=str(failure),
            raw_input=args,
            raw_output=str(failure),
            is_error=True,
            exception=failure,
        )


def _blocks(reply: AgentReply) -> list[Any]:
    """Return a result as blocks of a message."""
    if not reply.media:
        return [TextBlock(text=reply.text)]
    blocks: list[Any] = []
    for block in reply.blocks:
        if block["type"] == "image":
            data = base64.b64decode(block["data"])
            blocks.append(ImageBlock(image=data, image_mimetype=block["mimeType"]))
        elif block["type"] == "audio":
            data = base64.b64decode(block["data"])
            blocks.append(AudioBlock(audio=data, format=block["mimeType"].rpartition("/")[2]))
        else:
            blocks.append(TextBlock(text=block_text(block)))
    return blocks


def register(
    crib: Crib | SyncCrib, tools: "Iterable[Any]", *, namespace: str | None = None
) -> list[LocalTool[..., Any]]:
    """Add tools of LlamaIndex to a crib, and return them; functions are taken as agents take them."""
    added = []
    for each in tools:
        wrapped = each if hasattr(each, "metadata") else FunctionTool.from_defaults(each)
        metadata = wrapped.metadata
        added.append(
            adopt(
                crib,
                _caller(wrapped),
                name=metadata.get_name(),
                namespace=namespace,
                description=metadata.description,
                input_schema=metadata.get_parameters_dict(),
            )
        )
    return added


def _caller(tool: Any) -> Callable[..., Any]:
    def read(output: ToolOutput) -> Any:
        if output.is_error:
            raise ToolExecutionError(tool_id=output.tool_name, reason=output.content)
        return output.raw_output

    async def call(**args: Any) -> Any:
        return read(await tool.acall(**args))

    def call_in_thread(**args: Any) -> Any:
        return read(tool(**args))

    return call if hasattr(tool, "acall") else call_in_thread
