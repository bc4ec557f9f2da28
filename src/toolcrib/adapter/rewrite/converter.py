"""Dispatch of the conversion: each subschema is converted by the module for its kind.

The modules for the kinds (`arrays`, `objects`, `unions`, ...) convert nested subschemas by the abstract
methods of `Walk`, which this class implements. So they need not import it, and there is no import cycle,
although a subschema may be of any kind.
"""

from typing import Any, Final

from toolcrib.adapter.rewrite import arrays, combine, objects, unions
from toolcrib.adapter.rewrite.codec import Codec, NullableCodec
from toolcrib.adapter.rewrite.definition_table import Found
from toolcrib.adapter.rewrite.keyword_filter import filter_keywords
from toolcrib.adapter.rewrite.leaves import rewrite_leaf
from toolcrib.adapter.rewrite.references import rewrite_reference
from toolcrib.adapter.rewrite.scalars import rewrite_scalar
from toolcrib.adapter.rewrite.source import SCALARS, is_of_type, kinds_of, type_of
from toolcrib.adapter.rewrite.walk import Walk

_COMPLEX: Final = frozenset({"enum", "const", "anyOf", "oneOf", "allOf"}) | combine.CONDITIONAL
_TYPE: Final = frozenset({"type"})


class SchemaConverter(Walk):
    """Converts a schema and its subschemas."""

    def convert(self, schema: Any, path: str) -> Found:

        self.count_subschemas(1)
        leaf = rewrite_leaf(self, schema)
        return self.convert_compound(schema, path) if leaf is None else (leaf, None)

    def convert_compound(self, schema: Any, path: str) -> Found:

        if type(schema) is not dict:
            return self._not_an_object(schema, path)
        if len(schema) == 1 and (known := self.references.get_finished(schema)) is not None:
            return known
        self._depth += 1
        node = self.source.read(schema, self.losses.note, path)
        if "$ref" in node:
            found = rewrite_reference(self, node, path)
        elif self.rules.structured:
            found = self.convert_structured(node, path)
        else:
            found = filter_keywords(self, node, path), None
        self._depth -= 1
        return found

    def convert_reference(self, node: dict[str, Any], path: str) -> Found:
        return rewrite_reference(self, node, path)

    def _not_an_object(self, schema: Any, path: str) -> Found:
        """Convert a subschema that is a boolean, or not a schema at all."""
        if type(schema) is not bool:
            self.losses.note("type", path, "is not a schema, and is read as one that accepts anything")
        if self.rules.structured:
            return self.to_json_text({} if schema is not False else {"not": {}}, path)
        return (schema if type(schema) is bool else True), None

    def convert_structured(self, node: dict[str, Any], path: str) -> Found:

        kinds = node.get("type")
        if type(kinds) is str and _COMPLEX.isdisjoint(node):
            if kinds in SCALARS:
                return self.add_keywords(node, {"type": kinds}, None, _TYPE, path), None
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
        """Convert a subschema of some JSON types, which may be limited to some values."""
        # Types that no value of the enum has would only make the union larger.
        if values := [node["const"]] if "const" in node else node.get("enum"):
            of_values = list(map(type_of, values))
            kinds = [kind for kind in kinds if any(is_of_type(found, [kind]) for found in of_values)]
        plain = [kind for kind in kinds if kind != "null"]
        if not kinds:
            return self.to_json_text(node, path)
        # `properties` without `type` also admits, say, a string, but nobody means that: the implied type is
        # declared, and the difference is reported.
        if "type" not in node and "enum" not in node and "const" not in node:
            self.losses.note("type", path, f"is declared as {kinds[0]}, which the schema only implies")
        if len(plain) > 1 and (not self.rules.type_lists or not {"object", "array"}.isdisjoint(plain)):
            return unions.split_types(self, node, kinds, path)
        found, codec, used = self._of_kind(plain, node, path)
        if found is None:
            return self.to_json_text(node, path, plain[0])
        if "null" in kinds and plain:
            found = self.make_nullable(found)
            codec = NullableCodec(codec) if codec else None
            if self.rules.nullable:
                self.losses.note("type", path, "null is expressed by nullable")
        return self.add_keywords(node, found, codec, used, path), codec

    def _of_one_type(self, kind: str, node: dict[str, Any], path: str) -> Found:
        """Convert a subschema of type array, object or null that is not limited to some values."""
        used = objects.USED
        if kind == "object":
            found, codec = objects.rewrite_object(self, node, path)
        else:
            found, codec, used = self._of_kind([] if kind == "null" else [kind], node, path)
        if found is None:
            return self.to_json_text(node, path, kind)
        return self.add_keywords(node, found, codec, used, path), codec

    def _of_kind(
        self, kinds: list[str], node: dict[str, Any], path: str
    ) -> tuple[Any, Codec | None, frozenset[str]]:
        """Convert a subschema of one kind; return it with its codec and the keywords that are handled."""
        if kinds == ["object"]:
            found, codec = objects.rewrite_object(self, node, path)
            return found, codec, objects.USED
        if kinds == ["array"]:
            return arrays.rewrite_array(self, node, path)
        return rewrite_scalar(self, kinds, node, path)
