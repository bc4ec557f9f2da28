"""A frontend that shows the tools themselves while they are few, and the meta-tools in place of many."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from toolcrib.crib import View
from toolcrib.crib.config.gateway import GatewaySettings
from toolcrib.gateway.frontends.meta.definitions import DEFINITIONS
from toolcrib.gateway.frontends.meta.tools import MetaTools
from toolcrib.gateway.frontends.passthrough.tools import PassthroughTools
from toolcrib.gateway.frontends.shared.frontend import CallingClient, ToolDefinition, ToolResult
from toolcrib.gateway.results import KeptResults, encoded
from toolcrib.model import RunResult
from toolcrib.model.tokens import estimated_tokens

_FEW = (
    "The tools themselves are listed while they are few; should they become many, search_tools, "
    "describe_tool and run_tool are listed instead, which find, explain and run them."
)
_MANY = "There are too many tools to list them; they are reached through those that are listed."


class AutoTools:
    """A `Frontend` that is `PassthroughTools` up to a number of tokens of definitions, and `MetaTools` beyond it.

    A client whose list is of before a change can call what stands in it.
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
        """Whether those are listed that may go on as tasks."""
        return not self.is_passthrough

    @property
    def is_passthrough(self) -> bool:
        """Whether the tools themselves are listed at this moment."""
        tools = self._passthrough.tools()
        if self._counted is None or self._counted[0] is not tools:
            self._counted = tools, self._fits(tools)
        return self._counted[1]

    def _fits(self, tools: Sequence[Mapping[str, Any]]) -> bool:
        """Return whether definitions take no more tokens than the limit; of too many not all are counted."""
        total = 0
        counted: dict[int, tuple[Mapping[str, Any], int]] = {}
        for tool in tools:
            known = self._tokens.get(id(tool))
            if known is None:
                known = tool, estimated_tokens(encoded(tool), sampled=False)
            counted[id(tool)] = known
            total += known[1]
            if total > self._limit:
                break
        self._tokens = counted
        return total <= self._limit

    def about(self) -> str:
        """Return what a model should know before it uses the tools, and which of the two it sees."""
        if self.is_passthrough:
            return f"{self._passthrough.about()} {_FEW}".strip()
        return f"{_MANY} {self._meta.about()}"

    def tools(self) -> Sequence[ToolDefinition]:
        """Return the definitions that clients see at this moment."""
        return self._passthrough.tools() if self.is_passthrough else self._meta.tools()

    async def settled(self) -> dict[str, Any]:
        """Wait a moment for the servers' lists, and return how long that of all is fresh, if it is shown."""
        fresh = await self._passthrough.settled()
        return fresh if self.is_passthrough else {}

    def on_change(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Call back when `tools` may return something else."""
        return self._passthrough.on_change(callback)

    async def call(self, name: str, arguments: Mapping[str, Any] | None, client: CallingClient) -> ToolResult:
        """Call a tool or a meta-tool, whichever of them the name means in what is listed, or was."""
        return await self._one_with(name).call(name, arguments, client)

    def finished(self, name: str, finish: Callable[[], RunResult]) -> ToolResult:
        """Return what the task of a server's tool gave, as the result of what was called."""
        return self._one_with(name).finished(name, finish)

    def _one_with(self, name: str) -> PassthroughTools | MetaTools:
        is_meta = name in DEFINITIONS and not (self.is_passthrough and self._passthrough.lists(name))
        return self._meta if is_meta else self._passthrough
