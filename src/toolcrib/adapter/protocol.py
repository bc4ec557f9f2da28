"""The adapter protocol, and the features that adapters support."""

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
"""The formats whose conversations with a model are known."""


class ConversionOptions(TypedDict, total=False):
    """Options of the built-in formats; one that a format does not have is refused."""

    api: Literal["chat", "responses"]
    """OpenAI's API that the definition is for; `chat` unless given."""
    strict: bool
    """Whether the model is held to the schema, which is rewritten for it (OpenAI, Anthropic)."""
    defer_loading: bool
    """Whether the model finds the tool by search (OpenAI's responses, Anthropic)."""
    namespace: bool
    """Whether the tool stands in its namespace (OpenAI's responses)."""
    output_schema: bool
    """Whether the output schema is sent along (OpenAI's responses, Gemini)."""
    cache_control: dict[str, Any] | bool | None
    """Where the prompt cache ends: True for the plain form, or the object itself (Anthropic)."""
    examples: Iterable[ToolExample | Mapping[str, Any]]
    """Calls to show (Anthropic)."""
    style: Literal["json-schema", "openapi"]
    """How Gemini gets the schema; `json-schema` unless given."""


class SchemaFeature(StrEnum):
    """A keyword of JSON Schema that some provider does not take; its value is the keyword."""

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
    """Translates tool definitions between one format and the canonical form.

    Both directions copy what they are given and never change it, do no I/O, and give the same answer to the
    same question. What cannot be translated is a `ConversionError`. Implementations are safe to share
    between threads.
    """

    @property
    def name(self) -> str:
        """The name under which it is registered."""
        ...

    def to_canonical(self, raw: Any) -> CanonicalTool:
        """Return a definition of this format in the canonical form."""
        ...

    def from_canonical(self, tool: CanonicalTool, **options: Any) -> Any:
        """Return the definition in this format; the options are the adapter's own."""
        ...

    def supports_feature(self, feature: SchemaFeature, **options: Any) -> bool:
        """Return whether a schema of this format, written with these options, can have a keyword."""
        ...


@runtime_checkable
class Translator(Adapter, Protocol):
    """An adapter that also tells what is lost, and brings calls back.

    The built-in adapters all are. An adapter that is not gets its losses reported keyword by keyword from
    `supports_feature`, and its calls are taken to be in the original terms.
    """

    @property
    def names(self) -> NameRule:
        """What tools may be called in this format."""
        ...

    def translate(self, tool: CanonicalTool, *, name: str | None = None, **options: Any) -> Conversion:
        """Return the definition with its losses and its way back, under a name of the caller's choice."""
        ...
