"""The form every provider's definition is translated through."""

from pydantic import Field

from toolcrib.model.record import JsonObject, Record
from toolcrib.model.toolid import ToolId

__all__ = ["CanonicalProvider", "CanonicalTool"]


class CanonicalTool(Record):
    """A tool definition that belongs to no provider; its schemas are verbatim JSON."""

    name: str
    input_schema: JsonObject
    namespace: str | None = None
    display_name: str | None = None
    version: str | None = None
    description: str | None = None
    summary: str | None = None
    category: str | None = None
    tags: tuple[str, ...] = ()
    input_modes: tuple[str, ...] = ()
    output_modes: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()
    deterministic: bool | None = None
    idempotent: bool | None = None
    streaming: bool | None = None
    security_schemes: JsonObject = Field(default_factory=dict)
    security_requirements: tuple[dict[str, list[str]], ...] = ()
    annotations: JsonObject = Field(default_factory=dict)
    ui_hints: JsonObject = Field(default_factory=dict)
    output_schema: JsonObject | None = None
    timeout: float | None = None
    """Seconds."""
    source_format: str | None = None
    source_meta: JsonObject = Field(default_factory=dict)
    """Fields of the source that have no place here, kept for the way back."""
    required_scopes: tuple[str, ...] = ()

    @property
    def id(self) -> ToolId:
        """The identity of this tool, the version included."""
        return ToolId(self.namespace, self.name, self.version)


class CanonicalProvider(Record):
    """Somebody who offers tools, such as an A2A agent with its skills."""

    name: str
    description: str | None = None
    version: str | None = None
    capabilities: JsonObject = Field(default_factory=dict)
    security_schemes: JsonObject = Field(default_factory=dict)
    security_requirements: tuple[dict[str, list[str]], ...] = ()
    default_input_modes: tuple[str, ...] = ()
    default_output_modes: tuple[str, ...] = ()
    skills: tuple[CanonicalTool, ...] = ()
    source_format: str | None = None
    source_meta: JsonObject = Field(default_factory=dict)
