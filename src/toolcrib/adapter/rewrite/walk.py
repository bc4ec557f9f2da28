"""State and limits of the conversion of one schema, and the steps that all kinds of subschemas share."""

from abc import ABC, abstractmethod
from typing import Any, Final

from toolcrib.adapter.loss import Losses
from toolcrib.adapter.rewrite.alternatives import Alternatives, FitsAlternative
from toolcrib.adapter.rewrite.codec import Codec, CodecError, JsonTextCodec, encode
from toolcrib.adapter.rewrite.definition_table import DefinitionTable, Found
from toolcrib.adapter.rewrite.describe import add_text, describe, quote_schema
from toolcrib.adapter.rewrite.source import (
    ANNOTATIONS,
    DEFINITIONS,
    ONLY_FOR,
    Source,
)
from toolcrib.adapter.rules import SchemaRules
from toolcrib.model.plain import copy_json

MAX_SUBSCHEMAS: Final = 20_000
"""The maximum number of subschemas in a conversion, targets of references included."""
MAX_SPENT: Final = 200_000
"""The maximum number of values that are merged into others or quoted."""
MAX_DEPTH: Final = 64
"""The maximum nesting of subschemas."""
_CONTAINERS: Final = frozenset({dict, list})
_LEFT_OUT: Final = ANNOTATIONS | {"$schema", "$id", *DEFINITIONS}
_NULL: Final = {"type": "null"}
_LOOKS_AROUND: Final = ("(?=", "(?!", "(?<=", "(?<!")


class SchemaTooLargeError(ValueError):
    """A schema that has, or whose references expand to, too many subschemas."""


class Walk(ABC):
    """State of one conversion. The abstract methods convert nested subschemas of any kind."""

    def __init__(self, source: Source, rules: SchemaRules, losses: Losses) -> None:
        self.source = source
        self.rules = rules
        self.losses = losses
        self.alternatives: Alternatives | None = None
        """The alternatives of unions whose values must be distinguished; None if there are none."""
        self.references = DefinitionTable()
        self.has_discarded = False
        """Whether a converted subschema was discarded, so that some definitions may not be needed."""
        self.recursive = False
        """Whether the converted schema refers back to itself."""
        self.level = 0
        """The current depth in the value: the number of members, not of subschemas, above it."""
        self.object_depth = 0
        """The current number of objects above, in the root or in one definition."""
        self.visited = self._depth = self._spent = 0
        # Counts of the converted schema, for the limits of the provider (`SchemaRules.limits`).
        self.unions = self.optional = self.properties = self.depth = 0
        self.enum_values = self.enum_chars = self.name_chars = 0
        self.leftovers: dict[str, list[tuple[str, Any]]] = {}
        """Keywords to be added to the description of the subschema at a path."""
        self.exclusive: list[tuple[dict[str, Any], str]] = []
        """The converted subschemas with `oneOf`, and their paths; see `keyword_filter.widen_exclusive`."""
        self.widened_count = 0
        """The number of subschemas that admit no value, and were declared as anything."""
        self.merging: set[int] = set()
        """The `id()`s of the targets of references that are being merged, to detect recursion."""

    @abstractmethod
    def convert(self, schema: Any, path: str) -> Found:
        """Convert any subschema, the one at `path`.

        Raises:
            SchemaTooLargeError: there are too many subschemas, or they are nested too deep.
        """

    @abstractmethod
    def convert_compound(self, schema: Any, path: str) -> Found:
        """Convert a subschema that is not a leaf (`leaves`), and was counted before."""

    @abstractmethod
    def convert_structured(self, node: dict[str, Any], path: str) -> Found:
        """Convert a subschema without a reference for a provider with structured rules."""

    @abstractmethod
    def convert_reference(self, node: dict[str, Any], path: str) -> Found:
        """Convert a subschema with a reference."""

    def convert_member(self, schema: Any, path: str) -> Found:
        """Convert the subschema of a member of the value."""
        self.level += 1
        found = self.convert(schema, path)
        self.level -= 1
        return found

    def distinguish(self, members: list[Any]) -> FitsAlternative:
        """Return a function that checks a value against the alternatives of a union."""
        if self.alternatives is None:
            self.alternatives = Alternatives(self.source.root)
        return self.alternatives.add(members)

    def count_subschemas(self, subschemas: int) -> None:
        """Count subschemas that are about to be converted, against the limit."""
        self.visited += subschemas
        if self.visited > MAX_SUBSCHEMAS or self._depth >= MAX_DEPTH:
            raise self._too_large()

    def count_work(self, values: int) -> None:
        """Count values that are processed again because their subschema is merged or quoted elsewhere."""
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
        """Increase the depth of objects; the caller decreases `object_depth` at the end."""
        self.object_depth += 1
        self.depth = max(self.depth, self.object_depth)

    def make_object(self, properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
        """Return the schema of an object, counted for the provider's limits."""
        self.properties += len(properties)
        self.optional += len(properties) - len(required)
        self.name_chars += len("".join(properties))
        schema: dict[str, Any] = {"type": "object", "properties": properties}
        if required or self.rules.all_required:
            schema["required"] = required
        if self.rules.closed:
            schema["additionalProperties"] = False
        return schema

    def to_json_text(self, node: dict[str, Any], path: str, kind: str = "value") -> Found:
        """Convert a subschema that cannot be expressed to a string with JSON text."""
        self.losses.note("type", path, f"the {kind} is free-form, and is passed as JSON text in a string")
        codec = JsonTextCodec()
        article = "an" if kind == "object" else "any" if kind == "value" else "a"
        text = f"JSON text of {article} {kind}{quote_schema(node, left_out=_LEFT_OUT)}"
        found = {"type": "string", "description": add_text(node.get("description"), f"({text})")}
        used = frozenset(node.keys() - (ANNOTATIONS - {"description"}))
        return self.add_keywords(node, found, codec, used, path), codec

    def make_nullable(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Return a converted subschema that also admits null; itself if it already does."""
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

    def add_keywords(
        self,
        node: dict[str, Any],
        found: dict[str, Any],
        codec: Codec | None,
        used: frozenset[str],
        path: str,
    ) -> dict[str, Any]:
        """Add the remaining keywords of the original to a converted subschema, unchanged or described."""
        given = self.leftovers.pop(path, []) if self.leftovers else []
        rules = self.rules
        # Of a value passed as text, `maxItems` or `minLength` would limit the text.
        foreign = _of_other_type(found, codec)
        for word, value in node.items():
            if word in used or word in found:
                continue
            if word in foreign:
                self.losses.note(word, path, "means nothing for values of this type, and is left out")
                continue
            if word in rules.plain or (word in rules.checked and self.is_allowed(word, value)):
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
                self.losses.note(word, path, "the schema it refers to is among the definitions of the root")
        if given:
            found["description"] = describe(found.get("description", node.get("description")), given)
        return found

    def is_allowed(self, word: str, value: Any) -> bool:
        """Return whether the provider accepts this value of a supported keyword."""
        rules = self.rules
        if word == "format":
            return rules.formats is None or value in rules.formats
        if word == "pattern":
            return rules.look_around or not looks_around(value)
        if word == "minItems":
            return rules.max_min_items is None or value <= rules.max_min_items
        return word != "nullable" or rules.nullable or rules.keywords is None

    def _keep_default(self, found: dict[str, Any], codec: Codec, value: Any, path: str) -> None:
        """Add an encoded default value, if it can be encoded."""
        try:
            found["default"] = copy_json(encode(codec, value))
        except (CodecError, KeyError):
            self.losses.note("default", path, "does not fit its own schema, and is left out")
        else:
            self.losses.note("default", path, "is converted with its schema")


def _of_other_type(found: dict[str, Any], codec: Codec | None) -> frozenset[str]:
    """Return the keywords that would apply to the type of the encoded values instead of the original ones."""
    if codec is None or not codec.hides_type:
        return frozenset()
    kinds = found.get("type", "")
    return ONLY_FOR.get(kinds if type(kinds) is str else kinds[0], frozenset())


def looks_around(pattern: str) -> bool:
    """Return whether a pattern has look-around or back-references."""
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
