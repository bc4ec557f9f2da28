"""The schema rules of each provider as data: one record for each way to send a schema."""

import re
from dataclasses import dataclass, field, fields, replace
from typing import Final, Literal

_CHECKED: Final = frozenset({"format", "pattern", "minItems", "nullable"})
_STRUCTURAL: Final = frozenset(
    {"properties", "additionalProperties", "items", "prefixItems", "anyOf", "oneOf", "allOf", "$defs"}
)
Enums = Literal["any", "scalar", "string"]


@dataclass(frozen=True, slots=True)
class StrictLimits:
    """Limits on the size of a strict definition; None for no limit."""

    properties: int | None = None
    """The number of properties of all objects together."""
    depth: int | None = None
    """The nesting of objects, the root included, without following references."""
    enum_values: int | None = None
    enum_chars: int | None = None
    """The number of characters in the values of an enum with more than 250 values."""
    name_chars: int | None = None
    """The number of characters in property names, definition names and enum values together."""
    optional: int | None = None
    """The number of optional properties."""
    unions: int | None = None
    """The number of `anyOf`s and lists of types."""
    bounds: tuple[tuple[str, int], ...] = field(init=False, repr=False, compare=False)
    """The limits that are set, by name."""

    def __post_init__(self) -> None:
        given = [(one.name, getattr(self, one.name)) for one in fields(self) if one.init]
        object.__setattr__(self, "bounds", tuple((name, limit) for name, limit in given if limit is not None))


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaRules:
    """The schemas that a provider accepts. The defaults accept all of JSON Schema."""

    title: str
    """The name of the provider and the mode, for messages."""
    keywords: frozenset[str] | None = None
    """The supported keywords; None for all."""
    dropped: frozenset[str] = frozenset()
    """Keywords without meaning for a model, which are left out and not moved into the description."""
    formats: frozenset[str] | None = None
    """The supported values of `format`; None for all."""
    structured: bool = False
    """Whether every subschema must have a type: no open objects, no tuples, no free-form values."""
    closed: bool = False
    """Whether every object must have `additionalProperties: false`."""
    all_required: bool = False
    """Whether every property must be required; an optional one then admits null, which means absence."""
    refs: bool = True
    """Whether references are supported; otherwise they are replaced by copies of their targets."""
    ref_siblings: frozenset[str] | None = None
    """The keywords allowed beside `$ref`; None for all."""
    recursion: bool = True
    """Whether a schema may be recursive."""
    look_around: bool = True
    """Whether a pattern may have look-around and back-references."""
    type_lists: bool = True
    """Whether `type` may be a list."""
    nullable: bool = False
    """Whether null is expressed by `nullable: true` instead of a type."""
    enums: Enums = "any"
    empty_objects: bool = True
    """Whether an object inside the root may have no properties."""
    max_min_items: int | None = None
    """The largest supported `minItems`."""
    root_unions: bool = True
    """Whether the root may be a union or another combination."""
    needs_properties: bool = False
    """Whether an object must have `properties`, even if empty."""
    needs_items: bool = False
    """Whether an array must have `items`."""
    root_keys: re.Pattern[str] | None = None
    """The pattern of the names of the root's properties."""
    keys: re.Pattern[str] | None = None
    """The pattern of the names of all properties."""
    limits: StrictLimits = field(default_factory=StrictLimits)
    plain: frozenset[str] = field(init=False, repr=False, compare=False)
    """The supported keywords without subschemas that are allowed with any value."""
    checked: frozenset[str] = field(init=False, repr=False, compare=False)
    """The supported keywords that are allowed with some values only."""

    def __post_init__(self) -> None:
        kept = self.keywords or frozenset()
        object.__setattr__(self, "plain", kept - _STRUCTURAL - _CHECKED)
        object.__setattr__(self, "checked", kept & _CHECKED)

    def takes(self, keyword: str) -> bool:
        """Return whether a keyword is supported."""
        return keyword not in self.dropped and (self.keywords is None or keyword in self.keywords)


_SCALARS: Final = frozenset({"type", "enum", "const", "description"})
_STRICT: Final = _SCALARS | {
    "properties",
    "required",
    "additionalProperties",
    "items",
    "anyOf",
    "$ref",
    "$defs",
}
_NOISE: Final = frozenset({"$schema", "$id", "$comment", "$anchor", "$dynamicAnchor", "discriminator"})
_FORMATS: Final = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}
)

MCP: Final = SchemaRules(title="MCP")
OPENAI: Final = SchemaRules(
    title="OpenAI",
    dropped=frozenset({"$schema"}),
    root_unions=False,
    needs_properties=True,
    needs_items=True,
)
OPENAI_STRICT: Final = SchemaRules(
    title="OpenAI strict",
    keywords=_STRICT
    | {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}
    | {"minLength", "maxLength", "pattern", "format", "minItems", "maxItems"},
    dropped=_NOISE | {"title"},
    formats=_FORMATS,
    structured=True,
    closed=True,
    all_required=True,
    ref_siblings=frozenset(),
    look_around=False,
    enums="scalar",
    root_unions=False,
    needs_properties=True,
    needs_items=True,
    limits=StrictLimits(properties=5_000, depth=10, enum_values=1_000, enum_chars=15_000, name_chars=120_000),
)
ANTHROPIC: Final = SchemaRules(
    title="Anthropic", root_unions=False, root_keys=re.compile(r"[a-zA-Z0-9_.-]{1,64}")
)
ANTHROPIC_STRICT: Final = replace(
    ANTHROPIC,
    title="Anthropic strict",
    keywords=_STRICT | {"title", "format", "minItems"},
    dropped=_NOISE,
    formats=_FORMATS | {"uri"},
    structured=True,
    closed=True,
    ref_siblings=frozenset(),
    recursion=False,
    enums="scalar",
    max_min_items=1,
    needs_items=True,
    limits=StrictLimits(optional=24, unions=16),
)
GEMINI_JSON_SCHEMA: Final = SchemaRules(
    title="Gemini",
    keywords=_STRICT - {"const"}
    | {"oneOf", "prefixItems", "default", "title", "minItems", "maxItems"}
    | {"minimum", "maximum", "minLength", "maxLength", "pattern", "format"},
    dropped=_NOISE | {"examples"},
    formats=frozenset({"int32", "int64", "float", "double"}),
    ref_siblings=frozenset({"description", "default"}),
    root_unions=False,
    needs_items=True,
)
GEMINI_OPENAPI: Final = SchemaRules(
    title="Gemini openapi",
    keywords=_SCALARS - {"const"}
    | {"properties", "required", "items", "anyOf", "default", "title", "nullable"}
    | {"minimum", "maximum", "minLength", "maxLength", "pattern", "format", "minItems", "maxItems"}
    | {"minProperties", "maxProperties"},
    dropped=_NOISE | {"examples"},
    formats=frozenset({"int32", "int64", "float", "double", "date-time", "enum"}),
    structured=True,
    refs=False,
    recursion=False,
    type_lists=False,
    nullable=True,
    enums="string",
    empty_objects=False,
    root_unions=False,
    needs_properties=True,
    needs_items=True,
    keys=re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}"),
)

RULES: Final = {
    "mcp": MCP,
    "openai": OPENAI,
    "openai-strict": OPENAI_STRICT,
    "anthropic": ANTHROPIC,
    "anthropic-strict": ANTHROPIC_STRICT,
    "gemini": GEMINI_JSON_SCHEMA,
    "gemini-openapi": GEMINI_OPENAPI,
}
"""All rules, by the target names of `portability`."""
