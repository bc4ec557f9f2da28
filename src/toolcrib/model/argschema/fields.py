"""Reading one property: its type, whether it is an array, what it holds."""

from typing import Any, Final

from toolcrib.model.argschema.bounds import read_bounds, read_range
from toolcrib.model.argschema.check import Check
from toolcrib.model.argschema.findings import Findings
from toolcrib.model.argschema.property import (
    NO_DEFAULT,
    TYPES,
    ArgSchemaProperty,
    ArgType,
    Bounds,
    Members,
)
from toolcrib.model.argschema.wording import Place, did_you_mean, label, shown

_BOUNDS: Final = frozenset({"type", "description", "minLength", "maxLength", "minimum", "maximum", "enum"})
_SILENT: Final = frozenset({"title", "default", "example", "examples", "$comment"})
_ITEM_FIELDS: Final = _BOUNDS | _SILENT
_FIELDS: Final = _ITEM_FIELDS | {"required", "isArray", "items"}
_EXTENDED_ITEM_FIELDS: Final = frozenset({"pattern", "properties", "required"})
_EXTENDED_FIELDS: Final = _EXTENDED_ITEM_FIELDS | {"minItems", "maxItems", "deprecated"}

_ALIASES: Final = {
    "int": "integer",
    "long": "integer",
    "str": "string",
    "text": "string",
    "bool": "boolean",
    "dict": "object",
    "map": "object",
    "list": "array",
    "double": "float",
    "decimal": "number",
}


class PropertyReader:
    """Reads properties, whether they are a tool's arguments or the members of a nested object."""

    def __init__(self, findings: Findings) -> None:
        self._findings = findings

    def members(self, properties: dict[str, Any], required: Any, at: Place, place: Place = ()) -> Members:
        """Return the properties found at a place of the schema, given the list of required names."""
        names = self._names(required, (*at[:-1], "required"))
        read = {}
        for name, raw in properties.items():
            prop = _Property(name, raw, (*at, name), (*place, name), self._findings)
            read[name] = prop.read(listed=name in names)
        missing = [name for name in names if name not in read]
        for name in missing:
            self._findings.warn(f"required names '{label((*place, name))}', which has no property")
        return Members(read, (*(name for name, prop in read.items() if prop.required), *missing))

    def _names(self, required: Any, at: Place) -> dict[str, None]:
        if type(required) is list and all(type(name) is str for name in required):
            return dict.fromkeys(required)
        self._findings.refuse(at, "required", "required must be a list of argument names")
        return {}


class _Property:
    """One property in the course of being read."""

    def __init__(self, name: str, raw: Any, at: Place, place: Place, findings: Findings) -> None:
        self._name = name
        self._at = at
        self._place = place
        self._label = f"argument '{label(place)}'"
        self._findings = findings
        self._raw: dict[str, Any] = raw if type(raw) is dict else {}
        if type(raw) is not dict:
            example = f", such as {{'type': '{shown(raw)[:40]}'}}" if type(raw) is str else ""
            findings.refuse(at, "type", f"{self._label} must be described by an object of fields{example}")

    def read(self, *, listed: bool) -> ArgSchemaProperty:
        """Return the property; `listed` says that the object's own list requires it."""
        findings, raw = self._findings, self._raw
        kind = self._type(raw, self._at)
        is_array = self._is_array(kind)
        items = self._items(is_array=is_array)
        value_type = self._value_type(kind, items)
        self._note_unenforced(raw, _FIELDS | (_EXTENDED_FIELDS if findings.extended else frozenset()))
        counts = (
            read_range(raw, ("minItems", "maxItems"), self._at, findings)
            if findings.extended
            else (None,) * 2
        )
        prop = ArgSchemaProperty(
            name=self._name,
            type=kind,
            value_type=value_type,
            is_array=is_array,
            required=self._required(listed=listed),
            description=self._description(),
            bounds=self._bounds(items, {kind, value_type}),
            members=self._members(items),
            min_items=counts[0],
            max_items=counts[1],
            default=raw.get("default", NO_DEFAULT),
            deprecated=self._deprecated(),
        )
        self._check_default(prop)
        return prop

    def _type(self, raw: dict[str, Any], at: Place) -> ArgType | None:
        kind = raw.get("type")
        if type(kind) is str and kind in TYPES:
            return kind
        if type(kind) is str or type(kind) is list:
            name = kind if type(kind) is str else ""
            nearest = _ALIASES.get(name.lower())
            hint = f"; did you mean '{nearest}'?" if nearest else did_you_mean(name.lower(), TYPES)
            written = f"the unknown type '{shown(name)}'" if type(kind) is str else "a list of types"
            text = f"{self._label} has {written}{hint}"
            self._findings.doubt((*at, "type"), "type", text, "any value is accepted")
        elif "type" in raw:
            self._findings.refuse((*at, "type"), "type", f"type must be one of {', '.join(TYPES)}")
        return None

    def _is_array(self, kind: ArgType | None) -> bool:
        marked = self._flag("isArray")
        if kind == "array" and marked is False and "isArray" in self._raw:
            self._findings.warn(f"{self._label}: type 'array' wins over isArray false")
        return kind == "array" or marked

    def _flag(self, field: str) -> bool:
        value = self._raw.get(field, False)
        if type(value) is not bool:
            self._findings.refuse((*self._at, field), field, f"{field} must be true or false")
        return value is True

    def _items(self, *, is_array: bool) -> dict[str, Any]:
        items = self._raw.get("items", {})
        at = (*self._at, "items")
        if type(items) is not dict:
            self._findings.refuse(at, "items", "items must be an object of fields")
            return {}
        if not is_array:
            if "items" in self._raw:
                self._findings.warn(
                    f"{self._label}: 'items' is ignored, because the argument is not an array"
                )
            return {}
        allowed = _ITEM_FIELDS | (_EXTENDED_ITEM_FIELDS if self._findings.extended else frozenset())
        self._note_unenforced(items, allowed, "items.")
        return items

    def _value_type(self, kind: ArgType | None, items: dict[str, Any]) -> ArgType | None:
        if "type" in items:
            return self._type(items, (*self._at, "items"))
        return None if kind == "array" else kind

    def _note_unenforced(self, raw: dict[str, Any], known: frozenset[str], prefix: str = "") -> None:
        for field in raw:
            if field not in known:
                self._findings.warn(f"{self._label}: '{prefix}{shown(field)}' is not enforced")

    def _required(self, *, listed: bool) -> bool:
        value = self._raw.get("required", False)
        if type(value) is list:
            if not self._findings.extended:
                self._findings.warn(
                    f"{self._label}: a list under 'required' belongs to nested objects; ignored"
                )
            return listed
        own = self._flag("required")
        if listed and not own and "required" in self._raw:
            self._findings.warn(f"{self._label} is required: the list of required names wins over false")
        return own or listed

    def _description(self) -> str:
        text = self._raw.get("description")
        if text is not None and type(text) is not str:
            self._findings.refuse((*self._at, "description"), "description", "description must be text")
        return text if type(text) is str else ""

    def _bounds(self, items: dict[str, Any], types: set[ArgType | None]) -> Bounds:
        own = read_bounds(self._raw, self._at, self._findings)
        if "enum" in types and "enum" not in self._raw and "enum" not in items:
            text = f"{self._label} has type 'enum', which needs a list of values under 'enum'"
            self._findings.refuse((*self._at, "enum"), "enum", text)
        return own.both(read_bounds(items, (*self._at, "items"), self._findings)) if items else own

    def _members(self, items: dict[str, Any]) -> Members | None:
        if not self._findings.extended:
            return None
        nested = [
            (raw, at)
            for raw, at in ((self._raw, self._at), (items, (*self._at, "items")))
            if "properties" in raw or type(raw.get("required")) is list
        ]
        if len(nested) > 1:
            text = "the members of an object belong either to the argument or to its items"
            self._findings.refuse((*self._at, "items"), "properties", text)
        return self._nested(*nested[0]) if nested else None

    def _nested(self, raw: dict[str, Any], at: Place) -> Members:
        properties, required = raw.get("properties", {}), raw.get("required", [])
        here = (*at, "properties")
        if type(properties) is not dict:
            self._findings.refuse(here, "properties", "properties must be an object")
            properties = {}
        names = [] if type(required) is bool else required
        return PropertyReader(self._findings).members(properties, names, here, self._place)

    def _deprecated(self) -> bool:
        if not self._findings.extended:
            return False
        deprecated = self._flag("deprecated")
        if deprecated:
            self._findings.warn(f"{self._label} is deprecated")
        return deprecated

    def _check_default(self, prop: ArgSchemaProperty) -> None:
        if not (self._findings.extended and prop.has_default):
            return
        for problem in Check(strict=self._findings.strict).fits(prop, prop.default):
            self._findings.refuse(
                (*self._at, "default"), "default", f"the default does not fit: {problem.message}"
            )
