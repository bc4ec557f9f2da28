"""Registry of adapters, which converts definitions from any of their formats to any other."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from importlib.metadata import EntryPoint, entry_points
from inspect import signature
from threading import Lock
from typing import Any, Final

from toolcrib.adapter.conversion import Conversion
from toolcrib.adapter.loss import Losses
from toolcrib.adapter.names import id_text, unique_names
from toolcrib.adapter.protocol import Adapter, SchemaFeature, Translator
from toolcrib.adapter.providers.a2a import A2AAdapter
from toolcrib.adapter.providers.anthropic import AnthropicAdapter
from toolcrib.adapter.providers.gemini import GeminiAdapter
from toolcrib.adapter.providers.mcp import McpAdapter, McpCalls
from toolcrib.adapter.providers.openai import OpenAIAdapter
from toolcrib.adapter.rewrite.used import used_keywords
from toolcrib.errors import ConversionError
from toolcrib.model.canonical import CanonicalTool
from toolcrib.model.suggest import choose

ENTRY_POINTS: Final = "toolcrib.adapters"
"""The entry-point group of adapters: each is a class, or a function that returns an adapter."""
_FEATURES: Final = frozenset(SchemaFeature)
_MAKERS: Final = {"claude": "anthropic", "gpt": "openai", "chatgpt": "openai", "google": "gemini"}
"""The adapters of models and vendors, for hints."""


class AdapterRegistry:
    """Adapters by name; thread-safe.

    >>> registry = default_registry()
    >>> raw = {"name": "add", "inputSchema": {"type": "object", "properties": {"a": {"type": "integer"}}}}
    >>> registry.convert(raw, source="mcp", target="anthropic").payload["input_schema"]["properties"]
    {'a': {'type': 'integer'}}
    """

    def __init__(self, adapters: Iterable[Adapter] = ()) -> None:
        self._adapters: dict[str, Adapter] = {}
        self._translators: dict[str, Translator] = {}
        self._lock = Lock()
        for adapter in adapters:
            self.register(adapter)

    def register(self, adapter: Adapter) -> None:
        """Add an adapter.

        Raises:
            ConversionError: it is not an adapter, or its name is taken.
        """
        name = getattr(adapter, "name", None)
        if not isinstance(name, str) or not name or not _is_adapter(adapter):
            kind = adapter.__name__ if isinstance(adapter, type) else type(adapter).__name__
            wants = "an adapter has name, to_canonical, from_canonical and supports_feature"
            reason = f"{kind} is not an adapter; {'pass an instance' if isinstance(adapter, type) else wants}"
            raise ConversionError(reason, str(name or "adapter"), "register")
        with self._lock:
            if name in self._adapters:
                raise ConversionError(
                    "there is an adapter of that name; unregister it first", name, "register"
                )
            self._adapters[name] = adapter
            if isinstance(adapter, Translator):
                self._translators[name] = adapter

    def unregister(self, name: str) -> None:
        """Remove an adapter.

        Raises:
            ConversionError: there is no adapter of that name.
        """
        self.get(name)
        with self._lock:
            self._adapters.pop(name, None)
            self._translators.pop(name, None)

    def get(self, name: str) -> Adapter:
        """Return an adapter.

        Raises:
            ConversionError: there is no adapter of that name; the error suggests the most similar one.
        """
        found = self._adapters.get(str(name))
        if found is not None:
            return found
        known = self.names()
        family = str(name).partition("-")[0]
        if family in known:
            reason = f"there is no adapter {name!r:.80}; take {family!r}, with its options"
            raise ConversionError(reason, str(name)[:80], "get")
        maker = _MAKERS.get(family.lower())
        hint = f"; did you mean {maker!r}?" if maker in known else choose(str(name).lower(), known)
        raise ConversionError(f"there is no adapter {name!r:.80}{hint}", str(name)[:80], "get")

    def names(self) -> tuple[str, ...]:
        """Return the sorted names of all adapters."""
        return tuple(sorted(self._adapters.copy()))

    def convert(self, raw: Any, *, source: str, target: str, **options: Any) -> Conversion:
        """Convert a definition from one format to another; the options are those of the target.

        Raises:
            ConversionError: there is no such adapter, or the definition cannot be read or written.
        """
        reader = self.get(source)
        read = reader.borrow if isinstance(reader, McpAdapter) else reader.to_canonical
        return self.convert_canonical(read(raw), target=target, **options)

    def convert_canonical(self, tool: CanonicalTool, *, target: str, **options: Any) -> Conversion:
        """Convert a canonical tool to a provider's format."""
        translator = self._translators.get(str(target))
        if translator is None:
            return _translate(self.get(target), tool, options)
        return translator.translate(tool, **options)

    def convert_many(
        self, raws: Iterable[Any], *, source: str, target: str, **options: Any
    ) -> list[Conversion]:
        """Convert definitions to another format, in order, with unique names."""
        if isinstance(raws, Mapping | str | bytes):
            raise ConversionError(
                "pass a list of definitions; for a single one, use convert", source, "to_canonical"
            )
        reader, writer = self.get(source), self.get(target)
        read = reader.borrow if isinstance(reader, McpAdapter) else reader.to_canonical
        tools = [read(raw) for raw in raws]
        translator = self._translators.get(target)
        if translator is None:
            apart = unique_names(tools, McpAdapter.names)
            named = [tool.replace(name=name) for tool, name in zip(tools, apart, strict=True)]
            return [
                replace(_translate(writer, renamed, options), tool_id=id_text(tool))
                for tool, renamed in zip(tools, named, strict=True)
            ]
        names = unique_names(tools, translator.names)
        return [
            translator.translate(tool, name=name, **options) for tool, name in zip(tools, names, strict=True)
        ]


def _is_adapter(candidate: object) -> bool:
    return isinstance(candidate, Adapter) and not isinstance(candidate, type)


def _translate(writer: Adapter, tool: CanonicalTool, options: dict[str, Any]) -> Conversion:
    """Convert a tool by an adapter that is not a `Translator`; losses are found keyword by keyword."""
    losses = Losses(writer.name)
    parameters = signature(writer.supports_feature).parameters.values()
    known = options if any(each.kind is each.VAR_KEYWORD for each in parameters) else {}
    for part, schema in (("input", tool.input_schema), ("output", tool.output_schema)):
        losses.part = part  # type: ignore[assignment]
        for keyword, path in used_keywords(schema or {}):
            if keyword in _FEATURES and not writer.supports_feature(SchemaFeature(keyword), **known):
                losses.note(keyword, path, "is not known to this format")
    try:
        payload = writer.from_canonical(tool, **options)
    except ConversionError:
        raise
    except Exception as error:
        reason = f"the adapter failed: {type(error).__name__}: {error}"[:500]
        raise ConversionError(reason, writer.name, "from_canonical") from error
    return Conversion(payload, writer.name, id_text(tool), tool.name, McpCalls(), None, losses)


def default_registry() -> AdapterRegistry:
    """Return a registry of the built-in adapters and of those from entry points.

    Raises:
        ConversionError: an entry point cannot be loaded, is not an adapter, or has a name that is taken.
    """
    builtin = (McpAdapter(), OpenAIAdapter(), AnthropicAdapter(), GeminiAdapter(), A2AAdapter())
    registry = AdapterRegistry(builtin)
    for point in sorted(entry_points(group=ENTRY_POINTS), key=lambda point: (point.name, point.value)):
        registry.register(_load_entry_point(point))
    return registry


def _load_entry_point(point: EntryPoint) -> Any:
    try:
        return point.load()()
    except Exception as error:
        reason = f"the entry point {point.value!r} cannot be loaded: {type(error).__name__}: {error}"[:500]
        raise ConversionError(reason, point.name, "register") from error
