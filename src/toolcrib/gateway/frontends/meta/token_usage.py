"""Tokens that all tools would cost if they were listed, against what the gateway lists."""

from typing import NamedTuple

from pydantic_core import to_json

from toolcrib.discovery import Index, IndexView
from toolcrib.errors import ToolcribError
from toolcrib.model import Tool
from toolcrib.model.tokens import estimate_tokens

_UNSEEN = frozenset({"backend", "namespace", "version", "tags"})
"""What a server does not list of a tool."""


class TokenUsage(NamedTuple):
    """Tokens of definitions in the context of a client."""

    direct: int
    """Tokens of all definitions, as if each tool were listed."""
    surface: int
    """Tokens of the definitions that are listed in their place."""
    tools: int
    """Number of tools."""

    @property
    def saved(self) -> float:
        """Return which part is saved, negative where nothing is."""
        return 1 - self.surface / self.direct if self.direct else 0.0


def measure_usage(index: Index | IndexView, surface: int) -> TokenUsage:
    """Count the definitions of an index, which may take a second for thousands of tools."""
    direct = tools = 0
    for summary in index.list_all():
        try:
            tokens = tool_tokens(index.get(summary.id))
        except ToolcribError:  # removed while the others are counted
            continue
        direct, tools = direct + tokens, tools + 1
    return TokenUsage(direct, surface, tools)


def tool_tokens(tool: Tool) -> int:
    """Return about how many tokens the definition of a tool takes, as its server would list it."""
    return estimate_tokens(to_json(tool.to_json(without=_UNSEEN)).decode(), sampled=False)
