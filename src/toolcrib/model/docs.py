"""How a tool is explained: documentation at three depths, and worked examples."""

from pydantic import Field

from toolcrib.model.record import JsonObject, Record
from toolcrib.model.tool import Tool, ToolAnnotations

__all__ = ["ObservedOutput", "SchemaInfo", "ToolDoc", "ToolExample"]


class ToolExample(Record):
    """One call of a tool, shown to whoever must make the next one."""

    id: str | None = None
    title: str | None = None
    description: str | None = None
    args: JsonObject = Field(default_factory=dict)
    result_hint: str | None = None
    """What comes back, in a few words."""


class SchemaInfo(Record):
    """An input schema at a glance."""

    required: tuple[str, ...] = ()
    """Arguments that every call must give."""
    defaults: JsonObject = Field(default_factory=dict)
    """The values that are assumed for arguments left out."""
    types: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """The JSON types that each argument may have; one that may be anything is absent."""
    phrases: dict[str, str] = Field(default_factory=dict)
    """What each argument may be, to be read: `"open" | "closed"`, `array of string`, `any`."""


class ObservedOutput(Record):
    """What a tool that declares no output schema has been seen to give back: shapes, never values."""

    observed: int
    """How many results this was learnt from."""
    json_schema: JsonObject
    """What each of them fits; the next one need not."""


class ToolDoc(Record):
    """The description of a tool at the depth asked for; what belongs to a deeper level is absent."""

    summary: str
    tool: Tool | None = None
    input_modes: tuple[str, ...] = ()
    output_modes: tuple[str, ...] = ()
    security_summary: str | None = None
    annotations: ToolAnnotations | None = None
    schema_info: SchemaInfo | None = None
    observed_output: ObservedOutput | None = None
    notes: str | None = None
    examples: tuple[ToolExample, ...] = ()
    external_refs: tuple[str, ...] = ()
