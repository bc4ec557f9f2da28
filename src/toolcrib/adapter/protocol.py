"""Protocols of adapters, and the schema features that they support."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, Literal, Protocol, TypedDict, runtime_checkable

from toolcrib.adapter.conversion import Conversion
from toolcrib.adapter.names import NameRule
from toolcrib.model.canonical import CanonicalTool
from toolcrib.model.docs import ToolExample

Target = Literal["a2a", "anthropic", "gemini", "mcp", "openai"]
"""The built-in formats of tool definitions."""
SessionTarget = Literal["anthropic", "gemini", "openai"]
"""The formats for which `session` can read and write the turns of a conversation."""


class ConversionOptions(TypedDict, total=False):
    """Options of the built-in formats; an option that a format does not have is an error."""

    api: Literal["chat", "responses"]
    """The API of OpenAI; default `chat`."""
    strict: bool
    """Strict mode: the model's arguments always fit the schema, which is rewritten (OpenAI, Anthropic)."""
    defer_loading: bool
    """Whether the model loads the tool by tool search (OpenAI Responses, Anthropic)."""
    namespace: bool
    """Whether the tool is nested in its namespace (OpenAI Responses)."""
    output_schema: bool
    """Whether the output schema is sent too (OpenAI Responses, Gemini)."""
    cache_control: dict[str, Any] | bool | None
    """The prompt-cache breakpoint: True for the default form, or the object itself (Anthropic)."""
    examples: Iterable[ToolExample | Mapping[str, Any]]
    """Example calls to send (Anthropic)."""
    style: Literal["json-schema", "openapi"]
    """The form of Gemini's schema; default `json-schema`."""


class SchemaFeature(StrEnum):
    """A keyword of JSON Schema that some provider does not support; its value is the keyword."""

    REF = "$ref"
    DEFS = "$defs"
    ANY_OF = "anyOf"
    ONE_OF = "oneOf"
    ALL_OF = "allOf"
    NOT = "not"
    PATTERN = "pattern"
    FORMAT = "format"
    ADDITIONAL_PROPERTIES = "additionalProperties"
    MINIMUM = "minimum"
    MAXIMUM = "maximum"
    MIN_LENGTH = "minLength"
    MAX_LENGTH = "maxLength"
    ENUM = "enum"
    CONST = "const"
    DEFAULT = "default"
    TITLE = "title"
    EXAMPLES = "examples"
    MULTIPLE_OF = "multipleOf"
    MIN_ITEMS = "minItems"
    MAX_ITEMS = "maxItems"
    MIN_PROPERTIES = "minProperties"
    MAX_PROPERTIES = "maxProperties"
    UNIQUE_ITEMS = "uniqueItems"
    NULLABLE = "nullable"
    DEPRECATED = "deprecated"
    READ_ONLY = "readOnly"
    WRITE_ONLY = "writeOnly"
    TYPE = "type"
    PROPERTIES = "properties"
    REQUIRED = "required"
    ITEMS = "items"
    DESCRIPTION = "description"
    SCHEMA = "$schema"
    ID = "$id"
    ANCHOR = "$anchor"
    DYNAMIC_REF = "$dynamicRef"
    DYNAMIC_ANCHOR = "$dynamicAnchor"
    COMMENT = "$comment"
    DEFINITIONS = "definitions"
    EXCLUSIVE_MINIMUM = "exclusiveMinimum"
    EXCLUSIVE_MAXIMUM = "exclusiveMaximum"
    PREFIX_ITEMS = "prefixItems"
    ADDITIONAL_ITEMS = "additionalItems"
    CONTAINS = "contains"
    MIN_CONTAINS = "minContains"
    MAX_CONTAINS = "maxContains"
    PATTERN_PROPERTIES = "patternProperties"
    PROPERTY_NAMES = "propertyNames"
    DEPENDENCIES = "dependencies"
    DEPENDENT_REQUIRED = "dependentRequired"
    DEPENDENT_SCHEMAS = "dependentSchemas"
    UNEVALUATED_ITEMS = "unevaluatedItems"
    UNEVALUATED_PROPERTIES = "unevaluatedProperties"
    IF = "if"
    THEN = "then"
    ELSE = "else"
    CONTENT_ENCODING = "contentEncoding"
    CONTENT_MEDIA_TYPE = "contentMediaType"
    CONTENT_SCHEMA = "contentSchema"


@runtime_checkable
class Adapter(Protocol):
    """Converts tool definitions between one format and the canonical form.

    Both methods copy their argument and never modify it, do no I/O, and are deterministic. A definition that
    cannot be converted raises `ConversionError`. Implementations must be thread-safe.
    """

    @property
    def name(self) -> str:
        """The name under which it is registered."""
        ...

    def to_canonical(self, raw: Any) -> CanonicalTool:
        """Convert a definition of this format to the canonical form."""
        ...

    def from_canonical(self, tool: CanonicalTool, **options: Any) -> Any:
        """Convert a canonical tool to this format; the options are the adapter's own."""
        ...

    def supports_feature(self, feature: SchemaFeature, **options: Any) -> bool:
        """Return whether schemas of this format, with these options, can contain a keyword."""
        ...


@runtime_checkable
class Translator(Adapter, Protocol):
    """An adapter that also reports losses and decodes calls, as all built-in ones do.

    For other adapters, losses are found by `supports_feature` for each keyword, and calls are assumed to have
    arguments of the original schema.
    """

    @property
    def names(self) -> NameRule:
        """The rule for tool names of this format."""
        ...

    def translate(self, tool: CanonicalTool, *, name: str | None = None, **options: Any) -> Conversion:
        """Convert a canonical tool, optionally under another name, with its losses and codec."""
        ...
