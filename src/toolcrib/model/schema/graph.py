"""Graph of the subschemas of a schema, from which the cost of validation is computed.

Each node is one subschema. An edge *in place* evaluates another subschema on the same value (`allOf`, `$ref`,
`if`, ...), an edge *down* evaluates one on a member (`properties`, `items`, ...). References are followed, so
shared definitions are shared nodes, and the graph is no larger than the schema.

The engine has no limits of its own. So the graph is built before a schema is compiled: `cost` computes from
it the steps that a value of a given size can cause, and `meter` counts them for one value. Every subschema
that validation can reach must be in it; one too many only makes the estimate higher.

- A node is identified by the `id()` of its subschema and the base URI of its references. The builder keeps
  every subschema alive, so that no `id()` is used twice while the graph is built.
- Schemas are expanded from a queue, not by recursion: a chain of references may be longer than Python's stack
  is deep.
- Plain local pointers are followed here, because the engine returns a copy for each lookup. All others
  (`$id`, anchors, other documents) are looked up by the engine, and the size of its copies is limited.
- The anchor that a `$dynamicRef` means depends on the path of validation. Its node therefore leads to every
  anchor of that name; they are searched again after each round, since new resources bring new anchors.
"""

from collections import deque
from dataclasses import dataclass
from typing import Any

import jsonschema_rs

from toolcrib.errors import InvalidSchemaError, Problem, SchemaTooComplexError, UnsupportedDialectError
from toolcrib.model.plain import walk
from toolcrib.model.schema.engine import (
    ROOT_URI,
    Dialect,
    Documents,
)
from toolcrib.model.schema.weight import Node, NodeWeigher, as_list, as_map

MAX_SCHEMA_NODES = 20_000
"""The maximum number of JSON values in a schema, and of subschemas that it reaches."""
_DRAFT_7 = 7
_DRAFT_2020_12 = 20
_DRAFTS = {_DRAFT_7, 19, _DRAFT_2020_12}  # 2019-09 is like 2020-12, except for $recursiveRef

_MAX_LOOKED_UP = 10 * MAX_SCHEMA_NODES
"""The maximum number of JSON values that the engine may copy when it looks up references."""

_IN_PLACE_ONE = ("not", "if", "then", "else")
_IN_PLACE_MANY = ("allOf", "anyOf", "oneOf")
_IN_PLACE_MAP = ("dependentSchemas", "dependencies")


def build_graph(
    schema: dict[str, Any], dialect: Dialect, documents: Documents, registry: jsonschema_rs.Registry
) -> list[Node]:
    """Return every node that validation can reach, the root first.

    Raises:
        ExternalRefError: a reference leaves the schema and the documents.
        InvalidSchemaError: a reference points at nothing.
        SchemaTooComplexError: there are too many nodes, or a pattern could hang.
    """
    return _Builder(schema, dialect, documents, registry).build()


@dataclass(slots=True, frozen=True)
class _Place:
    """A subschema with the resolver of its references and its draft."""

    schema: Any
    resolver: jsonschema_rs.Resolver
    draft: int


class _Builder:
    """Builds the graph of one schema."""

    def __init__(
        self, schema: dict[str, Any], dialect: Dialect, documents: Documents, registry: jsonschema_rs.Registry
    ) -> None:
        self._root = schema
        self._draft = _DRAFT_7 if dialect == "draft-07" else _DRAFT_2020_12
        self._documents = documents
        self._registry = registry
        self._root_base = ROOT_URI
        # A subschema with an `$id` changes the base of references, so pointers cannot be followed here.
        self._has_plain_pointers = not _embeds_resources(schema)
        self._nodes: dict[tuple[Any, ...], Node] = {}
        self._places: list[_Place] = []  # keeps every subschema alive, so that its id() is not used again
        self._pending: deque[tuple[Node, _Place]] = deque()
        self._dynamic_names: set[str] = set()
        self._bases: set[str] = set()
        self._weigher = NodeWeigher()
        self._looked_up = 0

    def build(self) -> list[Node]:
        resolver = self._registry.resolver(ROOT_URI)
        root = self._enter_resource(_Place(self._root, resolver, self._draft))
        self._root_base = root.resolver.base_uri
        self._get_node(root)
        while self._pending:
            while self._pending:
                self._expand(*self._pending.popleft())
            self._bind_dynamic_anchors()
        return list(self._nodes.values())

    def _get_node(self, place: _Place, key: tuple[Any, ...] | None = None) -> Node:
        """Return the node of a subschema, queued for expansion if it is new."""
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
        if place.draft == _DRAFT_7 and isinstance(reference, str):  # draft-07 ignores keywords beside $ref
            self._add_reference(node, place, reference)
            return
        place = self._enter_resource(place)
        if place.draft not in _DRAFTS or "$recursiveRef" in schema:
            raise UnsupportedDialectError(
                "a part of the schema, or a document it refers to, is of another dialect; "
                "only 2020-12 and draft-07 are supported"
            )
        self._bases.add(place.resolver.base_uri)
        _Reader(node, place, self._get_node).read()
        self._weigher.weigh(node, schema)
        if isinstance(reference, str):
            self._add_reference(node, place, reference)
        if isinstance(dynamic := schema.get("$dynamicRef"), str):
            anchors = self._dynamic_node(dynamic.rpartition("#")[2])
            # Without a dynamic scope, `$dynamicRef` means its static target; only one of both is evaluated.
            either = self._nodes.setdefault((id(schema), "dynamic"), Node(is_choice=True))
            either.in_place = [self._resolve_target(place, dynamic), anchors]
            node.in_place.append(either)

    def _add_reference(self, node: Node, place: _Place, reference: str) -> None:
        node.refers_to = self._resolve_target(place, reference)
        node.in_place.append(node.refers_to)

    def _enter_resource(self, place: _Place) -> _Place:
        """Return the subschema with the base URI that its own `$id` sets."""
        uri = place.schema.get("$id")
        if not isinstance(uri, str):
            return place
        try:
            found = place.resolver.lookup(uri)
        except jsonschema_rs.ReferencingError:
            return place  # the engine ignores an `$id` at a place where it expects no schema
        self._count_copy(found)
        return _Place(place.schema, found.resolver, found.draft)

    def _dynamic_node(self, name: str) -> Node:
        """Return the node that leads to every dynamic anchor of a name."""
        self._dynamic_names.add(name)
        return self._nodes.setdefault(("dynamic", name), Node(is_choice=True))

    def _resolve_target(self, place: _Place, reference: str) -> Node:
        if self._has_plain_pointers and place.resolver.base_uri == self._root_base:
            found = _follow_pointer(self._root, reference)
            if found is not None:
                return self._get_node(_Place(found, place.resolver, place.draft))
        key = (place.resolver.base_uri, reference)
        if key in self._nodes:
            return self._nodes[key]
        resolved = self._lookup(place.resolver, reference)
        return self._get_node(_Place(resolved.contents, resolved.resolver, resolved.draft), key)

    def _lookup(self, resolver: jsonschema_rs.Resolver, reference: str) -> jsonschema_rs.Resolved:
        try:
            found = resolver.lookup(reference)
        except jsonschema_rs.ReferencingError as error:
            if str(error).startswith("Resource"):
                raise self._documents.external_error(reference) from None
            problem = Problem(
                "", "$ref", f"the reference {reference[:200]!r} points at nothing in the schema"
            )
            raise InvalidSchemaError("invalid schema", (problem,)) from error
        self._count_copy(found)
        return found

    def _count_copy(self, found: jsonschema_rs.Resolved) -> None:
        """Count the values in a result of the engine, which is a copy, against the limit."""
        self._looked_up += sum(1 for _ in walk(found.contents))
        if self._looked_up > _MAX_LOOKED_UP:
            raise SchemaTooComplexError("the schema refers to its parts in too many different ways")

    def _bind_dynamic_anchors(self) -> None:
        """Connect each `$dynamicRef` with every anchor of its name that the dynamic scope might select."""
        for name in self._dynamic_names:
            for base in sorted(self._bases):
                key = (base, "dynamic", name)
                if key in self._nodes:
                    continue
                try:
                    found = self._registry.resolver(base).lookup(f"#{name}")
                except jsonschema_rs.ReferencingError:
                    continue  # this resource has no anchor of that name
                target = self._get_node(_Place(found.contents, found.resolver, found.draft), key)
                self._dynamic_node(name).in_place.append(target)


class _Reader:
    """Connects the node of one schema with the nodes of its subschemas."""

    def __init__(self, node: Node, place: _Place, node_of: Any) -> None:
        self._node = node
        self._schema = place.schema
        self._place = place
        self._node_of = node_of

    def read(self) -> None:
        node, schema = self._node, self._schema
        for word in _IN_PLACE_ONE:
            node.in_place += self._subschema(word)
        for word in _IN_PLACE_MANY:
            node.in_place += self._subschemas(as_list(schema.get(word)))
        for word in _IN_PLACE_MAP:
            node.in_place += self._subschemas(as_map(schema.get(word)).values())
        node.properties = {
            name: sub
            for name, value in as_map(schema.get("properties")).items()
            for sub in self._subschemas([value])
        }
        node.other_properties = self._subschema("additionalProperties")
        node.every_property = self._subschemas(as_map(schema.get("patternProperties")).values())
        node.every_property += self._subschema("unevaluatedProperties")
        node.names = self._subschema("propertyNames")
        items = schema.get("items")
        node.prefix = self._subschemas([*as_list(schema.get("prefixItems")), *as_list(items)])
        node.other_items = self._subschema("items") + self._subschema("additionalItems")
        node.every_item = self._subschema("contains") + self._subschema("unevaluatedItems")

    def _subschema(self, word: str) -> list[Node]:
        return self._subschemas([self._schema[word]]) if word in self._schema else []

    def _subschemas(self, values: Any) -> list[Node]:
        place = self._place
        return [
            self._node_of(_Place(value, place.resolver, place.draft))
            for value in values
            if isinstance(value, dict | bool)
        ]


def _embeds_resources(schema: dict[str, Any]) -> bool:
    """Return whether any object below the root has an `$id`, and may set another base URI."""
    pending = [member for member in schema.values() if isinstance(member, dict | list)]
    while pending:
        value = pending.pop()
        if isinstance(value, dict) and isinstance(value.get("$id"), str):
            return True
        members = value.values() if isinstance(value, dict) else value
        pending += [member for member in members if isinstance(member, dict | list)]
    return False


def _follow_pointer(root: Any, reference: str) -> Any:
    """Return the subschema at a plain local pointer; None if the engine must look it up."""
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
