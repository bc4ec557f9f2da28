"""Tools of a catalogue in the formats of providers."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from toolcrib.discovery import Index, IndexView
from toolcrib.errors import InvalidCursorError, ToolNotFoundError
from toolcrib.model import Tool, ToolId

if TYPE_CHECKING:
    from toolcrib.adapter import Conversion

__all__ = ["convert"]

_PAGE = 1_000


def convert(
    index: Index | IndexView, target: str, tools: Iterable[str | ToolId | Tool] | None, **options: Any
) -> "list[Conversion]":
    """Return tools in a provider's format, each under a name of its own: all, or those named."""
    from toolcrib.adapter import default_registry  # noqa: PLC0415 - a quarter of the time to import a crib

    chosen = (
        _all_tools(index)
        if tools is None
        else [_given(index, one) if isinstance(one, Tool) else index.resolve(one) for one in tools]
    )
    return default_registry().convert_many(chosen, source="mcp", target=target, **options)


def _given(index: Index | IndexView, tool: Tool) -> Tool:
    """Return a tool as it is given; a part of a catalogue has to have it."""
    if isinstance(index, IndexView):
        index.get(tool.id)
    return tool


def _all_tools(index: Index | IndexView) -> list[Tool]:
    """Return every tool, in the order of the ids; from the beginning again where one came in between."""
    while True:
        found: list[Tool] = []
        cursor: str | None = None
        try:
            while True:
                page = index.tools(limit=_PAGE, cursor=cursor)
                found += [index.get(summary.id) for summary in page.items]
                cursor = page.next_cursor
                if cursor is None:
                    return found
        except (InvalidCursorError, ToolNotFoundError):
            continue
