"""The tools of a crib as a toolset of Google's Agent Development Kit."""

from collections.abc import Iterable
from typing import Any

from toolcrib.crib import SyncCrib, View
from toolcrib.crib.code import Named
from toolcrib.errors import MissingPackageError
from toolcrib.execution import Principal
from toolcrib.integrations.toolbox import AgentTool, CallFailedError, Consent, ConsentNeededError, Toolbox

try:
    from google.adk.agents.readonly_context import ReadonlyContext
    from google.adk.tools import BaseTool, ToolContext
    from google.adk.tools.base_toolset import BaseToolset
    from google.genai.types import FunctionDeclaration
except ImportError as error:
    raise MissingPackageError("toolcrib.integrations.adk", "google-adk") from error

FOUND_STATE = "toolcrib_found"
"""The key of a session's state with the ids of the tools that its searches found."""


def toolset(
    crib: View | SyncCrib,
    tools: Iterable[Named] | None = None,
    *,
    search: bool = False,
    timeout: float | None = None,
    principal: Principal | None = None,
) -> "BaseToolset":
    """Return tools of a crib for `LlmAgent(tools=[...])`: all, or those named.

    With `search` the agent has `search_tools` beside those named, and the tools that it finds are listed from
    its next turn on. They are kept in the state of the session. A call that fails is a response with `error`.
    A rule that asks for consent requests a confirmation of the framework, unless the crib has an `approve`.
    """
    return _CribToolset(
        Toolbox(crib, tools, search=search, has_turns=True, timeout=timeout, principal=principal)
    )


class _CribToolset(BaseToolset):
    """A toolset of the tools in a crib."""

    def __init__(self, toolbox: Toolbox) -> None:
        super().__init__()
        self._toolbox = toolbox
        self._use_invocation_cache = not toolbox.search  # there is no public way to list tools for each turn

    async def get_tools(self, readonly_context: ReadonlyContext | None = None) -> list[BaseTool]:
        """Return the tools as they are at this moment, with those that earlier searches found."""
        offered = {each.name: each for each in await self._toolbox.list_tools_later()}
        if self._toolbox.search and readonly_context is not None:
            for each in self._toolbox.tools_of(readonly_context.state.get(FOUND_STATE, ())):
                offered.setdefault(each.name, each)
        return [_CribTool(self._toolbox, each) for each in offered.values()]


class _CribTool(BaseTool):
    """A tool of a crib in the ADK."""

    def __init__(self, toolbox: Toolbox, offered: AgentTool) -> None:
        metadata = {"tool_id": offered.tool_id, "annotations": offered.annotations}
        super().__init__(name=offered.name, description=offered.description, custom_metadata=metadata)
        self._toolbox, self._offered = toolbox, offered

    def _get_declaration(self) -> FunctionDeclaration:
        return FunctionDeclaration(
            name=self.name,
            description=self.description,
            parameters_json_schema=self._offered.parameters,
        )

    async def run_async(self, *, args: dict[str, Any], tool_context: ToolContext) -> Any:
        """Call the tool."""
        confirmation = tool_context.tool_confirmation
        if confirmation is not None and not confirmation.confirmed:
            return {"error": f"{self._offered.tool_id}: the user did not agree"}
        consent: Consent = "needed" if confirmation is None else "given"
        try:
            reply = await self._toolbox.call(self._offered, args, consent=consent)
        except CallFailedError as failure:
            return {"error": str(failure)}
        except ConsentNeededError as needed:
            reason = needed.request["reason"]
            tool_context.request_confirmation(hint=reason or str(needed), payload=needed.request)
            tool_context.actions.skip_summarization = True
            return {"error": "this call waits for the user to agree"}
        if reply.found:
            earlier = tool_context.state.get(FOUND_STATE, ())
            tool_context.state[FOUND_STATE] = list(dict.fromkeys([*earlier, *reply.found]))
        if reply.media:
            return {"result": reply.value, "content": list(reply.blocks)}
        return reply.value if isinstance(reply.value, dict) else {"result": reply.value}
