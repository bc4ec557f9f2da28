"""Unions and other combinations of subschemas."""

from typing import TYPE_CHECKING, Any, Final

from toolcrib.adapter.paths import step
from toolcrib.adapter.rewrite.codec import Codec, NullableCodec, UnionCodec
from toolcrib.adapter.rewrite.merge import merge
from toolcrib.adapter.rewrite.source import ARRAY_WORDS, OBJECT_WORDS, type_of

if TYPE_CHECKING:
    from toolcrib.adapter.rewrite.walk import Found, Walk

__all__ = [
    "hoist",
    "is_object_with_choices",
    "merge_all",
    "rewrite_union",
    "split_types",
    "with_ref_in_all_of",
]

_CHOICES: Final = ("anyOf", "oneOf")
_ANNOTATIONS: Final = frozenset({"title", "description", "default", "examples", "deprecated", "nullable"})
_COMBINING: Final = ("anyOf", "oneOf", "allOf", "if", "then", "else", "not", "dependentSchemas")
_ONLY_FOR: Final = {
    "object": OBJECT_WORDS,
    "array": ARRAY_WORDS,
    "string": frozenset(
        {"minLength", "maxLength", "pattern", "format", "contentEncoding", "contentMediaType"}
    ),
    "number": frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}),
}
_ONLY_FOR_SOME: Final = frozenset().union(*_ONLY_FOR.values())
_NULL: Final = {"type": "null"}
_PLAIN_UNION: Final = _ANNOTATIONS | {"anyOf"}
_PAIR: Final = 2
_MAX_FOLLOWED: Final = 64


def merge_all(walk: "Walk", node: dict[str, Any], path: str) -> dict[str, Any]:
    """Return a subschema with its `allOf` merged into it, or, where that cannot be, with what it declares."""
    base = {word: value for word, value in node.items() if word != "allOf"}
    members = [_resolved(walk, member, path) for member in node["allOf"] if member is not True]
    merged = merge([base, *members]) if all(type(member) is dict for member in members) else None
    if merged is None:
        return hoist(walk, node, path, words=("allOf",))
    walk.losses.note("allOf", path, "is merged into one schema")
    if "allOf" not in merged and "$ref" not in merged:
        return merged
    walk.merges += 1
    if walk.merges <= _MAX_FOLLOWED:
        return merge_all(walk, with_ref_in_all_of(merged), path)
    walk.losses.note("$ref", path, "refers to too much that refers on, and is left out")
    return hoist(walk, {word: value for word, value in merged.items() if word != "$ref"}, path)


def with_ref_in_all_of(node: dict[str, Any]) -> dict[str, Any]:
    """Return a subschema with its reference among those that all must hold."""
    if "$ref" not in node:
        return node
    rest = {word: value for word, value in node.items() if word != "$ref"}
    return {**rest, "allOf": [*node.get("allOf", ()), {"$ref": node["$ref"]}]}


def _resolved(walk: "Walk", schema: Any, path: str) -> Any:
    """Return a subschema in the words of 2020-12, a bare reference followed to its target."""
    for _ in range(_MAX_FOLLOWED):
        if type(schema) is not dict:
            return schema
        schema = walk.source.read(schema, walk.losses.note, path)
        if "$ref" not in schema or len(schema) > 1:
            return schema
        schema = walk.source.find(schema["$ref"])
    return None


def is_object_with_choices(node: dict[str, Any]) -> bool:
    """Return whether a union only adds to an object that has properties of its own."""
    return bool(node.get("properties")) or (
        node.get("type") == "object"
        and not any(_declares(member) for word in _CHOICES for member in node.get(word, ()))
    )


def _declares(schema: Any) -> bool:
    """Return whether an alternative could have properties of its own."""
    return type(schema) is dict and ("$ref" in schema or "properties" in schema or "allOf" in schema)


def hoist(
    walk: "Walk", node: dict[str, Any], path: str, words: tuple[str, ...] = _COMBINING
) -> dict[str, Any]:
    """Return an object schema without combinations: what they declare is optional, the rest is described."""
    declared: dict[str, list[Any]] = {}
    for word in words:
        for member in _members(node.get(word)):
            _collect(walk, member, path, declared)
    own = node.get("properties", {})
    hoisted = {
        name: found[0] if len(found) == 1 else {"anyOf": found}
        for name, found in declared.items()
        if name not in own
    }
    kept = {word: value for word, value in node.items() if word not in words}
    if hoisted and node.get("additionalProperties") is not False:
        kept["properties"] = {**own, **hoisted}
    for word in words:
        if word in node:
            walk.losses.note(word, path, "is only said in the description; what it declares is optional")
    walk.said.setdefault(path, []).extend((word, node[word]) for word in words if word in node)
    return kept


def _members(value: Any) -> list[Any]:
    """Return the subschemas that a combining keyword holds."""
    if type(value) is list:
        return value
    if (
        type(value) is dict
        and value
        and all(type(member) is dict for member in value.values())
        and "type" not in value
    ):
        return [value, *value.values()]
    return [value]


def _collect(walk: "Walk", schema: Any, path: str, declared: dict[str, list[Any]]) -> None:
    """Collect the properties that a subschema and what it refers to declare."""
    pending: list[Any] = [schema]
    seen: set[int] = set()
    while pending and len(seen) < _MAX_FOLLOWED:
        schema = _resolved(walk, pending.pop(), path)
        if type(schema) is not dict or id(schema) in seen:
            continue
        seen.add(id(schema))
        for name, found in schema.get("properties", {}).items():
            if found is not False and found not in declared.setdefault(name, []):
                declared[name].append(found)
        for word in ("allOf", "anyOf", "oneOf"):
            pending += schema.get(word, ())
        pending += [schema[word] for word in ("then", "else") if word in schema]


def split_types(walk: "Walk", node: dict[str, Any], kinds: list[str], path: str) -> "Found":
    """Return a subschema of several types as a union of one for each."""
    walk.losses.note("type", path, "the list of types is a union")
    outer = {word: value for word, value in node.items() if word in _ANNOTATIONS}
    return rewrite_union(walk, {**outer, "anyOf": [_only(kind, node) for kind in kinds]}, path, noted=True)


def _only(kind: str, node: dict[str, Any]) -> dict[str, Any]:
    """Return what a subschema says about one JSON type."""
    own = _ONLY_FOR.get("number" if kind == "integer" else kind, frozenset())
    foreign = (_ONLY_FOR_SOME - own) | _ANNOTATIONS
    only = {word: value for word, value in node.items() if word not in foreign} | {"type": kind}
    if "enum" in only:
        only["enum"] = [value for value in only["enum"] if _fits(type_of(value), kind)]
    return only


def _fits(kind: str, wanted: str) -> bool:
    return kind == wanted or (kind == "integer" and wanted == "number")


def rewrite_union(walk: "Walk", node: dict[str, Any], path: str, *, noted: bool = False) -> "Found":
    """Return a union converted: a union, its one alternative, or JSON text if values could be mistaken."""
    word = "anyOf" if "anyOf" in node else "oneOf"
    if (
        word == "anyOf"
        and node.keys() <= _PLAIN_UNION
        and len(node[word]) == _PAIR
        and node[word][1] == _NULL
    ):
        return _or_null(walk, node, path)
    base = {key: value for key, value in node.items() if key not in _ANNOTATIONS and key != word}
    members = _alternatives(walk, base, node[word], path)
    if members is None:
        return walk.structured(hoist(walk, node, path, words=_CHOICES), path)
    if word == "oneOf":
        walk.losses.note("oneOf", path, "is anyOf: more than one alternative may fit")
    found = [
        walk.schema(member, path if noted else step(path, word, index))
        for index, member in enumerate(members)
    ]
    codec = None
    if not found:
        return walk.anything(node, path)
    if any(inner for _, inner in found):
        kinds = [walk.references.kinds(schema) for schema, _ in found]
        if _could_be_mistaken(kinds, [inner for _, inner in found]):
            return walk.anything(node, path)
        codec = _codec(walk, members, found, kinds)
    schemas = [schema for schema, _ in found]
    others = [schema for schema in schemas if schema != _NULL] if walk.rules.nullable else schemas
    is_nullable = len(others) < len(schemas)
    schemas = others or [_NULL]
    converted = schemas[0] if len(schemas) == 1 else {"anyOf": schemas}
    walk.unions += len(schemas) > 1
    if is_nullable and others:
        walk.losses.note(word, path, "null is said by nullable")
        converted = walk.nullable(converted)
    outer = {key: value for key, value in node.items() if key in _ANNOTATIONS}
    return _outside(walk, outer, converted, codec, path), codec


def _or_null(walk: "Walk", node: dict[str, Any], path: str) -> "Found":
    """Return a union of something and null, which most unions are."""
    found, codec = walk.schema(node["anyOf"][0], step(path, "anyOf", 0))
    outer = {key: value for key, value in node.items() if key != "anyOf"}
    codec = codec and NullableCodec(codec)
    if walk.rules.nullable:
        walk.losses.note("anyOf", path, "null is said by nullable")
        return _outside(walk, outer, walk.nullable(found), codec, path), codec
    walk.unions += 1
    return _outside(walk, outer, {"anyOf": [found, {"type": "null"}]}, codec, path), codec


def _outside(
    walk: "Walk", outer: dict[str, Any], converted: dict[str, Any], codec: Codec | None, path: str
) -> dict[str, Any]:
    """Return a converted union with the annotations that stood beside it."""
    if not outer:
        return converted
    if "$ref" in converted and walk.rules.ref_siblings is not None:
        converted = {"anyOf": [converted]}
    kept = {word: value for word, value in converted.items() if word not in outer}
    return walk.finish(outer, kept, codec, frozenset(), path)


def _alternatives(walk: "Walk", base: dict[str, Any], members: list[Any], path: str) -> list[Any] | None:
    """Return the alternatives of a union, each with what stood beside it; None where they do not merge."""
    members = [member for member in members if member is not False]
    if not base:
        return members
    merged = [
        merge([base, _resolved(walk, member, path)]) if type(member) is dict else base for member in members
    ]
    return None if None in merged else merged


def _could_be_mistaken(kinds: list[frozenset[str]], codecs: list[Codec | None]) -> bool:
    """Return whether a value that hides its type could pass for one of another alternative."""
    for index, codec in enumerate(codecs):
        if codec is not None and codec.opaque and len(codecs) > 1:
            others = kinds[:index] + kinds[index + 1 :]
            if any(not kinds[index].isdisjoint(other) for other in others):
                return True
    return False


def _codec(
    walk: "Walk", members: list[Any], found: list["Found"], kinds: list[frozenset[str]]
) -> Codec | None:
    codecs = [codec for _, codec in found]
    if not any(codecs):
        return None
    others = [codec for codec, kind in zip(codecs, kinds, strict=True) if kind != {"null"}]
    if len(others) == 1 and others[0] is not None:
        return NullableCodec(others[0]) if len(codecs) > 1 else others[0]
    return UnionCodec(list(zip(kinds, codecs, strict=True)), walk.alternatives.add(members))
