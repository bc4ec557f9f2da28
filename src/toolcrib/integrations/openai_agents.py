"""The tools of a crib for agents of the OpenAI Agents SDK."""

import json
from collections.abc import Iterable
from typing import Any

from toolcrib.adapter import Conversion, default_registry
from toolcrib.adapter.results import block_text
from toolcrib.crib import SyncCrib, View
from toolcrib.crib.code import Named
from toolcrib.errors import ConversionError, MissingPackageError
from toolcrib.execution import Principal
from toolcrib.integrations.toolbox import (
    AgentReply,
    AgentTool,
    CallFailedError,
    Consent,
    ConsentNeededError,
    FoundTools,
    Toolbox,
)

try:
    from agents import FunctionTool, RunContextWrapper, ToolOutputImage, ToolOutputText
    from agents.tool_context import ToolContext
except ImportError as error:
    raise MissingPackageError("toolcrib.integrations.openai_agents", "openai-agents") from error


def tools(
    crib: View | SyncCrib,
    tools: Iterable[Named] | None = None,
    *,
    search: bool = False,
    strict: bool = False,
    timeout: float | None = None,
    principal: Principal | None = None,
) -> "list[FunctionTool]":
    """Return tools of a crib for `Agent(tools=...)`: all, or those named.

    With `search` the agent has `search_tools` beside those named. What it finds is added to this list, which
    the agent reads before each turn: give it the list itself, and each conversation a list of its own.

    With `strict` the schemas are rewritten for strict mode, and the arguments of calls are translated back. A
    call that fails is a text that says why. A rule that asks for consent is an interruption of the run,
    unless the crib has an `approve`.
    """
    toolbox = Toolbox(crib, tools, search=search, has_turns=True, timeout=timeout, principal=principal)
    return FoundTools(toolbox, lambda each, found: _make(toolbox, each, found, strict=strict))


def _make(
    toolbox: Toolbox, offered: AgentTool, found: "FoundTools[FunctionTool]", *, strict: bool
) -> "FunctionTool":
    conversion = _convert(offered) if strict and offered.tool is not None else None

    async def invoke(context: ToolContext[Any], arguments: str) -> Any:
        is_approved = context.is_tool_approved(offered.name, context.tool_call_id)
        consent: Consent = "given" if is_approved else "needed"
        try:
            args = _read(conversion, arguments)
            reply = await toolbox.call(offered, args, consent=consent)
        except (CallFailedError, ConversionError) as failure:
            return f"Error: {failure}"
        except ConsentNeededError as needed:
            return f"Error: {needed}"
        found.add(reply.found)
        return _returned(reply)

    async def needs_approval(context: RunContextWrapper[Any], args: dict[str, Any], call_id: str) -> bool:  # noqa: ARG001 - as the framework calls it
        return await toolbox.needs_consent(offered, args)

    return FunctionTool(
        name=offered.name,
        description=offered.description,
        params_json_schema=offered.parameters if conversion is None else conversion.payload["parameters"],
        on_invoke_tool=invoke,
        strict_json_schema=conversion is not None,
        needs_approval=needs_approval if toolbox.may_need_consent else False,
    )


def _convert(offered: AgentTool) -> Conversion:
    return default_registry().convert(
        offered.tool, source="mcp", target="openai", api="responses", strict=True
    )


def _read(conversion: Conversion | None, arguments: str) -> Any:
    """Return the arguments of a call in the terms of the crib's tool; text that is not JSON as it is."""
    if conversion is not None:
        call = {"type": "function_call", "call_id": "call", "name": conversion.name, "arguments": arguments}
        return conversion.decode_call(call).args
    try:
        return json.loads(arguments or "{}")
    except ValueError:
        return arguments


def _returned(reply: AgentReply) -> Any:
    """Return a result as the framework takes it: text, or parts where there are images."""
    if not any(kind == "image" for kind, _, _ in reply.media):
        return reply.text
    return [
        ToolOutputImage(image_url=f"data:{block['mimeType']};base64,{block['data']}")
        if block["type"] == "image"
        else ToolOutputText(text=block_text(block))
        for block in reply.blocks
    ]
