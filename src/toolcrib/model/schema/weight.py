"""Cost of one subschema by itself, and the nodes of the schema graph."""

from dataclasses import dataclass, field
from typing import Any

import jsonschema_rs

from toolcrib.errors import SchemaTooComplexError
from toolcrib.model.schema.engine import MAX_PATTERN_BYTES, compile_pattern, linear_pattern_size
from toolcrib.model.schema.pattern import Pattern, read_pattern

_NUMERIC = ("multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "enum", "const")
_UNEVALUATED = ("unevaluatedProperties", "unevaluatedItems")
_LIST_KEYWORDS = ("required", "dependentRequired", "patternProperties")
_UNEVALUATED_REPEATS = 3
_SLOW_COMPARISON = 100
"""Steps to compare with a fraction or a container of an `enum`; strings are hashed."""
_INTEGER_COMPARISON = 20
_CHARS_PER_STEP = 200
_FRACTION_STEPS = 300
_TINY_DIVISOR = 1e-12
_TINY_FRACTION_STEPS = 20_000
_BACKTRACKING_BYTES = 1 << 20
_LARGE_PATTERN = 50
"""A pattern of this many steps that does not compile counts as too large, a smaller one as malformed."""


@dataclass(slots=True, eq=False)
class Node:
    """One subschema: its own cost, and the nodes that it evaluates on the same value and on its members."""

    steps: int = 1
    """Steps on any value, without other nodes."""
    extra_steps: int = 0
    """Additional steps on any value, for comparisons and divisions."""
    numeric: int = 0
    """The number of keywords with arithmetic, which costs more for wide integers."""
    in_place_repeats: int = 1
    """How often the nodes in `in_place` are evaluated: more than once with `unevaluated...`."""
    per_char: int = 0
    """Additional steps for each character of a string, or of an object's keys."""
    pattern_bytes: int = 0
    """The approximate memory of its compiled patterns."""
    backtracking: list[tuple[str, jsonschema_rs.Validator]] = field(default_factory=list)
    """Patterns that only a backtracking engine can match."""
    unique: bool = False
    in_place: list["Node"] = field(default_factory=list)
    """The nodes evaluated on the same value."""
    refers_to: "Node | None" = None
    """The one in `in_place` that `$ref` names."""
    is_choice: bool = False
    """Whether only one of the nodes in `in_place` is ever evaluated, selected by the dynamic scope."""
    properties: dict[str, "Node"] = field(default_factory=dict)
    other_properties: list["Node"] = field(default_factory=list)
    every_property: list["Node"] = field(default_factory=list)
    names: list["Node"] = field(default_factory=list)
    prefix: list["Node"] = field(default_factory=list)
    other_items: list["Node"] = field(default_factory=list)
    every_item: list["Node"] = field(default_factory=list)

    @property
    def fan_out(self) -> int:
        """The maximum number of nodes that this one evaluates on one member."""
        at_properties = (
            bool(self.properties or self.other_properties) + len(self.every_property) + len(self.names)
        )
        at_items = bool(self.prefix or self.other_items) + len(self.every_item)
        return max(at_properties, at_items)

    def children(self) -> list["Node"]:
        """Return every node that is evaluated on a member."""
        return [
            *self.properties.values(),
            *self.other_properties,
            *self.every_property,
            *self.names,
            *self.prefix,
            *self.other_items,
            *self.every_item,
        ]


class NodeWeigher:
    """Computes the costs of the nodes of one schema, which share one limit for the memory of patterns."""

    def __init__(self) -> None:
        self._patterns: dict[str, tuple[Pattern, int | None, jsonschema_rs.Validator | None]] = {}
        self._pattern_bytes = 0

    def weigh(self, node: Node, schema: dict[str, Any]) -> None:
        """Set the costs of a node.

        Raises:
            SchemaTooComplexError: one of its patterns could hang, or all patterns take too much memory.
        """
        node.steps = (
            1 + len(schema) + sum(_count_values(schema[word]) for word in _LIST_KEYWORDS if word in schema)
        )
        node.extra_steps = _comparison_cost(schema) + _division_cost(schema.get("multipleOf"))
        node.numeric = sum(word in schema for word in _NUMERIC)
        node.in_place_repeats = _UNEVALUATED_REPEATS if any(word in schema for word in _UNEVALUATED) else 1
        node.per_char = ("minLength" in schema) + ("maxLength" in schema)
        node.unique = schema.get("uniqueItems") is True
        for text in [schema.get("pattern"), *as_map(schema.get("patternProperties"))]:
            if isinstance(text, str):
                steps, backtracking = self._price_pattern(node, text)
                node.per_char += steps
                node.backtracking += backtracking

    def _price_pattern(self, node: Node, text: str) -> tuple[int, list[tuple[str, jsonschema_rs.Validator]]]:
        """Return the steps per character of a pattern, and the pattern with its engine if it backtracks."""
        if text not in self._patterns:
            pattern = read_pattern(text)
            if pattern.fault:
                raise _costly_pattern_error(text, pattern.fault)
            self._patterns[text] = (pattern, linear_pattern_size(text), compile_pattern(text))
        pattern, size, engine = self._patterns[text]
        if engine is None and pattern.steps < _LARGE_PATTERN:
            return pattern.steps, []  # malformed; the compiler reports it with its place
        if engine is None:
            raise _costly_pattern_error(text, "it is malformed, or takes more memory than a pattern may use")
        if size is None and not pattern.backtracks:
            raise _costly_pattern_error(text, "only a backtracking engine can match it")
        node.pattern_bytes += size or _BACKTRACKING_BYTES
        self._pattern_bytes += size or _BACKTRACKING_BYTES
        if self._pattern_bytes > MAX_PATTERN_BYTES:
            raise _costly_pattern_error(text, "it and the others need more memory than patterns may use")
        return pattern.steps, [(text, engine)] if pattern.backtracks else []


def _costly_pattern_error(pattern: str, fault: str) -> SchemaTooComplexError:
    return SchemaTooComplexError(f"the pattern {pattern[:120]!r} could take too long to match: {fault}")


def _comparison_cost(schema: dict[str, Any]) -> int:
    """Return the steps to compare a value with `enum` and `const`."""
    constant = schema.get("const")
    if isinstance(constant, str):
        return len(constant) // _CHARS_PER_STEP
    options = [*as_list(schema.get("enum")), constant]
    compared = [value for value in options if not isinstance(value, str | int) and value is not None]
    integers = sum(type(value) is int for value in options)
    return _SLOW_COMPARISON * sum(map(_count_values, compared)) + _INTEGER_COMPARISON * integers


def _division_cost(divisor: Any) -> int:
    """Return the steps of `multipleOf`: fractions are divided exactly, which is slow for tiny ones."""
    if not isinstance(divisor, float) or divisor.is_integer():
        return 0
    return _FRACTION_STEPS if divisor > _TINY_DIVISOR else _TINY_FRACTION_STEPS


def as_list(value: Any) -> list[Any]:
    """Return a list unchanged, and anything else as an empty list."""
    return value if isinstance(value, list) else []


def as_map(value: Any) -> dict[str, Any]:
    """Return a dict unchanged, and anything else as an empty dict."""
    return value if isinstance(value, dict) else {}


def _count_values(value: Any) -> int:
    """Return the number of values in a JSON value, itself included; its depth was checked before."""
    if isinstance(value, dict):
        return 1 + sum(map(_count_values, value.values()))
    return 1 + sum(map(_count_values, value)) if isinstance(value, list) else 1
