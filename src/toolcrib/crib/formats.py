"""The tools of a catalogue in the formats of model providers."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from toolcrib.discovery import Index, IndexView
from toolcrib.errors import ToolNotFoundError
from toolcrib.model import Tool, ToolId

if TYPE_CHECKING:
    from toolcrib.adapter import Adapter, AdapterRegistry, Conversion


def make_formats(adapters: "Sequence[Adapter]") -> "AdapterRegistry":
    """Return the formats of tool definitions, these adapters in place of those of the same names."""
    from toolcrib.adapter import default_registry  # noqa: PLC0415 - a quarter of the time to import a crib

    registry = default_registry()
    for adapter in adapters:
        if getattr(adapter, "name", None) in registry.names():
            registry.unregister(adapter.name)
        registry.register(adapter)
    return registry


def convert(
    formats: "AdapterRegistry",
    index: Index | IndexView,
    target: str,
    tools: Iterable[str | ToolId | Tool] | None,
    **options: Any,
) -> "list[Conversion]":
    """Return tools in a provider's format, each under a name of its own: all, or those named."""
    chosen = (
        _all_tools(index)
        if tools is None
        else [_given(index, one) if isinstance(one, Tool) else index.resolve(one) for one in tools]
    )
    return formats.convert_many(chosen, source="mcp", target=target, **options)


def _given(index: Index | IndexView, tool: Tool) -> Tool:
    """Return a tool as it is given; a part of a catalogue has to have it."""
    if isinstance(index, IndexView):
        index.get(tool.id)
    return tool


def _all_tools(index: Index | IndexView) -> list[Tool]:
    """Return every tool, in the order of the ids; looked at again where one went in between."""
    while True:
        try:
            return [index.get(summary.id) for summary in index.every()]
        except ToolNotFoundError:
            continue
