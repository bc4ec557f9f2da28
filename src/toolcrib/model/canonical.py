"""The form every provider's definition is translated through."""

from pydantic import Field

from toolcrib.model.record import JsonObject, Record
from toolcrib.model.toolid import ToolId


class CanonicalTool(Record):
    """A tool definition that belongs to no provider; its schemas are verbatim JSON."""

    name: str
    """The name of the tool."""
    input_schema: JsonObject
    """The JSON Schema of the arguments, verbatim."""
    namespace: str | None = None
    """The namespace of the tool."""
    display_name: str | None = None
    """The name that people read."""
    version: str | None = None
    """The version, as written."""
    description: str | None = None
    """What the tool does."""
    summary: str | None = None
    """What it is for, in one line."""
    category: str | None = None
    """The category that it is filed under."""
    tags: tuple[str, ...] = ()
    """Words to filter by."""
    input_modes: tuple[str, ...] = ()
    """The kinds of content that it takes, as media types."""
    output_modes: tuple[str, ...] = ()
    """The kinds of content that it gives back, as media types."""
    examples: tuple[str, ...] = ()
    """Questions that it answers, or calls written as JSON."""
    deterministic: bool | None = None
    """Whether the same arguments give the same result."""
    idempotent: bool | None = None
    """Whether running it twice does no more than running it once."""
    streaming: bool | None = None
    """Whether it gives its result in parts."""
    security_schemes: JsonObject = Field(default_factory=dict)
    """Ways to authenticate, by name."""
    security_requirements: tuple[dict[str, list[str]], ...] = ()
    """Alternatives of schemes that a call needs, each with its scopes."""
    annotations: JsonObject = Field(default_factory=dict)
    """Hints about what it does, by their names in MCP."""
    ui_hints: JsonObject = Field(default_factory=dict)
    """Hints for those who show it."""
    output_schema: JsonObject | None = None
    """The JSON Schema of the result, verbatim."""
    timeout: float | None = None
    """Seconds."""
    source_format: str | None = None
    """The adapter that it was read by."""
    source_meta: JsonObject = Field(default_factory=dict)
    """Fields of the source that have no place here, kept for the way back."""
    required_scopes: tuple[str, ...] = ()
    """Scopes that a caller needs."""

    @property
    def id(self) -> ToolId:
        """The identity of this tool, the version included."""
        return ToolId(self.namespace, self.name, self.version)


class CanonicalProvider(Record):
    """Somebody who offers tools, such as an A2A agent with its skills."""

    name: str
    """The name of the provider."""
    description: str | None = None
    """What it offers."""
    version: str | None = None
    """Its version, as written."""
    capabilities: JsonObject = Field(default_factory=dict)
    """What it can do beside answering, such as streaming."""
    security_schemes: JsonObject = Field(default_factory=dict)
    """Ways to authenticate, by name."""
    security_requirements: tuple[dict[str, list[str]], ...] = ()
    """Alternatives of schemes that a call needs, each with its scopes."""
    default_input_modes: tuple[str, ...] = ()
    """The kinds of content that its tools take by default."""
    default_output_modes: tuple[str, ...] = ()
    """The kinds of content that its tools give back by default."""
    skills: tuple[CanonicalTool, ...] = ()
    """Its tools."""
    source_format: str | None = None
    """The adapter that it was read by."""
    source_meta: JsonObject = Field(default_factory=dict)
    """Fields of the source that have no place here, kept for the way back."""
