"""A frontend that shows the tools themselves while they are few, and the meta-tools in place of many."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from toolcrib.crib import View
from toolcrib.crib.config.gateway import GatewaySettings
from toolcrib.execution import Principal
from toolcrib.gateway.frontends.meta.definitions import DEFINITIONS
from toolcrib.gateway.frontends.meta.tools import MetaTools
from toolcrib.gateway.frontends.passthrough import PassthroughTools
from toolcrib.gateway.frontends.shared.frontend import CallingClient, ToolDefinition, ToolResult
from toolcrib.gateway.results import KeptResults, encoded
from toolcrib.model import RunResult
from toolcrib.model.tokens import estimate_tokens

_FEW = (
    "The tools themselves are listed while they are few; should they become many, search_tools, "
    "describe_tool and run_tool are listed instead, which find, explain and run them."
)
_MANY = "There are too many tools to list them; they are reached through those that are listed."


class AutoTools:
    """A `Frontend` that lists the tools themselves while they are few, else the meta-tools.

    The limit is a number of tokens of definitions. A client can still call the tools of an earlier list.
    """

    def __init__(self, view: View, settings: GatewaySettings, *, kept: KeptResults | None = None) -> None:
        kept = KeptResults() if kept is None else kept
        self._passthrough = PassthroughTools(view, settings, kept=kept)
        self._meta = MetaTools(view, settings, kept=kept)
        self._limit = settings.expose_limit
        self._counted: tuple[Sequence[Mapping[str, Any]], bool] | None = None
        self._tokens: dict[int, tuple[Mapping[str, Any], int]] = {}

    @property
    def has_own_tasks(self) -> bool:
        """Whether the meta-tools are listed, of which some may become tasks."""
        return not self.is_passthrough

    @property
    def is_passthrough(self) -> bool:
        """Whether the tools themselves are listed now."""
        tools = self._passthrough.tools()
        if self._counted is None or self._counted[0] is not tools:
            self._counted = tools, self._fits_limit(tools)
        return self._counted[1]

    def _fits_limit(self, tools: Sequence[Mapping[str, Any]]) -> bool:
        """Return whether definitions take no more tokens than the limit."""
        total = 0
        counted: dict[int, tuple[Mapping[str, Any], int]] = {}
        for tool in tools:
            known = self._tokens.get(id(tool))
            if known is None:
                known = tool, estimate_tokens(encoded(tool), sampled=False)
            counted[id(tool)] = known
            total += known[1]
            if total > self._limit:
                break
        self._tokens = counted
        return total <= self._limit

    def about(self) -> str:
        """Return the instructions for a model, which say whether the tools themselves are listed."""
        if self.is_passthrough:
            return f"{self._passthrough.about()} {_FEW}".strip()
        return f"{_MANY} {self._meta.about()}"

    def tools(self) -> Sequence[ToolDefinition]:
        """Return the definitions that clients see now."""
        return self._passthrough.tools() if self.is_passthrough else self._meta.tools()

    async def settled(self) -> dict[str, Any]:
        """Wait a moment for the servers' lists; return how long they are fresh, if they are shown."""
        fresh = await self._passthrough.settled()
        return fresh if self.is_passthrough else {}

    def on_change(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Call back when `tools` may return something else."""
        return self._passthrough.on_change(callback)

    async def call(self, name: str, arguments: Mapping[str, Any] | None, client: CallingClient) -> ToolResult:
        """Call the tool or the meta-tool that the name means in the present or an earlier list."""
        return await self._frontend_with(name).call(name, arguments, client)

    def finished(self, name: str, finish: Callable[[], RunResult], principal: Principal) -> ToolResult:
        """Return the result of a server's task as the result of the tool that was called."""
        return self._frontend_with(name).finished(name, finish, principal)

    def _frontend_with(self, name: str) -> PassthroughTools | MetaTools:
        is_meta = name in DEFINITIONS and not (self.is_passthrough and self._passthrough.lists(name))
        return self._meta if is_meta else self._passthrough
