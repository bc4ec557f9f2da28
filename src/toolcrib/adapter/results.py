"""What running a tool gave, before a provider's format is put around it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from toolcrib.adapter.rewrite.codec import to_text
from toolcrib.errors import ValidationError
from toolcrib.model.plain import copy_json, measure
from toolcrib.model.results import RunResult

__all__ = ["Outcome", "ResultError", "block_text", "read_outcome"]


class ResultError(ValueError):
    """A result that is neither JSON, nor an MCP result, a `RunResult` or an exception."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """A result as text, as a value, and as the blocks that an MCP server sent."""

    text: str
    value: Any = None
    blocks: tuple[dict[str, Any], ...] = ()
    """MCP content; a single block of text where the tool gave no content."""
    is_error: bool = False
    is_mcp: bool = False
    """Whether the blocks came from an MCP server, beside or instead of the value."""


def read_outcome(result: Any) -> Outcome:
    """Return what a result says, whichever form it comes in.

    Raises:
        ResultError: it is neither JSON, nor an MCP result, a `RunResult` or an exception.
    """
    if isinstance(result, BaseException):
        return _of_text(str(result) or type(result).__name__, is_error=True)
    if isinstance(result, RunResult):
        result = result.structured if result.mcp_result is None else result.mcp_result
    if hasattr(result, "model_dump"):
        result = result.model_dump(mode="json", by_alias=True, exclude_none=True)
    try:
        measure(result)
    except ValidationError as error:
        raise ResultError(f"the result is not JSON: {error}") from error
    result = copy_json(result)
    if isinstance(result, Mapping) and _is_content(result.get("content")):
        return _of_mcp(result)
    if isinstance(result, str):
        return _of_text(result, value=result)
    return _of_text(to_text(result), value=result)


def _is_content(content: Any) -> bool:
    return isinstance(content, list) and all(
        isinstance(block, dict) and isinstance(block.get("type"), str) for block in content
    )


def _of_text(text: str, *, value: Any = None, is_error: bool = False) -> Outcome:
    block = {"type": "text", "text": text}
    return Outcome(text, text if is_error else value, (block,), is_error)


def _of_mcp(result: Mapping[str, Any]) -> Outcome:
    blocks = tuple(result["content"])
    texts = [block_text(block) for block in blocks]
    value = result.get("structuredContent")
    text = "\n".join(texts)
    if not text and value is not None:
        text = to_text(value)
    return Outcome(text, text if value is None else value, blocks, result.get("isError") is True, is_mcp=True)


def block_text(block: dict[str, Any]) -> str:
    """Return a block of MCP content as text: itself, or JSON that says what it is without its bytes."""
    if block["type"] == "text":
        return str(block.get("text", ""))
    resource = block.get("resource")
    if isinstance(resource, dict) and isinstance(resource.get("text"), str):
        return str(resource["text"])
    bare = {key: value for key, value in block.items() if key not in {"data", "_meta", "annotations"}}
    if isinstance(resource, dict):
        bare["resource"] = {key: value for key, value in resource.items() if key != "blob"}
    return to_text(bare)
