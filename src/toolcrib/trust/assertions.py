"""Schemas as sets of assertions, the form in which two of them are compared.

A schema says that all of its assertions hold. An assertion is a tuple of a kind and what it needs, so that
the same assertion of two schemas is equal, and each can be denied by itself:

    {"type": "string", "minLength": 2}    {("type", {"string"}), ("min_length", 2)}

Subschemas in an assertion are `Subschema`s, of which there is one for each text: two parts that say the same
are the same object, wherever they stand. Words (titles, descriptions, examples, defaults) are left out.
`number` is `integer` or `fraction`, which no value is both of. What cannot be taken apart is `opaque`: it
is compared by its text alone. A bound of integers at ±(2^53 - 1) or beyond asserts nothing: generators of
schemas write it for every integer, and not every reader of JSON holds larger ones.
"""

import re
from collections.abc import Iterable
from typing import Any, Final

from toolcrib.model.plain import walk
from toolcrib.model.schema.references import LocalReferences
from toolcrib.trust.canonical import canonical_json

Assertion = tuple[Any, ...]
TYPES: Final = frozenset({"null", "boolean", "integer", "fraction", "string", "array", "object"})
NUMBERS: Final = frozenset({"integer", "fraction"})
OF_NUMBERS: Final = frozenset({"min", "max", "multiple"})
OF_STRINGS: Final = frozenset({"min_length", "max_length", "pattern"})
OF_ARRAYS: Final = frozenset({"item", "items", "min_items", "max_items", "unique", "contains"})
OF_OBJECTS: Final = frozenset(
    {"declares", "property", "pattern_property", "other_property", "required", "min_properties"}
    | {"max_properties", "names", "needs", "depends"}
)
"""The kinds of assertions that say something of values of one type alone; all others pass them."""
_TYPES_OF: Final = {
    **dict.fromkeys(OF_NUMBERS, NUMBERS),
    **dict.fromkeys(OF_STRINGS, frozenset({"string"})),
    **dict.fromkeys(OF_ARRAYS, frozenset({"array"})),
    **dict.fromkeys(OF_OBJECTS, frozenset({"object"})),
}
_IN_PLACE = frozenset(
    {"$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "not", "if", "dependentSchemas", "dependencies"}
)
_LARGEST: Final = 2**53 - 1
"""The largest integer that every reader of JSON holds exactly, and its negative the smallest."""
_ALWAYS_MATCH = frozenset({"", "^", ".*", "^.*"})
_FORMATS = ("format", "contentEncoding", "contentMediaType")
_NOT_A_WORD = frozenset(
    {"type", "enum", "const", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}
    | {"minLength", "maxLength", "pattern", *_FORMATS, "contentSchema", "items", "prefixItems"}
    | {"additionalItems", "unevaluatedItems", "minItems", "maxItems", "uniqueItems", "contains"}
    | {"minContains", "maxContains", "properties", "patternProperties", "additionalProperties"}
    | {"unevaluatedProperties", "required", "minProperties", "maxProperties", "propertyNames"}
    | {"dependentRequired", "then", "else", *_IN_PLACE}
)
"""The keywords that say which values fit."""
_PLAIN_TARGET = re.compile(r"#(?:/(?:\$defs|definitions)/[^/]+)?")
"""A reference to the whole document, or to one of its definitions."""
_BY_NAME = frozenset({"properties", "patternProperties", "dependentSchemas", "dependencies"})
_VERBATIM = frozenset({"enum", "const", "required", "dependentRequired", "type"})
_ONLY_2020 = frozenset(
    {"$dynamicRef", "dependentRequired", "dependentSchemas", "prefixItems", "minContains", "maxContains"}
    | {"unevaluatedItems", "unevaluatedProperties"}
)


def types_of(assertion: Assertion) -> frozenset[str]:
    """Return the types of the values that an assertion can refuse."""
    kind = assertion[0]
    return TYPES - assertion[1] if kind == "type" else _TYPES_OF.get(kind, TYPES)


def type_of(value: Any) -> str:
    """Return the type of a JSON value; numbers are `integer`, or `fraction`."""
    if value is None or isinstance(value, bool):
        return "null" if value is None else "boolean"
    if isinstance(value, int | float):
        return "integer" if isinstance(value, int) or value.is_integer() else "fraction"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"


class Subschema:
    """One subschema, the same object for each that says the same; its assertions are read when needed."""

    __slots__ = ("_assertions", "_document", "node", "text")

    def __init__(self, node: Any, document: "SchemaDocument", text: str) -> None:
        self.node = node
        self.text = text
        self._document = document
        self._assertions: tuple[Assertion, ...] | None = None

    @property
    def assertions(self) -> tuple[Assertion, ...]:
        """All that it asserts; none if every value fits."""
        if self._assertions is None:
            self._assertions = tuple(dict.fromkeys(self._document.read(self.node)))
        return self._assertions


class Subschemas:
    """The subschemas of the documents that are compared, by their texts, and the constants in them."""

    def __init__(self) -> None:
        self._known: dict[tuple[Any, ...], Subschema] = {}
        self.constants: dict[str, Any] = {}
        """Every value of an `enum` or a `const`, by its canonical text."""

    def make(self, schema: Any) -> Subschema:
        """Return the subschema of a schema without references."""
        return SchemaDocument(schema, self).subschema(schema)

    def intern(self, node: Any, document: "SchemaDocument", text: str) -> Subschema:
        """Return the one subschema with a text; texts with references mean what their document says."""
        refers = '"$ref":' in text or '"$dynamicRef":' in text
        key = (text, document.is_draft_7, document.context if refers else None)
        if key not in self._known:
            self._known[key] = Subschema(node, document, text)
        return self._known[key]

    def constant(self, value: Any) -> str:
        """Return the canonical text of a value, under which it is kept."""
        text = canonical_json(value)
        self.constants.setdefault(text, value)
        return text


class SchemaDocument:
    """A schema as a whole, to which the references in it are relative."""

    def __init__(self, root: Any, library: Subschemas) -> None:
        self.root = root
        self._library = library
        self._references = LocalReferences(root)
        self.is_draft_7 = isinstance(root, dict) and "draft-07" in str(root.get("$schema", ""))
        self._texts: dict[int, str] = {}
        self.context = self._read_context()
        """What references mean here; equal in documents in which they mean the same."""

    def _read_context(self) -> Any:
        members = [each for each in walk(self.root) if isinstance(each, dict)]
        targets = {each[word] for each in members for word in ("$ref", "$dynamicRef") if word in each}
        if not all(isinstance(each, str) and _PLAIN_TARGET.fullmatch(each) for each in targets):
            return id(self)
        return "#" in targets and self._text(self.root), *(
            self._text_of("properties", self.root.get(word, {}))
            for word in ("$defs", "definitions")
            if members
        )

    def subschema(self, node: Any) -> Subschema:
        """Return the subschema that a part of this document is."""
        return self._library.intern(node, self, self._text(node))

    def _text(self, node: Any) -> str:
        """Return the canonical text of a subschema without its words."""
        if not isinstance(node, dict):
            return "true" if node is True else "false"
        if id(node) not in self._texts:
            parts = [f'"{word}":{self._text_of(word, node[word])}' for word in sorted(self._words(node))]
            self._texts[id(node)] = "{" + ",".join(parts) + "}"
        return self._texts[id(node)]

    def _words(self, node: dict[str, Any]) -> Iterable[str]:
        """Return the keywords of a node that say which values fit."""
        if self.is_draft_7:
            return ("$ref",) if "$ref" in node else (_NOT_A_WORD - _ONLY_2020) & node.keys()
        return (_NOT_A_WORD - {"additionalItems"}) & node.keys()

    def _text_of(self, word: str, value: Any) -> str:
        if word in _VERBATIM:
            return canonical_json(value)
        if word in _BY_NAME and isinstance(value, dict):
            members = [f"{canonical_json(name)}:{self._member(value[name])}" for name in sorted(value)]
            return "{" + ",".join(members) + "}"
        return self._member(value)

    def _member(self, value: Any) -> str:
        if isinstance(value, dict):
            return self._text(value)
        if isinstance(value, list):
            return "[" + ",".join(map(self._member, value)) + "]"
        return canonical_json(value)

    def read(self, node: Any) -> list[Assertion]:
        """Return the assertions of a subschema."""
        if not isinstance(node, dict):
            return [] if node is True else [("false",)]
        words = {word: node[word] for word in self._words(node)}
        return [
            *self._references_in(words),
            *self._values(words),
            *_sizes(words),
            *self._arrays(words, self._text(node)),
            *self._objects(words, self._text(node)),
            *self._combinations(words),
        ]

    def _references_in(self, words: dict[str, Any]) -> list[Assertion]:
        read: list[Assertion] = []
        for word in ("$ref", "$dynamicRef"):
            if word in words:
                target = self._references.find(words[word])
                known = isinstance(target, dict | bool)
                read.append(("all", self.subschema(target)) if known else ("opaque", word, self.context))
        return read

    def _values(self, words: dict[str, Any]) -> list[Assertion]:
        read: list[Assertion] = []
        if "type" in words:
            named = words["type"] if isinstance(words["type"], list) else [words["type"]]
            types = frozenset(named) - {"number"} | (NUMBERS if "number" in named else frozenset())
            read += [("type", types)] if types < TYPES else []
        for values in (words.get("enum"), [words["const"]] if "const" in words else None):
            if values is not None:
                read.append(("enum", frozenset(map(self._library.constant, values))))
        read += [("opaque", word, canonical_json(words[word])) for word in _FORMATS if word in words]
        if "contentSchema" in words:
            read.append(("opaque", "contentSchema", self._text_of("contentSchema", words["contentSchema"])))
        return read

    def _arrays(self, words: dict[str, Any], text: str) -> list[Assertion]:
        items = words.get("items")
        prefix = items if isinstance(items, list) else words.get("prefixItems", [])
        rest = words.get("additionalItems", True) if isinstance(items, list) else items
        rest = True if rest is None else rest
        read: list[Assertion] = [
            ("item", place, self.subschema(each)) for place, each in enumerate(prefix) if each is not True
        ]
        if rest is not True:
            read.append(("items", len(prefix), self.subschema(rest)))
        least, most = words.get("minContains", 1), words.get("maxContains")
        if "contains" in words and (least or most is not None):
            read.append(("contains", self.subschema(words["contains"]), least, most))
        unevaluated = words.get("unevaluatedItems", True)
        if unevaluated is not True and items is None:
            if _IN_PLACE & words.keys() or "contains" in words:
                read.append(("opaque", "unevaluatedItems", text, self.context))
            else:
                read.append(("items", len(prefix), self.subschema(unevaluated)))
        return read

    def _objects(self, words: dict[str, Any], text: str) -> list[Assertion]:
        properties, patterns = words.get("properties", {}), words.get("patternProperties", {})
        read: list[Assertion] = []
        if "properties" in words:
            read.append(("declares", frozenset(properties)))
        read += [("property", name, self.subschema(each)) for name, each in properties.items()]
        read += [("pattern_property", each, self.subschema(patterns[each])) for each in patterns]
        others = words.get("additionalProperties")
        unevaluated = words.get("unevaluatedProperties", True)
        if others is None and unevaluated is not True:
            if _IN_PLACE & words.keys():
                read.append(("opaque", "unevaluatedProperties", text, self.context))
            else:
                others = unevaluated
        if others is not None:
            read.append(
                ("other_property", frozenset(properties), frozenset(patterns), self.subschema(others))
            )
        if "propertyNames" in words:
            read.append(("names", self.subschema(words["propertyNames"])))
        read += [("required", name) for name in words.get("required", ())]
        for word in ("dependentRequired", "dependentSchemas", "dependencies"):
            for name, each in words.get(word, {}).items():
                if isinstance(each, list):
                    read += [("needs", name, other) for other in each]
                else:
                    read.append(("depends", name, self.subschema(each)))
        return read

    def _combinations(self, words: dict[str, Any]) -> list[Assertion]:
        read: list[Assertion] = [("all", self.subschema(each)) for each in words.get("allOf", ())]
        if "anyOf" in words:
            read.append(("any", tuple(dict.fromkeys(map(self.subschema, words["anyOf"])))))
        if "oneOf" in words:
            read.append(("one", tuple(map(self.subschema, words["oneOf"]))))
        if "not" in words:
            read.append(("not", self.subschema(words["not"])))
        if "if" in words and ("then" in words or "else" in words):
            parts = (words["if"], words.get("then", True), words.get("else", True))
            read.append(("if", *map(self.subschema, parts)))
        return read


def _sizes(words: dict[str, Any]) -> list[Assertion]:
    """Return the assertions about numbers, lengths and counts."""
    read: list[Assertion] = []
    for word, kind, strict in (
        ("minimum", "min", False),
        ("exclusiveMinimum", "min", True),
        ("maximum", "max", False),
        ("exclusiveMaximum", "max", True),
    ):
        if word in words and not _spares_all_integers(words, word):
            read.append((kind, words[word], strict))
    if "multipleOf" in words:
        number = words["multipleOf"]
        whole = isinstance(number, float) and number.is_integer()
        read.append(("multiple", int(number) if whole else number))
    for word, kind in (("Length", "length"), ("Items", "items"), ("Properties", "properties")):
        if words.get(f"min{word}"):
            read.append((f"min_{kind}", int(words[f"min{word}"])))
        if f"max{word}" in words:
            read.append((f"max_{kind}", int(words[f"max{word}"])))
    if words.get("uniqueItems") is True:
        read.append(("unique",))
    if words.get("pattern", "") not in _ALWAYS_MATCH:
        read.append(("pattern", words["pattern"]))
    return read


def _spares_all_integers(words: dict[str, Any], word: str) -> bool:
    """Return whether a bound is one of integers, and none that every reader of JSON holds is beyond it."""
    distance = -words[word] if word in {"minimum", "exclusiveMinimum"} else words[word]
    least = _LARGEST + 1 if word.startswith("exclusive") else _LARGEST
    return words.get("type") == "integer" and distance >= least
