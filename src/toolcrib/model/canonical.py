"""Canonical form of tool definitions, from and to which every provider's format is converted."""

from pydantic import Field

from toolcrib.model.record import JsonObject, Record
from toolcrib.model.toolid import ToolId


class CanonicalTool(Record):
    """A tool definition that is independent of any provider; its schemas are verbatim JSON."""

    name: str
    """The name of the tool."""
    input_schema: JsonObject
    """The JSON Schema of the arguments, verbatim."""
    namespace: str | None = None
    """The namespace of the tool."""
    display_name: str | None = None
    """The title of the tool, for people."""
    version: str | None = None
    """The version, as written."""
    description: str | None = None
    """The description of the tool."""
    summary: str | None = None
    """The purpose of the tool, in one line."""
    category: str | None = None
    """Its category."""
    tags: tuple[str, ...] = ()
    """Its tags."""
    input_modes: tuple[str, ...] = ()
    """The kinds of content that the tool takes, as media types."""
    output_modes: tuple[str, ...] = ()
    """The kinds of content that the tool returns, as media types."""
    examples: tuple[str, ...] = ()
    """Questions that the tool answers, or calls written as JSON."""
    deterministic: bool | None = None
    """Whether the same arguments give the same result."""
    idempotent: bool | None = None
    """Whether a second run with the same arguments has no further effect."""
    streaming: bool | None = None
    """Whether the result comes in parts."""
    security_schemes: JsonObject = Field(default_factory=dict)
    """Ways to authenticate, by name."""
    security_requirements: tuple[dict[str, list[str]], ...] = ()
    """Alternative sets of schemes that a call needs, each scheme with its scopes."""
    annotations: JsonObject = Field(default_factory=dict)
    """Hints about the effects of the tool, by their names in MCP."""
    ui_hints: JsonObject = Field(default_factory=dict)
    """Hints for user interfaces."""
    output_schema: JsonObject | None = None
    """The JSON Schema of the result, verbatim."""
    timeout: float | None = None
    """The timeout of a call, in seconds."""
    source_format: str | None = None
    """The adapter that read the definition."""
    source_meta: JsonObject = Field(default_factory=dict)
    """Fields of the source without a counterpart here, kept to restore them."""
    required_scopes: tuple[str, ...] = ()
    """The scopes that a caller needs."""

    @property
    def id(self) -> ToolId:
        """The id of this tool, with its version."""
        return ToolId(self.namespace, self.name, self.version)


class CanonicalProvider(Record):
    """A provider of tools, such as an A2A agent with its skills."""

    name: str
    """The name of the provider."""
    description: str | None = None
    """The description of the provider."""
    version: str | None = None
    """Its version, as written."""
    capabilities: JsonObject = Field(default_factory=dict)
    """Its optional capabilities, such as streaming."""
    security_schemes: JsonObject = Field(default_factory=dict)
    """Ways to authenticate, by name."""
    security_requirements: tuple[dict[str, list[str]], ...] = ()
    """Alternative sets of schemes that a call needs, each scheme with its scopes."""
    default_input_modes: tuple[str, ...] = ()
    """The kinds of content that its tools take by default."""
    default_output_modes: tuple[str, ...] = ()
    """The kinds of content that its tools return by default."""
    skills: tuple[CanonicalTool, ...] = ()
    """Its tools."""
    source_format: str | None = None
    """The adapter that read the definition."""
    source_meta: JsonObject = Field(default_factory=dict)
    """Fields of the source without a counterpart here, kept to restore them."""
