"""Converts the tools of a catalogue to the formats of model providers."""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from toolcrib.discovery import Index, IndexView
from toolcrib.errors import ToolNotFoundError
from toolcrib.model import Tool, ToolId

if TYPE_CHECKING:
    from toolcrib.adapter import Adapter, AdapterRegistry, Conversion


def make_formats(adapters: "Sequence[Adapter]") -> "AdapterRegistry":
    """Return a registry of the built-in adapters and these, which replace those of the same names."""
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
    look_up: Callable[[str | ToolId], Tool],
    **options: Any,
) -> "list[Conversion]":
    """Convert all tools, or those named, which `look_up` returns, each under a name of its own."""
    chosen = (
        _list_all_tools(index)
        if tools is None
        else [_check_in_view(index, one) if isinstance(one, Tool) else look_up(one) for one in tools]
    )
    return formats.convert_many(chosen, source="mcp", target=target, **options)


def _check_in_view(index: Index | IndexView, tool: Tool) -> Tool:
    """Return the tool; raise an error if a view of the catalogue does not have it."""
    if isinstance(index, IndexView):
        index.get(tool.id)
    return tool


def _list_all_tools(index: Index | IndexView) -> list[Tool]:
    """Return all tools in the order of their ids; start again if one is removed meanwhile."""
    while True:
        try:
            return [index.get(summary.id) for summary in index.list_all()]
        except ToolNotFoundError:
            continue
