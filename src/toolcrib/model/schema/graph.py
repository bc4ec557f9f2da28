"""A schema as a graph of the work it asks for.

Each node is one subschema. An edge *in place* looks at the same value again (`allOf`, `$ref`, `if`, ...), an
edge *down* looks at a member of it (`properties`, `items`, ...). References are followed, so that shared
definitions are shared nodes: the graph is as large as the schema, however often its parts are used.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import Any

import jsonschema_rs

from toolcrib.errors import InvalidSchemaError, Problem, SchemaTooComplexError
from toolcrib.model.schema.engine import (
    MAX_PATTERN_BYTES,
    ROOT_URI,
    Dialect,
    Documents,
    linear_pattern_size,
    pattern_engine,
)
from toolcrib.model.schema.pattern import Pattern, read_pattern

__all__ = ["MAX_SCHEMA_NODES", "Node", "build_graph"]

MAX_SCHEMA_NODES = 20_000
"""How many values a schema, or the subschemas it reaches, may hold."""
_BACKTRACKING_BYTES = 1 << 20
_DRAFT_7 = 7
_DRAFT_2020_12 = 20
_SLOW_COMPARISON = 100
"""What comparing one number or container of an `enum` costs, in steps; strings are looked up by hash."""

_IN_PLACE_ONE = ("not", "if", "then", "else")
_IN_PLACE_MANY = ("allOf", "anyOf", "oneOf")
_IN_PLACE_MAP = ("dependentSchemas", "dependencies")
_LISTED = ("required", "dependentRequired", "patternProperties")


@dataclass(slots=True, eq=False)
class Node:
    """One subschema: its own cost, and what it asks of the same value and of the value's members."""

    steps: int = 1
    """Cost of looking at any value, itself alone."""
    per_char: int = 0
    """Further cost for each character of a string, or of an object's keys."""
    backtracking: list[tuple[str, jsonschema_rs.Validator]] = field(default_factory=list)
    """Patterns that only a backtracking engine can match."""
    unique: bool = False
    in_place: list["Node"] = field(default_factory=list)
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


def build_graph(
    schema: dict[str, Any], dialect: Dialect, documents: Documents, registry: jsonschema_rs.Registry
) -> list[Node]:
    """Return every node that validation can reach, the root first.

    Raises:
        ExternalRefError: a reference leaves the schema and the documents.
        InvalidSchemaError: a reference points at nothing.
        SchemaTooComplexError: too many nodes, or a pattern that could hang.
    """
    return _Builder(schema, dialect, documents, registry).build()


@dataclass(slots=True, frozen=True)
class _Place:
    """A subschema in its surroundings: what it is relative to, and under which draft's rules."""

    schema: Any
    resolver: jsonschema_rs.Resolver
    draft: int


class _Builder:
    """One walk over a schema and all that it refers to."""

    def __init__(
        self, schema: dict[str, Any], dialect: Dialect, documents: Documents, registry: jsonschema_rs.Registry
    ) -> None:
        self._root = schema
        self._draft = _DRAFT_7 if dialect == "draft-07" else _DRAFT_2020_12
        self._documents = documents
        self._registry = registry
        self._root_base = ROOT_URI
        self._plain = not _embeds_resources(schema)
        self._nodes: dict[tuple[Any, ...], Node] = {}
        self._places: list[_Place] = []  # keeps every walked object alive, so that its id stays its own
        self._pending: deque[tuple[Node, _Place]] = deque()
        self._dynamic: set[str] = set()
        self._bases: dict[str, int] = {}
        self._patterns: dict[str, tuple[Pattern, int | None, jsonschema_rs.Validator | None]] = {}
        self._pattern_bytes = 0

    def build(self) -> list[Node]:
        resolver = self._registry.resolver(ROOT_URI)
        root = self._enter_resource(_Place(self._root, resolver, self._draft))
        self._root_base = root.resolver.base_uri
        self._node(root)
        while self._pending:
            while self._pending:
                self._expand(*self._pending.popleft())
            self._bind_dynamic_anchors()
        return list(self._nodes.values())

    def _node(self, place: _Place, key: tuple[Any, ...] | None = None) -> Node:
        """Return the node of a place, queueing it if it is new."""
        key = key or (id(place.schema), place.resolver.base_uri)
        if isinstance(place.schema, bool):
            key = (place.schema,)
        if key not in self._nodes:
            if len(self._nodes) >= MAX_SCHEMA_NODES:
                raise SchemaTooComplexError(f"the schema reaches more than {MAX_SCHEMA_NODES:,} subschemas")
            self._nodes[key] = Node()
            if isinstance(place.schema, dict):
                self._places.append(place)
                self._pending.append((self._nodes[key], place))
        return self._nodes[key]

    def _expand(self, node: Node, place: _Place) -> None:
        schema = place.schema
        reference = schema.get("$ref")
        if place.draft == _DRAFT_7 and isinstance(reference, str):
            node.in_place.append(self._target(place, reference))
            return
        place = self._enter_resource(place)
        self._bases.setdefault(place.resolver.base_uri, place.draft)
        _Reader(node, place, self._node).read()
        self._weigh(node, schema)
        if isinstance(reference, str):
            node.in_place.append(self._target(place, reference))
        if isinstance(dynamic := schema.get("$dynamicRef"), str):
            anchors = self._dynamic_node(dynamic.rpartition("#")[2])
            either = self._nodes.setdefault((id(schema), "dynamic"), Node(chooses=True))
            either.in_place = [self._target(place, dynamic), anchors]
            node.in_place.append(either)

    def _enter_resource(self, place: _Place) -> _Place:
        """Return the place with the base that its own `$id` sets."""
        uri = place.schema.get("$id")
        if not isinstance(uri, str):
            return place
        try:
            found = place.resolver.lookup(uri)
        except jsonschema_rs.ReferencingError:
            return place  # an `$id` where no schema is expected names nothing
        return _Place(place.schema, found.resolver, found.draft)

    def _dynamic_node(self, name: str) -> Node:
        """Return the node that stands for every dynamic anchor of a name."""
        self._dynamic.add(name)
        return self._nodes.setdefault(("dynamic", name), Node(chooses=True))

    def _target(self, place: _Place, reference: str) -> Node:
        if self._plain and place.resolver.base_uri == self._root_base:
            found = _follow(self._root, reference)
            if found is not None:
                return self._node(_Place(found, place.resolver, place.draft))
        key = (place.resolver.base_uri, reference)
        if key in self._nodes:
            return self._nodes[key]
        resolved = self._lookup(place.resolver, reference)
        return self._node(_Place(resolved.contents, resolved.resolver, resolved.draft), key)

    def _lookup(self, resolver: jsonschema_rs.Resolver, reference: str) -> jsonschema_rs.Resolved:
        try:
            return resolver.lookup(reference)
        except jsonschema_rs.ReferencingError as error:
            if str(error).startswith("Resource"):
                raise self._documents.external(reference) from None
            problem = Problem(
                "", "$ref", f"the reference {reference[:200]!r} points at nothing in the schema"
            )
            raise InvalidSchemaError("invalid schema", (problem,)) from error

    def _bind_dynamic_anchors(self) -> None:
        """Let each `$dynamicRef` reach every anchor of its name, whichever the dynamic scope will pick."""
        for name in self._dynamic:
            for base in list(self._bases):
                key = (base, "dynamic", name)
                if key in self._nodes:
                    continue
                try:
                    found = self._registry.resolver(base).lookup(f"#{name}")
                except jsonschema_rs.ReferencingError:
                    continue  # this resource has no anchor of that name
                target = self._node(_Place(found.contents, found.resolver, found.draft), key)
                self._dynamic_node(name).in_place.append(target)

    def _weigh(self, node: Node, schema: dict[str, Any]) -> None:
        """Set what the node costs by itself."""
        node.steps = 1 + len(schema) + sum(_count(schema[word]) for word in _LISTED if word in schema)
        for value in [*_list(schema.get("enum")), schema.get("const")]:
            if value is not None and not isinstance(value, str | bool):
                node.steps += _SLOW_COMPARISON * _count(value)
        node.per_char = ("minLength" in schema) + ("maxLength" in schema)
        node.unique = schema.get("uniqueItems") is True
        for pattern in [schema.get("pattern"), *_map(schema.get("patternProperties"))]:
            if isinstance(pattern, str):
                steps, backtracking = self._pattern(pattern)
                node.per_char += steps
                node.backtracking += backtracking

    def _pattern(self, text: str) -> tuple[int, list[tuple[str, jsonschema_rs.Validator]]]:
        """Return the steps a pattern takes per character, and its engine if it backtracks."""
        if text not in self._patterns:
            pattern = read_pattern(text)
            if pattern.fault:
                raise _costly(text, pattern.fault)
            self._patterns[text] = (pattern, linear_pattern_size(text), pattern_engine(text))
        pattern, size, engine = self._patterns[text]
        if engine is None:
            return pattern.steps, []  # not a pattern at all; the compiler says where
        if size is None and not pattern.backtracks:
            raise _costly(text, "only a backtracking engine can match it")
        self._pattern_bytes += size or _BACKTRACKING_BYTES
        if self._pattern_bytes > MAX_PATTERN_BYTES:
            raise _costly(text, "it and the others need more memory than patterns get")
        return pattern.steps, [(text, engine)] if pattern.backtracks else []


def _costly(pattern: str, fault: str) -> SchemaTooComplexError:
    return SchemaTooComplexError(f"the pattern {pattern[:120]!r} could take too long to match: {fault}")


class _Reader:
    """Reads the subschemas of one schema into its node."""

    def __init__(self, node: Node, place: _Place, node_of: Any) -> None:
        self._node = node
        self._schema = place.schema
        self._place = place
        self._node_of = node_of

    def read(self) -> None:
        node, schema = self._node, self._schema
        for word in _IN_PLACE_ONE:
            node.in_place += self._one(word)
        for word in _IN_PLACE_MANY:
            node.in_place += self._subs(_list(schema.get(word)))
        for word in _IN_PLACE_MAP:
            node.in_place += self._subs(_map(schema.get(word)).values())
        node.properties = {
            name: sub for name, value in _map(schema.get("properties")).items() for sub in self._subs([value])
        }
        node.other_properties = self._one("additionalProperties")
        node.every_property = self._subs(_map(schema.get("patternProperties")).values())
        node.every_property += self._one("unevaluatedProperties")
        node.names = self._one("propertyNames")
        items = schema.get("items")
        node.prefix = self._subs([*_list(schema.get("prefixItems")), *_list(items)])
        node.other_items = self._one("items") + self._one("additionalItems")
        node.every_item = self._one("contains") + self._one("unevaluatedItems")

    def _one(self, word: str) -> list[Node]:
        return self._subs([self._schema[word]]) if word in self._schema else []

    def _subs(self, values: Any) -> list[Node]:
        place = self._place
        return [
            self._node_of(_Place(value, place.resolver, place.draft))
            for value in values
            if isinstance(value, dict | bool)
        ]


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _map(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _count(value: Any) -> int:
    """Return how many values a JSON value of a measured schema holds, itself included."""
    if isinstance(value, dict):
        return 1 + sum(map(_count, value.values()))
    return 1 + sum(map(_count, value)) if isinstance(value, list) else 1


def _embeds_resources(schema: dict[str, Any]) -> bool:
    """Return whether any object below the root may set another base for references."""
    pending = [member for member in schema.values() if isinstance(member, dict | list)]
    while pending:
        value = pending.pop()
        if isinstance(value, dict) and isinstance(value.get("$id"), str):
            return True
        members = value.values() if isinstance(value, dict) else value
        pending += [member for member in members if isinstance(member, dict | list)]
    return False


def _follow(root: Any, reference: str) -> Any:
    """Return what a plain local pointer names; None where the engine must look."""
    if reference == "#":
        return root
    if not reference.startswith("#/") or "%" in reference:
        return None
    value = root
    for part in reference[2:].split("/"):
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict) and key in value:
            value = value[key]
        elif isinstance(value, list) and key.isdecimal() and key.isascii() and int(key) < len(value):
            value = value[int(key)]
        else:
            return None
    return value if isinstance(value, dict | bool) else None
