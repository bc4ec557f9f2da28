"""Backends: records of where a tool runs."""

from typing import Annotated, Any, Literal, Self

import pydantic
from pydantic import BaseModel, Field, ValidatorFunctionWrapHandler, WrapValidator
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

from toolcrib.errors import InvalidBackendError, Problem, ToolcribError
from toolcrib.model.record import Record

BackendKind = Literal["mcp", "provider", "local"]

_Name = Annotated[str, Field(min_length=1)]


class ToolBackend(Record):
    """A binding of a tool to the system that runs it; one of three kinds."""

    kind: BackendKind
    """The kind of backend."""

    @classmethod
    def from_json(cls, source: str | bytes | bytearray | dict[str, Any] | BaseModel) -> Self:
        """Read a backend from JSON; `ToolBackend` itself reads every kind.

        Raises:
            InvalidBackendError: it is not JSON, not an object, or not a valid backend of its kind.
        """
        if cls is not ToolBackend or isinstance(source, ToolBackend):
            return super().from_json(source)
        data = cls._json_object(source)
        kind = data.get("kind")
        if isinstance(kind, str) and kind in _KINDS:
            read: Any = _KINDS[kind].from_json(data)
            return read  # type: ignore[no-any-return]  # a subclass of the only class that comes here
        return super().from_json({"kind": kind} if "kind" in data else {})

    @classmethod
    def _refusal(cls, problems: tuple[Problem, ...], data: dict[str, Any]) -> ToolcribError:
        kind = data.get("kind", cls.model_fields["kind"].default)
        shown = kind if isinstance(kind, str) else "tool"
        return InvalidBackendError(f"{shown} backend: {'; '.join(map(str, problems))}")


class McpBackend(ToolBackend):
    """A tool of an MCP server."""

    kind: Literal["mcp"] = "mcp"
    server_name: _Name
    """The server's name in the configuration."""


class ProviderBackend(ToolBackend):
    """A tool of an API that a provider executor calls."""

    kind: Literal["provider"] = "provider"
    provider_id: _Name
    """The name of the provider."""
    tool_id: _Name
    """The provider's name for the tool."""


class LocalBackend(ToolBackend):
    """A Python function in this process."""

    kind: Literal["local"] = "local"
    name: _Name
    """The name that the handler is registered under."""


_KINDS: dict[str, type[ToolBackend]] = {"mcp": McpBackend, "provider": ProviderBackend, "local": LocalBackend}


def _fix_error_paths(data: Any, bind: ValidatorFunctionWrapHandler) -> Any:
    """Validate a backend, with the kind removed from the paths of errors; pydantic would add it there."""
    try:
        return bind(data)
    except pydantic.ValidationError as error:
        lines = [_fix_error_path(detail) for detail in error.errors(include_url=False)]
        raise pydantic.ValidationError.from_exception_data(error.title, lines) from None


def _fix_error_path(detail: ErrorDetails) -> InitErrorDetails:
    kind, message, place = detail["type"], detail["msg"], detail["loc"][1:]
    if kind == "union_tag_not_found":
        kind, place = "missing", ("kind",)
    elif kind == "union_tag_invalid":
        kind, message, place = "literal_error", "must be 'mcp', 'provider' or 'local'", ("kind",)
    error = PydanticCustomError(kind, "{reason}", {"reason": message})
    return InitErrorDetails(type=error, loc=place, input=detail["input"])


AnyBackend = Annotated[
    McpBackend | ProviderBackend | LocalBackend, Field(discriminator="kind"), WrapValidator(_fix_error_paths)
]


def label(backend: ToolBackend) -> str:
    """Return the name of a backend in errors and records.

    >>> label(McpBackend(server_name="github"))
    'mcp:github'
    """
    match backend:
        case McpBackend():
            return f"mcp:{backend.server_name}"
        case ProviderBackend():
            return f"provider:{backend.provider_id}"
        case LocalBackend():
            return f"local:{backend.name}"
    return backend.kind
