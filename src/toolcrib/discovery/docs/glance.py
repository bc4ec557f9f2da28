"""An input schema at a glance: what is required, what is of which type, what is assumed when left out."""

from collections.abc import Iterator
from typing import Any

from toolcrib.discovery.docs.phrases import Phrases
from toolcrib.discovery.docs.references import References
from toolcrib.discovery.docs.required import Required
from toolcrib.errors import InvalidSchemaError, ValidationError
from toolcrib.model.docs import SchemaInfo
from toolcrib.model.plain import copy_json, count_size, measure

__all__ = ["schema_info"]

_MAX_DEPTH = 256
_MAX_HOPS = 16
_MAX_PLACES = 16
"""How many of the places where one property is described are looked at."""
_MAX_DEFAULTS = 20_000
"""How many values and characters all defaults together may hold."""
_BRANCHES = ("anyOf", "oneOf")
_CONDITIONAL = ("then", "else")


def schema_info(schema: Any) -> SchemaInfo:
    """Return an object schema at a glance, in time linear in its size.

    References within the schema are followed, `allOf` is merged, and the properties of alternatives are
    gathered; what each alternative requires is required. A property that may be anything is `any`.

    >>> count = {"type": ["integer", "null"], "default": 1}
    >>> info = schema_info({"properties": {"count": count}, "required": ["count"]})
    >>> info.required, info.types, info.defaults
    (('count',), {'count': 'integer | null'}, {'count': 1})

    Raises:
        InvalidSchemaError: it is neither a JSON object nor a boolean.
    """
    if isinstance(schema, bool):
        return SchemaInfo()
    if not isinstance(schema, dict):
        raise InvalidSchemaError(f"a schema is a JSON object or a boolean, not {type(schema).__name__}")
    try:
        measure(schema, max_depth=_MAX_DEPTH)
    except ValidationError as error:
        raise InvalidSchemaError("the schema is not plain JSON", error.problems) from error
    return _Glance(schema).info()


class _Glance:
    """One look at a schema."""

    def __init__(self, root: dict[str, Any]) -> None:
        self._root = root
        self._references = References(root)
        self._sure: dict[str, list[Any]] = {}
        """What is said of each property wherever it stands."""
        self._perhaps: dict[str, list[Any]] = {}
        """What is said of each property in alternatives."""

    def info(self) -> SchemaInfo:
        self._gather()
        names = [*self._sure, *(name for name in self._perhaps if name not in self._sure)]
        phrases = Phrases(self._references)
        types = {
            name: phrases.both(self._sure.get(name, ()))
            or (name in self._perhaps and phrases.either(self._perhaps[name]))
            or "any"
            for name in names
        }
        required = Required(self._references).of(self._root)
        return SchemaInfo.of_checked(required=required, defaults=self._defaults(names), types=types)

    def _gather(self) -> None:
        """Find what is said of each property, in the order in which a reader comes across it."""
        seen: set[tuple[int, bool]] = set()
        pending: list[tuple[Any, bool]] = [(self._root, True)]
        for schema, is_sure in pending:
            key = (id(schema), is_sure)
            if not isinstance(schema, dict) or key in seen:
                continue
            seen.add(key)
            if self._references.counts(schema):
                self._note(schema, self._sure if is_sure else self._perhaps)
                pending += [(branch, False) for branch in _branches(schema)]
            pending += [(member, is_sure) for member in self._references.all_of(schema)]

    def _note(self, schema: dict[str, Any], said: dict[str, list[Any]]) -> None:
        properties = schema.get("properties")
        for name, described in properties.items() if isinstance(properties, dict) else ():
            places = said.setdefault(name, [])
            if len(places) < _MAX_PLACES:
                places.append(described)

    def _defaults(self, names: list[str]) -> dict[str, Any]:
        """Return the defaults, but for those that would make this longer than a glance."""
        defaults: dict[str, Any] = {}
        left = _MAX_DEFAULTS
        for name in names:
            places = [*self._sure.get(name, ()), *self._perhaps.get(name, ())]
            found = next((holder for place in places if (holder := self._holder(place))), None)
            if found is not None and left > 0:
                left -= sum(count_size(found["default"]))
                if left > 0:
                    defaults[name] = copy_json(found["default"])
        return defaults

    def _holder(self, schema: Any) -> dict[str, Any] | None:
        """Return the subschema that says the default: this one, or one that it refers to."""
        pending = [schema]
        for member in pending:
            if not isinstance(member, dict) or len(pending) > _MAX_HOPS:
                continue
            if "default" in member and self._references.counts(member):
                return member
            pending += self._references.all_of(member)
        return None


def _branches(schema: dict[str, Any]) -> Iterator[Any]:
    """Yield the schemas that only some of what fits a schema must fit."""
    for word in _BRANCHES:
        if isinstance(members := schema.get(word), list):
            yield from members
    for word in _CONDITIONAL:
        yield schema.get(word)
    if isinstance(members := schema.get("dependentSchemas"), dict):
        yield from members.values()
