"""The cost of one subschema by itself."""

from dataclasses import dataclass, field
from typing import Any

import jsonschema_rs

from toolcrib.errors import SchemaTooComplexError
from toolcrib.model.schema.engine import MAX_PATTERN_BYTES, linear_pattern_size, pattern_engine
from toolcrib.model.schema.pattern import Pattern, read_pattern

_NUMERIC = ("multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "enum", "const")
_UNEVALUATED = ("unevaluatedProperties", "unevaluatedItems")
_LISTED = ("required", "dependentRequired", "patternProperties")
_REPEATS = 3
_SLOW_COMPARISON = 100
"""Steps that comparing a fraction or a container of an `enum` costs; strings are hashed."""
_INTEGER_COMPARISON = 20
_CHARS_PER_STEP = 200
_FRACTION_STEPS = 300
_TINY_DIVISOR = 1e-12
_TINY_FRACTION_STEPS = 20_000
_BACKTRACKING_BYTES = 1 << 20
_LARGE_PATTERN = 50
"""The steps from which a pattern that does not compile is taken for too large, rather than malformed."""


@dataclass(slots=True, eq=False)
class Node:
    """One subschema: its own cost, and what it asks of the same value and of the value's members."""

    steps: int = 1
    """Cost of looking at any value, itself alone."""
    slow: int = 0
    """Further cost of looking at any value: what it is compared with, or divided by."""
    numeric: int = 0
    """How many keywords do arithmetic, which costs more the wider an integer is."""
    repeats: int = 1
    """How often the nodes in place look: `unevaluated...` asks them again."""
    per_char: int = 0
    """Further cost for each character of a string, or of an object's keys."""
    pattern_bytes: int = 0
    """About how much its compiled patterns take."""
    backtracking: list[tuple[str, jsonschema_rs.Validator]] = field(default_factory=list)
    """Patterns that only a backtracking engine can match."""
    unique: bool = False
    in_place: list["Node"] = field(default_factory=list)
    refers_to: "Node | None" = None
    """The one of them that `$ref` names."""
    chooses: bool = False
    """Only one of the nodes in place ever looks, whichever the dynamic scope picks."""
    properties: dict[str, "Node"] = field(default_factory=dict)
    other_properties: list["Node"] = field(default_factory=list)
    every_property: list["Node"] = field(default_factory=list)
    names: list["Node"] = field(default_factory=list)
    prefix: list["Node"] = field(default_factory=list)
    other_items: list["Node"] = field(default_factory=list)
    every_item: list["Node"] = field(default_factory=list)

    @property
    def fan(self) -> int:
        """How many nodes of this one, at most, look at the same member."""
        at_properties = (
            bool(self.properties or self.other_properties) + len(self.every_property) + len(self.names)
        )
        at_items = bool(self.prefix or self.other_items) + len(self.every_item)
        return max(at_properties, at_items)

    def down(self) -> list["Node"]:
        """Return every node that looks at a member."""
        return [
            *self.properties.values(),
            *self.other_properties,
            *self.every_property,
            *self.names,
            *self.prefix,
            *self.other_items,
            *self.every_item,
        ]


class Scale:
    """Weighs the subschemas of one schema, which share one allowance for patterns."""

    def __init__(self) -> None:
        self._patterns: dict[str, tuple[Pattern, int | None, jsonschema_rs.Validator | None]] = {}
        self._pattern_bytes = 0

    def weigh(self, node: Node, schema: dict[str, Any]) -> None:
        """Set what a node costs by itself.

        Raises:
            SchemaTooComplexError: one of its patterns could hang, or all take too much memory.
        """
        node.steps = 1 + len(schema) + sum(_count(schema[word]) for word in _LISTED if word in schema)
        node.slow = _comparing(schema) + _dividing(schema.get("multipleOf"))
        node.numeric = sum(word in schema for word in _NUMERIC)
        node.repeats = _REPEATS if any(word in schema for word in _UNEVALUATED) else 1
        node.per_char = ("minLength" in schema) + ("maxLength" in schema)
        node.unique = schema.get("uniqueItems") is True
        for text in [schema.get("pattern"), *as_map(schema.get("patternProperties"))]:
            if isinstance(text, str):
                steps, backtracking = self._pattern(node, text)
                node.per_char += steps
                node.backtracking += backtracking

    def _pattern(self, node: Node, text: str) -> tuple[int, list[tuple[str, jsonschema_rs.Validator]]]:
        """Return the steps a pattern takes per character, and its engine if it backtracks."""
        if text not in self._patterns:
            pattern = read_pattern(text)
            if pattern.fault:
                raise _costly(text, pattern.fault)
            self._patterns[text] = (pattern, linear_pattern_size(text), pattern_engine(text))
        pattern, size, engine = self._patterns[text]
        if engine is None and pattern.steps < _LARGE_PATTERN:
            return pattern.steps, []  # not a pattern at all; the compiler says where
        if engine is None:
            raise _costly(text, "it is malformed, or takes more memory than a pattern gets")
        if size is None and not pattern.backtracks:
            raise _costly(text, "only a backtracking engine can match it")
        node.pattern_bytes += size or _BACKTRACKING_BYTES
        self._pattern_bytes += size or _BACKTRACKING_BYTES
        if self._pattern_bytes > MAX_PATTERN_BYTES:
            raise _costly(text, "it and the others need more memory than patterns get")
        return pattern.steps, [(text, engine)] if pattern.backtracks else []


def _costly(pattern: str, fault: str) -> SchemaTooComplexError:
    return SchemaTooComplexError(f"the pattern {pattern[:120]!r} could take too long to match: {fault}")


def _comparing(schema: dict[str, Any]) -> int:
    """Return what comparing a value with `enum` and `const` costs."""
    constant = schema.get("const")
    if isinstance(constant, str):
        return len(constant) // _CHARS_PER_STEP
    options = [*as_list(schema.get("enum")), constant]
    compared = [value for value in options if not isinstance(value, str | int) and value is not None]
    integers = sum(type(value) is int for value in options)
    return _SLOW_COMPARISON * sum(map(_count, compared)) + _INTEGER_COMPARISON * integers


def _dividing(divisor: Any) -> int:
    """Return what `multipleOf` costs: fractions are divided exactly, tiny ones at length."""
    if not isinstance(divisor, float) or divisor.is_integer():
        return 0
    return _FRACTION_STEPS if divisor > _TINY_DIVISOR else _TINY_FRACTION_STEPS


def as_list(value: Any) -> list[Any]:
    """Return a list as it is, and anything else as none."""
    return value if isinstance(value, list) else []


def as_map(value: Any) -> dict[str, Any]:
    """Return a dict as it is, and anything else as none."""
    return value if isinstance(value, dict) else {}


def _count(value: Any) -> int:
    """Return how many values a JSON value of a measured schema holds, itself included."""
    if isinstance(value, dict):
        return 1 + sum(map(_count, value.values()))
    return 1 + sum(map(_count, value)) if isinstance(value, list) else 1
