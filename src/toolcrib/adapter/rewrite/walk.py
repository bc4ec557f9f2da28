"""The one walk over a schema: each subschema becomes what the provider takes, with the way back beside it.

The walk and the modules that convert one kind of schema each are recursive, since a subschema may be of any
kind. They are given the `Walk`, and import it for type checkers alone: the only circle among the imports.
"""

from typing import Any, Final

from toolcrib.adapter.loss import Losses
from toolcrib.adapter.rewrite import arrays, combine, objects, unions
from toolcrib.adapter.rewrite.alternatives import Alternatives, FitsAlternative
from toolcrib.adapter.rewrite.carry import carry
from toolcrib.adapter.rewrite.codec import Codec, CodecError, JsonTextCodec, NullableCodec, encode
from toolcrib.adapter.rewrite.describe import add_text, describe, hint
from toolcrib.adapter.rewrite.leaves import rewrite_leaf
from toolcrib.adapter.rewrite.references import References
from toolcrib.adapter.rewrite.scalars import rewrite_scalar
from toolcrib.adapter.rewrite.source import (
    ANNOTATIONS,
    DEFINITIONS,
    ONLY_FOR,
    SCALARS,
    Source,
    is_of,
    kinds_of,
    type_of,
)
from toolcrib.adapter.rules import SchemaRules
from toolcrib.model.plain import copy_json

MAX_SUBSCHEMAS: Final = 20_000
"""How many subschemas a conversion may visit, those behind references included."""
MAX_SPENT: Final = 200_000
"""How many values may be merged into others, or be quoted, in all."""
MAX_DEPTH: Final = 64
"""How deep subschemas may nest."""
_CONTAINERS: Final = frozenset({dict, list})
_LEFT_OUT: Final = ANNOTATIONS | {"$schema", "$id", *DEFINITIONS}
_CHOOSING: Final = frozenset({"enum", "const", "anyOf", "oneOf", "allOf"})
_COMPLEX: Final = _CHOOSING | combine.CONDITIONAL
_TYPE: Final = frozenset({"type"})
_NULL: Final = {"type": "null"}
_LOOKS_AROUND: Final = ("(?=", "(?!", "(?<=", "(?<!")

Found = tuple[Any, Codec | None]
"""A converted subschema, and its codec where its values look different."""


class SchemaTooLargeError(ValueError):
    """A schema that holds, or whose references expand to, more than any honest one."""


class Walk:
    """The state of one walk. `schema` converts any subschema; the other modules convert one kind each."""

    def __init__(self, source: Source, rules: SchemaRules, losses: Losses) -> None:
        self.source = source
        self.rules = rules
        self.losses = losses
        self.alternatives: Alternatives | None = None
        """Those of the unions whose values must be distinguished, where there are any."""
        self.references = References()
        self.has_discarded = False
        """Whether a subschema was converted in vain, so that a definition may be needed no more."""
        self.recursive = False
        """Whether the converted schema refers back to itself."""
        self.level = 0
        """How many members deep the walk is, whatever it went through on the way."""
        self.object_depth = 0
        """How many objects deep it is, in the root or in one definition."""
        self.visited = self._depth = self._spent = 0
        self.unions = self.optional = self.properties = self.depth = 0
        self.enum_values = self.enum_chars = self.name_chars = 0
        self.leftovers: dict[str, list[tuple[str, Any]]] = {}
        """What is still to be added to the description of the subschema at a path."""
        self.exclusive: list[tuple[dict[str, Any], str]] = []
        """The converted subschemas with `oneOf`, and their paths, which may yet turn out to exclude less."""
        self.loosened = 0
        """How many subschemas that no value fits were declared as anything."""
        self.merging: set[int] = set()
        """The targets of references that are merged into what is being converted."""

    def schema(self, schema: Any, path: str) -> Found:
        """Return any subschema converted, the one at a path.

        Raises:
            SchemaTooLargeError: there are too many, or they nest too deep.
        """
        self.visit(1)
        leaf = rewrite_leaf(self, schema)
        return self.compound(schema, path) if leaf is None else (leaf, None)

    def below(self, schema: Any, path: str) -> Found:
        """Return the subschema of a member of the value converted."""
        self.level += 1
        found = self.schema(schema, path)
        self.level -= 1
        return found

    def compound(self, schema: Any, path: str) -> Found:
        """Return a subschema converted that is no leaf, and has been counted."""
        if type(schema) is not dict:
            return self._not_an_object(schema, path)
        if len(schema) == 1 and (known := self.references.known(schema)) is not None:
            return known
        self._depth += 1
        node = self.source.read(schema, self.losses.note, path)
        if "$ref" in node:
            found = self.references.rewrite(self, node, path)
        elif self.rules.structured:
            found = self.structured(node, path)
        else:
            found = carry(self, node, path), None
        self._depth -= 1
        return found

    def tell_apart(self, members: list[Any]) -> FitsAlternative:
        """Return what says which of the alternatives of a union a value fits."""
        if self.alternatives is None:
            self.alternatives = Alternatives(self.source.root)
        return self.alternatives.add(members)

    def visit(self, subschemas: int) -> None:
        """Count subschemas that are about to be converted."""
        self.visited += subschemas
        if self.visited > MAX_SUBSCHEMAS or self._depth >= MAX_DEPTH:
            raise self._too_large()

    def spend(self, values: int) -> None:
        """Count values that are looked at once more, since their subschema is merged or quoted elsewhere."""
        self._spent += values + 1
        if self._spent > MAX_SPENT:
            raise SchemaTooLargeError(
                f"its parts are merged or quoted over {MAX_SPENT:,} times; combine fewer of them"
            )

    def _too_large(self) -> SchemaTooLargeError:
        if self._depth >= MAX_DEPTH:
            return SchemaTooLargeError(f"it nests subschemas over {MAX_DEPTH} levels deep; make it flatter")
        return SchemaTooLargeError(
            f"it has, or its references expand to, more than {MAX_SUBSCHEMAS:,} subschemas; "
            "refer to fewer definitions, from fewer places"
        )

    def enter_object(self) -> None:
        """Count one more level of objects, until it is left."""
        self.object_depth += 1
        self.depth = max(self.depth, self.object_depth)

    def closed_object(self, properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
        """Return the schema of an object with these properties, counted against the provider's limits."""
        self.properties += len(properties)
        self.optional += len(properties) - len(required)
        self.name_chars += len("".join(properties))
        schema: dict[str, Any] = {"type": "object", "properties": properties}
        if required or self.rules.all_required:
            schema["required"] = required
        if self.rules.closed:
            schema["additionalProperties"] = False
        return schema

    def _not_an_object(self, schema: Any, path: str) -> Found:
        """Return a subschema that is a boolean, or no subschema at all."""
        if type(schema) is not bool:
            self.losses.note("type", path, "is no schema, and is read as one that admits anything")
        if self.rules.structured:
            return self.anything({} if schema is not False else {"not": {}}, path)
        return (schema if type(schema) is bool else True), None

    def structured(self, node: dict[str, Any], path: str) -> Found:
        """Return a subschema without a reference, every value of it spelt out."""
        kinds = node.get("type")
        if type(kinds) is str and _COMPLEX.isdisjoint(node):
            if kinds in SCALARS:
                return self.finish(node, {"type": kinds}, None, _TYPE, path), None
            return self._of_one_type(kinds, node, path)
        if "allOf" in node:
            return combine.rewrite_all(self, node, path)
        if "anyOf" in node or "oneOf" in node:
            if not combine.is_object_with_choices(self, node, path):
                return unions.rewrite_union(self, node, path)
            node = combine.hoist(self, node, path)
        kinds = kinds_of(node)
        if kinds and "object" in kinds and not combine.CONDITIONAL.isdisjoint(node):
            node = combine.hoist(self, node, path)
        return self._of_types(kinds, node, path)

    def _of_types(self, kinds: list[str], node: dict[str, Any], path: str) -> Found:
        """Return a subschema of some JSON types, which may be limited to some values."""
        if values := [node["const"]] if "const" in node else node.get("enum"):
            of_values = list(map(type_of, values))
            kinds = [kind for kind in kinds if any(is_of(found, [kind]) for found in of_values)]
        plain = [kind for kind in kinds if kind != "null"]
        if not kinds:
            return self.anything(node, path)
        if "type" not in node and "enum" not in node and "const" not in node:
            self.losses.note("type", path, f"is declared as {kinds[0]}, which it is not bound to")
        if len(plain) > 1 and (not self.rules.type_lists or not {"object", "array"}.isdisjoint(plain)):
            return unions.split_types(self, node, kinds, path)
        found, codec, used = self._of_kind(plain, node, path)
        if found is None:
            return self.anything(node, path, plain[0])
        if "null" in kinds and plain:
            found = self.nullable(found)
            codec = NullableCodec(codec) if codec else None
            if self.rules.nullable:
                self.losses.note("type", path, "null is expressed by nullable")
        return self.finish(node, found, codec, used, path), codec

    def _of_one_type(self, kind: str, node: dict[str, Any], path: str) -> Found:
        """Return a subschema of arrays, objects or null that may have any value of it."""
        used = objects.USED
        if kind == "object":
            found, codec = objects.rewrite_object(self, node, path)
        else:
            found, codec, used = self._of_kind([] if kind == "null" else [kind], node, path)
        if found is None:
            return self.anything(node, path, kind)
        return self.finish(node, found, codec, used, path), codec

    def _of_kind(
        self, kinds: list[str], node: dict[str, Any], path: str
    ) -> tuple[Any, Codec | None, frozenset[str]]:
        """Return a subschema of one JSON type converted, its codec, and the keywords that are done with."""
        if kinds == ["object"]:
            found, codec = objects.rewrite_object(self, node, path)
            return found, codec, objects.USED
        if kinds == ["array"]:
            return arrays.rewrite_array(self, node, path)
        return rewrite_scalar(self, kinds, node, path)

    def anything(self, node: dict[str, Any], path: str, kind: str = "value") -> Found:
        """Return the schema of a value that has no other form here than JSON text in a string."""
        self.losses.note("type", path, f"the {kind} is free-form, and is passed as JSON text in a string")
        codec = JsonTextCodec()
        article = "an" if kind == "object" else "any" if kind == "value" else "a"
        text = f"JSON text of {article} {kind}{hint(node, left_out=_LEFT_OUT)}"
        found = {"type": "string", "description": add_text(node.get("description"), f"({text})")}
        used = frozenset(node.keys() - (ANNOTATIONS - {"description"}))
        return self.finish(node, found, codec, used, path), codec

    def nullable(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Return a converted subschema that admits null too; itself, if it does."""
        kinds = schema.get("type")
        if type(kinds) is not str or kinds == "null" or self.rules.nullable:
            if self.admits_null(schema):
                return schema
            if self.rules.nullable:
                return {**schema, "nullable": True}
        if "anyOf" in schema:
            return {**schema, "anyOf": [*schema["anyOf"], {"type": "null"}]}
        self.unions += type(kinds) is not list
        if "$ref" in schema or "const" in schema:
            return {"anyOf": [schema, {"type": "null"}]}
        wider = {**schema, "type": [*kinds, "null"] if type(kinds) is list else [kinds, "null"]}
        if "enum" in schema:
            wider["enum"] = [*schema["enum"], None]
            self.enum_values += 1
        return wider

    def admits_null(self, schema: dict[str, Any]) -> bool:
        """Return whether a converted subschema admits null."""
        kinds = schema.get("type")
        if kinds is not None:
            return kinds == "null" or (type(kinds) is list and "null" in kinds) or "nullable" in schema
        if _NULL in schema.get("anyOf", ()):
            return True
        return "null" in self.references.kinds(schema, unknown=frozenset())

    def finish(
        self,
        node: dict[str, Any],
        found: dict[str, Any],
        codec: Codec | None,
        used: frozenset[str],
        path: str,
    ) -> dict[str, Any]:
        """Add to a converted subschema the other keywords of its original, as they are or described."""
        given = self.leftovers.pop(path, []) if self.leftovers else []
        rules = self.rules
        foreign = _of_other_type(found, codec)
        for word, value in node.items():
            if word in used or word in found:
                continue
            if word in foreign:
                self.losses.note(word, path, "means nothing for values of this type, and is left out")
                continue
            if word in rules.plain or (word in rules.checked and self.may_stay(word, value)):
                if word == "default" and codec is not None:
                    self._keep_default(found, codec, value, path)
                else:
                    found[word] = value if type(value) not in _CONTAINERS else copy_json(value)
            elif word in rules.dropped or word.startswith("x-"):
                self.losses.note(word, path, "is left out")
            elif word not in DEFINITIONS:
                given.append((word, value))
                self.losses.note(word, path, "is kept only in the description")
            elif path:
                self.losses.note(word, path, "what is referred to is among the definitions of the root")
        if given:
            found["description"] = describe(found.get("description", node.get("description")), given)
        return found

    def may_stay(self, word: str, value: Any) -> bool:
        """Return whether a keyword that may stay may do so with this value."""
        rules = self.rules
        if word == "format":
            return rules.formats is None or value in rules.formats
        if word == "pattern":
            return rules.look_around or not looks_around(value)
        if word == "minItems":
            return rules.max_min_items is None or value <= rules.max_min_items
        return word != "nullable" or rules.nullable or rules.keywords is None

    def _keep_default(self, found: dict[str, Any], codec: Codec, value: Any, path: str) -> None:
        """Add a default value in the converted terms, if it has any."""
        try:
            found["default"] = copy_json(encode(codec, value))
        except (CodecError, KeyError):
            self.losses.note("default", path, "does not fit its own schema, and is left out")
        else:
            self.losses.note("default", path, "is converted with its schema")


def _of_other_type(found: dict[str, Any], codec: Codec | None) -> frozenset[str]:
    """Return the keywords that would bind the other type that values are passed as, and not the values."""
    if codec is None or not codec.opaque:
        return frozenset()
    kinds = found.get("type", "")
    return ONLY_FOR.get(kinds if type(kinds) is str else kinds[0], frozenset())


def looks_around(pattern: str) -> bool:
    """Return whether a pattern looks ahead or behind, or refers back to what it matched."""
    if "(?" not in pattern and "\\" not in pattern:
        return False
    escaped = in_class = False
    for index, char in enumerate(pattern):
        if escaped:
            escaped = False
            if not in_class and ((char.isdigit() and char != "0") or char == "k"):
                return True
        elif char == "\\":
            escaped = True
        elif in_class:
            in_class = char != "]"
        elif char == "[":
            in_class = True
        elif pattern.startswith(_LOOKS_AROUND, index):
            return True
    return False
