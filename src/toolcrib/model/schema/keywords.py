"""The keywords of JSON Schema below which schemas stand, of every draft that is read."""

from typing import Final

SINGLES: Final = frozenset(
    {"additionalItems", "additionalProperties", "contains", "contentSchema", "else", "if", "items", "not"}
    | {"propertyNames", "then", "unevaluatedItems", "unevaluatedProperties"}
)
"""The keywords that hold one schema; `items` may also hold a list."""
LISTS: Final = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
"""The keywords that hold a list of schemas."""
DEFINITIONS: Final = frozenset({"$defs", "definitions"})
MAPS: Final = DEFINITIONS | {"dependencies", "dependentSchemas", "patternProperties", "properties"}
"""The keywords that hold schemas by name."""
