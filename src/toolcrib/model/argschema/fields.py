"""Parsing of the properties of an argument schema: types, bounds and nested properties."""

from itertools import islice
from typing import Any, Final, NamedTuple

from toolcrib.errors import Problem
from toolcrib.errors.base import MAX_PROBLEMS
from toolcrib.model.argschema.check import ValueChecker, problem_at
from toolcrib.model.argschema.records import (
    TYPES,
    ArgSchemaProperty,
    ArgType,
    CompiledPattern,
    Members,
    Place,
    form_of,
    label,
    number_text,
    quote,
)
from toolcrib.model.schema.engine import MAX_PATTERN_BYTES, compile_pattern, linear_pattern_size
from toolcrib.model.schema.pattern import read_pattern
from toolcrib.model.suggest import did_you_mean

_ITEM_FIELDS: Final = frozenset(
    {"type", "description", "minLength", "maxLength", "minimum", "maximum", "enum"}
    | {"title", "default", "example", "examples", "$comment"}  # these never say anything of a value
)
_FIELDS: Final = _ITEM_FIELDS | {"required", "isArray", "items"}
_EXTENDED_ITEM_FIELDS: Final = _ITEM_FIELDS | {"pattern", "properties", "required"}
_EXTENDED_FIELDS: Final = _FIELDS | _EXTENDED_ITEM_FIELDS | {"minItems", "maxItems", "deprecated"}
_ALIASES: Final = {
    "int": "integer",
    "str": "string",
    "bool": "boolean",
    "dict": "object",
    "map": "object",
    "list": "array",
    "double": "float",
}


class _Layer(NamedTuple):
    """The fields of a property, or those of its items; both constrain the same values."""

    raw: dict[str, Any]
    at: Place
    """Its place in the schema."""
    place: Place
    """The place of the argument among the arguments."""

    @property
    def subject(self) -> str:
        return f"argument {label(self.place)}"


class PropertyReader:
    """Parses the properties of one schema, and notes problems and doubtful fields."""

    def __init__(self, *, strict: bool, extended: bool) -> None:
        self.problems: list[Problem] = []
        self.doubts: list[Problem] = []
        self.warnings: list[str] = []
        self._strict = strict
        self._extended = extended
        self._checker = ValueChecker(strict=strict)
        self._patterns: dict[str, str | CompiledPattern] = {}
        self._pattern_bytes = 0

    def refuse(self, at: Place, message: str, keyword: str = "") -> None:
        """Note a problem that makes the schema unusable; the keyword is by default the last key."""
        self.problems.append(problem_at(at, keyword or str(at[-1]), message))

    def doubt(self, at: Place, message: str, reading: str) -> None:
        """Note a doubtful field, which strict parsing refuses, and its permissive reading."""
        if self._strict:
            self.refuse(at, message)
        else:
            self.warnings.append(f"{message} ({reading})")
            self.doubts.append(problem_at(at, str(at[-1]), message))

    def members(self, properties: dict[str, Any], required: Any, at: Place, place: Place = ()) -> Members:
        """Parse the properties at a place of the schema, with the list of required names."""
        if type(required) is not list or not all(type(name) is str for name in required):
            self.refuse((*at[:-1], "required"), "required must be a list of argument names")
            required = []
        listed = dict.fromkeys(required)
        read = {
            name: self._property(self._layer(raw, (*at, name), (*place, name)), listed=name in listed)
            for name, raw in properties.items()
        }
        missing = [name for name in listed if name not in read]
        for name in missing:
            self.warnings.append(f"required names {label((*place, name))}, which has no property")
        return Members(read, (*(name for name, prop in read.items() if prop.required), *missing))

    def _layer(self, raw: Any, at: Place, place: Place) -> _Layer:
        layer = _Layer(raw if type(raw) is dict else {}, at, place)
        if type(raw) is not dict:
            example = f", such as {{'type': {quote(raw[:40])}}}" if type(raw) is str else ""
            self.refuse(at, f"{layer.subject} must be described by an object of fields{example}", "type")
        return layer

    def _property(self, layer: _Layer, *, listed: bool) -> ArgSchemaProperty:
        kind = self._type(layer)
        is_array = self._is_array(layer, kind)
        layers = [layer, *self._items(layer, is_array=is_array)]
        typed = [each for each in layers[1:] if "type" in each.raw]
        value_type = self._type(typed[0]) if typed else None if kind == "array" else kind
        self._note_unenforced(layer, _EXTENDED_FIELDS if self._extended else _FIELDS)
        min_length, max_length = self._range(layers, "minLength", "maxLength")
        minimum, maximum = self._range(layers, "minimum", "maximum")
        min_items, max_items = self._range(layers[: self._extended], "minItems", "maxItems")
        prop = ArgSchemaProperty(
            name=str(layer.place[-1]),
            type=kind,
            value_type=value_type,
            is_array=is_array,
            required=self._required(layer, listed=listed),
            description=self._description(layer),
            min_length=min_length,
            max_length=max_length,
            minimum=minimum,
            maximum=maximum,
            choices=self._enum(layers),
            patterns=tuple(found for each in layers for found in self._pattern(each)),
            min_items=min_items,
            max_items=max_items,
            members=self._nested(layers),
            has_default="default" in layer.raw,
            default=layer.raw.get("default"),
            deprecated=self._deprecated(layer),
        )
        self._check(prop, layers)
        return prop

    def _check(self, prop: ArgSchemaProperty, layers: list[_Layer]) -> None:
        """Check a whole property: its enum must have values, and its default must fit."""
        layer = layers[0]
        if "enum" in (prop.type, prop.value_type) and not any("enum" in each.raw for each in layers):
            needs = "which needs a list of values under 'enum'"
            self.refuse((*layer.at, "enum"), f"{layer.subject} has type 'enum', {needs}")
        elif self._extended and prop.has_default:
            found = self._checker.argument(prop, prop.default, layer.place)
            for problem in islice(found, MAX_PROBLEMS):
                self.refuse((*layer.at, "default"), f"the default does not fit: {problem.message}")

    def _note_unenforced(self, layer: _Layer, known: frozenset[str], prefix: str = "") -> None:
        for field in layer.raw:
            if field not in known:
                self.warnings.append(f"{layer.subject}: {quote(prefix + field)} is not enforced")

    def _type(self, layer: _Layer) -> ArgType | None:
        kind, at = layer.raw.get("type"), (*layer.at, "type")
        if type(kind) is str and kind in TYPES:
            return kind
        if type(kind) is str:
            near = _ALIASES.get(kind.lower())
            hint = f"; did you mean '{near}'?" if near else did_you_mean(kind.lower(), TYPES)
            text = f"{layer.subject} has the unknown type {quote(kind)}{hint}"
            self.doubt(at, text, "any value is accepted")
        elif type(kind) is list:
            self.doubt(at, f"{layer.subject} has a list of types", "any value is accepted")
        elif "type" in layer.raw:
            self.refuse(at, f"type must be one of {', '.join(TYPES)}")
        return None

    def _is_array(self, layer: _Layer, kind: ArgType | None) -> bool:
        marked = self._flag(layer, "isArray")
        if kind == "array" and not marked and "isArray" in layer.raw:
            self.warnings.append(f"{layer.subject}: type 'array' wins over isArray false")
        return kind == "array" or marked

    def _items(self, layer: _Layer, *, is_array: bool) -> list[_Layer]:
        """Return the layer of the items; empty if there are none or they do not apply."""
        if "items" not in layer.raw:
            return []
        items = _Layer(layer.raw["items"], (*layer.at, "items"), layer.place)
        if type(items.raw) is not dict:
            self.refuse(items.at, "items must be an object of fields")
            return []
        if not is_array:
            self.warnings.append(f"{layer.subject}: 'items' is ignored, because the argument is not an array")
            return []
        self._note_unenforced(items, _EXTENDED_ITEM_FIELDS if self._extended else _ITEM_FIELDS, "items.")
        return [items]

    def _required(self, layer: _Layer, *, listed: bool) -> bool:
        if type(layer.raw.get("required")) is list:
            if not self._extended:
                text = "a list under 'required' belongs to nested objects; ignored"
                self.warnings.append(f"{layer.subject}: {text}")
            return listed
        own = self._flag(layer, "required")
        if listed and not own and "required" in layer.raw:
            self.warnings.append(f"{layer.subject} is required: the list of required names wins over false")
        return own or listed

    def _description(self, layer: _Layer) -> str:
        text = layer.raw.get("description")
        if text is not None and type(text) is not str:
            self.refuse((*layer.at, "description"), "description must be text")
        return text if type(text) is str else ""

    def _deprecated(self, layer: _Layer) -> bool:
        deprecated = self._extended and self._flag(layer, "deprecated")
        if deprecated:
            self.warnings.append(f"{layer.subject} is deprecated")
        return deprecated

    def _flag(self, layer: _Layer, field: str) -> bool:
        value = layer.raw.get(field, False)
        if type(value) is not bool:
            self.refuse((*layer.at, field), f"{field} must be true or false")
        return value is True

    def _range(self, layers: list[_Layer], lower: str, upper: str) -> tuple[Any, Any]:
        """Return the highest lower bound and the lowest upper bound; None for no bound."""
        pairs = [(self._bound(layer, lower), self._bound(layer, upper)) for layer in layers]
        for layer, (low, high) in zip(layers, pairs, strict=True):
            if low is not None and high is not None and low > high:
                crossed = f"{lower} {number_text(low)} is greater than {upper} {number_text(high)}"
                self.refuse((*layer.at, lower), f"{crossed}, so nothing could match")
        lows = (low for low, _ in pairs if low is not None)
        highs = (high for _, high in pairs if high is not None)
        return max(lows, default=None), min(highs, default=None)

    def _bound(self, layer: _Layer, field: str) -> Any:
        value: Any = layer.raw.get(field)
        is_number = type(value) is int or type(value) is float
        if is_number and field in {"minimum", "maximum"}:
            return value
        if is_number and value >= 0 and value == int(value):
            return int(value)
        if field in layer.raw:
            needed = "a number" if field in {"minimum", "maximum"} else "a whole number of at least 0"
            given = number_text(value) if is_number else _kind(value)
            self.refuse((*layer.at, field), f"{field} must be {needed}, not {given}")
        return None

    def _enum(self, layers: list[_Layer]) -> dict[str, Any] | None:
        """Return the values that all valid enums of the layers allow, by their forms."""
        found = [self._choices(layer) for layer in layers if "enum" in layer.raw]
        enums = [choices for choices in found if choices]
        if not enums:
            return None
        return {form: value for form, value in enums[0].items() if all(form in enum for enum in enums)}

    def _choices(self, layer: _Layer) -> dict[str, Any]:
        values, at = layer.raw["enum"], (*layer.at, "enum")
        if type(values) is not list:
            self.refuse(at, f"enum must be a list of values, not {_kind(values)}")
            return {}
        if not values:
            self.refuse(at, "enum must not be empty, because nothing could match")
        choices = {}
        for index, value in enumerate(values):
            form = form_of(value)
            if form is None:
                text = (
                    "an enum may hold arrays and objects of up to 4,096 characters and integers of 308 digits"
                )
                self.refuse((*at, index), f"{text}, not longer ones", "enum")
            else:
                choices[form] = value
        return choices

    def _pattern(self, layer: _Layer) -> list[CompiledPattern]:
        if not self._extended or "pattern" not in layer.raw:
            return []
        text, at = layer.raw["pattern"], (*layer.at, "pattern")
        if type(text) is not str:
            self.refuse(at, f"pattern must be text, not {_kind(text)}")
            return []
        if text not in self._patterns:
            self._patterns[text] = self._compile_pattern(text)
        found = self._patterns[text]
        if isinstance(found, CompiledPattern):
            return [found]
        self.refuse(at, f"pattern must be a regular expression that no text can make slow, but {found}")
        return []

    def _compile_pattern(self, text: str) -> CompiledPattern | str:
        """Compile a pattern; return the reason if it cannot be matched in bounded time."""
        steps, backtracks, fault = read_pattern(text)
        if fault or backtracks:
            return fault or "it needs backtracking: look-around, a back-reference or the like"
        if self._pattern_bytes >= MAX_PATTERN_BYTES:
            return "the schema has too many patterns, or too large ones"
        size, engine = linear_pattern_size(text), compile_pattern(text)
        if size is None or engine is None:
            return "it is malformed or too large"
        self._pattern_bytes += size
        return CompiledPattern(text, steps, engine)

    def _nested(self, layers: list[_Layer]) -> Members | None:
        """Return the members of an object, which is the value or each element of an array."""
        found = [
            each for each in layers if "properties" in each.raw or type(each.raw.get("required")) is list
        ]
        if not self._extended or not found:
            return None
        if len(found) > 1:
            text = "the members of an object belong either to the argument or to its items"
            self.refuse(found[1].at, text, "properties")
        raw, at = found[0].raw, (*found[0].at, "properties")
        properties, required = raw.get("properties", {}), raw.get("required", [])
        if type(properties) is not dict:
            self.refuse(at, "properties must be an object")
            properties = {}
        return self.members(properties, [] if type(required) is bool else required, at, found[0].place)


def _kind(value: object) -> str:
    return "null" if value is None else type(value).__name__
