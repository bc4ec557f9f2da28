"""A resolver and a keeper of texts, small enough to be looked into."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from toolcrib.errors import StoreError, ToolNotFoundError
from toolcrib.model import Tool, ToolBackend, ToolId
from toolcrib.version import Constraint


class Shelf:
    """Resolves the tools it was given: exact ids, `namespace:name`, and constraints."""

    def __init__(self, *tools: Tool) -> None:
        self.tools = list(tools)
        self.asked: list[str] = []

    def resolve(self, ref: str | ToolId) -> Tool:
        """Return the last of the tools that a reference means."""
        self.asked.append(str(ref))
        text = str(ref)
        fitting = [tool for tool in self.tools if self._fits(tool, text)]
        if not fitting:
            raise ToolNotFoundError(text, tuple(str(tool.id) for tool in self.tools[:1]))
        return fitting[-1]

    def _fits(self, tool: Tool, ref: str) -> bool:
        plain = str(ToolId(tool.namespace, tool.name))
        if ref == plain or tool.version is None:
            return ref == plain
        start, _, wanted = ref.rpartition(":")
        return start == plain and Constraint.parse(wanted).check(tool.version)

    def backends(self, tool_id: str | ToolId) -> Sequence[ToolBackend]:
        """Return none."""
        self.resolve(tool_id)
        return ()


class MemoryTexts:
    """Keeps texts in a dict, and can simulate failures."""

    def __init__(self) -> None:
        self.kept: dict[str, dict[str, str]] = {}
        self.writes = 0
        self.is_full = False

    def texts(self, collection: str) -> Iterator[tuple[str, str]]:
        """Return the texts of a collection."""
        return iter(sorted(self.kept.get(collection, {}).items()))

    def write_texts(self, collection: str, put: Mapping[str, str], delete: Iterable[str]) -> None:
        """Keep and forget texts."""
        if self.is_full:
            raise StoreError("memory", "it is full")
        self.writes += 1
        texts = self.kept.setdefault(collection, {})
        for key in delete:
            texts.pop(key, None)
        texts.update(put)


def spoil(value: Any) -> None:
    """Change every object and every list in a value."""
    if isinstance(value, dict):
        for member in list(value.values()):
            spoil(member)
        value["spoilt"] = True
    elif isinstance(value, list):
        for member in value:
            spoil(member)
        value.append("spoilt")
