"""Conversion of unions, and the codec that finds the alternative of a value."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from toolcrib.adapter.loss import step
from toolcrib.adapter.rewrite.codec import (
    ArrayCodec,
    Codec,
    CodecError,
    JsonTextCodec,
    Known,
    NullableCodec,
    RefCodec,
    decode,
    encode,
)
from toolcrib.adapter.rewrite.combine import hoist, only_adds, resolve
from toolcrib.adapter.rewrite.definition_table import Found
from toolcrib.adapter.rewrite.describe import add_text
from toolcrib.adapter.rewrite.merge import are_disjoint, merge
from toolcrib.adapter.rewrite.object_codecs import Field, ObjectCodec
from toolcrib.adapter.rewrite.source import (
    ANNOTATIONS,
    ARRAY_WORDS,
    OBJECT_WORDS,
    ONLY_FOR,
    TYPES,
    is_of_type,
    kinds_of,
    type_of,
)
from toolcrib.adapter.rewrite.walk import Walk

_CHOICES: Final = ("anyOf", "oneOf")
_ANNOTATIONS: Final = ANNOTATIONS | {"nullable"}
_ASSERTING: Final = (
    OBJECT_WORDS
    | ARRAY_WORDS
    | {"type", "enum", "const", "not", "if", "then", "else", "anyOf", "oneOf", "allOf", "$ref"}
    | {"minLength", "maxLength", "pattern", "format"}
    | {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}
)
"""The keywords that constrain values; the others stay outside of the union."""
_ONLY_FOR_SOME: Final = frozenset().union(*ONLY_FOR.values())
_NULL: Final = {"type": "null"}
_PLAIN_UNION: Final = _ANNOTATIONS | {"anyOf"}
_PAIR: Final = 2
_COMBINING: Final = frozenset({"anyOf", "oneOf", "allOf", "$ref"})


def split_types(walk: Walk, node: dict[str, Any], kinds: list[str], path: str) -> Found:
    """Convert a subschema of several types to a union with an alternative for each type."""
    walk.losses.note("type", path, "the list of types is a union")
    outer = {word: value for word, value in node.items() if word in _ANNOTATIONS}
    found = [only for kind in kinds if (only := _part_for_type(kind, node)) is not None]
    members = list(map(walk.source.to_own_draft, found))
    return rewrite_union(walk, {**outer, "anyOf": members}, path, noted=True)


def _part_for_type(kind: str, node: dict[str, Any]) -> dict[str, Any] | None:
    """Return a subschema restricted to one JSON type; None if it admits no value of that type."""
    own = ONLY_FOR.get("number" if kind == "integer" else kind, frozenset())
    foreign = (_ONLY_FOR_SOME - own) | _ANNOTATIONS
    only = {word: value for word, value in node.items() if word not in foreign} | {"type": kind}
    if "enum" in only:
        only["enum"] = [value for value in only["enum"] if is_of_type(type_of(value), [kind])]
    is_left = only.get("enum", True) and ("const" not in only or is_of_type(type_of(only["const"]), [kind]))
    return only if is_left else None


def rewrite_union(walk: Walk, node: dict[str, Any], path: str, *, noted: bool = False) -> Found:
    """Convert a union; if decoding could confuse its alternatives, values are passed as JSON text."""
    word = "anyOf" if "anyOf" in node else "oneOf"
    if node.keys() <= _PLAIN_UNION and len(node[word]) == _PAIR and node[word][1] == _NULL:
        return _convert_nullable(walk, node, path)
    base = {key: value for key, value in node.items() if key in _ASSERTING and key != word}
    members = _merge_alternatives(walk, base, node[word], path)
    if members is None:
        choices = [*node.get("anyOf", ()), *node.get("oneOf", ())]
        if not only_adds(walk, node.get("type"), choices, path):
            return walk.to_json_text(node, path)
        return walk.convert_structured(hoist(walk, node, path, words=_CHOICES), path)
    # Providers with structured rules have no `oneOf`, so the exclusion is lost, and reported.
    if word == "oneOf":
        walk.losses.note("oneOf", path, "becomes anyOf: more than one alternative may fit")
    found = [
        walk.convert(member, path if noted else step(path, word, index))
        for index, member in enumerate(members)
    ]
    codec = None
    # Without codecs, values are the same in both schemas, and need not be distinguished.
    if any(inner is not None for _, inner in found):
        kinds = [walk.references.kinds(schema) for schema, _ in found]
        if _is_ambiguous(walk, members, found, kinds, path):
            walk.has_discarded = True
            return walk.to_json_text(node, path)
        codec = _make_codec(walk, members, found, kinds, path)
    if not found:
        return walk.to_json_text(node, path)
    outer = {key: value for key, value in node.items() if key not in _ASSERTING}
    converted = _make_union(walk, [schema for schema, _ in found], word, path)
    return _add_annotations(walk, outer, converted, codec, path), codec


def _make_union(walk: Walk, schemas: list[Any], word: str, path: str) -> dict[str, Any]:
    """Return a union of converted subschemas."""
    others = [schema for schema in schemas if schema != _NULL] if walk.rules.nullable else schemas
    is_nullable = others and len(others) < len(schemas)
    schemas = others or [_NULL]
    converted: dict[str, Any] = schemas[0] if len(schemas) == 1 else {"anyOf": schemas}
    walk.unions += len(schemas) > 1
    if is_nullable:
        walk.losses.note(word, path, "null is expressed by nullable")
        converted = walk.make_nullable(converted)
    return converted


def _convert_nullable(walk: Walk, node: dict[str, Any], path: str) -> Found:
    """Convert a union of a subschema and null, as most unions are."""
    found, codec = walk.convert(node["anyOf"][0], step(path, "anyOf", 0))
    outer = {key: value for key, value in node.items() if key != "anyOf"}
    codec = codec and NullableCodec(codec)
    if walk.rules.nullable:
        walk.losses.note("anyOf", path, "null is expressed by nullable")
        return _add_annotations(walk, outer, walk.make_nullable(found), codec, path), codec
    walk.unions += 1
    return _add_annotations(walk, outer, {"anyOf": [found, {"type": "null"}]}, codec, path), codec


def _add_annotations(
    walk: Walk, outer: dict[str, Any], converted: dict[str, Any], codec: Codec | None, path: str
) -> dict[str, Any]:
    """Add the annotations beside a union to its converted form."""
    if not outer:
        return converted
    # A `$ref` with annotations beside it must be wrapped if the provider restricts its siblings.
    if "$ref" in converted and walk.rules.ref_siblings is not None:
        converted = {"anyOf": [converted]}
        walk.unions += 1
    inner = converted.get("description")
    if inner and outer.get("description", inner) != inner:
        outer = {**outer, "description": add_text(outer["description"], inner)}
    kept = {word: value for word, value in converted.items() if word not in outer}
    return walk.add_keywords(outer, kept, codec, frozenset(), path)


def _merge_alternatives(walk: Walk, base: dict[str, Any], members: list[Any], path: str) -> list[Any] | None:
    """Merge the keywords beside a union into each alternative; None if they cannot be merged."""
    members = [member for member in members if member is not False]
    if not base:
        return members
    merged: list[Any] = []
    for member in members:
        target = resolve(walk, member, path) if type(member) is dict else {}
        is_same = type(target) is dict and base.keys() == {"type"} and target.get("type") == base["type"]
        both = member if is_same else merge([base, target]) if type(target) is dict else None
        if type(target) is dict and are_disjoint(base, target):
            continue  # no value fits both, so this alternative can never be chosen
        if both is None:
            return None
        merged.append(both if is_same else walk.source.to_own_draft(_drop_object_keywords(both)))
    return merged


def _drop_object_keywords(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a subschema without keywords for objects, if its type is another one."""
    values = schema.get("enum", [schema["const"]] if "const" in schema else [])
    kinds = schema.get("type", [type_of(value) for value in values])
    if not kinds or "object" in kinds:
        return schema
    return {word: value for word, value in schema.items() if word not in OBJECT_WORDS}


def _is_ambiguous(
    walk: Walk, members: list[Any], found: list[Found], kinds: list[frozenset[str]], path: str
) -> bool:
    """Return whether an encoded value could be decoded as another alternative than it was encoded by."""
    hiding = {index for index, (_, codec) in enumerate(found) if hides(codec)}
    for kind in TYPES:
        alike = [index for index, ours in enumerate(kinds) if kind in ours]
        if kind == "null" or len(alike) == 1:
            continue
        if kind == "object" and _names_differ(walk, [found[index] for index in alike]):
            return True
        # A discriminator in the original objects helps even if the encoded values look the same, because a
        # decoded value is validated against its original alternative.
        originals = {index: resolve(walk, members[index], path) for index in alike}
        if not hiding.isdisjoint(alike) and (kind != "object" or not _are_distinct(originals, hiding)):
            return True
    return False


def _names_differ(walk: Walk, found: list[Found]) -> bool:
    """Return whether a property, or null in it, has different meanings in two alternatives."""
    names: dict[str, str] = {}
    absent: set[str] = set()
    nulls: set[str] = set()
    for schema, codec in found:
        inner = schema.get("properties", {})
        same: dict[str, Field] = {key: (key, None, False) for key in inner}
        fields = codec.fields if isinstance(codec, ObjectCodec) else same
        for name, (key, _, null_is_absent) in fields.items():
            if names.setdefault(key, name) != name:
                return True
            (absent if null_is_absent else nulls).add(key)
        nulls -= {key for key in nulls if key in inner and not walk.admits_null(inner[key])}
    return not absent.isdisjoint(nulls)


def _are_distinct(members: dict[int, Any], hiding: set[int]) -> bool:
    """Return whether a discriminator exists: a property, required in all, with values of its own in each.

    Only the alternatives in `hiding` need values that no other one has.
    """
    if not all(type(member) is dict for member in members.values()):
        return False
    names = set.intersection(*(set(member.get("required", ())) for member in members.values()))
    for name in sorted(names):
        given = {index: _scalar_values(_property(member, name)) for index, member in members.items()}
        count = Counter(value for values in given.values() for value in values)
        if all(given.values()) and all(
            count[value] == 1 for index in hiding & given.keys() for value in given[index]
        ):
            return True
    return False


def _property(schema: dict[str, Any], name: str) -> Any:
    return schema.get("properties", {}).get(name)


def _scalar_values(schema: Any) -> set[tuple[str, Any]]:
    """Return the scalar values that a subschema is limited to by `const` or `enum`."""
    if type(schema) is not dict:
        return set()
    given = [schema["const"]] if "const" in schema else schema.get("enum", [])
    if type(given) is not list or any(type(value) is dict or type(value) is list for value in given):
        return set()
    return {(type_of(value), value) for value in given}


def _make_codec(
    walk: Walk, members: list[Any], found: list[Found], kinds: list[frozenset[str]], path: str
) -> Codec | None:
    codecs = [codec for _, codec in found]
    others = [codec for codec, kind in zip(codecs, kinds, strict=True) if kind != {"null"}]
    # With one alternative beside null, there is nothing to try.
    if len(others) == 1 and others[0] is not None:
        return NullableCodec(others[0]) if len(codecs) > 1 else others[0]
    originals = [resolve(walk, member, path) for member in members]
    branches = [
        Branch(kind, codec, _declared_properties(original), _original_kinds(original))
        for kind, codec, original in zip(kinds, codecs, originals, strict=True)
    ]
    return UnionCodec(branches, walk.distinguish(members))


def _declared_properties(schema: Any) -> frozenset[str] | None:
    """Return the properties that an alternative declares; None if it has a schema for any property."""
    if type(schema) is not dict:
        return frozenset()
    is_map = type(schema.get("additionalProperties")) is dict or "patternProperties" in schema
    is_listed = "const" in schema or "enum" in schema
    return None if is_map or is_listed else frozenset(schema.get("properties", ()))


def _original_kinds(schema: Any) -> frozenset[str]:
    """Return the JSON types of an alternative, declared or implied; none for all types."""
    if type(schema) is not dict or ("type" not in schema and not _COMBINING.isdisjoint(schema)):
        return frozenset()
    kinds = kinds_of(schema)
    return frozenset([*kinds, "integer"] if "number" in kinds else kinds)


@dataclass(slots=True)
class Branch:
    """One alternative of a union."""

    kinds: frozenset[str]
    """The JSON types of its encoded values."""
    codec: Codec | None
    declared: frozenset[str] | None = frozenset()
    """The properties that it declares; None if it has a schema for any property."""
    original_kinds: frozenset[str] = frozenset()
    """The JSON types of its original values, empty for all; if they are implied, it admits others too."""

    def declares_all(self, value: Any) -> bool:
        """Return whether it has a schema for each property of an original value."""
        return not isinstance(value, dict) or self.declared is None or value.keys() <= self.declared

    def names_all(self, value: Mapping[str, Any]) -> bool:
        """Return whether its converted object has every property of an encoded value."""
        if isinstance(self.codec, ObjectCodec):
            others = self.codec.extra[0] if self.codec.extra else None
            return all(key in self.codec.converted_keys or key == others for key in value)
        return self.declared is not None and value.keys() <= self.declared


@dataclass(slots=True)
class UnionCodec:
    """A union in which at least one alternative has a codec.

    A value is encoded by the most specific alternative that it fits, and decoded by the first alternative
    whose decoded value is valid against its original schema.
    """

    branches: Sequence[Branch]
    fits: Callable[[int, Any], bool]
    """Returns whether an original value fits the alternative with this index."""
    hides_type: bool = False

    def encode(self, value: Any, path: str) -> Any:
        fitting = [branch for index, branch in enumerate(self.branches) if self.fits(index, value)]
        if not fitting:
            raise CodecError(path, "fits none of the alternatives of the schema")
        # Preferred are alternatives that declare all properties of the value, since others cannot pass the
        # undeclared ones; then those that pass any value as JSON text.
        kind = type_of(value)
        own = [branch for branch in fitting if not branch.original_kinds or kind in branch.original_kinds]
        naming = [branch for branch in own if branch.declares_all(value)]
        free = [branch for branch in own if isinstance(branch.codec, JsonTextCodec)]
        for branch in (*naming, *free, *own, *fitting):
            encoded = encode(branch.codec, value, path)
            if type_of(encoded) in branch.kinds:
                return encoded
        return encode(fitting[0].codec, value, path)

    def decode(self, value: Any, path: str, known: Known) -> Any:
        key = id(self), id(value)  # without the cache, nested unions would take exponential time
        if key not in known:
            known[key] = self._decode_any(value, path, known)
        if isinstance(known[key], CodecError):
            raise known[key]
        return known[key]

    def _decode_any(self, value: Any, path: str, known: Known) -> Any:
        """Decode a value by the first alternative that then fits, or else the first that can decode it.

        A failure is returned, not raised, so that it can be cached.
        """
        kind = type_of(value)
        readings: list[Any] = []
        failure: CodecError | None = None
        candidates = [(index, branch) for index, branch in enumerate(self.branches) if kind in branch.kinds]
        if kind == "object":  # first those that name all its properties: there the meaning of null is certain
            candidates.sort(key=lambda candidate: not candidate[1].names_all(value))
        for index, branch in candidates:
            try:
                found = decode(branch.codec, value, path, known)
            except CodecError as error:
                failure = failure or error
                continue
            if self.fits(index, found):
                return found
            readings.append(found)
        if readings:
            return readings[0]
        return failure or value


def hides(codec: Codec | None) -> bool:
    """Return whether any part of an encoded value has, or may have, another JSON type than the original."""
    pending = [codec]
    while pending:
        one = pending.pop()
        if one is None:
            continue
        if one.hides_type or isinstance(one, RefCodec):
            return True
        if isinstance(one, ArrayCodec):
            pending.append(one.item)
        elif isinstance(one, NullableCodec):
            pending.append(one.inner)
        elif isinstance(one, UnionCodec):
            pending += [branch.codec for branch in one.branches]
        elif isinstance(one, ObjectCodec):
            pending += one.codecs.values()
            pending += [one.extra[1]] if one.extra else []
    return False
