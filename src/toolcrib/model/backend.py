"""Where a tool runs."""

from typing import Annotated, Any, Literal

from pydantic import Field

from toolcrib.errors import InvalidBackendError, Problem, ToolcribError
from toolcrib.model.record import Record

__all__ = ["AnyBackend", "BackendKind", "LocalBackend", "McpBackend", "ProviderBackend", "ToolBackend"]

BackendKind = Literal["mcp", "provider", "local"]

_Name = Annotated[str, Field(min_length=1)]


class ToolBackend(Record):
    """A binding of a tool to what runs it; one of the three kinds below."""

    kind: BackendKind

    @classmethod
    def _refusal(cls, problems: tuple[Problem, ...], data: dict[str, Any]) -> ToolcribError:
        kind = data.get("kind", cls.model_fields["kind"].default)
        shown = kind if isinstance(kind, str) else "tool"
        return InvalidBackendError(f"{shown} backend: {'; '.join(map(str, problems))}")


class McpBackend(ToolBackend):
    """A tool of an MCP server."""

    kind: Literal["mcp"] = "mcp"
    server_name: _Name


class ProviderBackend(ToolBackend):
    """A tool of an API that a provider executor calls."""

    kind: Literal["provider"] = "provider"
    provider_id: _Name
    tool_id: _Name


class LocalBackend(ToolBackend):
    """A Python function in this process."""

    kind: Literal["local"] = "local"
    name: _Name


AnyBackend = Annotated[McpBackend | ProviderBackend | LocalBackend, Field(discriminator="kind")]
