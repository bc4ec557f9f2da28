"""The tools of a crib for agents of Agno."""

import base64
from collections.abc import Iterable
from typing import Any

from toolcrib.crib import SyncCrib, View
from toolcrib.crib.code import Named
from toolcrib.errors import MissingPackageError
from toolcrib.execution import Principal
from toolcrib.integrations.toolbox import AgentReply, AgentTool, Toolbox

try:
    from agno.media import Audio, Image
    from agno.tools.function import Function, ToolResult
except ImportError as error:
    raise MissingPackageError("toolcrib.integrations.agno", "agno") from error


def tools(
    crib: View | SyncCrib,
    tools: Iterable[Named] | None = None,
    *,
    search: bool = False,
    timeout: float | None = None,
    principal: Principal | None = None,
) -> "list[Function]":
    """Return tools of a crib for `Agent(tools=...)`: all, or those named.

    With `search` the agent has `search_tools` and `run_tool` beside those named: Agno gives a model its tools
    at the beginning of a run. With a `Crib` use `agent.arun`, with a `SyncCrib` `agent.run`. A call that
    fails raises, which the framework shows to the model.
    """
    toolbox = Toolbox(crib, tools, search=search, timeout=timeout, principal=principal)
    return [_make(toolbox, each) for each in toolbox.list_tools()]


def _make(toolbox: Toolbox, offered: AgentTool) -> "Function":
    async def call(**args: Any) -> Any:
        return _returned(await toolbox.call(offered, args))

    def call_sync(**args: Any) -> Any:
        return _returned(toolbox.call_sync(offered, args))

    hints = offered.annotations
    read_only = hints.get("readOnlyHint")
    return Function(
        name=offered.name,
        description=offered.description,
        parameters=offered.parameters,
        entrypoint=call_sync if isinstance(toolbox.crib, SyncCrib) else call,
        skip_entrypoint_processing=True,
        annotations=hints or None,
        has_side_effects=None if read_only is None else not read_only,
    )


def _returned(reply: AgentReply) -> "ToolResult | str":
    """Return a result as text, with its images and audio."""
    if not reply.media:
        return reply.text
    images = [
        Image(content=base64.b64decode(data), mime_type=mime)
        for kind, mime, data in reply.media
        if kind == "image"
    ]
    audios = [
        Audio(content=base64.b64decode(data), mime_type=mime)
        for kind, mime, data in reply.media
        if kind == "audio"
    ]
    metadata = {"structured_content": reply.value}
    texts = [block["text"] for block in reply.blocks if block["type"] == "text"]
    return ToolResult(
        content="\n".join(texts), images=images or None, audios=audios or None, metadata=metadata
    )
