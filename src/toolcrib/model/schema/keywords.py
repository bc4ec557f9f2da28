"""Keywords of JSON Schema that contain subschemas, in all supported drafts."""

from typing import Final

SINGLES: Final = frozenset(
    {"additionalItems", "additionalProperties", "contains", "contentSchema", "else", "if", "items", "not"}
    | {"propertyNames", "then", "unevaluatedItems", "unevaluatedProperties"}
)
"""Keywords with one schema; `items` may also have a list."""
LISTS: Final = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
"""Keywords with a list of schemas."""
DEFINITIONS: Final = frozenset({"$defs", "definitions"})
MAPS: Final = DEFINITIONS | {"dependencies", "dependentSchemas", "patternProperties", "properties"}
"""Keywords with schemas by name."""
