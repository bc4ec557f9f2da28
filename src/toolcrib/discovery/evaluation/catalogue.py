"""The tools that labels speak of, as tools that an index takes, and the way back from one to the other."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from pydantic import ConfigDict, Field

from toolcrib.discovery.evaluation.names import admissible_names, distinct, loses_words
from toolcrib.discovery.evaluation.repair import repair_schema
from toolcrib.model import DefaultValidator, Tool
from toolcrib.model.record import JsonObject, Record, Text

__all__ = ["Catalogue", "ToolLine"]


class ToolLine(Record):
    """A tool as a file of labels writes it: any name will do, and other fields are passed over."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="ignore")

    id: Text = Field(min_length=1)
    """What questions call the tool."""
    name: Text = Field(min_length=1)
    namespace: Text | None = None
    description: Text | None = None
    input_schema: JsonObject | None = None
    tags: tuple[Text, ...] = ()
    category: Text | None = None


@dataclass(frozen=True, slots=True)
class Catalogue:
    """Tools to search, and what the labels call them."""

    tools: tuple[Tool, ...]
    labels: Mapping[str, str] = field(repr=False)
    """The labels' id of each tool, by ours."""
    repaired: int = 0
    """How many schemas were changed so that they compile."""
    ids: Mapping[str, str] = field(init=False, repr=False)
    """Our id of each tool, by the labels'."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "ids", {label: ours for ours, label in self.labels.items()})

    @classmethod
    def of(cls, tools: Iterable[Tool]) -> "Catalogue":
        """Return a catalogue of tools which the labels call by their own ids."""
        held = tuple(tools)
        return cls(held, {str(tool.id): str(tool.id) for tool in held})

    @classmethod
    def of_lines(cls, lines: Iterable[ToolLine], *, lenient: bool = False) -> "Catalogue":
        """Return a catalogue of tools as labels write them, under names that tools may have.

        With `lenient`, schemas that do not compile are repaired as far as they can be, and counted.
        """
        given = list(lines)
        places = _places(given)
        validator = DefaultValidator()
        tools, repaired = [], 0
        for line, (namespace, name) in zip(given, places, strict=True):
            schema = {"type": "object"} if line.input_schema is None else line.input_schema
            usable = repair_schema(schema, validator) if lenient else schema
            repaired += usable is not schema
            tools.append(_tool(line, usable, namespace, name))
        labels = {str(tool.id): line.id for tool, line in zip(tools, given, strict=True)}
        return cls(tuple(tools), labels, repaired)


def _places(lines: list[ToolLine]) -> list[tuple[str | None, str]]:
    """Return a namespace and a name for each tool, no two the same."""
    names = admissible_names(line.name for line in lines)
    namespaces = admissible_names(line.namespace for line in lines if line.namespace)
    taken: set[tuple[str | None, str]] = set()
    places = []
    for line in lines:
        namespace, name = namespaces[line.namespace] if line.namespace else None, names[line.name]
        if (namespace, name) in taken:
            name = distinct(name, line.id, {other for space, other in taken if space == namespace})
        taken.add((namespace, name))
        places.append((namespace, name))
    return places


def _tool(line: ToolLine, schema: dict[str, Any], namespace: str | None, name: str) -> Tool:
    return Tool(
        name=name,
        namespace=namespace,
        title=line.name if loses_words(line.name) else None,
        description=line.description,
        input_schema=schema,
        tags=line.tags,
        meta=None if line.category is None else {"category": line.category},
    )
