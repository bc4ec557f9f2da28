"""Renders JSON Schemas as Python types: objects become TypedDicts, everything else expressions.

There is no recursion along references: an object gets a name where it is found, and its fields are rendered
later. The work for each tool is limited; types beyond the limit are `Any`.
"""

from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from keyword import iskeyword
from typing import Any

from toolcrib.model.schema.references import LocalReferences
from toolcrib.runtime.stubs.naming import camel
from toolcrib.runtime.stubs.schema import (
    Fields,
    fields_of,
    is_small,
    parts_of,
    resolve,
    serialize_contents,
    types_of,
)
from toolcrib.runtime.stubs.text import comment, docstring, literal, one_line

OPEN_DOCSTRING = "Other keys may be there."
"""The docstring of a TypedDict whose schema allows others."""

_MAX_WORK = 1_500
_MAX_DEPTH = 6
_MAX_ARMS = 12
_MAX_VALUES = 40
_MAX_FIELDS = 80
_MAX_NAME = 60
_MAX_KEY = 100
_MAX_NOTE = 80
_PLAIN = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}
_FACTS = frozenset(
    "format minimum maximum minLength maxLength minItems maxItems pattern deprecated properties".split()  # noqa: SIM905
)
_SHADOWED = frozenset({"str", "int", "float", "bool", "list", "dict", "Any", "Literal", "NotRequired"})


@dataclass(frozen=True, slots=True)
class Detail:
    """The level of detail of a stub."""

    name: str
    docs: bool = True
    """What arguments and fields mean."""
    summary: bool = True
    """What tools do."""
    nested: bool = True
    """What objects are made of, rather than `dict[str, Any]`."""
    left_out: str = ""


@dataclass(slots=True)
class Types:
    """The TypedDicts of one stub, whose names are unique."""

    detail: Detail
    taken: set[str]
    """Names that are in use."""
    blocks: list[str] = field(default_factory=list)
    alike: dict[tuple[str, bytes], str] = field(default_factory=dict)
    """The names of objects, by their hints and the content of their schemas."""
    _numbers: dict[str, int] = field(default_factory=dict)

    def reserve_name(self, *wishes: str) -> str:
        """Reserve and return the first free name of several, or the last one with a number."""
        for wish in wishes:
            if wish not in self.taken:
                self.taken.add(wish)
                return wish
        last = wishes[-1]
        while True:
            self._numbers[last] = self._numbers.get(last, 1) + 1
            numbered = f"{last}{self._numbers[last]}"
            if numbered not in self.taken:
                self.taken.add(numbered)
                return numbered


class TypeReader:
    """Reads the types of one schema document."""

    def __init__(self, types: Types, root: Any, hint: str, *, shadowed: Collection[str] = ()) -> None:
        self._types = types
        self._references = LocalReferences(root)
        self._hint = hint
        self._shadowed = shadowed
        self._work = _MAX_WORK
        self._small = is_small(root)
        self._named: dict[int, str] = {}
        self._pending: deque[tuple[str, Fields]] = deque()

    @property
    def detail(self) -> Detail:
        """The level of detail of a stub."""
        return self._types.detail

    def builtin(self, name: str) -> str:
        """Return the name of a builtin type, or its alias if a tool has that name."""
        return f"_{name}" if name in self._shadowed else name

    def render_objects(self) -> None:
        """Render the objects that were read, and those in them."""
        shadowed, self._shadowed = self._shadowed, ()
        while self._pending:
            name, fields = self._pending.popleft()
            self._types.blocks.append(self._render_typed_dict(name, fields))
        self._shadowed = shadowed

    def read_type(self, schema: Any, hint: str, depth: int = 0) -> str:
        """Return the type of the values that a schema allows."""
        self._work -= 1
        reference = schema.get("$ref") if isinstance(schema, dict) else None
        if isinstance(reference, str):
            hint = camel(reference.rpartition("/")[2])[:_MAX_NAME] if "/" in reference else hint
            schema = resolve(schema, self._references)
        if self._work < 0 or depth > _MAX_DEPTH or not isinstance(schema, dict):
            return self.builtin("Any")
        arms = self._read_arms(schema, hint, depth)
        if schema.get("nullable") is True:
            arms.append("None")
        return self._join_union(arms)

    def _read_arms(self, schema: dict[str, Any], hint: str, depth: int) -> list[str]:
        if "const" in schema:
            return [self._render_literals([schema["const"]])]
        if isinstance(schema.get("enum"), list) and schema["enum"]:
            return [self._render_literals(schema["enum"])]
        types = types_of(schema)
        parts = parts_of(schema, "anyOf", "oneOf")
        if (
            parts
            and not (types and all(_has_only_required(part) for part in parts))
            and "properties" not in schema
        ):
            if len(parts) > _MAX_ARMS:
                return [self.builtin("Any")]
            return [self.read_type(part, hint, depth + 1) for part in parts]
        merged = parts_of(schema, "allOf")
        if merged and not types:
            return [self._read_all_of(schema, merged, hint, depth)]
        return [self._read_plain(name, schema, hint, depth) for name in types] or [self.builtin("Any")]

    def _read_all_of(self, schema: dict[str, Any], parts: list[Any], hint: str, depth: int) -> str:
        if len(parts) == 1:
            return self.read_type(parts[0], hint, depth + 1)
        leading = [resolve(part, self._references) for part in parts]
        kinds = [types_of(part) if isinstance(part, dict) else [] for part in leading]
        if any(kind == ["object"] for kind in kinds):
            return self._read_object(schema, hint, depth)
        items = [part for part, kind in zip(parts, kinds, strict=True) if kind]
        return self.read_type(items[0], hint, depth + 1) if items else self.builtin("Any")

    def _read_plain(self, name: str, schema: dict[str, Any], hint: str, depth: int) -> str:
        if name == "object":
            return self._read_object(schema, hint, depth)
        if name == "array":
            return f"{self.builtin('list')}[{self._read_items(schema, hint, depth)}]"
        return self.builtin(_PLAIN.get(name, "Any")) if name != "null" else "None"

    def _read_items(self, schema: dict[str, Any], hint: str, depth: int) -> str:
        items = schema.get("items", True)
        listed = schema.get("prefixItems")
        several = items if isinstance(items, list) else listed if isinstance(listed, list) else None
        if several is None:
            return self.read_type(items, hint, depth + 1)
        if not several or len(several) > _MAX_ARMS:
            return self.builtin("Any")
        return self._join_union([self.read_type(item, hint, depth + 1) for item in several])

    def _read_object(self, schema: dict[str, Any], hint: str, depth: int) -> str:
        if id(schema) in self._named:
            return self._named[id(schema)]
        key = (
            (hint, serialize_contents(schema, self._references, small=self._small))
            if self._types.detail.nested
            else ("", b"")
        )
        if key[1] and key in self._types.alike:
            return self._types.alike[key]
        fields = fields_of(schema, self._references) if self._types.detail.nested else Fields()
        if not fields.properties or not self._can_be_typed(fields):
            return f"{self.builtin('dict')}[{self.builtin('str')}, {self._read_values(fields, hint, depth)}]"
        name = self._types.reserve_name(hint, f"{self._hint}{hint}"[:_MAX_NAME])
        self._named[id(schema)] = self._types.alike[key] = name
        self._pending.append((name, fields))
        return name

    def _can_be_typed(self, fields: Fields) -> bool:
        if self._work < 2 * len(self._pending):
            return False
        return len(fields.properties) <= _MAX_FIELDS and all(
            len(key) <= _MAX_KEY for key in fields.properties
        )

    def _read_values(self, fields: Fields, hint: str, depth: int) -> str:
        if fields.properties or fields.required:
            return self.builtin("Any")
        return self.read_type(fields.values, hint, depth + 1)

    def _render_typed_dict(self, name: str, fields: Fields) -> str:
        required = set(fields.required)
        optional = not required & fields.properties.keys()
        rows = []
        for key, schema in fields.properties.items():
            kind = self.read_type(schema, camel(key)[:_MAX_NAME])
            rows.append(
                (
                    key,
                    kind if optional or key in required else f"NotRequired[{kind}]",
                    self._render_note(schema),
                )
            )
        total = ", total=False" if optional else ""
        if any(not _is_field(key) for key in fields.properties):
            inner = "".join(f"    {_render_key(key)}: {kind},{note}\n" for key, kind, note in rows)
            more = f"  # {OPEN_DOCSTRING}" if fields.open else ""
            return f'{name} = TypedDict("{name}", {{{more}\n{inner}}}{total})'
        head = [f"class {name}(TypedDict{total}):"] + (
            [docstring([OPEN_DOCSTRING], "    ")] if fields.open else []
        )
        return "\n".join(head + [f"    {key}: {kind}{note}" for key, kind, note in rows])

    def _render_note(self, schema: Any) -> str:
        if not self._types.detail.docs or not isinstance(schema, dict):
            return ""
        return comment([one_line(schema.get("description"), _MAX_NOTE), *describe_facts(schema)])

    def _render_literals(self, values: list[Any]) -> str:
        written = [literal(value) for value in values[: _MAX_VALUES + 1]]
        plain = [
            text
            for text, value in zip(written, values, strict=False)
            if text and not isinstance(value, float)
        ]
        if len(values) > _MAX_VALUES or len(plain) < len(values):
            return self._join_union(
                [self.builtin(kind) for kind in dict.fromkeys(map(_type_name, values[:1_000]))]
            )
        parts = [text for text in dict.fromkeys(plain) if text != "None"]
        arms = [f"{self.builtin('Literal')}[{', '.join(parts)}]"] if parts else []
        return self._join_union(arms + ["None"] * ("None" in plain))

    def _join_union(self, arms: Sequence[str]) -> str:
        if len(arms) == 1:
            return arms[0]
        different = list(dict.fromkeys(part for arm in arms for part in _split_none(arm)))
        if self.builtin("Any") in different or not different or len(different) > 2 * _MAX_ARMS:
            return self.builtin("Any")
        return " | ".join(sorted(different, key=lambda arm: arm == "None"))


def _split_none(arm: str) -> list[str]:
    """Return the arms of a union, of which only the last can be None."""
    return [arm[: -len(" | None")], "None"] if arm.endswith(" | None") else [arm]


def _type_name(value: Any) -> str:
    for kind, name in ((str, "str"), (bool, "bool"), (int, "int"), (float, "float"), (type(None), "None")):
        if isinstance(value, kind):
            return name
    return "Any"


def _has_only_required(part: Any) -> bool:
    """Return whether an alternative has nothing but `required`."""
    return not isinstance(part, dict) or not (
        part.keys() & {"type", "properties", "$ref", "enum", "const", "items"}
    )


def _is_field(key: str) -> bool:
    plain = key.isidentifier() and key.isascii() and not iskeyword(key)
    return plain and not key.startswith("__") and key not in _SHADOWED


def _render_key(key: str) -> str:
    return literal(key) or repr(key)


def describe_facts(schema: dict[str, Any]) -> list[str]:
    """Return short descriptions of the constraints that a schema has beyond the type."""
    if _FACTS.isdisjoint(schema):
        return []
    parts = [one_line(schema.get("format"), 20)]
    for low, high, unit in (
        ("minimum", "maximum", ""),
        ("minLength", "maxLength", " characters"),
        ("minItems", "maxItems", " items"),
    ):
        parts.append(_describe_range(schema.get(low), schema.get(high), unit))
    if isinstance(pattern := schema.get("pattern"), str) and len(pattern) <= _MAX_NAME:
        parts.append(f"matches {one_line(pattern, _MAX_NAME)}")
    if schema.get("deprecated") is True:
        parts.append("deprecated")
    if isinstance(properties := schema.get("properties"), dict) and len(properties) > _MAX_FIELDS:
        parts.append(f"has {len(properties):,} keys")
    return [part for part in parts if part]


def _describe_range(low: Any, high: Any, unit: str) -> str:
    low, high = (None if isinstance(end, bool) else end for end in (low, high))
    lowest, highest = (literal(end) if isinstance(end, int | float) else None for end in (low, high))
    if lowest and highest:
        return f"{lowest}..{highest}{unit}"
    if lowest and lowest != "0":
        return f">= {lowest}{unit}"
    return f"<= {highest}{unit}" if highest else ""
