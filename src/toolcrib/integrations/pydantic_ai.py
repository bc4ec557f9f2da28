"""The tools of a crib as a toolset of Pydantic AI, and tools of Pydantic AI in a crib."""

import base64
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from pydantic_core import SchemaValidator, core_schema

from toolcrib.adapter.results import block_text
from toolcrib.crib import Crib, SyncCrib, View
from toolcrib.crib.code import Named
from toolcrib.errors import MissingPackageError, ToolExecutionError
from toolcrib.execution import Principal
from toolcrib.integrations.adopting import adopt
from toolcrib.integrations.toolbox import (
    AgentReply,
    AgentTool,
    CallFailedError,
    Consent,
    ConsentNeededError,
    Toolbox,
)
from toolcrib.model import LocalTool

try:
    from pydantic_ai import (
        AbstractToolset,
        ApprovalRequired,
        BinaryContent,
        CustomEvent,
        ModelRetry,
        RunContext,
        ToolDefinition,
        ToolReturn,
    )
    from pydantic_ai import Tool as FrameworkTool
    from pydantic_ai.exceptions import ToolFailed, UserError
    from pydantic_ai.messages import ModelMessage, ModelRequest, ToolReturnPart
    from pydantic_ai.models.test import TestModel
    from pydantic_ai.toolsets.abstract import ToolsetTool
    from pydantic_ai.usage import RunUsage
except ImportError as error:
    raise MissingPackageError("toolcrib.integrations.pydantic_ai", "pydantic-ai-slim") from error

_ANY = SchemaValidator(core_schema.dict_schema(core_schema.str_schema(), core_schema.any_schema()))
_FOUND = "toolcrib_found"
"""The key of a tool return's metadata with the ids of the tools that a search found."""


def toolset(  # noqa: PLR0913 - the tools, and how they are called, each by its name
    crib: View | SyncCrib,
    tools: Iterable[Named] | None = None,
    *,
    search: bool = False,
    timeout: float | None = None,
    principal: Principal | None = None,
    max_retries: int = 1,
    id: str | None = "toolcrib",  # noqa: A002 - as the framework calls it
) -> "CribToolset":
    """Return tools of a crib for `Agent(toolsets=[...])`: all, or those named.

    With `search` the agent has `search_tools` beside those named, and the tools that it finds are listed from
    its next turn on. They are read from the messages of the conversation, so that it can be continued
    anywhere.

    A call that the model can correct is a `ModelRetry`, up to `max_retries` times; others that fail are a
    `ToolFailed`. Where a rule asks for consent, and the crib has no `approve`, the agent gets
    `ApprovalRequired`.
    """
    toolbox = Toolbox(crib, tools, search=search, has_turns=True, timeout=timeout, principal=principal)
    return CribToolset(toolbox, max_retries, id)


class CribToolset(AbstractToolset[Any]):
    """A toolset of the tools in a crib; made by `toolset`."""

    def __init__(self, toolbox: Toolbox, max_retries: int, id: str | None) -> None:  # noqa: A002 - as in toolset
        self._toolbox = toolbox
        self._max_retries = max_retries
        self._id = id

    @property
    def id(self) -> str | None:
        """The id of the toolset, for durable execution."""
        return self._id

    @property
    def tool_name_conflict_hint(self) -> str:
        """Advice for a conflict of names."""
        return "Choose other tools, or use `.prefixed('...')` on the toolset."

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        """Return the tools as they are at this moment, with those that earlier searches found."""
        offered = {each.name: each for each in await self._toolbox.list_tools_later()}
        if self._toolbox.search:
            for each in self._toolbox.tools_of(_found_in(ctx.messages)):
                offered.setdefault(each.name, each)
        return {name: _CribTool.make(self, each, self._max_retries) for name, each in offered.items()}

    async def call_tool(
        self,
        name: str,  # noqa: ARG002 - which `tool` says
        tool_args: dict[str, Any],
        ctx: RunContext[Any],
        tool: ToolsetTool[Any],
    ) -> Any:
        """Run a tool as `crib.run` does."""
        if not isinstance(tool, _CribTool):
            raise TypeError(f"{tool.tool_def.name!r} is not a tool of this toolset")
        consent: Consent = "given" if ctx.tool_call_approved else "needed"
        try:
            progress = _reporter(ctx)
            reply = await self._toolbox.call(tool.offered, tool_args, progress=progress, consent=consent)
        except ConsentNeededError as needed:
            raise ApprovalRequired(metadata=needed.request) from None
        except CallFailedError as error:
            failure = ModelRetry if error.is_correctable else ToolFailed
            raise failure(str(error)) from error
        return _returned(reply)


@dataclass(kw_only=True)
class ToolProgressEvent(CustomEvent, name="toolcrib_progress"):  # type: ignore[call-arg]  # as its base takes
    """Progress that a tool reports while it runs, in the event stream of an agent."""

    progress: float
    """The progress so far."""
    total: float | None = None
    """Of how much, if known."""
    message: str | None = None
    """The present activity."""


def _reporter(ctx: RunContext[Any]) -> Callable[[float, float | None, str | None], Awaitable[None]]:
    async def report(progress: float, total: float | None, message: str | None) -> None:
        with suppress(UserError):  # nobody reads the events of this run
            await ctx.emit(ToolProgressEvent(progress=progress, total=total, message=message))

    return report


@dataclass(kw_only=True)
class _CribTool(ToolsetTool[Any]):
    """A tool of a crib in a toolset."""

    offered: AgentTool

    @classmethod
    def make(cls, toolset: CribToolset, offered: AgentTool, max_retries: int) -> "_CribTool":
        record = offered.tool
        metadata = {"annotations": offered.annotations, "tool_id": offered.tool_id}
        definition = ToolDefinition(
            name=offered.name,
            description=offered.description or None,
            parameters_json_schema=offered.parameters,
            return_schema=None if record is None else record.output_schema,
            metadata=metadata if record is None or record.meta is None else metadata | {"meta": record.meta},
        )
        return cls(
            toolset=toolset,
            tool_def=definition,
            max_retries=max_retries,
            args_validator=_ANY,
            offered=offered,
        )


def _found_in(messages: Iterable[ModelMessage]) -> Iterator[str]:
    """Yield the ids of the tools that the searches of a conversation found, the latest last."""
    for message in messages:
        for part in message.parts if isinstance(message, ModelRequest) else ():
            if isinstance(part, ToolReturnPart) and isinstance(part.metadata, dict):
                yield from part.metadata.get(_FOUND, ())


def _returned(reply: AgentReply) -> Any:
    """Return a result as the framework takes it: JSON, or parts where there are images or audio."""
    if reply.found:
        return ToolReturn(return_value=reply.value, metadata={_FOUND: list(reply.found)})
    if not reply.media:
        return reply.value
    parts: list[Any] = []
    for block in reply.blocks:
        if block["type"] in {"image", "audio"}:
            parts.append(BinaryContent(base64.b64decode(block["data"]), media_type=block["mimeType"]))
        else:
            parts.append(block_text(block))
    return parts


def register(
    crib: Crib | SyncCrib,
    tools: Iterable[FrameworkTool[Any] | Callable[..., Any]],
    *,
    namespace: str | None = None,
    deps: Any = None,
) -> list[LocalTool[..., Any]]:
    """Add tools of Pydantic AI to a crib, and return them; functions too, as `Agent(tools=...)` takes them.

    A tool that takes a `RunContext` gets one with `deps`; there is no model and no conversation in it.
    """
    wrapped = (each if isinstance(each, FrameworkTool) else FrameworkTool(each) for each in tools)
    return [
        adopt(
            crib,
            _caller(each, deps),
            name=each.name,
            namespace=namespace,
            description=each.description,
            input_schema=each.function_schema.json_schema,
        )
        for each in wrapped
    ]


def _caller(tool: FrameworkTool[Any], deps: Any) -> Callable[..., Any]:
    async def call(**args: Any) -> Any:
        schema = tool.function_schema
        context = RunContext(deps=deps, model=TestModel(), usage=RunUsage(), tool_name=tool.name)
        try:
            value = await schema.call(schema.validator.validate_python(args), context)
        except (ModelRetry, ToolFailed) as error:
            raise ToolExecutionError(tool_id=tool.name, reason=error.message) from error
        return value.return_value if isinstance(value, ToolReturn) else value

    return call
