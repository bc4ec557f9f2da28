"""Converts the tools of a catalogue to the formats of model providers."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from toolcrib.discovery import Index, IndexView, Result, Summary
from toolcrib.errors import ConversionError, ToolNotFoundError
from toolcrib.model import Tool, ToolId
from toolcrib.model.suggest import did_you_mean

if TYPE_CHECKING:
    from toolcrib.adapter import Adapter, AdapterRegistry, Conversion


_RESERVED = frozenset({"formats", "index", "look_up", "name", "raws", "source", "tool"})
"""Names of parameters between a crib and its adapters, which an option cannot have."""


def make_formats(adapters: "Sequence[Adapter]") -> "AdapterRegistry":
    """Return a registry of the built-in adapters and these, which replace those of the same names."""
    from toolcrib.adapter import default_registry  # noqa: PLC0415 - a quarter of the time to import a crib

    registry = default_registry()
    for adapter in adapters:
        if getattr(adapter, "name", None) in registry.names():
            registry.unregister(adapter.name)
        registry.register(adapter)
    return registry


def check_request(tools: object, options: Mapping[str, Any], keywords: Sequence[str], target: str) -> None:
    """Refuse a single tool in place of a list, and options that are misspelt keywords of a method.

    Raises:
        ConversionError: one of these, with what was meant.
    """
    is_list = isinstance(tools, Iterable) and not isinstance(tools, str | Tool | Summary | Result)
    if tools is not None and not is_list:
        raise ConversionError(f"tools must be a list; put {str(tools)!r:.80} into one", target, "convert")
    for name in options:
        hint = did_you_mean(name, keywords)
        if hint or name in _RESERVED:
            raise ConversionError(f"there is no option {name!r}{hint}", target, "convert")


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
