"""Normalised results of tools, from which each provider's format is written."""

from dataclasses import dataclass
from typing import Any, Final

from toolcrib.adapter.rewrite.codec import to_text
from toolcrib.errors import ConversionError, ToolcribError, ValidationError
from toolcrib.model.plain import copy_json, measure
from toolcrib.model.results import RunResult

_MCP_KEYS: Final = frozenset({"content", "structuredContent", "isError", "_meta", "resultType"})
_MCP_BLOCKS: Final = ("text", "image", "audio", "resource", "resource_link")


class ResultError(ValueError):
    """A result that is neither JSON, nor an MCP result, a `RunResult` or an exception."""


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """A result as text, as JSON, and as MCP content blocks."""

    text: str
    """The result as text."""
    value: Any = None
    """The result as JSON."""
    blocks: tuple[dict[str, Any], ...] = ()
    """MCP content blocks; a single text block if the result had none."""
    is_error: bool = False
    """Whether the tool failed."""
    mcp: dict[str, Any] | None = None
    """The whole MCP result; None if it was not one."""


def read_outcome(result: Any) -> ToolOutput:
    """Normalise a result in any of the accepted forms.

    Raises:
        ResultError: it is neither JSON, nor an MCP result, a `RunResult` or an exception.
    """
    if isinstance(result, BaseException):
        if isinstance(result, ConversionError):  # adapter and direction say nothing to a model
            text = result.reason
        elif isinstance(result, ToolcribError):
            text = str(result)
        else:
            text = f"{type(result).__name__}: {result}"
        text = text.removesuffix(": ").encode(errors="replace").decode()
        return _make_text_output(text, is_error=True)
    may_be_mcp = True
    if isinstance(result, RunResult):
        may_be_mcp = result.mcp_result is not None
        result = result.mcp_result if may_be_mcp else result.structured
    if hasattr(result, "model_dump"):
        result = result.model_dump(mode="json", by_alias=True, exclude_none=True)
    try:
        measure(result)
    except ValidationError as error:
        raise ResultError(f"the result is not JSON: {error}") from error
    result = copy_json(result)
    if may_be_mcp and _is_mcp_result(result):
        return _make_mcp_output(result)
    if isinstance(result, str):
        return _make_text_output(result, value=result)
    return _make_text_output(to_text(result), value=result)


def _is_mcp_result(result: Any) -> bool:
    """Return whether a value has the form of an MCP tool result, without other keys."""
    return (
        isinstance(result, dict)
        and result.keys() <= _MCP_KEYS
        and isinstance(result.get("content"), list)
        and all(isinstance(block, dict) and block.get("type") in _MCP_BLOCKS for block in result["content"])
    )


def _make_text_output(text: str, *, value: Any = None, is_error: bool = False) -> ToolOutput:
    block = {"type": "text", "text": text}
    return ToolOutput(text, text if is_error else value, (block,), is_error)


def _make_mcp_output(result: dict[str, Any]) -> ToolOutput:
    blocks = tuple(result["content"])
    texts = [block_text(block) for block in blocks]
    value = result.get("structuredContent")
    text = "\n".join(texts)
    if not text and value is not None:
        text = to_text(value)
    return ToolOutput(text, text if value is None else value, blocks, result.get("isError") is True, result)


def block_text(block: dict[str, Any]) -> str:
    """Return an MCP content block as text: its text, or else its JSON without binary data."""
    if block["type"] == "text":
        return str(block.get("text", ""))
    resource = block.get("resource")
    if isinstance(resource, dict) and isinstance(resource.get("text"), str):
        return str(resource["text"])
    bare = {key: value for key, value in block.items() if key not in {"data", "_meta", "annotations"}}
    if isinstance(resource, dict):
        bare["resource"] = {key: value for key, value in resource.items() if key != "blob"}
    return to_text(bare)
