"""Schemas, values and tools that the laws of trust are tried with, from the seeds that hypothesis draws.

They are made by a generator of numbers and not by strategies: schemas of thirty keywords within each other would
take strategies seconds each.
"""

from random import Random
from typing import Any

from toolcrib.model import Tool, ToolAnnotations

NAMES = ("a", "b", "c", "ab")
PATTERNS = ("^a", "b$", "^[a-z]+$", "^.{2}$", "a|b", "^a{2,3}$")
SCALARS = (None, True, False, 0, 1, 2, 3, -1, 1.5, 0.5, 10, 4, 6, 1.0, "", "a", "b", "ab", "aa", "abc", "aaa")
_TYPES = (
    "string",
    "integer",
    "number",
    "object",
    "array",
    "null",
    "boolean",
    ["string", "null"],
    ["array", "object"],
)
_SIZES = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties")
_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
_ONE = ("additionalProperties", "unevaluatedProperties", "propertyNames", "items", "unevaluatedItems", "not")
_MANY = ("prefixItems", "anyOf", "oneOf", "allOf")
_COMMON = ("type", "type", "type", "properties", "properties", "required", "anyOf", "enum", "const")
_WORDS = (*_COMMON, *_SIZES, *_BOUNDS, *_ONE, *_MANY, "multipleOf", "pattern", "format", "patternProperties")
_WORDS += ("uniqueItems", "contains", "if", "$ref", "dependentRequired", "dependentSchemas", "dependencies")
_DEEP = 3


class Maker(Random):
    """Makes values, schemas and pairs of schemas, the same from the same seed."""

    def value(self, depth: int = 0) -> Any:
        """Return a small value, of which many fit the schemas below."""
        kind = self.random()
        if depth > 2 or kind < 0.55:
            return self.choice(SCALARS)
        if kind < 0.75:
            return [self.value(depth + 1) for _ in range(self.randint(0, 3))]
        return {name: self.value(depth + 1) for name in self.sample(NAMES, self.randint(0, 3))}

    def schema(self) -> dict[str, Any]:
        """Return a schema of a few keywords, with definitions that may lead to each other."""
        made = {word: value for _ in range(self.randint(1, 4)) for word, value in self._keyword(0).items()}
        return made | {"$defs": {"x": self._inner(1), "y": self._inner(2)}}

    def pair(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return two schemas, mostly such that one is the other with something more or less."""
        one = self.schema()
        if self.random() < 0.25:
            return one, self.schema()
        other = self._changed(one)
        return (one, other) if self.random() < 0.5 else (other, one)

    def _changed(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Return a schema that differs in one place."""
        word = self.choice(sorted(schema))
        member = schema[word]
        if isinstance(member, dict) and member and self.random() < 0.7:
            return schema | {word: self._changed(member)}
        if isinstance(member, list) and member and isinstance(member[0], dict) and self.random() < 0.7:
            return schema | {word: [self._changed(member[0]), *member[1:]]} if member[0] else schema
        if word != "$defs" and self.random() < 0.5:
            return {each: schema[each] for each in schema if each != word}
        return schema | self._keyword(2)

    def _inner(self, depth: int) -> Any:
        if depth > _DEEP or self.random() < 0.06:
            return self.choice([True, False, {}, {"type": "string"}, {"type": "integer"}])
        return {
            word: value for _ in range(self.randint(1, 3)) for word, value in self._keyword(depth).items()
        }

    def _keyword(self, depth: int) -> dict[str, Any]:  # noqa: C901, PLR0911, PLR0912 - a table of keywords
        """Return one keyword, or several that mean something together."""
        word = self.choice(_WORDS)
        inner = depth + 1
        match word:
            case "type":
                return {word: self.choice(_TYPES)}
            case "enum":
                return {word: [self.value(1) for _ in range(self.randint(1, 3))]}
            case "const":
                return {word: self.value(1)}
            case "multipleOf":
                return {word: self.choice([1, 2, 3, 4, 0.5, 2.0])}
            case "pattern":
                return {word: self.choice(PATTERNS)}
            case "format":
                return {word: self.choice(["date", "email"])}
            case "uniqueItems":
                return {word: self.random() < 0.8}
            case "required":
                return {word: self.sample(NAMES, self.randint(0, 2))}
            case "properties" | "dependentSchemas":
                return {word: {name: self._inner(inner) for name in self.sample(NAMES, self.randint(0, 3))}}
            case "patternProperties":
                return {
                    word: {each: self._inner(inner) for each in self.sample(PATTERNS, self.randint(1, 2))}
                }
            case "contains":
                counts = {
                    each: self.randint(0, 2) for each in ("minContains", "maxContains") if self.random() < 0.4
                }
                return {word: self._inner(inner)} | counts
            case "if":
                branches = {each: self._inner(inner) for each in ("then", "else") if self.random() < 0.7}
                return {word: self._inner(inner)} | branches
            case "$ref":
                return {word: self.choice(["#/$defs/x", "#/$defs/y", *(["#"] if depth else [])])}
            case "dependentRequired":
                return {word: {self.choice(NAMES): [self.choice(NAMES)]}}
            case "dependencies":
                return {word: {self.choice(NAMES): self.choice([[self.choice(NAMES)], self._inner(inner)])}}
        if word in _SIZES:
            return {word: self.randint(0, 3)}
        if word in _BOUNDS:
            return {word: self.choice([0, 1, 2, 3, 1.5, 2.0, -1])}
        if word in _ONE:
            return {word: self._inner(inner) if self.random() < 0.6 else False}
        return {word: [self._inner(inner) for _ in range(self.randint(1, 3))]}


def make_tool(name: str = "issues:list", schema: Any = None, hints: Any = None, **fields: Any) -> Tool:
    """Return a tool of a server; its name may have a namespace before it."""
    namespace, _, short = name.rpartition(":")
    return Tool(
        name=short,
        namespace=namespace or None,
        input_schema=objects({}) if schema is None else schema,
        annotations=None if hints is None else ToolAnnotations.from_json(hints),
        **fields,
    )


def objects(properties: dict[str, Any], *required: str, **more: Any) -> dict[str, Any]:
    """Return the schema of an object."""
    return (
        {"type": "object", "properties": properties} | ({"required": [*required]} if required else {}) | more
    )
