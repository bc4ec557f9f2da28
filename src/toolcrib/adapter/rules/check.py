"""Validation of an input schema against a provider's rules.

It shares no code with the rewriting of schemas, so that it can be used to test it.
"""

from collections import Counter
from collections.abc import Iterator
from itertools import islice
from re import compile as regex
from typing import Any, Final

from toolcrib.adapter.rules.positions import REFERENCES, Place, Places, types_of
from toolcrib.adapter.rules.tables import SchemaRules, StrictLimits
from toolcrib.adapter.rules.words import has_shape, sketch, value_faults
from toolcrib.errors import Problem
from toolcrib.errors.base import MAX_PROBLEMS, join_options, short_repr
from toolcrib.model.plain import pointer
from toolcrib.model.schema.keywords import DEFINITIONS

_COMBINATIONS: Final = frozenset({"$ref", "allOf", "anyOf", "enum", "if", "not", "oneOf"})
_TYPED: Final = frozenset({"$ref", "anyOf", "const", "enum", "type"})
_PLAIN_REFERENCE: Final = regex(r"#(?:/(?:\$defs|definitions)/[^/]+)?")

Fault = tuple[str, str]
"""A keyword, and the reason why it is refused."""
_LONG_ENUM: Final = 250
_LONG_ENUM_CHARS: Final = 15_000
_TOTALS: Final = {
    "enum_values": "values under enum",
    "name_chars": "characters in the names of properties and definitions and in the values of enums",
    "optional": "properties that are not required",
    "unions": "unions",
}
"""The limits of a whole schema, and the things that each of them counts."""


def violations(schema: dict[str, Any], rules: SchemaRules) -> tuple[Problem, ...]:
    """Return the reasons why a provider would refuse an input schema; empty if it would accept it.

    The path of a problem leads to the subschema that says the keyword, or fails to; that of a bad name or
    of a member that is no schema leads to the member. Problems come in the order of the schema, those about
    its size last, at most `MAX_PROBLEMS` of them.

    >>> from toolcrib.adapter.rules.tables import OPENAI
    >>> for problem in violations({"type": "object", "properties": {"tags": {"type": "array"}}}, OPENAI):
    ...     print(problem)
    /properties/tags: OpenAI does not accept an array without items; describe them
    """
    return tuple(islice(_Checker(schema, rules).problems(), MAX_PROBLEMS))


class _Checker:
    """Checks one schema against one set of rules."""

    def __init__(self, schema: dict[str, Any], rules: SchemaRules) -> None:
        self._rules = rules
        self._lenient = rules.root_unions
        self._places = Places(schema)
        self._circular = set() if rules.recursion else self._places.circular()

    def problems(self) -> Iterator[Problem]:
        """Yield every problem, in the order of the schema."""
        for place in self._places.all:
            if type(place.value) is dict:
                for keyword, message in self._place_faults(place, place.value):
                    yield Problem(place.path, keyword, f"{self._rules.title} {message}"[:500])
                yield from self._name_problems(place, place.value)
            else:
                yield from self._non_object_problems(place)
        yield from oversizes(self._places, self._rules)
        if self._places.is_cut:
            yield Problem("", "size", "the schema holds too many subschemas to check; make it smaller")

    def _place_faults(self, place: Place, schema: dict[str, Any]) -> Iterator[Fault]:
        """Yield the faults in one place."""
        is_root = place.parent is None
        kinds = types_of(schema)
        if is_root and schema.get("type") != "object":
            yield "type", "does not accept a root of another type; use type: 'object'"
        for word in schema:
            if not (is_root and word == "type"):
                yield from (
                    (word, f"does not accept {fault}") for fault in self._keyword_faults(place, schema, word)
                )
        if self._rules.structured and not is_root and not schema.keys() & _TYPED:
            yield "type", "does not accept a value without a type; give its type"
        if is_root or "object" in kinds:
            yield from self._object_faults(schema, is_root=is_root)
        if "array" in kinds:
            yield from self._array_faults(schema)

    def _keyword_faults(self, place: Place, schema: dict[str, Any], word: str) -> Iterator[str]:
        """Yield the faults of one keyword."""
        rules = self._rules
        if word in REFERENCES and not rules.refs:
            yield "references; replace each with what it refers to"
        elif word in rules.dropped or (rules.keywords is not None and word not in rules.keywords):
            yield f"the keyword {short_repr(word)}; leave it out"
        elif place.parent is None and word in _COMBINATIONS and not rules.root_unions:
            yield f"{word} at the root; move it into a property, or leave it out"
        elif not has_shape(word, schema[word]):
            if not self._lenient:
                yield f"{sketch(schema[word])} as {word}; write what JSON Schema allows, or leave it out"
        elif word in REFERENCES:
            yield from self._reference_faults(place, schema, word)
        elif word == "additionalProperties" and rules.closed and schema[word] is not False:
            yield "additional properties; use additionalProperties: false"
        else:
            yield from value_faults(word, schema, rules)

    def _reference_faults(self, place: Place, schema: dict[str, Any], word: str) -> Iterator[str]:
        rules, reference = self._rules, schema[word]
        if not reference.startswith("#"):
            yield f"the reference {short_repr(reference)}, which leaves the schema; use a definition in it"
        elif rules.structured and not _PLAIN_REFERENCE.fullmatch(reference):
            yield f"the reference {short_repr(reference)}; refer to '#' or to '#/$defs/' and a name"
        elif self._places.find(reference) is None:
            yield f"the reference {short_repr(reference)}, which leads nowhere; add what it refers to"
        if place in self._circular:
            yield "a schema that refers back to itself; write out as many levels as are needed"
        if rules.ref_siblings is not None and (beside := schema.keys() - rules.ref_siblings - {word}):
            yield f"{join_options(sorted(beside))} beside {word}; leave them out"

    def _object_faults(self, schema: dict[str, Any], *, is_root: bool) -> Iterator[Fault]:
        """Yield the faults of an object as a whole."""
        rules = self._rules
        if "properties" not in schema and rules.needs_properties:
            yield "properties", "does not accept an object without properties; declare them, even if only {}"
        elif not is_root and not rules.empty_objects and not schema.get("properties"):
            yield "properties", "does not accept an object that has no properties; give it one"
        if rules.closed and "additionalProperties" not in schema:
            yield "additionalProperties", "accepts only closed objects; use additionalProperties: false"
        yield from self._required_faults(_properties(schema), schema.get("required"))

    def _required_faults(self, declared: dict[str, Any], names: Any) -> Iterator[Fault]:
        rules = self._rules
        required = {name for name in names if type(name) is str} if type(names) is list else set()
        unknown = required - declared.keys()
        if rules.structured and unknown:
            listed = short_repr(sorted(unknown))
            yield "required", f"does not accept required names that are not properties; declare {listed}"
        optional = declared.keys() - required
        if rules.all_required and optional:
            yield "required", f"does not accept optional properties; require {short_repr(sorted(optional))}"

    def _array_faults(self, schema: dict[str, Any]) -> Iterator[Fault]:
        """Yield the faults of an array as a whole."""
        rules = self._rules
        if not rules.needs_items or type(schema.get("items")) is dict:
            return
        takes_tuples = rules.keywords is None or "prefixItems" in rules.keywords
        if not (takes_tuples and "prefixItems" in schema) and has_shape("items", schema.get("items", True)):
            yield "items", "does not accept an array without items; describe them"

    def _name_problems(self, place: Place, schema: dict[str, Any]) -> Iterator[Problem]:
        rules = self._rules
        wanted = [rules.keys, rules.root_keys if place.parent is None else None]
        for name in _properties(schema):
            for pattern in wanted:
                if pattern is not None and not pattern.fullmatch(name):
                    path = place.path + pointer(("properties", name))
                    message = (
                        f"does not accept the name {short_repr(name)}; use one that matches {pattern.pattern}"
                    )
                    yield Problem(path, "properties", f"{rules.title} {message}")

    def _non_object_problems(self, place: Place) -> Iterator[Problem]:
        """Yield the faults of a place with a boolean, or without a schema."""
        rules = self._rules
        if place.parent is None:
            yield Problem("", "type", f"{rules.title} requires an object as the root; use type: 'object'")
        elif type(place.value) is not bool:
            if not self._lenient:
                message = f"{rules.title} requires a schema here, not {sketch(place.value)}; write one"
                yield Problem(place.path, place.word, message)
        elif rules.structured and place.word != "additionalProperties":
            message = f"{rules.title} does not accept true or false as a schema; give the type of the value"
            yield Problem(place.path, "type", message)


def _properties(schema: dict[str, Any]) -> dict[str, Any]:
    declared = schema.get("properties")
    return declared if type(declared) is dict else {}


def oversizes(places: Places, rules: SchemaRules) -> Iterator[Problem]:
    """Yield a problem for each limit that is exceeded; its keyword is the name of the limit."""
    limits = rules.limits
    if limits == StrictLimits():
        return
    yield from _definition_problems(places, rules)
    if limits.enum_values is not None:
        yield from _enum_problems(places, rules)
    counts: Counter[str] = Counter()
    for place in places.all:
        counts.update(_counts(place))
    for name, noun in _TOTALS.items():
        bound = getattr(limits, name)
        if bound is not None and counts[name] > bound:
            yield _oversize("", name, rules, f"more than {bound:,} {noun}, and there are {counts[name]:,}")


def _definition_problems(places: Places, rules: SchemaRules) -> Iterator[Problem]:
    """Yield the problems of limits that apply to the root and to each definition separately."""
    limits = rules.limits
    homes, depths = _measure(places.all)
    sizes: Counter[Place] = Counter()
    for place in places.all:
        sizes[homes[place]] += len(_object_faults(place, "properties"))
    for home, size in sizes.items():
        if limits.properties is not None and size > limits.properties:
            many = f"more than {limits.properties:,} properties in one definition, and there are {size:,}"
            yield _oversize(home.path, "properties", rules, many)
    for place in _too_deep(depths, homes, limits):
        deep = f"objects nested more than {limits.depth} deep in one definition"
        yield _oversize(place.path, "depth", rules, deep)


def _measure(places: list[Place]) -> tuple[dict[Place, Place], dict[Place, int]]:
    """Return for each place its definition, and the number of objects above it there."""
    homes: dict[Place, Place] = {}
    depths: dict[Place, int] = {}
    for place in places:
        parent = place.parent
        if parent is None or place.word == "$ref" or place.word in DEFINITIONS:
            homes[place], depths[place] = place, 0
        else:
            homes[place], depths[place] = homes[parent], depths[parent]
        depths[place] += _is_object(place.value)
    return homes, depths


def _too_deep(depths: dict[Place, int], homes: dict[Place, Place], limits: StrictLimits) -> list[Place]:
    """Return the first place in each definition that is nested too deep."""
    first: dict[Place, Place] = {}
    for place, depth in depths.items():
        if limits.depth is not None and depth > limits.depth:
            first.setdefault(homes[place], place)
    return list(first.values())


def _enum_problems(places: Places, rules: SchemaRules) -> Iterator[Problem]:
    for place in places.all:
        values = _values(place)
        chars = sum(len(value) for value in values if type(value) is str)
        if len(values) > _LONG_ENUM and chars > _LONG_ENUM_CHARS:
            long = f"more than {_LONG_ENUM_CHARS:,} characters in one enum of more than {_LONG_ENUM} values"
            yield _oversize(place.path, "enum_values", rules, long)


def _counts(place: Place) -> dict[str, int]:
    schema = place.value
    if type(schema) is not dict:
        return {}
    names = [name for word in ("properties", *DEFINITIONS) for name in _object_faults(place, word)]
    texts = [value for value in (*_values(place), schema.get("const")) if type(value) is str]
    required = schema.get("required")
    needed = {name for name in required if type(name) is str} if type(required) is list else set()
    return {
        "enum_values": len(_values(place)),
        "name_chars": sum(map(len, names)) + sum(map(len, texts)),
        "optional": len(_object_faults(place, "properties").keys() - needed),
        "unions": (type(schema.get("anyOf")) is list) + (len(types_of(schema)) > 1),
    }


def _is_object(schema: Any) -> bool:
    return type(schema) is dict and ("object" in types_of(schema) or "properties" in schema)


def _object_faults(place: Place, word: str) -> dict[str, Any]:
    held = place.value.get(word) if type(place.value) is dict else None
    return held if type(held) is dict else {}


def _values(place: Place) -> list[Any]:
    held = place.value.get("enum") if type(place.value) is dict else None
    return held if type(held) is list else []


def _oversize(path: str, limit: str, rules: SchemaRules, what: str) -> Problem:
    return Problem(path, limit, f"{rules.title} does not accept {what}; split the tool or leave some out")
